package visual

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// vp8lTables is what the Huffman tables of a lossless picture may take whatever its size: a valid one of 208x200 pixels
// allocates this much.
const vp8lTables = 205 << 20

const (
	webpAnimation = 1 << 1
	webpXMP       = 1 << 2
	webpEXIF      = 1 << 3
	webpAlpha     = 1 << 4
	webpICC       = 1 << 5
)

// webpFile is the parts of a WebP that make its first picture.
type webpFile struct {
	vp8x        []byte // contents; nil in the simple layouts
	w, h        int    // of the canvas
	icc         []byte // contents of ICCP, before the picture
	alph        []byte
	kind        string // "VP8 " or "VP8L"
	data        []byte // contents of that chunk
	animated    bool   // the picture is the first ANMF frame
	frames      int
	x, y        int // of the frame on the canvas
	fw, fh      int // of the frame
	orientation int
}

// webpWalk iterates over RIFF chunks in place.
type webpWalk struct {
	rest []byte
	err  *Refusal // what stopped it, when it was not the end
}

func (w *webpWalk) next() (kind string, data []byte, ok bool) {
	const head = 8
	if len(w.rest) == 0 {
		return "", nil, false
	}
	if len(w.rest) < head {
		w.err = truncated(WebP, "%d bytes for a chunk header", len(w.rest))
		return "", nil, false
	}
	n := int64(binary.LittleEndian.Uint32(w.rest[4:]))
	if n > int64(len(w.rest)-head) {
		w.err = truncated(WebP, "chunk of %d bytes in %d", n, len(w.rest)-head)
		return "", nil, false
	}
	kind, data = string(w.rest[:4]), w.rest[head:head+n]
	w.rest = w.rest[min(head+n+n&1, int64(len(w.rest))):]
	return kind, data, true
}

// parseWebP reads the chunks: up to the picture as strictly as x/image/webp, behind it for EXIF and further frames
// only. Every length must fit the file, because the decoder allocates what a length claims.
func parseWebP(b []byte) (f webpFile, r *Refusal) {
	f.orientation = 1
	n := int64(binary.LittleEndian.Uint32(b[4:])) + 8
	if n < 12 || n > int64(len(b)) {
		return f, truncated(WebP, "RIFF of %d bytes in %d", n, len(b))
	}
	w := &webpWalk{rest: b[12:n]}
	for kind, data, ok := w.next(); ok; kind, data, ok = w.next() {
		switch {
		case kind == "EXIF":
			f.orientation = exifOrientation(data)
		case kind == "ANMF" && (f.kind == "" || f.animated):
			f.frames++
			if f.kind == "" {
				if r := f.readFrame(data); r != nil {
					return f, r
				}
			}
		case f.kind != "":
		case kind == "VP8X":
			if f.vp8x != nil || len(data) != 10 {
				return f, corrupt(WebP, "VP8X of %d bytes", len(data))
			}
			f.vp8x, f.w, f.h = data, 1+le24(data[4:]), 1+le24(data[7:])
		case kind == "ICCP" && f.vp8x != nil && f.icc == nil:
			f.icc = data
		case kind == "ALPH":
			if f.vp8x == nil || f.vp8x[0]&webpAlpha == 0 || f.alph != nil {
				return f, corrupt(WebP, "ALPH without VP8X")
			}
			if f.alph, r = data, checkALPH(data); r != nil {
				return f, r
			}
		case kind == "VP8 ", kind == "VP8L":
			f.frames = 1
			if r := f.readStill(kind, data); r != nil {
				return f, r
			}
		}
	}
	if f.kind != "" {
		return f, nil
	}
	if w.err != nil {
		return f, w.err
	}
	return f, corrupt(WebP, "no picture")
}

// readStill takes a top-level picture.
func (f *webpFile) readStill(kind string, data []byte) *Refusal {
	w, h, r := webpSize(kind, data)
	if r != nil {
		return r
	}
	if f.vp8x == nil {
		f.w, f.h = w, h
	}
	switch {
	case w != f.w || h != f.h:
		return corrupt(WebP, "picture of %dx%d on a canvas of %dx%d", w, h, f.w, f.h)
	case kind == "VP8L" && f.alph != nil:
		return corrupt(WebP, "ALPH beside VP8L")
	case kind == "VP8 " && f.vp8x != nil && f.vp8x[0]&webpAlpha != 0 && f.alph == nil:
		return corrupt(WebP, "alpha announced and absent")
	}
	f.kind, f.data, f.fw, f.fh = kind, data, w, h
	return nil
}

// readFrame takes the first ANMF, whose parts make a still WebP.
func (f *webpFile) readFrame(data []byte) *Refusal {
	const head = 16
	if f.vp8x == nil || len(data) < head {
		return corrupt(WebP, "ANMF of %d bytes", len(data))
	}
	f.animated, f.alph = true, nil
	f.x, f.y, f.fw, f.fh = 2*le24(data), 2*le24(data[3:]), 1+le24(data[6:]), 1+le24(data[9:])
	if f.x+f.fw > f.w || f.y+f.fh > f.h {
		return corrupt(WebP, "frame outside of the canvas")
	}
	w := &webpWalk{rest: data[head:]}
	for kind, data, ok := w.next(); ok; kind, data, ok = w.next() {
		switch kind {
		case "ALPH":
			f.alph = data
			if r := checkALPH(data); r != nil {
				return r
			}
		case "VP8 ", "VP8L":
			w, h, r := webpSize(kind, data)
			if r != nil {
				return r
			}
			if w != f.fw || h != f.fh || kind == "VP8L" && f.alph != nil {
				return corrupt(WebP, "frame of %dx%d holds a picture of %dx%d", f.fw, f.fh, w, h)
			}
			f.kind, f.data = kind, data
			return nil
		}
	}
	if w.err != nil {
		return w.err
	}
	return corrupt(WebP, "frame without a picture")
}

