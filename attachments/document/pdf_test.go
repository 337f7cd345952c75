package document

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/attachments/document/documenttest"
	"sightline/attachments/visual"
)

// textPDF has pages with text in a standard font.
func textPDF(pages int, line func(page, line int) string, lines int) []byte {
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"}
	kids := ""
	for p := range pages {
		var c strings.Builder
		c.WriteString("BT /F 11 Tf 14 TL 60 780 Td\n")
		for l := range lines {
			fmt.Fprintf(&c, "(%s) Tj T*\n", line(p+1, l+1))
		}
		c.WriteString("ET")
		n := len(objects)
		kids += fmt.Sprintf("%d 0 R ", n+1)
		objects = append(objects,
			fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>>>/Contents %d 0 R>>", n+2),
			stream("", c.String()))
	}
	objects[1] = fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]>>", pages, kids)
	return miniPDF(objects...)
}

func samplePDF(pages int) []byte {
	return textPDF(pages, func(p, l int) string {
		return fmt.Sprintf("Page %d line %d tells of the harbour and its %d ships.", p, l, p*l)
	}, 40)
}

// TestEngineStart also fills the shared cache; run without -race, it does so in seconds.
func TestEngineStart(t *testing.T) {
	at := time.Now()
	r := theReader(t)
	t.Logf("engine ready after %s", time.Since(at).Round(time.Millisecond))
	at = time.Now()
	n, err := r.PageCount(t.Context(), samplePDF(3))
	if err != nil || n != 3 {
		t.Fatalf("%d pages, %v", n, err)
	}
	t.Logf("instance started, opened and thrown away in %s", time.Since(at).Round(time.Microsecond))
}

func TestPDFPages(t *testing.T) {
	b := samplePDF(12)
	res := read(t, b, PDF, window(t, "3-4", "", ""))
	if res.From != 3 || res.To != 4 || res.Total != 12 || res.Unit != Page || res.End != "pages 3-4 of 12; continue with pages=5-6" {
		t.Errorf("%+v", res)
	}
	for _, want := range []string{"[page 3 of 12]\nPage 3 line 1 tells", "[page 4 of 12]\nPage 4 line 1", "Page 4 line 40 tells of the harbour and its 160 ships."} {
		if !strings.Contains(res.Text, want) {
			t.Errorf("no %q in %s", want, res.Text)
		}
	}
	if strings.Contains(res.Text, "Page 5") || strings.Contains(res.Text, "Page 2 ") {
		t.Error("text of pages that were not asked for")
	}
	last := read(t, b, PDF, window(t, "12-", "", ""))
	if last.Next != nil || last.End != "end of document: page 12 of 12" {
		t.Errorf("%q %v", last.End, last.Next)
	}
	part := read(t, b, PDF, window(t, "2", "39-", ""))
	if part.End != "page 2 of 12, lines 39-40 of 40; continue with pages=3" || strings.Contains(part.Text, "line 38") {
		t.Errorf("%q\n%s", part.End, part.Text)
	}
	_, err := theReader(t).Read(t.Context(), b, PDF, window(t, "13", "", ""))
	if r := refused(t, err, OutsideDocument); !strings.Contains(r.Person, "12 pages") {
		t.Error(r.Person)
	}
}

// TestPDFWhole follows the stated ends of 500 pages to the last and must meet each page once.
func TestPDFWhole(t *testing.T) {
	b := textPDF(500, func(p, l int) string { return fmt.Sprintf("Page %d line %d tells of the harbour.", p, l) }, 20)
	var all strings.Builder
	calls := 0
	for w := (&Window{}); w != nil; calls++ {
		res := read(t, b, PDF, *w)
		if len(res.Text) > DefaultLimits().MaxText+100 {
			t.Fatalf("%d bytes in one call", len(res.Text))
		}
		all.WriteString(res.Text)
		w = res.Next
	}
	text := all.String()
	for p := 1; p <= 500; p++ {
		if n := strings.Count(text, fmt.Sprintf("[page %d of 500]\n", p)); n != 1 {
			t.Fatalf("page %d was returned %d times in %d calls", p, n, calls)
		}
	}
	if n := strings.Count(text, "tells of the harbour"); n != 500*20 {
		t.Errorf("%d lines of %d", n, 500*20)
	}
	t.Logf("500 pages in %d calls", calls)
}

func TestPDFAgainstPoppler(t *testing.T) {
	for name, b := range map[string][]byte{"own": samplePDF(30), "libreoffice": office(t)["report.pdf"]} {
		path := temp(t, "a.pdf", b)
		theirs := string(run(t, "poppler-utils", "pdftotext", path, "-"))
		var ours strings.Builder
		for w := (&Window{}); w != nil; {
			res := read(t, b, PDF, *w)
			for line := range strings.Lines(res.Text) {
				if !strings.HasPrefix(line, "[page ") {
					ours.WriteString(line)
				}
			}
			w = res.Next
		}
		s := similarity(ours.String(), theirs)
		t.Logf("%s: %.4f of the words agree with pdftotext", name, s)
		if s < 0.99 {
			t.Errorf("%s: only %.4f of the words agree", name, s)
		}
	}
}

