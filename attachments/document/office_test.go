package document

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const officePackages = "libreoffice-writer-nogui libreoffice-calc-nogui libreoffice-impress-nogui"

var (
	officeOnce  sync.Once
	officeFiles map[string][]byte
)

// reportHTML is the source of the documents: letters of several scripts, lists, tables, headings.
func reportHTML() string {
	var b strings.Builder
	b.WriteString(`<html><head><meta charset="utf-8"><title>Harbour report</title></head><body><h1>Harbour report</h1>`)
	for i := range 120 {
		if i%20 == 0 {
			fmt.Fprintf(&b, "<h2>Part %d</h2>", i/20+1)
		}
		fmt.Fprintf(&b, "<p>Paragraph %d of the report: déjà vu in the harbour, Größe %d, Привет, and €%d for <b>paint</b>.</p>", i, i*7, i*i)
	}
	b.WriteString(`<ul><li>first entry</li><li>second entry</li></ul><table border="1"><tr><td>Ship</td><td>Tons</td></tr><tr><td>Aurora</td><td>1200</td></tr></table></body></html>`)
	return b.String()
}

// office has LibreOffice make documents, once for all tests.
func office(t testing.TB) map[string][]byte {
	t.Helper()
	officeOnce.Do(func() {
		dir, err := os.MkdirTemp("", "sightline-office-")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		convert := func(to string, from ...string) {
			args := []string{"-env:UserInstallation=file://" + dir + "/profile", "--headless", "--norestore", "--convert-to", to, "--outdir", dir}
			if strings.HasSuffix(from[0], ".html") {
				args = append(args, "--infilter=HTML (StarWriter)")
			}
			for _, f := range from {
				args = append(args, filepath.Join(dir, f))
			}
			run(t, officePackages, "soffice", args...)
		}
		write(t, filepath.Join(dir, "report.html"), []byte(reportHTML()))
		write(t, filepath.Join(dir, "sheet.fods"), []byte(sheetFODS()))
		write(t, filepath.Join(dir, "show.fodp"), []byte(showFODP))
		convert("docx:MS Word 2007 XML", "report.html")
		convert("rtf", "report.docx")
		convert("epub", "report.docx")
		convert("pdf", "report.docx")
		convert("txt:Text (encoded):UTF8", "report.docx")
		convert("xlsx", "sheet.fods")
		convert("csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false", "sheet.fods")
		convert("pptx", "show.fodp")
		files := map[string][]byte{}
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if !f.IsDir() {
				files[f.Name()] = load(t, filepath.Join(dir, f.Name()))
			}
		}
		officeFiles = files
	})
	if officeFiles == nil {
		run(t, officePackages, "soffice", "--version") // skips or fails as the first did
		t.Fatal("LibreOffice made no documents")
	}
	return officeFiles
}

// whole reads a document to its end, call by call.
func whole(t *testing.T, b []byte, k Kind) string {
	t.Helper()
	var out strings.Builder
	for w := (&Window{}); w != nil; {
		res := read(t, b, k, *w)
		out.WriteString(res.Text)
		w = res.Next
	}
	return out.String()
}

func TestOfficeText(t *testing.T) {
	files := office(t)
	theirs := string(files["report.txt"])
	for _, c := range []struct {
		name string
		kind Kind
	}{{"report.docx", DOCX}, {"report.rtf", RTF}, {"report.epub", EPUB}} {
		b := files[c.name]
		if k, err := Sniff(b, Hint{}); err != nil || k != c.kind {
			t.Errorf("%s is %q, %v", c.name, k, err)
			continue
		}
		ours := whole(t, b, c.kind)
		s := similarity(ours, theirs)
		t.Logf("%s: %.4f of the words agree with LibreOffice's own text", c.name, s)
		if s < 0.97 { // marks of headings, lists and cells are ours
			t.Errorf("%s: only %.4f of the words agree\n%.500s", c.name, s, ours)
		}
		for _, want := range []string{"Paragraph 119 of the report: déjà vu in the harbour, Größe 833, Привет, and €14161 for paint.", "Ship | Tons\nAurora | 1200"} {
			if !strings.Contains(ours, want) {
				t.Errorf("%s: no %q", c.name, want)
			}
		}
	}
	docx := whole(t, files["report.docx"], DOCX)
	if !strings.HasPrefix(docx, "# Harbour report\n") || !strings.Contains(docx, "\n## Part 6\n") || !strings.Contains(docx, "\n- first entry\n- second entry\n") {
		t.Errorf("structure of the Word document is lost:\n%.300s", docx)
	}
}

