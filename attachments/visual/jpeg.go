package visual

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	jpegSOI   = 0xd8
	jpegEOI   = 0xd9
	jpegSOS   = 0xda
	jpegRST0  = 0xd0
	jpegRST7  = 0xd7
	jpegDHT   = 0xc4
	jpegDQT   = 0xdb
	jpegDRI   = 0xdd
	jpegCOM   = 0xfe
	jpegAPP0  = 0xe0
	jpegAPP1  = 0xe1
	jpegAPP2  = 0xe2
	jpegAPP14 = 0xee
	jpegAPP15 = 0xef
)

// jpegSegment is one marker segment. For a scan, end is where the next marker begins: its data is inside.
type jpegSegment struct {
	marker     byte
	start, end int    // of the whole segment in the file, fill bytes before the marker excluded
	payload    []byte // after the length
}

// jpegWalk iterates over the segments as image/jpeg meets them: it skips what is no marker, and inside entropy-coded
// data stuffed zeros and restart markers.
type jpegWalk struct {
	b   []byte
	pos int
	err *Refusal
}

func walkJPEG(b []byte) *jpegWalk { return &jpegWalk{b: b, pos: 2} }

// marker returns the position of the next marker at or after i, or -1.
func (w *jpegWalk) marker(i int) int {
	for {
		n := bytes.IndexByte(w.b[min(i, len(w.b)):], 0xff)
		if n < 0 {
			return -1
		}
		i += n
		if i+1 >= len(w.b) {
			return -1
		}
		switch m := w.b[i+1]; {
		case m == 0xff: // fill
			i++
		case m == 0, jpegRST0 <= m && m <= jpegRST7:
			i += 2
		default:
			return i
		}
	}
}

// next returns the next segment; the last is EOI. Where the file ends early it returns false with err set.
func (w *jpegWalk) next() (jpegSegment, bool) {
	start := w.marker(w.pos)
	if start < 0 {
		w.err = truncated(JPEG, "no EOI within %d bytes", len(w.b))
		return jpegSegment{}, false
	}
	s := jpegSegment{marker: w.b[start+1], start: start, end: start + 2}
	if s.marker == jpegEOI {
		w.pos = s.end
		return s, true
	}
	if start+4 > len(w.b) {
		w.err = truncated(JPEG, "segment %#x without length", s.marker)
		return jpegSegment{}, false
	}
	n := int(w.b[start+2])<<8 | int(w.b[start+3])
	if n < 2 {
		w.err = corrupt(JPEG, "segment %#x of length %d", s.marker, n)
		return jpegSegment{}, false
	}
	s.end = start + 2 + n
	if s.end > len(w.b) {
		w.err = truncated(JPEG, "segment %#x of length %d", s.marker, n)
		return jpegSegment{}, false
	}
	s.payload = w.b[start+4 : s.end]
	if s.marker == jpegSOS {
		if s.end = w.marker(s.end); s.end < 0 {
			w.err = truncated(JPEG, "scan without a marker after it")
			return jpegSegment{}, false
		}
	}
	w.pos = s.end
	return s, true
}

type jpegComponent struct{ id, h, v byte }

// jpegFrame is what decides about storage and colours.
type jpegFrame struct {
	comps       []jpegComponent
	sof         byte
	jfif        bool // the last APP0 that image/jpeg looks at is a JFIF one
	adobe       bool
	transform   byte
	orientation int
	scans       int
}

// jpegHeader reads all segments: scans are counted, and markers that decide about colours may stand anywhere.
func jpegHeader(b []byte) (Header, *Refusal) {
	h := Header{Frames: 1, Orientation: 1, lossy: true}
	f := jpegFrame{}
	w := walkJPEG(b)
	for s, ok := w.next(); ok && s.marker != jpegEOI; s, ok = w.next() {
		if r := f.read(&h, s); r != nil {
			return h, r
		}
	}
	h.Scans = f.scans
	if w.err != nil {
		return h, w.err
	}
	if f.sof == 0 || f.scans == 0 {
		return h, corrupt(JPEG, "no picture: %d components in %d scans", len(f.comps), f.scans)
	}
	if f.orientation != 0 {
		h.Orientation = f.orientation
	}
	return h, f.storage(&h)
}

// read takes what matters from one segment.
func (f *jpegFrame) read(h *Header, s jpegSegment) *Refusal {
	switch m := s.marker; {
	case m == 0xc0, m == 0xc1, m == 0xc2:
		if f.sof != 0 {
			return corrupt(JPEG, "two frames")
		}
		return f.readSOF(h, m, s.payload)
	case m == jpegDHT, m == jpegDQT, m == jpegDRI, m == jpegCOM:
	case m == jpegSOS:
		if f.sof == 0 {
			return corrupt(JPEG, "scan before the frame")
		}
		f.scans++
	case m == jpegAPP0:
		if len(s.payload) >= 5 {
			f.jfif = bytes.HasPrefix(s.payload, []byte("JFIF\x00"))
		}
	case m == jpegAPP1:
		if f.orientation == 0 && bytes.HasPrefix(s.payload, exifPrefix) {
			f.orientation = exifOrientation(s.payload)
		}
	case m == jpegAPP14:
		if isAdobe(s.payload) {
			f.adobe, f.transform = true, s.payload[11]
		}
	case jpegAPP0 < m && m <= jpegAPP15:
	case m == 0xc3, m == 0xc7, m == 0xcb, m == 0xcf:
		return unsupported(JPEG, "it is a lossless JPEG")
	case m >= 0xc9 && m <= 0xce:
		return unsupported(JPEG, "it uses arithmetic coding")
	case m == 0xc5, m == 0xc6:
		return unsupported(JPEG, "it is a hierarchical JPEG")
	case m < 0xc0:
		return corrupt(JPEG, "unknown marker %#x", m)
	default:
		return unsupported(JPEG, fmt.Sprintf("it uses marker %#x", m))
	}
	return nil
}