func TestPDFWithoutText(t *testing.T) {
	b := miniPDF("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 2/Kids[3 0 R 4 0 R]>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 5 0 R>>", "<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 5 0 R>>",
		stream("", "1 0 0 rg 20 20 100 100 re f"))
	res := read(t, b, PDF, Window{})
	if len(res.Pictures) != 2 || res.Pictures[0] != 1 || res.Pictures[1] != 2 {
		t.Errorf("pages offered as pictures: %v", res.Pictures)
	}
	if !strings.Contains(res.Text, "view_images and page=2") || len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "view_images") {
		t.Errorf("%s\n%v", res.Text, res.Notes)
	}
	if res := read(t, samplePDF(1), PDF, Window{}); len(res.Pictures) != 0 || len(res.Notes) != 0 {
		t.Errorf("a page with text is offered as a picture: %v %v", res.Pictures, res.Notes)
	}
}

// formPDF has a text field whose value lies in its appearance, beside the page.
func formPDF() []byte {
	return miniPDF("<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[5 0 R]/DA(/F 12 Tf)/DR<</Font<</F 4 0 R>>>>>>>>",
		"<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Resources<</Font<</F 4 0 R>>>>/Contents 7 0 R/Annots[5 0 R]>>",
		"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
		"<</Type/Annot/Subtype/Widget/FT/Tx/T(name)/V(Filled in by hand)/F 4/Rect[50 100 250 130]/AP<</N 6 0 R>>/DA(/F 12 Tf)>>",
		stream("/Type/XObject/Subtype/Form/BBox[0 0 200 30]/Resources<</Font<</F 4 0 R>>>>", "BT /F 12 Tf 5 10 Td (Filled in by hand) Tj ET"),
		stream("", "BT /F 12 Tf 50 150 Td (Your name:) Tj ET"))
}

func TestPDFForm(t *testing.T) {
	res := read(t, formPDF(), PDF, Window{})
	if !strings.Contains(res.Text, "Your name:") || !strings.Contains(res.Text, "Filled in by hand") {
		t.Errorf("the filled form reads %q", res.Text)
	}
}

func TestPDFEncrypted(t *testing.T) {
	dir := t.TempDir()
	plain, locked, owner := filepath.Join(dir, "plain.pdf"), filepath.Join(dir, "locked.pdf"), filepath.Join(dir, "owner.pdf")
	write(t, plain, samplePDF(2))
	run(t, "qpdf", "qpdf", "--encrypt", "secret", "owner", "256", "--", plain, locked)
	run(t, "qpdf", "qpdf", "--encrypt", "", "owner", "256", "--", plain, owner)
	_, err := theReader(t).Read(t.Context(), load(t, locked), PDF, Window{})
	if r := refused(t, err, Encrypted); !strings.Contains(r.Person, "password") {
		t.Error(r.Person)
	}
	_, err = theReader(t).RenderPage(t.Context(), load(t, locked), 1, anyTarget, nil)
	refused(t, err, Encrypted)
	// Without a password to open it, it is readable to everybody.
	if res := read(t, load(t, owner), PDF, Window{}); !strings.Contains(res.Text, "Page 2 line 40") {
		t.Error(res.Text)
	}
}

// TestPDFBroken cuts and damages a PDF: what is left is read or refused, and the next one is read well.
func TestPDFBroken(t *testing.T) {
	good := samplePDF(3)
	random := rand.New(rand.NewPCG(1, 2))
	outcomes := map[string]int{}
	check := func(b []byte) {
		t.Helper()
		_, err := theReader(t).Read(t.Context(), b, PDF, Window{})
		if err == nil {
			outcomes["read"]++
			return
		}
		outcomes[string(refused(t, err, Corrupt, TooComplex, Encrypted, OutsideDocument).Code)]++
	}
	for i := range 24 {
		check(good[:len(good)*i/24])
		b := bytes.Clone(good)
		for range 40 {
			b[random.IntN(len(b))] = byte(random.IntN(256))
		}
		check(b)
	}
	t.Log(outcomes)
	if outcomes["corrupt"] == 0 {
		t.Error("no cut was noticed")
	}
	if res := read(t, good, PDF, Window{}); !strings.Contains(res.Text, "Page 3 line 40") {
		t.Error("the reader does not work any more")
	}
}

