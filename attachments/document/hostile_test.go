package document

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

type file struct{ name, text string }

// zipped writes files as an archive.
func zipped(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		method := zip.Deflate
		if f.text == "" { // a compressor for each of thousands takes its time
			method = zip.Store
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	wordTypes  = `<Types><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`
	sheetTypes = `<Types><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>`
	rootRels   = `<Relationships><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="%s"/></Relationships>`
)

// docx makes a Word document of the inside of its body.
func docx(t testing.TB, body string, more ...file) []byte {
	return zipped(t, append([]file{{"[Content_Types].xml", wordTypes}, {"_rels/.rels", fmt.Sprintf(rootRels, "word/document.xml")},
		{"word/document.xml", `<w:document xmlns:w="w"><w:body>` + body + `</w:body></w:document>`}}, more...)...)
}

// xlsx makes a spreadsheet of one sheet of the inside of its rows.
func xlsx(t testing.TB, rows string, more ...file) []byte {
	return zipped(t, append([]file{{"[Content_Types].xml", sheetTypes}, {"_rels/.rels", fmt.Sprintf(rootRels, "/xl/workbook.xml")},
		{"xl/workbook.xml", `<workbook><sheets><sheet name="S" sheetId="1" r:id="s1"/></sheets></workbook>`},
		{"xl/_rels/workbook.xml.rels", `<Relationships><Relationship Id="s1" Type="x/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="s2" Type="x/sharedStrings" Target="sharedStrings.xml"/><Relationship Id="s3" Type="x/styles" Target="styles.xml"/></Relationships>`},
		{"xl/worksheets/sheet1.xml", `<worksheet><sheetData>` + rows + `</sheetData></worksheet>`}}, more...)...)
}

// epub makes a book of the insides of its chapters.
func epub(t testing.TB, chapters ...string) []byte {
	files := []file{{"mimetype", "application/epub+zip"}, {"META-INF/container.xml", "<c><rootfile full-path='OPS/a.opf'/></c>"}}
	opf, spine := "<package><manifest>", "<spine>"
	for i, c := range chapters {
		opf += fmt.Sprintf(`<item id="c%d" href="text/c%%20%d.xhtml" media-type="application/xhtml+xml"/>`, i, i)
		spine += fmt.Sprintf(`<itemref idref="c%d"/>`, i)
		files = append(files, file{fmt.Sprintf("OPS/text/c %d.xhtml", i), `<?xml version="1.0"?><html><head><title/><script src="x"/></head><body>` + c + `</body></html>`})
	}
	return zipped(t, append(files, file{"OPS/a.opf", opf + "</manifest>" + spine + "</spine></package>"})...)
}

func TestEPUB(t *testing.T) {
	b := epub(t, "<h1>One</h1><p>first</p>", "<h1>Two</h1>"+strings.Repeat("<p>a line of the second chapter</p>", 2000), "<p>last</p>")
	if k, err := Sniff(b, Hint{}); err != nil || k != EPUB {
		t.Fatal(k, err)
	}
	res := read(t, b, EPUB, Window{})
	if res.Text != "[chapter 1 of 3]\n# One\n\nfirst\n" || res.End != "chapter 1 of 3; continue with pages=2" {
		t.Errorf("%q %q", res.Text, res.End)
	}
	second := read(t, b, EPUB, *res.Next) // too long for one call
	if second.From != 2 || second.To != 2 || second.Lines.From != 1 || second.LinesTotal != 4001 || !strings.Contains(second.End, "of 4,001; continue with pages=2 lines=") {
		t.Errorf("%d-%d %v of %d: %q", second.From, second.To, second.Lines, second.LinesTotal, second.End)
	}
	text := whole(t, b, EPUB)
	if n := strings.Count(text, "a line of the second"); n != 2000 || !strings.HasSuffix(text, "[chapter 3 of 3]\nlast\n") {
		t.Errorf("%d lines, ends %q", n, text[len(text)-40:])
	}
}

func para(s string) string { return "<w:p><w:r><w:t>" + s + "</w:t></w:r></w:p>" }

func TestDOCX(t *testing.T) {
	b := docx(t, para("kept")+
		`<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>`+
		`<w:p><w:r><mc:AlternateContent><mc:Choice><w:t>once</w:t></mc:Choice><mc:Fallback><w:t>twice</w:t></mc:Fallback></mc:AlternateContent></w:r></w:p>`+
		`<w:tbl><w:tr><w:tc>`+para("a")+para("b")+`</w:tc><w:tc><w:tbl><w:tr><w:tc>`+para("in")+`</w:tc><w:tc>`+para("ner")+`</w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>`+
		`<w:p><w:r><w:t>x</w:t><w:footnoteReference w:id="2"/></w:r></w:p>`,
		file{"word/_rels/document.xml.rels", `<Relationships><Relationship Id="f" Type="x/footnotes" Target="footnotes.xml"/><Relationship Id="o" Type="x/header" Target="http://127.0.0.1:1/h.xml" TargetMode="External"/><Relationship Id="p" Type="x/footer" Target="outside.xml" TargetMode="External"/></Relationships>`},
		file{"word/outside.xml", `<w:ftr>` + para("not of this document") + `</w:ftr>`},
		file{"word/footnotes.xml", `<w:footnotes><w:footnote w:id="2">` + para("the note") + `</w:footnote></w:footnotes>`})
	if k, err := Sniff(b, Hint{}); err != nil || k != DOCX {
		t.Fatal(k, err)
	}
	res := read(t, b, DOCX, Window{})
	if want := "kept\nnew\nonce\na b | in | ner\nx[note 2]\n\n[footnotes]\n[note 2] the note\n"; res.Text != want {
		t.Errorf("%q\nwant %q", res.Text, want)
	}
}

func TestXLSX(t *testing.T) {
	b := xlsx(t, `<row r="2"><c r="B2" t="s"><v>0</v></c><c r="D2" t="b"><v>1</v></c><c r="E2" t="inlineStr"><is><t>in</t><rPh><t>NO</t></rPh></is></c><c r="F2" t="e"><v>#N/A</v></c></row>`+
		`<row r="4"><c r="A4" s="1"><v>46082.75</v></c><c r="B4" s="2"><v>0.5</v></c><c r="C4" s="3"><v>0.125</v></c><c r="D4"><v>0.30000000000000004</v></c><c r="E4"><f>A1+1</f></c><c r="F4" s="4"><v>1.5</v></c></row>`+
		`<row><c><v>7</v></c><c t="s"><v>99</v></c></row><row r="9"><c r="A9" s="1"/></row>`,
		file{"xl/sharedStrings.xml", `<sst><si><r><t>two </t></r><r><t>runs&#10;and lines</t></r><rPh><t>NO</t></rPh></si></sst>`},
		file{"xl/styles.xml", `<styleSheet><numFmts><numFmt numFmtId="170" formatCode="[$-409]d/m/yy\ h:mm;@"/><numFmt numFmtId="171" formatCode="&quot;days&quot; 0"/></numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="170"/><xf numFmtId="20"/><xf numFmtId="10"/><xf numFmtId="171"/></cellXfs></styleSheet>`})
	res := read(t, b, XLSX, Window{})
	want := "\tA\tB\tC\tD\tE\tF\n2\t\ttwo runs and lines\t\tTRUE\tin\t#N/A\n4\t2026-03-01 18:00:00\t12:00:00\t12.5%\t0.3\t=A1+1\t1.5\n5\t7\n"
	if res.Text != want || res.Total != 5 || res.End != "end of document: rows 1-5 of 5 in sheet S" {
		t.Errorf("%q\nwant %q\n%d %s", res.Text, want, res.Total, res.End)
	}
	if res := read(t, b, XLSX, window(t, "", "", "E3:F")); res.Text != "\tE\tF\n4\t=A1+1\t1.5\n" {
		t.Errorf("%q", res.Text)
	}
	long := xlsx(t, `<row r="1">`+strings.Repeat(`<c t="str"><v>`+strings.Repeat("x", 500)+`</v></c>`, 40)+`</row>`)
	res = read(t, long, XLSX, Window{})
	if len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "after column P") {
		t.Errorf("%v", res.Notes)
	}
	if res := read(t, long, XLSX, window(t, "", "", "Q:AN")); !strings.HasPrefix(res.Text, "\tQ\tR\t") {
		t.Errorf("%.40q", res.Text)
	}
}

