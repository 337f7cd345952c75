package document

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// readsOn follows a document to its end and checks what every reading promises: an end, a bound, UTF-8, and no parser
// that panicked.
func readsOn(t *testing.T, b []byte, k Kind) {
	t.Helper()
	r := plainReader(func(l *Limits) { l.MaxText, l.MaxLine, l.MaxInflated = 2048, 100, 1<<20 })
	seen := 0
	for w := (&Window{}); w != nil; {
		res, err := r.Read(t.Context(), b, k, *w)
		var refusal *Refusal
		if errors.As(err, &refusal) {
			if strings.Contains(refusal.Operator, "panicked") {
				t.Fatal(refusal)
			}
			if seen > 0 {
				t.Fatalf("%s is refused after %d parts: %v", w.Arguments(), seen, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Text) > 2*2048 || !utf8.ValidString(res.Text) || res.End == "" || res.To < res.From {
			t.Fatalf("%d bytes, %q, %d-%d", len(res.Text), res.End, res.From, res.To)
		}
		w = res.Next
		if seen++; seen > 20 {
			return
		}
	}
}

func FuzzSniff(f *testing.F) {
	for _, s := range []string{"", "text", "\xff\xfea\x00", "{\\rtf1}", "PK\x03\x04", "%PDF-", "caf\xe9", "\x96\xbc\x91\x4f", "\x1b$B0!\x1b(B", "<html>", "{\"a\":1}"} {
		f.Add([]byte(s), "a.md")
	}
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		k, err := Sniff(b, Hint{Name: name})
		if err != nil {
			refused(t, err, IsPicture, UnsupportedFormat, Encrypted)
			return
		}
		if k.Plain() { // what is taken for text is read as text
			if _, err := plainReader(nil).Read(t.Context(), b, k, Window{}); err != nil {
				t.Fatalf("%s: %v", k, err)
			}
			readsOn(t, b, k)
		}
	})
}

func FuzzHTML(f *testing.F) {
	f.Add([]byte("<html><h1>a</h1><ul><li><p>b<table><tr><td>c</table><pre>d\n e</pre><img alt='x'><svg/><script>"))
	f.Fuzz(func(t *testing.T, b []byte) { readsOn(t, b, HTML) })
}

func FuzzRTF(f *testing.F) {
	f.Add([]byte(`{\rtf1\ansi\ansicpg932{\fonttbl{\f0\fcharset128 x;}}\f0 \'96\'bc\uc2\u-10179??\u-8704??\par\trowd a\cell\row\bin3 abc{\*\x y}{\pict 00}}`))
	f.Fuzz(func(t *testing.T, b []byte) { readsOn(t, b, RTF) })
}

func FuzzDOCX(f *testing.F) {
	f.Add(`<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>a</w:t><w:tab/><w:br/></w:r></w:p><w:tbl><w:tr><w:tc/></w:tr></w:tbl><mc:Fallback><w:t/></mc:Fallback>`)
	f.Fuzz(func(t *testing.T, body string) { readsOn(t, docx(t, body), DOCX) })
}

func FuzzXLSX(f *testing.F) {
	f.Add(`<row r="2"><c r="B2" s="1"><v>45000.5</v></c><c t="s"><v>0</v></c><c t="inlineStr"><is><t>x</t></is></c></row>`, `[h]:mm;yy"x"\d%`)
	f.Fuzz(func(t *testing.T, rows, format string) {
		if strings.ContainsAny(format, `<&"`) {
			format = ""
		}
		readsOn(t, xlsx(t, rows, file{"xl/styles.xml", `<styleSheet><numFmts><numFmt numFmtId="170" formatCode="` + format + `"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="170"/></cellXfs></styleSheet>`},
			file{"xl/sharedStrings.xml", `<sst><si><t>text</t></si></sst>`}), XLSX)
	})
}

func FuzzWindow(f *testing.F) {
	f.Add("3-7", "1", "'My sheet'!A1:D20")
	f.Fuzz(func(t *testing.T, pages, lines, cells string) {
		w, err := ParseWindow(pages, lines, cells)
		if err != nil {
			refused(t, err, BadWindow)
			return
		}
		again, err := ParseWindow(w.Pages.String(), w.Lines.String(), rangeOf(w))
		if err != nil || again != w {
			t.Fatalf("%+v is read back as %+v, %v", w, again, err)
		}
	})
}

func rangeOf(w Window) string {
	return strings.TrimPrefix(Window{Sheet: w.Sheet, Cells: w.Cells}.Arguments(), "range=")
}
