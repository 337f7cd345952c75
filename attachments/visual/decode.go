package visual

import (
	"errors"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/webp"
)

const (
	// jpegRead is the most that image/jpeg gets at once: some hundred bytes may cost a pass over all pixels.
	jpegRead = 512
	// jpegBombRead is the same for a file with more scans than real ones have, about one of the shortest scans.
	jpegBombRead, jpegRealScans = 64, 15
	// anyRead equals the buffers that the other decoders put before a reader. For PNG it must not be less, since the
	// read-ahead of that buffer decides which trailing bytes are accepted.
	anyRead = 4096
)

// stopReader hands out bytes in small pieces and asks before each whether to go on.
type stopReader struct {
	b    []byte
	max  int
	stop *stop
}

func (r *stopReader) Read(p []byte) (int, error) {
	if err := r.stop.check(); err != nil {
		return 0, err
	}
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.max)], r.b)
	r.b = r.b[n:]
	return n, nil
}

// validate decides whether the whole picture decodes. The header was accepted.
func validate(s *stop, b []byte, h Header) error {
	if h.Format == PNG {
		return decodeFailure(PNG, validatePNG(s, b, h))
	}
	_, _, err := decode(s, b, h)
	return err
}

// decode decodes the first picture of an accepted file, each format by its own decoder, and tells where on the canvas
// the picture begins.
func decode(s *stop, b []byte, h Header) (img image.Image, at image.Point, err error) {
	switch h.Format {
	case PNG:
		img, err = png.Decode(&stopReader{pngCritical(b), anyRead, s})
	case JPEG:
		piece := jpegRead
		if h.Scans > jpegRealScans {
			piece = jpegBombRead
		}
		img, err = jpeg.Decode(&stopReader{b, piece, s})
	case GIF:
		if img, err = gif.Decode(&stopReader{b, anyRead, s}); err == nil {
			at = img.Bounds().Min
		}
	case WebP:
		img, at, err = decodeWebP(s, b)
	default:
		return nil, at, refuseFormat(h.Format)
	}
	return img, at, decodeFailure(h.Format, err)
}

func decodeWebP(s *stop, b []byte) (image.Image, image.Point, error) {
	f, r := parseWebP(b)
	if r != nil {
		return nil, image.Point{}, r
	}
	if f.animated { // x/image/webp refuses all of these
		b = f.still()
	}
	img, err := webp.Decode(&stopReader{b, anyRead, s})
	return img, image.Pt(f.x, f.y), err
}

// decodeFailure turns what a decoder reports into a Refusal.
func decodeFailure(f Format, err error) error {
	if err == nil {
		return nil
	}
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return r
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, errPNGData) {
		return truncated(f, "%v", err)
	}
	for _, early := range []string{"unexpected EOF", "not enough", "short Huffman data"} {
		if strings.Contains(err.Error(), early) {
			return truncated(f, "%v", err)
		}
	}
	if errors.As(err, new(jpeg.UnsupportedError)) {
		return unsupported(f, err.Error())
	}
	return corrupt(f, "%v", err)
}
