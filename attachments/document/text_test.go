package document

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

const (
	german   = "Die Größe der Schiffe im Hafen überrascht viele Gäste.\nFür Straßen und Brücken fehlt das Geld; später wird man es bereuen.\n"
	french   = "Le café « Chez René » est fermé à Noël.\nOù êtes-vous allés l'été dernier, à côté de la forêt ?\n"
	japanesE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n何でも薄暗いじめじめした所でニャーニャー泣いていた事だけは記憶している。\n"
	chinese  = "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。\n"
	taiwan   = "人人生而自由,在尊嚴和權利上一律平等。他們賦有理性和良心,並應以兄弟關係的精神相對待。\n"
	koreaN   = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았다.\n"
	russian  = "Все люди рождаются свободными и равными в своём достоинстве и правах. Они наделены разумом и совестью.\n"
)

func TestEncodings(t *testing.T) {
	u16 := func(e unicode.Endianness, bom unicode.BOMPolicy) encoding.Encoding { return unicode.UTF16(e, bom) }
	for _, c := range []struct {
		name string
		text string
		enc  encoding.Encoding
		want string // how the detected encoding begins
	}{
		{"utf-8", german + japanesE, encoding.Nop, "utf-8"},
		{"utf-8 bom", german, unicode.UTF8BOM, "utf-8 with byte order mark"},
		{"ascii", "plain words\n", encoding.Nop, "utf-8"},
		{"utf-16le bom", german, u16(unicode.LittleEndian, unicode.UseBOM), "utf-16le"},
		{"utf-16be bom", japanesE, u16(unicode.BigEndian, unicode.UseBOM), "utf-16be"},
		{"utf-16le", german, u16(unicode.LittleEndian, unicode.IgnoreBOM), "utf-16le without byte order mark"},
		{"utf-16be", german, u16(unicode.BigEndian, unicode.IgnoreBOM), "utf-16be without byte order mark"},
		{"utf-16le japanese", japanesE, u16(unicode.LittleEndian, unicode.IgnoreBOM), "utf-16le without byte order mark"},
		{"utf-16be russian", russian, u16(unicode.BigEndian, unicode.IgnoreBOM), "utf-16be without byte order mark"},
		{"utf-32le", german, utf32.UTF32(utf32.LittleEndian, utf32.UseBOM), "utf-32le"},
		{"latin-1 german", german, charmap.ISO8859_1, "windows-1252"},
		{"latin-1 french", french, charmap.ISO8859_1, "windows-1252"},
		{"windows-1252", "“Quoted” words — and 10 € for a café, naïve façade.\n", charmap.Windows1252, "windows-1252"},
		{"latin-1, one word", "caf\u00e9", charmap.ISO8859_1, "windows-1252"},
		{"latin-1, one German word", "Größe", charmap.ISO8859_1, "windows-1252"},
		{"latin-1 table", "Name;Ort\nMüller;Köln\nJosé;São Paulo\n", charmap.ISO8859_1, "windows-1252"},
		{"shift-jis", japanesE, japanese.ShiftJIS, "shift_jis"},
		{"shift-jis, short", "名前,住所\n山田太郎,東京都\n", japanese.ShiftJIS, "shift_jis"},
		{"euc-jp", japanesE, japanese.EUCJP, "euc-jp"},
		{"iso-2022-jp", japanesE, japanese.ISO2022JP, "iso-2022-jp"},
		{"gb18030", chinese, simplifiedchinese.GB18030, "gb"},
		{"big5", taiwan, traditionalchinese.Big5, "big5"},
		{"euc-kr", koreaN, korean.EUCKR, "euc-kr"},
		{"windows-1251", russian, charmap.Windows1251, "windows-1251"},
		{"koi8-r", russian, charmap.KOI8R, "koi8-r"},
	} {
		b, err := c.enc.NewEncoder().Bytes([]byte(c.text))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		k, err := Sniff(b, Hint{Name: "letter.txt"})
		if err != nil || k != Text {
			t.Errorf("%s: %q, %v", c.name, k, err)
			continue
		}
		res := read(t, b, k, Window{})
		if strings.TrimSuffix(res.Text, "\n") != strings.TrimSuffix(c.text, "\n") || !strings.HasPrefix(res.Encoding, c.want) {
			t.Errorf("%s: read as %s:\n%s", c.name, res.Encoding, res.Text)
		}
	}
}