// isAdobe reports whether an APP14 segment is the one that tells colours, at the length from which image/jpeg reads it.
func isAdobe(payload []byte) bool {
	return len(payload) >= 12 && bytes.HasPrefix(payload, []byte("Adobe"))
}

// readSOF accepts the frames that image/jpeg accepts.
func (f *jpegFrame) readSOF(h *Header, marker byte, p []byte) *Refusal {
	f.sof = marker
	if len(p) < 6 || len(p) != 6+3*int(p[5]) {
		return corrupt(JPEG, "frame header of %d bytes", len(p))
	}
	h.BitDepth = int(p[0])
	h.Height, h.Width = int(p[1])<<8|int(p[2]), int(p[3])<<8|int(p[4])
	if n := p[5]; n != 1 && n != 3 && n != 4 {
		return unsupported(JPEG, fmt.Sprintf("it has %d colour channels", n))
	}
	if p[0] != 8 {
		return unsupported(JPEG, fmt.Sprintf("it has %d bits per channel instead of 8", p[0]))
	}
	if h.Width == 0 || h.Height == 0 { // image/jpeg accepts a height of zero
		return zeroSize(JPEG, h.Width, h.Height)
	}
	for i := range int(p[5]) {
		c := jpegComponent{id: p[6+3*i], h: p[7+3*i] >> 4, v: p[7+3*i] & 15}
		for _, o := range f.comps {
			if o.id == c.id {
				return corrupt(JPEG, "two components named %d", c.id)
			}
		}
		if p[8+3*i] > 3 || c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 {
			return corrupt(JPEG, "component %d: sampled %dx%d, table %d", i, c.h, c.v, p[8+3*i])
		}
		f.comps = append(f.comps, c)
	}
	if !f.sampled() {
		return unsupported(JPEG, "its colours are sampled in an unusual way ("+f.sampling()+")")
	}
	return nil
}

// sampled tells whether image/jpeg decodes this combination of sampling factors.
func (f *jpegFrame) sampled() bool {
	c := f.comps
	for _, o := range c {
		if o.h == 3 || o.v == 3 {
			return false
		}
	}
	switch len(c) {
	case 3:
		return c[0].v != 4 && c[0].h%c[1].h == 0 && c[0].v%c[1].v == 0 && c[2].h == c[1].h && c[2].v == c[1].v
	case 4:
		one, two := jpegComponent{h: 1, v: 1}, jpegComponent{h: 2, v: 2}
		is := func(a, b jpegComponent) bool { return a.h == b.h && a.v == b.v }
		return (is(c[0], one) || is(c[0], two)) && is(c[1], one) && is(c[2], one) && is(c[3], c[0])
	}
	return true
}

// sampling writes the factors as "2x2,1x1": luma, chroma.
func (f *jpegFrame) sampling() string {
	var s []string
	for i, c := range f.comps[:min(2, len(f.comps))] {
		if i == 0 || len(f.comps) == 3 {
			s = append(s, fmt.Sprintf("%dx%d", c.h, c.v))
		}
	}
	return strings.Join(s, ",")
}

// rgb tells whether image/jpeg takes three components as RGB rather than YCbCr.
func (f *jpegFrame) rgb() bool {
	c := f.comps
	return len(c) == 3 && !f.jfif &&
		(f.adobe && f.transform == 0 || c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B')
}

// storage applies the table of what image/jpeg allocates: planes padded to whole MCUs, the coefficients of a
// progressive picture, and a second picture where colours are converted.
func (f *jpegFrame) storage(h *Header) *Refusal {
	c := f.comps
	planes, color := int64(0), "ycc "+f.sampling()
	if len(c) == 1 {
		planes, color = 64*ceil(h.Width, 8)*ceil(h.Height, 8), "gray"
	} else {
		mcus := ceil(h.Width, 8*int(c[0].h)) * ceil(h.Height, 8*int(c[0].v))
		for _, o := range c {
			planes += 64 * int64(o.h) * int64(o.v) * mcus
		}
	}
	h.Out = planes
	switch {
	case len(c) == 4 && !f.adobe:
		return unsupported(JPEG, "it has four colour channels (CMYK) and nothing in it says how to read them")
	case len(c) == 4:
		h.cmyk, color = true, fmt.Sprintf("cmyk(adobe %d) %s", f.transform, f.sampling())
	case f.rgb():
		color = "rgb " + f.sampling()
	}
	if len(c) == 4 || f.rgb() {
		h.Out, h.Transient = 4*int64(h.Width)*int64(h.Height), planes
	}
	if f.sof == 0xc2 {
		h.Transient += 4 * planes
		h.interlaced = true
	}
	h.Mode = fmt.Sprintf("%s SOF%d %dbit", color, f.sof&15, h.BitDepth)
	return nil
}

func ceil(n, unit int) int64 { return int64((n + unit - 1) / unit) }
