package visual

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// pngChunk is one chunk of a PNG; raw is the whole of it and data its contents.
type pngChunk struct {
	kind      string
	data, raw []byte
}

// critical reports whether a decoder may not skip the chunk: by its name, or because it changes the pixels (tRNS).
func (c pngChunk) critical() bool { return c.kind[0]&0x20 == 0 || c.kind == "tRNS" }

func (c pngChunk) sumOK() bool {
	return crc32.ChecksumIEEE(c.raw[4:len(c.raw)-4]) == binary.BigEndian.Uint32(c.raw[len(c.raw)-4:])
}

// pngWalk iterates over chunks in place; nothing is allocated, however many there are.
type pngWalk struct {
	rest  []byte // what follows the chunk last returned
	short bool   // the file ended inside a chunk, or before IEND
	ended bool   // IEND was returned
}

func walkPNG(b []byte) *pngWalk { return &pngWalk{rest: b[len(pngSignature):]} }

// next returns the next chunk until IEND, which it returns as the last.
func (w *pngWalk) next() (pngChunk, bool) {
	if w.ended || w.short {
		return pngChunk{}, false
	}
	const overhead = 12
	if len(w.rest) < overhead {
		w.short = true
		return pngChunk{}, false
	}
	n := int64(binary.BigEndian.Uint32(w.rest))
	if n > int64(len(w.rest)-overhead) {
		w.short = true
		return pngChunk{}, false
	}
	c := pngChunk{kind: pngKind(w.rest[4:8]), data: w.rest[8 : 8+n], raw: w.rest[:overhead+n]}
	w.rest = w.rest[overhead+n:]
	w.ended = c.kind == "IEND"
	return c, true
}

// pngKind converts without allocating for the kinds that occur by the thousand.
func pngKind(b []byte) string {
	if string(b) == "IDAT" {
		return "IDAT"
	}
	return string(b)
}

// pngHeader checks what image/png checks outside the compressed data: order, lengths and checksums of the chunks that
// matter. Ancillary chunks may hold anything, since they are dropped before the picture is decoded or sent.
func pngHeader(b []byte) (Header, *Refusal) {
	h := Header{Frames: 1, Orientation: 1}
	var stage struct{ ihdr, plte, trns, idat, fctl bool }
	var color byte
	w := walkPNG(b)
	for c, ok := w.next(); ok; c, ok = w.next() {
		if !c.critical() {
			switch c.kind {
			case "eXIf": // before or behind the data
				if h.Orientation == 1 && c.sumOK() {
					h.Orientation = exifOrientation(c.data)
				}
			case "acTL":
				if len(c.data) == 8 && !stage.idat {
					h.Animated, h.Frames = true, int(binary.BigEndian.Uint32(c.data)&0x7fffffff)
				}
			case "fcTL":
				stage.fctl = stage.fctl || !stage.idat
			}
			continue
		}
		disorder := false
		switch c.kind {
		case "IHDR":
			disorder = stage.ihdr
			stage.ihdr = true
			if !disorder {
				if r := h.readIHDR(c.data); r != nil {
					return h, r
				}
				color = c.data[9]
			}
		case "PLTE":
			disorder = !stage.ihdr || stage.plte || stage.trns || stage.idat
			stage.plte = true
			n := len(c.data)
			if !disorder && (n%3 != 0 || n == 0 || n > 3*256 || n > 3<<h.BitDepth || color&2 == 0) {
				return h, corrupt(PNG, "palette of %d bytes", n)
			}
		case "tRNS":
			disorder = !stage.ihdr || stage.trns || stage.idat || stage.plte != (color == 3) && color != 2
			stage.trns = true
			if n := len(c.data); !disorder && !(color == 0 && n == 2 || color == 2 && n == 6 || color == 3 && n <= 256) {
				return h, corrupt(PNG, "transparency of %d bytes for color type %d", n, color)
			}
		case "IDAT":
			disorder = !stage.ihdr || color == 3 && !stage.plte
			stage.idat = true
		case "IEND":
			disorder = !stage.idat
			if len(c.data) != 0 {
				return h, corrupt(PNG, "IEND of %d bytes", len(c.data))
			}
		}
		if disorder {
			return h, corrupt(PNG, "%q out of order", c.kind)
		}
		if c.kind != "IDAT" && !c.sumOK() { // those of the data are summed while it is inflated
			return h, corrupt(PNG, "checksum of %q", c.kind)
		}
	}
	if w.short {
		return h, truncated(PNG, "no IEND within %d bytes", len(b))
	}
	h.ownDefault = h.Animated && !stage.fctl
	h.Frames = max(h.Frames, 1)
	h.pngStorage(color, stage.trns)
	return h, nil
}