func TestPlainWindows(t *testing.T) {
	var b strings.Builder
	for i := range 5400 {
		fmt.Fprintf(&b, "%d: a line of the log\n", i+1)
	}
	res := read(t, []byte(b.String()), Log, window(t, "", "1-200", ""))
	if res.End != "lines 1-200 of 5,400; continue with lines=201-400" || !strings.HasPrefix(res.Text, "1: a line") || !strings.HasSuffix(res.Text, "\n200: a line of the log\n") {
		t.Errorf("%q\n%.80s", res.End, res.Text)
	}
	if res := read(t, []byte(b.String()), Log, window(t, "", "5399-", "")); res.End != "end of document: lines 5,399-5,400 of 5,400" || res.Next != nil || res.Text != "5399: a line of the log\n5400: a line of the log\n" {
		t.Errorf("%q %q", res.End, res.Text)
	}
	// Followed to its end, every line comes once.
	var all strings.Builder
	for w := (&Window{}); w != nil; {
		res := read(t, []byte(b.String()), Log, *w)
		all.WriteString(res.Text)
		if len(res.Text) > 32<<10 {
			t.Fatalf("%d bytes", len(res.Text))
		}
		w = res.Next
	}
	if all.String() != b.String() {
		t.Error("the windows do not make up the file")
	}
	_, err := plainReader(nil).Read(t.Context(), []byte(b.String()), Log, window(t, "", "5401", ""))
	if r := refused(t, err, OutsideDocument); !strings.Contains(r.Person, "5,400 lines") {
		t.Error(r.Person)
	}
	for k, w := range map[Kind]Window{Log: window(t, "2", "", ""), HTML: window(t, "", "", "A1:B2"), XLSX: window(t, "1", "", ""), PDF: window(t, "1-2", "3-4", ""), PPTX: window(t, "", "1", "")} {
		_, err := plainReader(nil).Read(t.Context(), []byte("x"), k, w)
		refused(t, err, BadWindow)
	}
	if res := read(t, nil, Text, Window{}); res.End != "end of document: it is empty" || res.Text != "" {
		t.Errorf("%+v", res)
	}
	if res := read(t, []byte("a\r\nb\rc\r\n"), Text, Window{}); res.Text != "a\nb\nc\n" || res.Total != 3 {
		t.Errorf("%q %d", res.Text, res.Total)
	}
}

// TestPlainLongLines checks that a file without line ends is within reach in all its length.
func TestPlainLongLines(t *testing.T) {
	text := strings.Repeat("{\"größe\":1},", 20000)
	var all strings.Builder
	for w := (&Window{}); w != nil; {
		res := read(t, []byte(text), JSON, *w)
		if len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "4,000 bytes") {
			t.Fatal(res.Notes)
		}
		all.WriteString(strings.ReplaceAll(res.Text, "\n", ""))
		w = res.Next
	}
	if all.String() != text {
		t.Error("the parts do not make up the line")
	}
}

func TestPlainControls(t *testing.T) {
	res := read(t, []byte("\x1b[31mred\x1b[0m and \x07bell\u009b and so on, and so on, and so on, and so on, and so on, and so on, and so on, and so on, and so on, "+strings.Repeat("more of it ", 50)), Log, Window{})
	if !strings.HasPrefix(res.Text, "red and bell and so on") {
		t.Errorf("%q", res.Text)
	}
}

