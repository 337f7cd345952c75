package document

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	_ "image/jpeg"
	"image/png"
	"strings"
	"testing"
	"time"

	"sightline/attachments/visual"
)

var anyTarget = visual.Target{MaxEdge: 1568, MaxPixels: 1_150_000, MaxBytes: 5 << 20}

func contextAfter(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func renderPage(t testing.TB, b []byte, page int, target visual.Target, region *visual.Region) visual.Picture {
	t.Helper()
	pic, err := theReader(t).RenderPage(t.Context(), b, page, target, region)
	if err != nil {
		t.Fatal(err)
	}
	return pic
}

func pixels(t testing.TB, pic visual.Picture) *image.RGBA {
	t.Helper()
	m, _, err := image.Decode(bytes.NewReader(pic.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	if b := m.Bounds(); b.Dx() != pic.Width || b.Dy() != pic.Height {
		t.Fatalf("%v, said to be %dx%d", b, pic.Width, pic.Height)
	}
	out := image.NewRGBA(m.Bounds())
	draw.Draw(out, out.Bounds(), m, m.Bounds().Min, draw.Src)
	return out
}

// difference is the mean distance of two pictures of one size, per channel, of 255.
func difference(t testing.TB, a, b *image.RGBA) float64 {
	t.Helper()
	if a.Bounds().Size() != b.Bounds().Size() {
		t.Fatalf("%v against %v", a.Bounds(), b.Bounds())
	}
	sum := 0
	for i := range a.Pix {
		sum += max(int(a.Pix[i])-int(b.Pix[i]), int(b.Pix[i])-int(a.Pix[i]))
	}
	return float64(sum) / float64(len(a.Pix))
}

func TestRenderSize(t *testing.T) {
	b := samplePDF(3)
	pic := renderPage(t, b, 2, anyTarget, nil)
	if pic.MIME != "image/png" || pic.NativeWidth != 2479 || pic.NativeHeight != 3508 {
		t.Errorf("%v %s", pic, pic.MIME)
	}
	if pic.Height > 1568 || pic.Width*pic.Height > 1_150_000 || pic.Width*pic.Height < 1_100_000 {
		t.Errorf("not as large as the target takes: %v", pic)
	}
	if notes := strings.Join(pic.Notes, "; "); !strings.Contains(notes, "page 2 of 3") || !strings.Contains(notes, "of 2479x3508 pixels") {
		t.Error(notes)
	}
	small := renderPage(t, b, 2, visual.Target{MaxEdge: 1000, MaxBytes: 30_000}, nil)
	if len(small.Bytes) > 30_000 || small.Height >= 1000 || small.Width < 100 {
		t.Errorf("%v", small)
	}
	jpeg := renderPage(t, b, 1, visual.Target{MaxEdge: 800, Formats: []visual.Format{visual.JPEG}}, nil)
	if jpeg.MIME != "image/jpeg" || jpeg.Height != 800 {
		t.Errorf("%v %s", jpeg, jpeg.MIME)
	}
	for page, target := range map[int]visual.Target{0: anyTarget, 4: anyTarget, 1: {Formats: []visual.Format{visual.GIF}}, 2: {MaxEdge: 400, MaxBytes: 100}, 3: {MaxEdge: 100, MinEdge: 200}} {
		_, err := theReader(t).RenderPage(t.Context(), b, page, target, nil)
		refused(t, err, OutsideDocument, TargetUnreachable)
	}
	_, err := theReader(t).RenderPage(t.Context(), []byte("no pdf"), 1, anyTarget, nil)
	refused(t, err, NoPages)
}

// TestRenderUnlimited checks the bounds of visual where the target has none, on pages of absurd sizes too.
func TestRenderUnlimited(t *testing.T) {
	l := DefaultLimits()
	l.MaxStorage = 2 << 20
	r := NewReader(l, Options{})
	r.engine = theReader(t).engine
	for _, box := range []string{"0 0 595 842", "0 0 14400 14400", "0 0 14400 1", "0 0 1 14400", "0 0 0.001 0.001", "0 0 1e9 1e9", "0 0 -5 -5"} {
		b := miniPDF("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
			"<</Type/Page/Parent 2 0 R/MediaBox["+box+"]/Contents 4 0 R>>", stream("", "1 0 0 rg 0 0 50 50 re f"))
		pic, err := r.RenderPage(t.Context(), b, 1, visual.Target{}, nil)
		if err != nil {
			t.Logf("[%s]: %s", box, refused(t, err, Corrupt, TooComplex).Operator)
			continue
		}
		t.Logf("[%s]: %v", box, pic)
		if int64(pic.Width)*int64(pic.Height)*4 > l.MaxStorage || max(pic.NativeWidth, pic.NativeHeight) > l.MaxEdge || int64(pic.NativeWidth)*int64(pic.NativeHeight) > l.MaxPixels {
			t.Errorf("[%s]: %v passes the limits", box, pic)
		}
	}
}

// TestRenderRegion checks that a region is what the page shows there, in every corner.
func TestRenderRegion(t *testing.T) {
	b := miniPDF("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 144 144]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>",
		stream("", "1 0 0 rg 0 72 72 72 re f 0 0 1 rg 72 0 72 72 re f 0 0 0 rg BT /F 20 Tf 10 20 Td (detail) Tj ET"),
		"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
	page := renderPage(t, b, 1, visual.Target{}, nil)
	if page.Width != 600 || page.Height != 600 {
		t.Fatalf("%v", page)
	}
	full := pixels(t, page)
	for _, r := range []visual.Region{{X: 0, Y: 0, Width: 200, Height: 100}, {X: 400, Y: 500, Width: 200, Height: 100}, {X: 20, Y: 440, Width: 250, Height: 150}, {X: 599, Y: 0, Width: 1, Height: 600}} {
		pic := renderPage(t, b, 1, visual.Target{}, &r)
		want := image.NewRGBA(image.Rect(0, 0, r.Width, r.Height))
		draw.Draw(want, want.Bounds(), full, image.Pt(r.X, r.Y), draw.Src)
		if d := difference(t, pixels(t, pic), want); d > 0.01 {
			t.Errorf("%v differs by %.3f from the page", r, d)
		}
		if !strings.Contains(strings.Join(pic.Notes, ";"), "region "+r.String()) {
			t.Error(pic.Notes)
		}
	}
	if c := full.RGBAAt(100, 100); c.R != 255 || c.G != 0 || c.B != 0 {
		t.Errorf("red is %v", c)
	}
	if c := full.RGBAAt(500, 500); c.R != 0 || c.B != 255 {
		t.Errorf("blue is %v", c)
	}
	for _, r := range []visual.Region{{X: -1, Width: 5, Height: 5}, {X: 596, Width: 5, Height: 5}, {Width: 0, Height: 5}, {Y: 1 << 62, Width: 1 << 62, Height: 1 << 62}} {
		_, err := theReader(t).RenderPage(t.Context(), b, 1, anyTarget, &r)
		refused(t, err, OutsideDocument)
	}
}

// blurred is a picture at a quarter of its size, so that where exactly edges are drawn does not count.
func blurred(m *image.RGBA) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, m.Rect.Dx()/4, m.Rect.Dy()/4))
	for i := range out.Pix {
		x, y, sum := i/4%out.Rect.Dx(), i/4/out.Rect.Dx(), 0
		for k := range 16 {
			sum += int(m.Pix[(4*y+k/4)*m.Stride+4*(4*x+k%4)+i%4])
		}
		out.Pix[i] = byte(sum / 16)
	}
	return out
}

// TestRenderAgainstPoppler compares pages, upright and turned, with those of another program; the other page of the same
// document must be much farther off.
func TestRenderAgainstPoppler(t *testing.T) {
	own := textPDF(2, func(p, l int) string { return strings.Repeat("harbour ", l*(3*p-2)*5%11+1) }, 50)
	turned := bytes.ReplaceAll(own, []byte("/Type/Page/Parent"), []byte("/Rotate 90/Type/Page/Parent"))
	for name, b := range map[string][]byte{"own": own, "turned": turned, "libreoffice": office(t)["report.pdf"]} {
		pic := renderPage(t, b, 2, visual.Target{MaxEdge: 1000}, nil)
		w, h := pic.Width, pic.Height
		if name == "turned" { // pdftoppm scales before it turns
			w, h = h, w
		}
		path := temp(t, "a.pdf", b)
		run(t, "poppler-utils", "pdftoppm", "-png", "-singlefile", "-f", "2", "-l", "2", "-scale-to-x", fmt.Sprint(w), "-scale-to-y", fmt.Sprint(h), path, path)
		m, err := png.Decode(bytes.NewReader(load(t, path+".png")))
		if err != nil {
			t.Fatal(err)
		}
		theirs := image.NewRGBA(m.Bounds())
		draw.Draw(theirs, theirs.Bounds(), m, m.Bounds().Min, draw.Src)
		d := difference(t, blurred(pixels(t, pic)), blurred(theirs))
		other := difference(t, blurred(pixels(t, renderPage(t, b, 1, visual.Target{MaxEdge: 1000}, nil))), blurred(theirs))
		t.Logf("%s: %.2f of 255 (page 1 instead: %.2f)", name, d, other)
		if d > 4 || d > other/2 {
			t.Errorf("%s: differs by %.2f; page 1 by %.2f", name, d, other)
		}
	}
}

// TestRenderForm checks that what is filled into a form is seen.
func TestRenderForm(t *testing.T) {
	m := pixels(t, renderPage(t, formPDF(), 1, visual.Target{}, nil))
	ink := 0
	for y := m.Rect.Dy() * (200 - 130) / 200; y < m.Rect.Dy()*(200-100)/200; y++ {
		for x := m.Rect.Dx() * 50 / 300; x < m.Rect.Dx()*250/300; x++ {
			if m.RGBAAt(x, y).R < 128 {
				ink++
			}
		}
	}
	if ink < 500 {
		t.Errorf("%d dark pixels where the field is filled in", ink)
	}
}

// TestRenderMissingFont checks that characters which can't be drawn are said to be missing, and only these.
func TestRenderMissingFont(t *testing.T) {
	b := miniPDF("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[3 0 R]>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>",
		stream("", "BT /F 40 Tf 10 30 Td <65E5672C8A9E> Tj ET"),
		"<</Type/Font/Subtype/Type0/BaseFont/HeiseiMin-W3/Encoding/UniJIS-UCS2-H/DescendantFonts[6 0 R]>>",
		"<</Type/Font/Subtype/CIDFontType0/BaseFont/HeiseiMin-W3/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>/FontDescriptor 7 0 R>>",
		"<</Type/FontDescriptor/FontName/HeiseiMin-W3/Flags 4/FontBBox[0 0 1000 1000]/ItalicAngle 0/Ascent 800/Descent -200/StemV 80>>")
	if res := read(t, b, PDF, Window{}); !strings.Contains(res.Text, "日本語") {
		t.Errorf("%q", res.Text)
	}
	if pic := renderPage(t, b, 1, anyTarget, nil); !strings.Contains(strings.Join(pic.Notes, ";"), "are missing from this picture") {
		t.Error(pic.Notes)
	}
	if pic := renderPage(t, samplePDF(1), 1, anyTarget, nil); strings.Contains(strings.Join(pic.Notes, ";"), "missing") {
		t.Error(pic.Notes)
	}
}