// TestBombs reads what would exhaust its reader, and checks the memory it took.
func TestBombs(t *testing.T) {
	nested := strings.Repeat("<w:p>", 5000)
	blanks := strings.Repeat(" ", 4<<20)
	var words strings.Builder // of a ratio that real files have
	for i := range 70_000 {
		words.WriteString(para(fmt.Sprintf("%x %d the same words again and again", i*i, i*7)))
	}
	entity := `<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>`
	external := `<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>`
	body := func(prolog, inside string) []byte {
		return zipped(t, file{"[Content_Types].xml", wordTypes}, file{"_rels/.rels", fmt.Sprintf(rootRels, "word/document.xml")}, file{"word/document.xml", prolog + inside})
	}
	many := make([]file, 10_001)
	for i := range many {
		many[i] = file{fmt.Sprint(i), ""}
	}
	encryptedZIP := docx(t, para("x"))
	for i := 0; i+10 < len(encryptedZIP); i++ { // the flag in the directory
		if string(encryptedZIP[i:i+4]) == "PK\x01\x02" {
			encryptedZIP[i+8] |= 1
		}
	}
	for _, c := range []struct {
		name string
		kind Kind
		b    []byte
		want []RefusalCode
	}{
		{"blanks", DOCX, body("", blanks), []RefusalCode{Bomb, TooComplex}},
		{"ratio", DOCX, body("", "<d>"+strings.Repeat("<p/>", 3<<18)+"</d>"), []RefusalCode{Bomb}},
		{"inflated", DOCX, body("", "<d>"+words.String()+"</d>"), []RefusalCode{Bomb}},
		{"entities", DOCX, body(entity, "<d><t>&c;</t></d>"), []RefusalCode{Bomb}},
		{"external entity", DOCX, body(external, "<d><t>&x;</t></d>"), []RefusalCode{Bomb}},
		{"unknown entity", DOCX, body("", "<d><t>&x;</t></d>"), []RefusalCode{Corrupt}},
		{"depth", DOCX, docx(t, nested), []RefusalCode{TooComplex}},
		{"one token", DOCX, body("", "<d a='"+strings.Repeat("pseudo-random "+"text ", 1<<17)+"'/>"), []RefusalCode{TooComplex, Bomb}},
		{"cut xml", DOCX, body("", "<d><t>hello"), []RefusalCode{Corrupt}},
		{"no main part", DOCX, zipped(t, file{"[Content_Types].xml", wordTypes}), []RefusalCode{Corrupt}},
		{"entries", DOCX, zipped(t, many...), []RefusalCode{TooComplex}},
		{"encrypted entry", DOCX, encryptedZIP, []RefusalCode{Encrypted}},
		{"truncated", DOCX, docx(t, para("x"))[:300], []RefusalCode{Corrupt}},
		{"no archive", XLSX, []byte("words"), []RefusalCode{Corrupt}},
		{"strings", XLSX, xlsx(t, "", file{"xl/sharedStrings.xml", "<sst>" + strings.Repeat("<si><t>"+strings.Repeat("long text ", 100)+"</t></si>", 3_000) + "</sst>"}), []RefusalCode{TooComplex, Bomb}},
		{"rtf depth", RTF, []byte(`{\rtf1` + strings.Repeat("{", 1_000_000)), []RefusalCode{TooComplex}},
		{"rtf cut", RTF, []byte(`{\rtf1 hello`), []RefusalCode{Corrupt}},
		{"rtf cut escape", RTF, []byte(`{\rtf1 hello\'4`), []RefusalCode{Corrupt}},
		{"rtf extra end", RTF, []byte(`}`), []RefusalCode{Corrupt}},
		{"epub without spine", EPUB, zipped(t, file{"META-INF/container.xml", "<c><rootfile full-path='a.opf'/></c>"}), []RefusalCode{Corrupt}},
		{"long chapter", EPUB, epub(t, "<p>"+words.String()[:2<<20]), []RefusalCode{TooComplex}},
		{"locked book", EPUB, zipped(t, file{"META-INF/encryption.xml", `<e><CipherReference URI="c1.xhtml"/></e>`}), []RefusalCode{Encrypted}},
		{"too large", Text, make([]byte, 10<<20+1), []RefusalCode{TooLargeBytes}},
		{"no text", Text, []byte("\x00\x01\x02\x03"), []RefusalCode{Corrupt}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := plainReader(func(l *Limits) { l.MaxInflated, l.MaxStrings, l.MaxToken = 4<<20, 2<<20, 1<<20 })
			var err error
			at := time.Now()
			grown := peak(func() { _, err = r.Read(t.Context(), c.b, c.kind, Window{}) })
			t.Logf("%d bytes: %s, %s, at most %d MiB more", len(c.b), refused(t, err, c.want...).Operator, time.Since(at).Round(time.Millisecond), grown>>20)
			if grown > 50<<20 {
				t.Errorf("took %d MiB", grown>>20)
			}
		})
	}
	// A bomb that is harmless HTML: read, in bounded text.
	res := read(t, []byte("<html>"+strings.Repeat("<div>", 200_000)+"deep"), HTML, Window{})
	if res.Text != "deep\n" {
		t.Errorf("%.40q", res.Text)
	}
}