func TestSniff(t *testing.T) {
	for _, c := range []struct {
		bytes, name, declared string
		want                  Kind
	}{
		{"# Title\n\ntext", "Image_1.png", "image/png", Text}, // case 17: the name says nothing
		{"<!DOCTYPE html><p>hi", "Image_1.png", "image/png", HTML},
		{"\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00", "", "", HTML},
		{"# Title", "a.MD", "", Markdown},
		{"# Title", "", "text/markdown; charset=utf-8", Markdown},
		{"a,b\n1,2", "a.csv", "", CSV},
		{`{"a": [1, 2]}`, "a.txt", "", JSON},
		{"{\"a\":1}\n{\"a\":2}", "a.jsonl", "", JSON},
		{"2026-01-01 started", "service.log", "", Log},
		{"package main", "main.go", "", Code},
		{"#!/bin/sh\necho", "run", "", Code},
		{"body", "", "text/x-python", Code},
		{`{\rtf1 hi}`, "a.txt", "text/plain", RTF},
		{"%PDF-1.7\n", "a.docx", "", PDF},
		{"", "empty.pdf", "application/pdf", Text},
		{"just words", "a.pdf", "application/pdf", Text},
	} {
		if k, err := Sniff([]byte(c.bytes), Hint{c.name, c.declared}); err != nil || k != c.want {
			t.Errorf("%.20q %s %s: %q %v, want %s", c.bytes, c.name, c.declared, k, err, c.want)
		}
	}
	for _, c := range []struct {
		bytes string
		code  RefusalCode
		says  string
	}{
		{"\x89PNG\r\n\x1a\n....", IsPicture, "view_images"},
		{"\xff\xd8\xff\xe0....", IsPicture, "view_images"},
		{"GIF89a....", IsPicture, "view_images"},
		{"<svg xmlns='http://www.w3.org/2000/svg'/>", IsPicture, "Import it"},
		{"\x00\x00\x00\x18ftypheic....", IsPicture, "Import it"},
		{"\x00\x00\x00\x18ftypisom....", UnsupportedFormat, "Import it"},
		{"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00", UnsupportedFormat, "Import it"},
		{"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03abc", UnsupportedFormat, "Import it"},
		{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + wide("WordDocument"), UnsupportedFormat, "before 2007"},
		{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + wide("EncryptedPackage"), Encrypted, "password"},
		{string(zipped(t, file{"a.txt", "hi"})), UnsupportedFormat, "archive with 1"},
		{string(zipped(t, file{"mimetype", "application/vnd.oasis.opendocument.text"})), UnsupportedFormat, "OpenDocument"},
		{"PK\x03\x04 cut", UnsupportedFormat, "Import it"},
	} {
		_, err := Sniff([]byte(c.bytes), Hint{Name: "notes.txt", Type: "text/plain"})
		if r := refused(t, err, c.code); !strings.Contains(r.Person, c.says) {
			t.Errorf("%.10q: %s", c.bytes, r.Person)
		}
		// A picture is never offered to be turned into text.
		if r := refused(t, err, c.code); strings.Contains(strings.ToLower(r.Person), "ocr") || strings.Contains(r.Person, "read it") {
			t.Errorf("%.10q: %s", c.bytes, r.Person)
		}
	}
}

func wide(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteByte(c)
		b.WriteByte(0)
	}
	return b.String()
}

func TestHTML(t *testing.T) {
	page := `<html><head><title>T</title><style>p{}</style><script>alert("no")</script></head><body>
<h2>Head</h2><p>one
  two<b>three</b> four&amp;&nbsp;five<br>six</p><noscript>no</noscript><svg><text>no</text></svg>
<ul><li>a</li><li><p>b</p></li></ul><table><tr><th>x</th><td><p>y</p></td></tr></table>
<pre>  keep
   this</pre><img src="http://127.0.0.1:1/x.png" alt="a ship"><iframe src="http://127.0.0.1:1/"></iframe>end<div>block</div></body></html>`
	res := read(t, []byte(page), HTML, Window{})
	want := "T\n\n## Head\n\none twothree four& five\nsix\n\n- a\n- b\n\nx | y\n\n  keep\n   this\n[picture: a ship] end\nblock\n"
	if res.Text != want {
		t.Errorf("%q\nwant %q", res.Text, want)
	}
	for name, page := range map[string]string{
		"meta":   "<html><head><meta charset=\"shift_jis\"></head><body>\x96\xbc\x91\x4f</body></html>",
		"latin1": "<html><body>Gr\xf6\xdfe</body></html>",
	} {
		res := read(t, []byte(page), HTML, Window{})
		if !strings.Contains(res.Text, map[string]string{"meta": "名前", "latin1": "Größe"}[name]) {
			t.Errorf("%s: %s %q", name, res.Encoding, res.Text)
		}
	}
}