func sheetFODS() string {
	rows := ""
	for i := range 600 {
		rows += fmt.Sprintf(`<table:table-row><table:table-cell office:value-type="string"><text:p>Item %d, "blue"</text:p></table:table-cell><table:table-cell office:value-type="float" office:value="%d.5"/><table:table-cell table:style-name="cd" office:value-type="date" office:date-value="2026-%02d-%02d"/><table:table-cell table:style-name="cp" office:value-type="percentage" office:value="0.%d"/></table:table-row>`,
			i, i, i%12+1, i%28+1, i+100)
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:number="urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0" xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2" office:version="1.2" office:mimetype="application/vnd.oasis.opendocument.spreadsheet">
<office:automatic-styles>
<number:date-style style:name="d"><number:year number:style="long"/><number:text>-</number:text><number:month number:style="long"/><number:text>-</number:text><number:day number:style="long"/></number:date-style>
<number:percentage-style style:name="p"><number:number number:decimal-places="1" number:min-integer-digits="1"/><number:text>%</number:text></number:percentage-style>
<style:style style:name="cd" style:family="table-cell" style:data-style-name="d"/><style:style style:name="cp" style:family="table-cell" style:data-style-name="p"/>
</office:automatic-styles><office:body><office:spreadsheet>
<table:table table:name="Budget 2026">` + rows + `</table:table>
<table:table table:name="Totals"><table:table-row><table:table-cell/><table:table-cell office:value-type="float" office:value="2" table:formula="of:=1+1"/><table:table-cell office:value-type="string"><text:p>end</text:p></table:table-cell></table:table-row></table:table>
</office:spreadsheet></office:body></office:document>`
}

const showFODP = `<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0" xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" office:version="1.2" office:mimetype="application/vnd.oasis.opendocument.presentation"><office:body><office:presentation>
<draw:page draw:name="one"><draw:frame svg:width="20cm" svg:height="3cm" svg:x="2cm" svg:y="2cm"><draw:text-box><text:p>Opening slide</text:p><text:p>with two lines</text:p></draw:text-box></draw:frame>
<presentation:notes><draw:frame presentation:class="notes" svg:width="16cm" svg:height="10cm" svg:x="2cm" svg:y="14cm"><draw:text-box><text:p>Say hello first.</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>
<draw:page draw:name="two"><draw:frame svg:width="20cm" svg:height="3cm" svg:x="2cm" svg:y="2cm"><draw:text-box><text:p>Closing slide</text:p></draw:text-box></draw:frame></draw:page>
</office:presentation></office:body></office:document>`

func TestOfficeSpreadsheet(t *testing.T) {
	b := office(t)["sheet.xlsx"]
	if k, err := Sniff(b, Hint{}); err != nil || k != XLSX {
		t.Fatalf("%q, %v", k, err)
	}
	res := read(t, b, XLSX, Window{})
	if strings.Join(res.Sheets, ",") != "Budget 2026,Totals" || res.Sheet != "Budget 2026" || res.Total != 600 || res.Unit != Row {
		t.Fatalf("%v %q %d", res.Sheets, res.Sheet, res.Total)
	}
	if want := "\tA\tB\tC\tD\n1\tItem 0, \"blue\"\t0.5\t2026-01-01\t10%\n2\tItem 1, \"blue\"\t1.5\t2026-02-02\t10.1%\n"; !strings.HasPrefix(res.Text, want) {
		t.Errorf("begins %.200q", res.Text)
	}
	part := read(t, b, XLSX, window(t, "", "", "'Budget 2026'!B599:C600"))
	if part.Text != "\tB\tC\n599\t598.5\t2026-11-11\n600\t599.5\t2026-12-12\n" || part.End != "rows 599-600 of 600 in sheet 'Budget 2026'; continue with range=Totals" {
		t.Errorf("%q %q", part.Text, part.End)
	}
	last := read(t, b, XLSX, *part.Next)
	if last.Text != "\tA\tB\tC\n1\t\t2\tend\n" || !strings.HasPrefix(last.End, "end of document") {
		t.Errorf("%q %q", last.Text, last.End)
	}
	_, err := plainReader(nil).Read(t.Context(), b, XLSX, window(t, "", "", "Nowhere!A1"))
	if r := refused(t, err, OutsideDocument); !strings.Contains(r.Person, "'Budget 2026', Totals") {
		t.Error(r.Person)
	}

	// Every cell against LibreOffice's own CSV.
	theirs, err := csv.NewReader(strings.NewReader(string(office(t)["sheet.csv"]))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows, differ := 0, 0
	for w := (&Window{}); w != nil && w.Sheet != "Totals"; {
		res := read(t, b, XLSX, *w)
		for i, line := range strings.Split(strings.TrimSpace(res.Text), "\n") {
			if i == 0 && strings.HasPrefix(res.Text, "\t") {
				continue
			}
			if got := strings.Split(line, "\t")[1:]; strings.Join(got[:3], "|") != strings.Join(theirs[rows][:3], "|") {
				differ++
			}
			rows++
		}
		w = res.Next
	}
	if rows != len(theirs) || differ > 0 {
		t.Errorf("%d rows of %d, %d differ", rows, len(theirs), differ)
	}
}

func TestOfficePresentation(t *testing.T) {
	b := office(t)["show.pptx"]
	if k, err := Sniff(b, Hint{}); err != nil || k != PPTX {
		t.Fatalf("%q, %v", k, err)
	}
	res := read(t, b, PPTX, Window{})
	if want := "[slide 1 of 2]\nOpening slide\nwith two lines\n\n[speaker's notes]\nSay hello first.\n\n[slide 2 of 2]\nClosing slide\n"; res.Text != want {
		t.Errorf("%q", res.Text)
	}
	if res := read(t, b, PPTX, window(t, "2", "", "")); res.Text != "[slide 2 of 2]\nClosing slide\n" || res.End != "end of document: slide 2 of 2" {
		t.Errorf("%q %q", res.Text, res.End)
	}
}