// peak is the most that the heap grew by during work.
func peak(work func()) int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap := func() int64 { metrics.Read(sample); return int64(sample[0].Value.Uint64()) }
	runtime.GC()
	before, most := heap(), int64(0)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most = max(most, heap())
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	work()
	close(done)
	<-stopped
	return most - before
}

// TestElements checks the bound on the number of elements, which XML of few bytes can pass.
func TestElements(t *testing.T) {
	r := plainReader(func(l *Limits) { l.MaxTokens = 1000 })
	_, err := r.Read(t.Context(), docx(t, strings.Repeat("<w:p/>", 1000)), DOCX, Window{})
	refused(t, err, TooComplex)
	_, err = r.Read(t.Context(), []byte(strings.Repeat("<br>", 1001)), HTML, Window{})
	refused(t, err, TooComplex)
	if _, err := r.Read(t.Context(), docx(t, strings.Repeat("<w:p/>", 100)), DOCX, Window{}); err != nil {
		t.Error(err)
	}
}

// TestStops checks that every reader ends at its deadline and when it is cancelled, and that others wait in turn and may
// give up.
func TestStops(t *testing.T) {
	long := map[Kind][]byte{
		DOCX: docx(t, strings.Repeat(para("some words"), 20_000)), XLSX: xlsx(t, strings.Repeat(`<row><c><v>1</v></c></row>`, 40_000)),
		HTML: []byte("<html>" + strings.Repeat("<p>some words</p>", 40_000)), RTF: []byte(`{\rtf1 ` + strings.Repeat(`some words\par `, 40_000) + "}"),
		Text: []byte(strings.Repeat("words\n", 400_000)),
	}
	for k, b := range long {
		l := DefaultLimits()
		l.MaxRatio = 1 << 40
		l.Deadline = time.Millisecond
		_, err := NewReader(l, Options{}).Read(t.Context(), b, k, Window{})
		refused(t, err, DeadlineExceeded)
		l.Deadline = time.Minute
		ctx, cancel := contextAfter(t, time.Millisecond)
		if _, err := NewReader(l, Options{}).Read(ctx, b, k, Window{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: cancelled: %v", k, err)
		}
		cancel()
	}
	r := plainReader(nil)
	r.slot <- struct{}{} // another reading
	ctx, cancel := contextAfter(t, 20*time.Millisecond)
	defer cancel()
	if _, err := r.Read(ctx, []byte("x"), Text, Window{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting: %v", err)
	}
	<-r.slot
	if _, err := r.Read(t.Context(), []byte("x"), Text, Window{}); err != nil {
		t.Error(err)
	}
}

// TestPanic checks that a fault in a parser is a damaged document and not the end of the process.
func TestPanic(t *testing.T) {
	r := plainReader(nil)
	err := r.inSlot(t.Context(), DOCX, func(*stop) error { panic("fault") })
	refused(t, err, Corrupt)
	if _, err := r.Read(t.Context(), []byte("x"), Text, Window{}); err != nil {
		t.Error(err)
	}
}
