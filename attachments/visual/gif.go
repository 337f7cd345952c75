package visual

import "bytes"

// gifFile is where the first frame of a GIF stands, and what else was counted.
type gifFile struct {
	screenW, screenH int
	tableEnd         int // of header, screen descriptor and global colour table
	frameStart       int // of the image descriptor
	frameEnd         int // after the block terminator
	x, y, w, h       int
	interlaced       bool
	transparent      bool // a graphic control before the frame named a transparent index
	index            byte
	frames           int
	pixels           int64 // of all frames
}

// gifHeader reads the block structure. Up to the end of the first frame it is as strict as gif.Decode, behind it
// lenient: a broken rest neither counts nor matters, for only the first frame is shown.
func gifHeader(b []byte) (Header, *Refusal) {
	h := Header{Frames: 1, Orientation: 1, BitDepth: 8, Mode: "pal8"}
	g, r := parseGIF(b)
	h.Width, h.Height = g.screenW, g.screenH
	if r != nil {
		return h, r
	}
	h.Frames, h.Animated = g.frames, g.frames > 1
	h.framePixels, h.interlaced = g.pixels, g.interlaced
	h.alpha = g.transparent
	h.partial = g.w != g.screenW || g.h != g.screenH
	h.Out = int64(g.w) * int64(g.h)
	if g.interlaced {
		h.Transient = h.Out
		h.Mode += "+interlaced"
	}
	return h, nil
}

func parseGIF(b []byte) (g gifFile, r *Refusal) {
	if len(b) < 13 {
		return g, truncated(GIF, "%d bytes", len(b))
	}
	le := func(i int) int { return int(b[i]) | int(b[i+1])<<8 }
	g.screenW, g.screenH = le(6), le(8)
	if g.screenW == 0 || g.screenH == 0 {
		return g, zeroSize(GIF, g.screenW, g.screenH)
	}
	pos := 13
	if b[10]&0x80 != 0 {
		pos += 3 << (1 + b[10]&7)
	}
	g.tableEnd = pos
	for {
		if pos >= len(b) {
			if g.frames > 0 {
				return g, nil
			}
			return g, truncated(GIF, "no frame within %d bytes", len(b))
		}
		var next int
		var cause string
		switch b[pos] {
		case 0x21:
			next, cause = g.extension(b, pos)
		case 0x2c:
			next, cause = g.image(b, pos)
		case 0x3b:
			if g.frames == 0 {
				return g, corrupt(GIF, "no frame")
			}
			return g, nil
		default:
			next, cause = 0, "unknown block"
		}
		switch {
		case cause == "" && next > 0:
			pos = next
		case g.frames > 0:
			return g, nil
		case g.frameStart > 0 && (g.w == 0 || g.h == 0):
			return g, zeroSize(GIF, g.w, g.h)
		case cause != "":
			return g, corrupt(GIF, "%s at %d", cause, pos)
		default:
			return g, truncated(GIF, "block at %d", pos)
		}
	}
}

// extension returns the end of the extension at pos, 0 where the file ends before it, or a cause.
func (g *gifFile) extension(b []byte, pos int) (int, string) {
	if pos+3 > len(b) {
		return 0, ""
	}
	data := pos + 2
	switch b[pos+1] {
	case 0xf9:
		if pos+8 > len(b) {
			return 0, ""
		}
		if b[pos+2] != 4 || b[pos+7] != 0 {
			return 0, "graphic control of another size"
		}
		if g.frames == 0 {
			// gif.Decode never takes a transparent index back, so a second control does not either.
			if b[pos+3]&1 != 0 {
				g.transparent, g.index = true, b[pos+6]
			}
		}
		return pos + 8, ""
	case 0x01:
		data += 13
	case 0xff:
		data += 1 + int(b[data])
	case 0xfe:
	default:
		return 0, "unknown extension"
	}
	return gifBlocks(b, data), ""
}

// image returns the end of the frame at pos, 0 where the file ends before it, or a cause.
func (g *gifFile) image(b []byte, pos int) (int, string) {
	if pos+10 > len(b) {
		return 0, ""
	}
	le := func(i int) int { return int(b[i]) | int(b[i+1])<<8 }
	x, y, w, h := le(pos+1), le(pos+3), le(pos+5), le(pos+7)
	first := g.frames == 0
	if first {
		g.frameStart, g.x, g.y, g.w, g.h = pos, x, y, w, h
		g.interlaced = b[pos+9]&0x40 != 0
	}
	if w == 0 || h == 0 { // gif.Decode accepts a frame without pixels
		return 0, "frame without pixels"
	}
	if x+w > g.screenW || y+h > g.screenH {
		return 0, "frame outside of the screen"
	}
	data := pos + 10
	if b[pos+9]&0x80 != 0 {
		data += 3 << (1 + b[pos+9]&7)
	} else if first && b[10]&0x80 == 0 {
		return 0, "no colour table"
	}
	if data >= len(b) {
		return 0, ""
	}
	if size := b[data]; size < 2 || size > 8 {
		return 0, "code size out of range"
	}
	end := gifBlocks(b, data+1)
	if end == 0 && !first {
		return 0, ""
	}
	if end > 0 {
		g.frames++
		g.pixels += int64(w) * int64(h)
		if first {
			g.frameEnd = end
		}
	}
	return end, ""
}

// gifBlocks returns the position after the sub-blocks that begin at pos, 0 where the file ends before.
func gifBlocks(b []byte, pos int) int {
	for pos < len(b) {
		n := int(b[pos])
		pos += 1 + n
		if n == 0 {
			return pos
		}
	}
	return 0
}

// gifStrip keeps the first frame with its tables: comments, application data and the other frames go. One graphic
// control is kept or made, with the transparent index that gif.Decode would end up with.
func gifStrip(b []byte) []byte {
	g, r := parseGIF(b)
	if r != nil {
		return b
	}
	c := newCutter(b)
	c.keep(g.tableEnd)
	between := b[g.tableEnd:g.frameStart]
	var control []byte
	if g.transparent {
		control = []byte{0x21, 0xf9, 4, 1, 0, 0, g.index, 0}
	}
	if bytes.Equal(between, control) {
		c.keep(len(between))
	} else {
		c.replace(len(between), control)
	}
	c.keep(g.frameEnd - g.frameStart)
	if rest := b[g.frameEnd:]; len(rest) > 0 && rest[0] == 0x3b {
		c.keep(1)
	} else {
		c.replace(0, []byte{0x3b})
	}
	return c.done()
}