// endlessPDF draws 10^depth shapes through forms that draw ten others each.
func endlessPDF(depth int) []byte {
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 500 500]/Resources<</XObject<</X 5 0 R>>>>/Contents 4 0 R>>", stream("", "/X Do")}
	for i := range depth {
		objects = append(objects, stream("/Type/XObject/Subtype/Form/BBox[0 0 500 500]/Resources<</XObject<</X "+strconv.Itoa(6+i)+" 0 R>>>>", strings.Repeat("/X Do ", 10)))
	}
	return miniPDF(append(objects, stream("/Type/XObject/Subtype/Form/BBox[0 0 500 500]", "0 0 m 400 400 l S"))...)
}

// TestPDFEndless checks that a document that would be read for years is stopped by the deadline and by its caller, and
// that the next one is read.
func TestPDFEndless(t *testing.T) {
	l := DefaultLimits()
	l.Deadline = 700 * time.Millisecond
	r := NewReader(l, Options{})
	r.engine = theReader(t).engine
	at := time.Now()
	_, err := r.RenderPage(t.Context(), endlessPDF(14), 1, anyTarget, nil)
	refused(t, err, DeadlineExceeded)
	if d := time.Since(at); d > 5*time.Second {
		t.Errorf("stopped after %s", d)
	}
	ctx, cancel := contextAfter(t, 300*time.Millisecond)
	defer cancel()
	at = time.Now()
	if _, err := theReader(t).RenderPage(ctx, endlessPDF(14), 1, anyTarget, nil); err == nil || ctx.Err() == nil || err != ctx.Err() {
		t.Errorf("cancelled: %v", err)
	}
	if d := time.Since(at); d > 5*time.Second {
		t.Errorf("stopped after %s", d)
	}
	if res := read(t, samplePDF(1), PDF, Window{}); !strings.Contains(res.Text, "line 40") {
		t.Error("the reader does not work any more")
	}
}

// TestPDFMemory gives an engine of little memory a picture that unpacks to more, and one of ordinary memory next.
func TestPDFMemory(t *testing.T) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	row := make([]byte, 3*3000)
	for range 6000 { // 51 MiB, of which the second filter leaves half
		if _, err := z.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	b := miniPDF("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 500 500]/Resources<</XObject<</X 5 0 R>>>>/Contents 4 0 R>>", stream("", "q 500 0 0 500 0 0 cm /X Do Q"),
		stream("/Type/XObject/Subtype/Image/Width 3000/Height 3000/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter[/FlateDecode/RunLengthDecode]", packed.String()))
	l := DefaultLimits()
	l.MaxPDFMemory = 32 << 20
	r := NewReader(l, Options{CacheDir: documenttest.CacheDir(t)})
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := r.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	var pic visual.Picture
	var err error
	grown := peak(func() { pic, err = r.RenderPage(t.Context(), b, 1, anyTarget, nil) })
	t.Logf("%v, %v, at most %d MiB more", pic, err, grown>>20)
	refused(t, err, TooComplex, Corrupt)
	if grown > 4*l.MaxPDFMemory { // memory that grows is copied, and the file is held as well
		t.Errorf("took %d MiB", grown>>20)
	}
	if _, err := r.RenderPage(t.Context(), samplePDF(1), 1, anyTarget, nil); err != nil {
		t.Error(err)
	}
}

// TestPDFTogether has several readers at once, one of which gives up: the others get their own pages.
func TestPDFTogether(t *testing.T) {
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			if i == 3 {
				ctx, cancel := contextAfter(t, 5*time.Millisecond)
				defer cancel()
				_, _ = theReader(t).RenderPage(ctx, endlessPDF(12), 1, anyTarget, nil)
				return
			}
			res, err := theReader(t).Read(t.Context(), samplePDF(i+1), PDF, Window{Pages: Span{From: i + 1}})
			if err != nil || !strings.HasPrefix(res.Text, fmt.Sprintf("[page %d of %d]\nPage %d line 1", i+1, i+1, i+1)) {
				t.Errorf("%d: %v %.60q", i, err, res.Text)
			}
		})
	}
	all.Wait()
}

// TestPDFReachesNothing gives the engine references to files and addresses: nothing of them can be met, since it has no
// file system and no network, so it is enough that they do no harm.
func TestPDFReachesNothing(t *testing.T) {
	b := miniPDF("<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(app.launchURL\\('http://127.0.0.1:1/'\\))>>/AA<</WC<</S/Launch/F(/bin/sh)>>>>>>",
		"<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Resources<</Font<</F 5 0 R>>/XObject<</X 6 0 R>>>>/Contents 4 0 R/AA<</O<</S/URI/URI(http://127.0.0.1:1/)>>>>>>",
		stream("", "/X Do BT /F 12 Tf 50 150 Td (still here) Tj ET"),
		"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
		"<</Type/XObject/Subtype/Form/BBox[0 0 1 1]/F(/etc/hostname)/FFilter/None/Length 0>>\nstream\n\nendstream")
	if res := read(t, b, PDF, Window{}); !strings.Contains(res.Text, "still here") {
		t.Error(res.Text)
	}
}
