package visual

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

func rebuild(t *testing.T, b []byte, target Target, region *Region) Picture {
	t.Helper()
	p, err := NewDecoder(testLimits()).Rebuild(t.Context(), b, target, region)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(p.Bytes, DefaultLimits())
	if err != nil {
		t.Fatalf("what is sent: %v", err)
	}
	if h.Format.MIME() != p.MIME || h.Width != p.Width || h.Height != p.Height || h.Orientation != 1 || h.Animated || h.BitDepth > 8 || h.cmyk {
		t.Fatalf("%v is announced, %+v is sent", p, h)
	}
	return p
}

// TestOrientation turns the eight Landscapes and Portraits: each must look like the first.
func TestOrientation(t *testing.T) {
	kinds := []string{"Landscape", "Portrait"}
	if raceEnabled {
		kinds = kinds[1:]
	}
	for _, kind := range kinds {
		path := "recurser+exif-orientation-examples/" + kind + "_%d.jpg"
		want, _ := pixelsOf(t, readCorpus(t, fmt.Sprintf(path, 1)))
		for i := 2; i <= 8; i++ {
			b := readCorpus(t, fmt.Sprintf(path, i))
			p := rebuild(t, b, Target{}, nil)
			got, _ := pixelsOf(t, p.Bytes)
			if got.w != want.w || got.h != want.h {
				t.Errorf("%s %d: %dx%d, want %dx%d", kind, i, got.w, got.h, want.w, want.h)
				continue
			}
			diff, n := 0, 0
			for y := 0; y < got.h; y += 7 {
				for x := 0; x < got.w; x += 7 {
					a, b := got.pixel(x, y), want.pixel(x, y)
					for c := range 3 {
						diff += max(int(a[c])-int(b[c]), int(b[c])-int(a[c]))
						n++
					}
				}
			}
			if mean := float64(diff) / float64(n); mean > 8 {
				t.Errorf("%s %d: differs by %.1f a channel", kind, i, mean)
			}
			if !p.Reencoded || !slices.Contains(p.Notes, fmt.Sprintf("turned upright (EXIF orientation %d)", i)) {
				t.Errorf("%s %d: %v, notes %q", kind, i, p, p.Notes)
			}
		}
	}
}

// TestUpright turns an asymmetric picture exactly, through each of the three places where an orientation may stand.
func TestUpright(t *testing.T) {
	const w, h = 5, 3
	m := scene(w, h)
	stored := pngBytes(t, m)
	// Where the top left pixel of the stored picture is seen.
	corner := [9]image.Point{1: {0, 0}, 2: {w - 1, 0}, 3: {w - 1, h - 1}, 4: {0, h - 1}, 5: {0, 0}, 6: {h - 1, 0}, 7: {h - 1, w - 1}, 8: {0, w - 1}}
	// And where the one to the right of it is, from there.
	right := [9]image.Point{1: {1, 0}, 2: {-1, 0}, 3: {-1, 0}, 4: {1, 0}, 5: {0, 1}, 6: {0, 1}, 7: {0, -1}, 8: {0, -1}}
	for o := 1; o <= 8; o++ {
		p := rebuild(t, afterIHDR(stored, chunk("eXIf", exif(byte(o)))), Target{}, nil)
		r, _ := pixelsOf(t, p.Bytes)
		at, next := corner[o], corner[o].Add(right[o])
		if got, want := r.pixel(at.X, at.Y), m.NRGBAAt(0, 0); got != (rgba{want.R, want.G, want.B, 255}) {
			t.Errorf("%d: the first pixel is %v, want %v", o, got, want)
		}
		if got, want := r.pixel(next.X, next.Y), m.NRGBAAt(1, 0); got != (rgba{want.R, want.G, want.B, 255}) {
			t.Errorf("%d: the second pixel is %v, want %v", o, got, want)
		}
	}
	for _, name := range []string{"exif.png", "exif.jpg", "exif.webp"} {
		if p := rebuild(t, samples(t)[name], Target{}, nil); !p.Reencoded {
			t.Errorf("%s was not turned", name)
		}
	}
}