func TestRTF(t *testing.T) {
	for name, c := range map[string]struct{ rtf, want string }{
		"paragraphs": {`{\rtf1\ansi Hello\par World\tab!\line x}`, "Hello\nWorld\t!\nx\n"},
		"page":       {`{\rtf1\ansi\ansicpg1251 \'cf\'f0\'e8\'e2\'e5\'f2}`, "Привет\n"},
		"unicode":    {`{\rtf1\ansi\uc1 caf\u233? \u8364\'80 \u-10179?\u-8704?}`, "café € 😀\n"},
		"charset":    {`{\rtf1{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset128 Mincho;}}\f1 \'96\'bc\'91\'4f\f0  caf\'e9}`, "名前 café\n"},
		"skipped":    {`{\rtf1{\*\generator X;}{\info{\title no}}{\pict\bin4 {}}}}a{\field{\*\fldinst HYPERLINK "http://127.0.0.1:1/"}{\fldrslt link}}}`, "alink\n"},
		"table":      {`{\rtf1\trowd a\cell b\cell\row c}`, "a | b\nc\n"},
		"hidden":     {`{\rtf1 a{\v secret}b}`, "ab\n"},
		"escapes":    {`{\rtf1 \{x\}\\ \~y\_z}`, "{x}\\ \u00a0y-z\n"},
	} {
		if res := read(t, []byte(c.rtf), RTF, Window{}); res.Text != c.want {
			t.Errorf("%s: %q, want %q", name, res.Text, c.want)
		}
	}
}

func TestParseWindow(t *testing.T) {
	for text, want := range map[string]Span{"": {}, "3": {3, 3}, "3-7": {3, 7}, " 3 - 7 ": {3, 7}, "3-": {3, 0}, "3–7": {3, 7}} {
		if s, err := ParseSpan(text); err != nil || s != want {
			t.Errorf("%q: %v %v", text, s, err)
		}
	}
	for _, text := range []string{"0", "-3", "7-3", "a", "1-2-3", "1,2", "99999999999999999999"} {
		_, err := ParseSpan(text)
		refused(t, err, BadWindow)
	}
	for text, want := range map[string]Window{
		"Budget!A1:D20":    {Sheet: "Budget", Cells: Cells{1, 20, 1, 4}},
		"'My ''s'!B2":      {Sheet: "My 's", Cells: Cells{2, 2, 2, 2}},
		"A1:D20":           {Cells: Cells{1, 20, 1, 4}},
		"$A$1:$XFD1048576": {Cells: Cells{1, 1 << 20, 1, 1 << 14}},
		"Budget":           {Sheet: "Budget"},
		"'Q1'":             {Sheet: "Q1"},
		"A:C":              {Cells: Cells{0, 0, 1, 3}},
		"10:20":            {Cells: Cells{10, 20, 0, 0}},
		"S!A5:":            {Sheet: "S", Cells: Cells{5, 0, 1, 0}},
		"Übersicht 2026":   {Sheet: "Übersicht 2026"},
	} {
		w, err := ParseWindow("", "", text)
		if err != nil || w != want {
			t.Errorf("%q: %+v %v", text, w, err)
			continue
		}
		// What a window writes of itself is read as the same.
		if again, err := ParseWindow("", "", strings.TrimPrefix(w.Arguments(), "range=")); err != nil || again != w {
			t.Errorf("%q: %s is read as %+v, %v", text, w.Arguments(), again, err)
		}
	}
	for _, text := range []string{"S!", "!A1", "S!D1:A1", "S!A0", "S!AAAA1", "S!A1048577", "'open", "''", "'a'b"} {
		_, err := ParseWindow("", "", text)
		refused(t, err, BadWindow)
	}
}
