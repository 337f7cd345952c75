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
}

// encodings returns the ways to try in turn: JPEG for photos, since PNG would only keep the noise of their codec; for
// everything else, and for regions, PNG, and JPEG where that takes too many bytes.
func encodings(t Target, photo bool) []encoding {
	var ways []encoding
	good, fair := encoding{JPEG, 90}, encoding{JPEG, 75}
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
		err = png.Encode(w, m)
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