func TestExifOrientation(t *testing.T) {
	le := append([]byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00"), 0, 0, 0, 0)
	for name, c := range map[string]struct {
		b    []byte
		want int
	}{
		"big endian": {exif(6), 6}, "little endian": {le, 6}, "prefix": {append([]byte("Exif\x00\x00"), exif(3)...), 3},
		"zero": {exif(0), 1}, "nine": {exif(9), 1}, "empty": {nil, 1}, "cut": {exif(6)[:15], 1},
		"far": {[]byte("II*\x00\xff\xff\xff\xff\x01\x00"), 1},
	} {
		if got := exifOrientation(c.b); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestRegion cuts small text out of a tall page, which is shown scaled otherwise.
func TestRegion(t *testing.T) {
	page := scene(200, 6000)
	b := pngBytes(t, page)
	target := Target{MaxEdge: 1500}
	if p := rebuild(t, b, target, nil); p.Width != 50 || p.Height != 1500 || p.NativeHeight != 6000 || !slices.Contains(p.Notes, "scaled from 200x6000 to 50x1500") {
		t.Errorf("whole page: %v, %q", p, p.Notes)
	}
	part := Region{20, 5400, 150, 90}
	p := rebuild(t, b, target, &part)
	whole, _ := pixelsOf(t, b)
	cut, _ := pixelsOf(t, p.Bytes)
	samePixels(t, "page", whole, part, cut)
	if !slices.Contains(p.Notes, "region 20,5400,150,90 (x, y, width, height) of 200x6000") {
		t.Errorf("notes %q", p.Notes)
	}
	d := NewDecoder(testLimits())
	for _, out := range []Region{{0, 0, 201, 1}, {-1, 0, 5, 5}, {0, 5999, 1, 2}, {0, 0, 0, 5}, {1 << 62, 0, 1 << 62, 1}, {5, 5, 1, -1}} {
		_, err := d.Rebuild(t.Context(), b, target, &out)
		var r *Refusal
		if !errors.As(err, &r) || r.Code != RegionOutside || !strings.Contains(r.Person, "200x6000") {
			t.Errorf("%v: %v", out, err)
		}
	}
	if _, err := d.Validate(t.Context(), b); err != nil {
		t.Errorf("a refused region was kept as a verdict: %v", err)
	}
	whole1 := Region{0, 0, 200, 6000}
	if p := rebuild(t, b, Target{}, &whole1); p.Reencoded {
		t.Error("a region of all was encoded again")
	}
}

// TestRegionIsUpright counts regions in the picture as seen, for every kind of file.
func TestRegionIsUpright(t *testing.T) {
	part := Region{3, 5, 4, 2}
	for name, b := range samples(t) {
		h, err := ReadHeader(b, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		p := rebuild(t, b, Target{}, &part)
		stored, _ := pixelsOf(t, b)
		stored.stored = upright(h.Orientation, h.Width, h.Height)
		cut, _ := pixelsOf(t, p.Bytes)
		samePixels(t, name, stored, part, cut)
		if p.MIME != "image/png" {
			t.Errorf("%s: region as %s", name, p.MIME)
		}
	}
	for o := byte(1); o <= 8; o++ {
		b := afterIHDR(samples(t)["plain.png"], chunk("eXIf", exif(o)))
		w, h := 40, 24
		if o >= 5 {
			w, h = h, w
		}
		if _, err := NewDecoder(testLimits()).Rebuild(t.Context(), b, Target{}, &Region{w - 1, h - 1, 1, 1}); err != nil {
			t.Errorf("orientation %d: %v", o, err)
		}
	}
}

func TestNotes(t *testing.T) {
	all := samples(t)
	cmyk, deep := readCorpus(t, "made-here/cmyk.jpg"), all["rgba16.png"]
	for _, c := range []struct {
		name  string
		b     []byte
		t     Target
		mime  string
		again bool
		notes []string
	}{
		{"plain.png", all["plain.png"], Target{}, "image/png", false, nil},
		{"apng.png", all["apng.png"], Target{}, "image/png", false, []string{"first frame of 3"}},
		{"animated.gif", all["animated.gif"], Target{}, "image/gif", false, []string{"first frame of 2"}},
		{"animated.webp", all["animated.webp"], Target{}, "image/png", true, []string{"first frame of 2", "converted from WebP to PNG"}},
		{"wholeanim.webp", all["wholeanim.webp"], Target{}, "image/webp", false, nil},
		{"cmyk", cmyk, Target{}, "image/jpeg", true, []string{"converted from CMYK to RGB"}},
		{"16 bit", deep, Target{}, "image/png", true, []string{"converted from 16 bits a channel to 8"}},
		{"no gif", all["plain.gif"], Target{Formats: []Format{PNG, JPEG}}, "image/png", true, []string{"converted from GIF to PNG"}},
		{"jpeg only", all["alpha.png"], Target{Formats: []Format{JPEG}}, "image/jpeg", true, []string{"transparency put on white", "converted from PNG to JPEG"}},
		{"edge", all["plain.jpg"], Target{MaxEdge: 20}, "image/jpeg", true, []string{"scaled from 40x24 to 20x12"}},
		{"pixels", all["plain.jpg"], Target{MaxPixels: 240}, "image/jpeg", true, []string{"scaled from 40x24 to 20x12"}},
		{"larger", all["plain.jpg"], Target{MaxEdge: 4000}, "image/jpeg", false, nil},
	} {
		p := rebuild(t, c.b, c.t, nil)
		if p.MIME != c.mime || p.Reencoded != c.again || !slices.Equal(p.Notes, c.notes) {
			t.Errorf("%s: %s, reencoded %v, notes %q", c.name, p.MIME, p.Reencoded, p.Notes)
		}
	}
}

// TestFirstFrameOnCanvas puts a small frame where it belongs, on a transparent canvas.
func TestFirstFrameOnCanvas(t *testing.T) {
	p := rebuild(t, samples(t)["animated.webp"], Target{}, nil)
	r, _ := pixelsOf(t, p.Bytes)
	if r.w != 20 || r.h != 16 || r.pixel(0, 0) != (rgba{}) || r.pixel(4, 2) != (rgba{200, 100, 50, 255}) ||
		r.pixel(13, 9) != (rgba{200, 100, 50, 255}) || r.pixel(14, 9) != (rgba{}) || r.pixel(4, 10) != (rgba{}) {
		t.Errorf("%dx%d %v %v", r.w, r.h, r.pixel(0, 0), r.pixel(4, 2))
	}
	p = rebuild(t, samples(t)["part.gif"], Target{Formats: []Format{PNG}}, nil)
	r, _ = pixelsOf(t, p.Bytes)
	whole, _ := pixelsOf(t, samples(t)["plain.gif"])
	if r.w != 40 || r.h != 24 || r.pixel(3, 2)[3] != 0 || r.pixel(30, 20)[3] != 0 || r.pixel(4, 2) != whole.pixel(4, 2) || r.pixel(29, 19) != whole.pixel(29, 19) {
		t.Errorf("%dx%d %v %v", r.w, r.h, r.pixel(3, 2), r.pixel(4, 2))
	}
}

func TestCMYKAndDeepPixels(t *testing.T) {
	b := readCorpus(t, "made-here/cmyk.jpg")
	want, _ := pixelsOf(t, b)
	got, _ := pixelsOf(t, rebuild(t, b, Target{Formats: []Format{PNG}}, nil).Bytes)
	samePixels(t, "cmyk", want, wholeOf(want), got)
	for _, name := range []string{"rgba16.png", "gray16.png"} {
		want, _ = pixelsOf(t, samples(t)[name])
		got, _ = pixelsOf(t, rebuild(t, samples(t)[name], Target{}, nil).Bytes)
		samePixels(t, name, want, wholeOf(want), got)
	}
}

func TestByteBudget(t *testing.T) {
	noise := image.NewNRGBA(image.Rect(0, 0, 300, 200))
	seed := uint32(1)
	for i := range noise.Pix {
		seed = seed*1664525 + 1013904223
		noise.Pix[i] = byte(seed >> 24)
		if i%4 == 3 {
			noise.Pix[i] = 255
		}
	}
	b := pngBytes(t, noise)
	for _, limit := range []int64{100_000, 30_000, 8_000} {
		p := rebuild(t, b, Target{MaxBytes: limit}, nil)
		if int64(len(p.Bytes)) > limit {
			t.Errorf("%d bytes for a limit of %d", len(p.Bytes), limit)
		}
	}
	if p := rebuild(t, b, Target{MaxBytes: 60_000, Formats: []Format{PNG}}, nil); p.MIME != "image/png" || p.Width >= 300 {
		t.Errorf("PNG only: %v", p)
	}
	d := NewDecoder(testLimits())
	var r *Refusal
	for name, target := range map[string]Target{"bytes": {MaxBytes: 20}, "format": {Formats: []Format{WebP}}, "edge": {MinEdge: 250}, "thin": {MaxEdge: 64, MinEdge: 50}} {
		if _, err := d.Rebuild(t.Context(), b, target, nil); !errors.As(err, &r) || r.Code != TargetUnreachable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Rebuild(t.Context(), b, Target{}, nil); err != nil {
		t.Errorf("an unreachable target was kept as a verdict: %v", err)
	}
}

// everyWay is what a rebuild would send if it tried every way at every size.
func everyWay(t testing.TB, b []byte, target Target) (format Format, w, h int) {
	t.Helper()
	header, err := ReadHeader(b, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	p, err := planFor(header, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &stop{ctx: context.Background(), deadline: time.Now().Add(time.Minute)}
	img, at, err := decode(s, b, header)
	if err != nil {
		t.Fatal(err)
	}
	r := newRaster(header, img, at)
	w, h = p.w, p.h
	for range maxSteps {
		img, err := render(s, r, p.part, w, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range encodings(target, header.lossy && !header.alpha) {
			if _, err := way.encode(s, img, target.MaxBytes); err == nil {
				return way.format, w, h
			}
		}
		w, h = shrink(w, h, smallestStep)
	}
	t.Fatalf("nothing fits %d", target.MaxBytes)
	return "", 0, 0
}

// What is not even tried would not have fitted: the picture that is sent is the one that trying everything finds.
func TestEstimates(t *testing.T) {
	pictures := map[string][]byte{"noise": noiseOf(t, 300, 520), "half a picture": halfNoise(t, 300, 520), "screenshot": readCorpus(t, "bench/s1080.rgb.png")}
	for name, b := range pictures {
		for _, limit := range []int64{int64(len(b)) / 2, int64(len(b)) / 15} {
			target := Target{MaxBytes: limit}
			format, w, h := everyWay(t, b, target)
			p := rebuild(t, b, target, nil)
			if p.MIME != format.MIME() || p.Width != w || p.Height != h {
				t.Errorf("%s within %d bytes: %s of %dx%d, want %s of %dx%d", name, limit, p.MIME, p.Width, p.Height, format.MIME(), w, h)
			}
		}
	}
}

// An estimate is near what an encoding takes, and costs a part of it.
func TestEstimateIsNear(t *testing.T) {
	s := &stop{ctx: t.Context(), deadline: time.Now().Add(time.Minute)}
	for name, b := range map[string][]byte{"noise": noiseOf(t, 300, 520), "screenshot": readCorpus(t, "bench/s1080.rgb.png")} {
		header, err := ReadHeader(b, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := decode(s, b, header)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range encodings(Target{}, header.lossy) {
			out, err := way.encode(s, m, 0)
			if err != nil {
				t.Fatal(err)
			}
			n, ok, err := way.estimate(s, m)
			if ratio := float64(n) / float64(len(out)); err != nil || !ok || ratio < 0.6 || ratio > doubt {
				t.Errorf("%s as %v: %d estimated, %d bytes, %v, %v", name, way, n, len(out), ok, err)
			}
		}
	}
}

func noiseOf(t testing.TB, w, h int) []byte {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	seed := uint32(1)
	for i := range m.Pix {
		seed = seed*1664525 + 1013904223
		m.Pix[i] = byte(seed>>24) | byte(i%4/3*255)
	}
	return pngBytes(t, m)
}

// halfNoise is one colour above, and noise below.
func halfNoise(t testing.TB, w, h int) []byte {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	seed := uint32(1)
	for i := range m.Pix {
		seed = seed*1664525 + 1013904223
		m.Pix[i] = 255
		if i > len(m.Pix)/2 && i%4 != 3 {
			m.Pix[i] = byte(seed >> 24)
		}
	}
	return pngBytes(t, m)
}

// TestReduce averages areas: a picture of one colour stays so, alpha does not bleed, and fine lines stay visible.
func TestReduce(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 101, 67))
	for i := 0; i < len(m.Pix); i += 4 {
		copy(m.Pix[i:], []byte{30, 60, 90, 200})
	}
	m.SetNRGBA(0, 0, color.NRGBA{255, 255, 255, 0})
	p := rebuild(t, pngBytes(t, m), Target{MaxEdge: 33}, nil)
	r, _ := pixelsOf(t, p.Bytes)
	for y := range r.h {
		for x := range r.w {
			if px := r.pixel(x, y); px[0] != 30 || px[1] != 60 || px[2] != 90 || px[3] < 170 {
				t.Fatalf("%d,%d: %v", x, y, px)
			}
		}
	}
	lines := image.NewGray(image.Rect(0, 0, 90, 90))
	for i := range lines.Pix {
		lines.Pix[i] = byte(i % 90 % 3 / 2 * 255)
	}
	p = rebuild(t, pngBytes(t, lines), Target{MaxEdge: 30}, nil)
	r, h := pixelsOf(t, p.Bytes)
	if px := r.pixel(15, 15); px[0] != 85 || !strings.HasPrefix(h.Mode, "ct0/") {
		t.Errorf("%v in %s, want a third of white, gray", px, h.Mode)
	}
}

func TestPictureIsRedacted(t *testing.T) {
	p := Picture{MIME: "image/png", Bytes: []byte(secret), Width: 1, Height: 2}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("picture", "p", p, "at", &p, "in", []any{p})
	text := fmt.Sprintf("%v %+v %#v %s %q %x %X %d", p, p, p, p, p, p, &p, p) + fmt.Sprint([]Picture{p}, struct{ P Picture }{p}) + log.String()
	if b, err := json.Marshal(p); err == nil {
		t.Errorf("marshalled as %s", b)
	}
	if b, err := json.Marshal(map[string]*Picture{"p": &p}); err == nil {
		t.Errorf("marshalled as %s", b)
	}
	if err := gob.NewEncoder(&log).Encode(p); err == nil {
		t.Error("gob took it")
	}
	for _, leak := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), "52 56 46 56", "NDguODU4M04"} {
		if strings.Contains(text, leak) || strings.Contains(log.String(), leak) {
			t.Errorf("leaks %q in %s", leak, text)
		}
	}
}

func TestSniff(t *testing.T) {
	ftyp := func(brands string) string { return "\x00\x00\x00\x18ftyp" + brands }
	for s, want := range map[string]Format{
		pngSignature: PNG, "\xff\xd8\xff\xe0": JPEG, "GIF89a": GIF, "RIFF\x00\x00\x00\x00WEBPVP8 ": WebP, "RIFF\x00\x00\x00\x00WAVE\x00": Unknown,
		"II*\x00": TIFF, "MM\x00*": TIFF, "BM" + strings.Repeat("\x00", 16): BMP, "BM is text": Text, "\x00\x00\x01\x00\x01": ICO,
		ftyp("heic\x00\x00\x00\x00mif1heic"): HEIC, ftyp("mif1\x00\x00\x00\x00mif1miaf"): HEIC, ftyp("mif1\x00\x00\x00\x00miafavif"): AVIF,
		ftyp("avif\x00\x00\x00\x00mif1miaf"): AVIF, ftyp("isom\x00\x00\x00\x00isomiso2"): MP4,
		"<svg xmlns=": SVG, "<?xml version=\"1.0\"?>\n<!-- x -->\n<svg>": SVG, "\xef\xbb\xbf <!DOCTYPE html><svg>": HTML,
		"<!doctype HTML>": HTML, "# Title\ntext": Text, "caf\xc3\xa9": Text, "caf\xe9 \x01": Unknown, "": Unknown, "%PDF-1.7": PDF, "PK\x03\x04": ZIP,
		strings.Repeat("x", 1023) + "\xc3\xa9": Text,
	} {
		if got := Sniff([]byte(s)); got != want {
			t.Errorf("%.20q: %s, want %s", s, got, want)
		}
	}
	// Each is refused under its own name, with a way out.
	for _, f := range []Format{SVG, TIFF, HEIC, AVIF, BMP, ICO, PSD, JPEGXL, JPEG2K, MP4, PDF, HTML, Text, ZIP, Unknown} {
		r := refuseFormat(f)
		if f.Native() || r.Code != UnsupportedFormat || !strings.Contains(r.Person, "workspace") && !strings.Contains(r.Person, "document") {
			t.Errorf("%s: %s", f, r.Person)
		}
	}
}

// TestMislabelled: the bytes decide; there is nowhere to even pass a name or a declared type.
func TestMislabelled(t *testing.T) {
	if p := rebuild(t, samples(t)["plain.jpg"], Target{}, nil); p.MIME != "image/jpeg" {
		t.Errorf("%v", p)
	}
}

// TestWorkingMemory refuses what would take too much beside the picture itself.
func TestWorkingMemory(t *testing.T) {
	b := riff(vp8xChunk(webpAlpha, 4000, 3200), appendChunk(nil, "ALPH", []byte{1, 0}), appendChunk(nil, "VP8 ", func() []byte {
		d := []byte{0, 0, 0, 0x9d, 1, 0x2a, 0, 0, 0, 0}
		binary.LittleEndian.PutUint16(d[6:], 4000)
		binary.LittleEndian.PutUint16(d[8:], 3200)
		return d
	}()))
	_, err := ReadHeader(b, DefaultLimits())
	var r *Refusal
	if !errors.As(err, &r) || r.Code != WorkingTooLarge {
		t.Errorf("%v", err)
	}
}

// TestLines compares the fast way to read a row with the pixels, for every subsampling and from every column.
func TestLines(t *testing.T) {
	for ratio := image.YCbCrSubsampleRatio444; ratio <= image.YCbCrSubsampleRatio410; ratio++ {
		m := image.NewYCbCr(image.Rect(0, 0, 21, 9), ratio)
		for _, plane := range [][]byte{m.Y, m.Cb, m.Cr} {
			for i := range plane {
				plane[i] = byte(i * 37)
			}
		}
		r := newRaster(Header{Width: 21, Height: 9, Orientation: 1}, m, image.Point{})
		for y := range 9 {
			for x := range 21 {
				row := make([]byte, 4*(21-x))
				r.row(x, y, row)
				for i := 0; i < len(row); i += 4 {
					if got, want := rgba(row[i:]), r.pixel(x+i/4, y); got != want {
						t.Fatalf("%v: %d,%d: %v, want %v", ratio, x+i/4, y, got, want)
					}
				}
			}
		}
	}
}
