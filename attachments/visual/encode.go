package visual

import (
	"bytes"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
)

var errOverBudget = errors.New("more bytes than the target takes")

// budgetWriter collects what an encoder writes; it ends the encoding when there is too much of it or no time left.
type budgetWriter struct {
	buf  bytes.Buffer
	max  int64 // 0: no limit
	stop *stop
}

func (w *budgetWriter) Write(p []byte) (int, error) {
	if err := w.stop.check(); err != nil {
		return 0, err
	}
	if w.max > 0 && int64(w.buf.Len()+len(p)) > w.max {
		return 0, errOverBudget
	}
	return w.buf.Write(p)
}

// encoding is one way to write a picture again.
type encoding struct {
	format  Format
	quality int // of JPEG
	pool    *onePool
}

// onePool hands the memory of one PNG encoding to the next.
type onePool struct{ b *png.EncoderBuffer }

func (p *onePool) Get() *png.EncoderBuffer  { return p.b }
func (p *onePool) Put(b *png.EncoderBuffer) { p.b = b }

// encodings returns the ways to try in turn: JPEG for photos, since PNG would only keep the noise of their codec; for
// everything else, and for regions, PNG, and JPEG where that takes too many bytes.
func encodings(t Target, photo bool) []encoding {
	var ways []encoding
	good, fair := encoding{format: JPEG, quality: 90}, encoding{format: JPEG, quality: 75}
	switch {
	case photo && t.takes(JPEG):
		ways = append(ways, good, fair)
	case t.takes(PNG):
		ways = append(ways, encoding{format: PNG})
		if t.takes(JPEG) {
			ways = append(ways, good, fair)
		}
	case t.takes(JPEG):
		ways = append(ways, good, fair)
	}
	return ways
}

// encode writes m within a number of bytes, or returns errOverBudget. Transparency on its way to JPEG is put on white.
func (e encoding) encode(s *stop, m image.Image, limit int64) ([]byte, error) {
	w := &budgetWriter{max: limit, stop: s}
	var err error
	if e.format == PNG {
		enc := png.Encoder{}
		if e.pool != nil {
			enc.BufferPool = e.pool
		}
		err = enc.Encode(w, m)
	} else {
		err = jpeg.Encode(w, onWhite(m), &jpeg.Options{Quality: e.quality})
	}
	if s.err != nil {
		return nil, s.err
	}
	if err != nil {
		return nil, err
	}
	return w.buf.Bytes(), nil
}

// A sample is bands of rows across the picture, each as an encoder of its own would see it: JPEG works on 16 rows at a
// time, and 16 rows of the pictures that are sampled fill PNG's window several times over.
const (
	bandRows = 16
	bands    = 8
	// sampledFrom is the number of rows from which a sample is worth its time: it is then a quarter of the picture or less.
	sampledFrom = 4 * bands * bandRows
	// doubt is by how much an estimate may be wrong before an encoding that would have fitted is left out.
	doubt = 1.25
)

// estimate tells from a sample about how many bytes m takes; ok is false where finding out costs as much as knowing.
func (e encoding) estimate(s *stop, m image.Image) (n int64, ok bool, err error) {
	part, ok := m.(interface {
		SubImage(image.Rectangle) image.Image
	})
	r := m.Bounds()
	if !ok || r.Dy() < sampledFrom {
		return 0, false, nil
	}
	e.pool = &onePool{}
	for i := range bands {
		y := r.Min.Y + (r.Dy()-bandRows)*i/(bands-1)
		b, err := e.encode(s, part.SubImage(image.Rect(r.Min.X, y, r.Max.X, y+bandRows)), 0)
		if err != nil {
			return 0, false, err
		}
		n += int64(len(b))
	}
	return n * int64(r.Dy()) / (bands * bandRows), true, nil
}

// raw is how many bytes the pixels of m take unencoded, transparency not counted: whatever encodes them takes hardly
// more.
func raw(m image.Image) int64 {
	n := int64(m.Bounds().Dx()) * int64(m.Bounds().Dy())
	switch m.(type) {
	case *image.Gray, *image.Paletted:
		return n
	}
	return 3 * n
}

// transparent reports whether encoding m as JPEG loses something.
func transparent(m image.Image) bool {
	o, ok := m.(interface{ Opaque() bool })
	return ok && !o.Opaque()
}

// onWhite returns m where it is opaque, and otherwise a copy on white.
func onWhite(m image.Image) image.Image {
	if !transparent(m) {
		return m
	}
	r := &raster{stored: upright(1, 0, 0)}
	r.read(m)
	b := m.Bounds()
	dst := image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	for y := range b.Dy() {
		row := dst.Pix[y*dst.Stride:][:4*b.Dx()]
		r.row(0, y, row)
		for i := 0; i < len(row); i += 4 {
			a := int(row[i+3])
			for c := i; c < i+3; c++ {
				row[c] = byte((int(row[c])*a + 255*(255-a) + 127) / 255)
			}
			row[i+3] = 255
		}
	}
	return dst
}