// readIHDR reads dimensions and depth.
func (h *Header) readIHDR(d []byte) *Refusal {
	if len(d) != 13 {
		return corrupt(PNG, "IHDR of %d bytes", len(d))
	}
	w, hh := int64(int32(binary.BigEndian.Uint32(d))), int64(int32(binary.BigEndian.Uint32(d[4:])))
	h.Width, h.Height, h.BitDepth, h.interlaced = int(w), int(hh), int(d[8]), d[12] == 1
	h.Mode = fmt.Sprintf("ct%d/%dbit", d[9], d[8])
	if d[10] != 0 || d[11] != 0 || d[12] > 1 {
		return corrupt(PNG, "compression %d, filter %d, interlace %d", d[10], d[11], d[12])
	}
	if w <= 0 || hh <= 0 {
		return zeroSize(PNG, h.Width, h.Height)
	}
	if pngBits(d[9], d[8]) == 0 {
		return corrupt(PNG, "bit depth %d with color type %d", d[8], d[9])
	}
	return nil
}

// pngBits returns the bits per pixel, 0 for a combination that the format does not have.
func pngBits(color, depth byte) int {
	channels := [7]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
	switch depth {
	case 8:
	case 16:
		channels[3] = 0
	case 1, 2, 4:
		channels = [7]int{0: 1, 3: 1}
	default:
		return 0
	}
	if color > 6 {
		return 0
	}
	return channels[color] * int(depth)
}

// pngStorage applies the table of what image/png allocates. DecodeConfig is no help: it ignores gray with tRNS.
func (h *Header) pngStorage(color byte, trns bool) {
	perPixel := int64(4)
	switch {
	case color == 3, color == 0 && !trns:
		perPixel = 1
	}
	if h.BitDepth == 16 {
		perPixel *= 2
	}
	h.alpha = trns || color >= 4
	h.Out = perPixel * int64(h.Width) * int64(h.Height)
	h.Transient = 2*(1+(int64(pngBits(color, byte(h.BitDepth)))*int64(h.Width)+7)/8) + 64<<10
	if trns {
		h.Mode += "+tRNS"
	}
	if h.interlaced {
		h.Transient += h.Out
		h.Mode += "+adam7"
	}
}

// pngCritical returns b without what image/png may stumble over and need not see: ancillary chunks, of which it checks
// the sums, and all that follows IEND. It returns b itself where there is nothing to drop.
func pngCritical(b []byte) []byte {
	return pngKeep(b, func(c pngChunk) bool { return c.critical() })
}

// pngStrip returns what is sent: the chunks that make the pixels, and before them those few that say how the colours
// are meant, if they are sound. Text, EXIF, thumbnails, animation frames and private chunks stay behind, and so do
// unknown critical chunks, which image/png skips and other decoders refuse.
func pngStrip(b []byte) []byte {
	data := false
	return pngKeep(b, func(c pngChunk) bool {
		switch c.kind {
		case "IHDR", "PLTE", "tRNS", "IDAT", "IEND":
			data = data || c.kind == "IDAT"
			return true
		case "gAMA", "cHRM", "sRGB", "sBIT", "cICP", "iCCP":
			return !data && c.sumOK()
		}
		return false
	})
}

func pngKeep(b []byte, keep func(pngChunk) bool) []byte {
	c := newCutter(b)
	c.keep(len(pngSignature))
	w := walkPNG(b)
	for chunk, ok := w.next(); ok; chunk, ok = w.next() {
		if keep(chunk) {
			c.keep(len(chunk.raw))
		} else {
			c.drop(len(chunk.raw))
		}
	}
	if w.short { // a malformed rest is for the decoder to judge
		c.keep(len(w.rest))
	}
	return c.done()
}