func checkALPH(data []byte) *Refusal {
	if len(data) == 0 || data[0]&3 > 1 {
		return corrupt(WebP, "ALPH of %d bytes", len(data))
	}
	return nil
}

// webpSize reads the dimensions from a VP8 or VP8L bitstream.
func webpSize(kind string, d []byte) (w, h int, r *Refusal) {
	if kind == "VP8L" {
		if len(d) < 5 {
			return 0, 0, truncated(WebP, "VP8L of %d bytes", len(d))
		}
		v := binary.LittleEndian.Uint32(d[1:])
		if d[0] != 0x2f || v>>29 != 0 {
			return 0, 0, corrupt(WebP, "VP8L signature")
		}
		return 1 + int(v&0x3fff), 1 + int(v>>14&0x3fff), nil
	}
	if len(d) < 10 {
		return 0, 0, truncated(WebP, "VP8 of %d bytes", len(d))
	}
	if d[0]&1 != 0 || !bytes.Equal(d[3:6], []byte{0x9d, 0x01, 0x2a}) {
		return 0, 0, corrupt(WebP, "VP8 without a key frame")
	}
	w, h = int(binary.LittleEndian.Uint16(d[6:])&0x3fff), int(binary.LittleEndian.Uint16(d[8:])&0x3fff)
	if w == 0 || h == 0 {
		return 0, 0, zeroSize(WebP, w, h)
	}
	return w, h, nil
}

// webpHeader applies the table of what x/image/webp allocates.
func webpHeader(b []byte) (Header, *Refusal) {
	f, r := parseWebP(b)
	h := Header{Width: f.w, Height: f.h, BitDepth: 8, Frames: max(f.frames, 1), Animated: f.animated, Orientation: f.orientation}
	h.Mode = f.mode()
	if r != nil {
		return h, r
	}
	pixels := int64(f.fw) * int64(f.fh)
	h.partial = f.fw != f.w || f.fh != f.h
	h.lossy = f.kind == "VP8 "
	h.alpha = f.kind == "VP8L" || f.alph != nil
	if f.kind == "VP8L" {
		h.Out, h.Transient = 4*pixels, 3*pixels+vp8lTables
		return h, nil
	}
	blocks := ceil(f.fw, 16) * ceil(f.fh, 16)
	h.Out, h.Transient = 384*blocks, 4*blocks+int64(len(f.data))
	if f.alph != nil {
		h.Out += pixels
		h.Transient += int64(len(f.alph))
		if f.alph[0]&3 == 1 {
			h.Transient += 4*pixels + 3*pixels + vp8lTables
		}
	}
	return h, nil
}

func (f *webpFile) mode() string {
	m := map[string]string{"VP8 ": "vp8", "VP8L": "vp8l"}[f.kind]
	if len(f.alph) > 0 {
		m += fmt.Sprintf("+alph%d", f.alph[0]&3)
	}
	if f.vp8x != nil {
		m += "+vp8x"
	}
	if f.animated {
		m += "+anim"
	}
	return m
}

func le24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// still assembles the picture as a WebP of its own: the same pixels, and of the rest only the colour profile.
func (f *webpFile) still() []byte {
	out := make([]byte, 12, 12+4*8+10+len(f.icc)+len(f.alph)+len(f.data)+4)
	copy(out, "RIFF\x00\x00\x00\x00WEBP")
	if f.vp8x != nil && !f.animated || f.alph != nil || f.icc != nil {
		x := make([]byte, 10)
		if f.vp8x != nil && !f.animated {
			x[0] = f.vp8x[0] & webpAlpha
		}
		if f.alph != nil || f.animated && f.kind == "VP8L" {
			x[0] |= webpAlpha
		}
		if f.icc != nil {
			x[0] |= webpICC
		}
		put24(x[4:], f.fw-1)
		put24(x[7:], f.fh-1)
		out = appendChunk(out, "VP8X", x)
	}
	if f.icc != nil {
		out = appendChunk(out, "ICCP", f.icc)
	}
	if f.alph != nil {
		out = appendChunk(out, "ALPH", f.alph)
	}
	out = appendChunk(out, f.kind, f.data)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

func put24(b []byte, n int) { b[0], b[1], b[2] = byte(n), byte(n>>8), byte(n>>16) }

func appendChunk(out []byte, kind string, data []byte) []byte {
	out = append(out, kind...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(data)))
	out = append(out, data...)
	if len(data)&1 == 1 {
		out = append(out, 0)
	}
	return out
}

// webpStrip keeps the first picture and its colour profile: EXIF, XMP, unknown chunks, later frames and trailing bytes
// go. A first frame is put into a file of its own; where it covers only a part of the canvas that shows the part alone,
// which is why Rebuild encodes such a one instead.
func webpStrip(b []byte) []byte {
	f, r := parseWebP(b)
	if r != nil {
		return b
	}
	if out := f.still(); !bytes.Equal(out, b) {
		return out
	}
	return b
}
