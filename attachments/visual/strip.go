package visual

// StripMetadata returns the same picture without what is not the picture: EXIF with its places and times, XMP, text,
// thumbnails, later frames and trailing bytes. No pixel goes through an encoder. Where nothing is to be stripped it
// returns b itself. It does not turn the picture upright: with EXIF its orientation goes, which Rebuild applies first.
// Its errors are *Refusal; it judges headers, not pixels and not sizes.
func StripMetadata(b []byte) ([]byte, error) {
	h, r := parseHeader(b)
	if r != nil {
		return nil, r
	}
	return strip(h, b), nil
}

// strip strips a file whose header was accepted.
func strip(h Header, b []byte) []byte {
	switch h.Format {
	case PNG:
		return pngStrip(b)
	case JPEG:
		return jpegStrip(b)
	case GIF:
		return gifStrip(b)
	case WebP:
		return webpStrip(b)
	}
	return b
}

// cutter copies kept runs of src, and copies nothing as long as all is kept.
type cutter struct {
	src    []byte
	pos    int    // of src
	out    []byte // nil as long as what is kept is src[:pos]
	copied bool
}

func newCutter(b []byte) *cutter { return &cutter{src: b} }

// keep keeps the next n bytes.
func (c *cutter) keep(n int) {
	if c.copied {
		c.out = append(c.out, c.src[c.pos:c.pos+n]...)
	}
	c.pos += n
}

// drop drops the next n bytes.
func (c *cutter) drop(n int) { c.replace(n, nil) }

// replace puts with in the place of the next n bytes.
func (c *cutter) replace(n int, with []byte) {
	if n == 0 && len(with) == 0 {
		return
	}
	if !c.copied {
		c.copied = true
		c.out = append(make([]byte, 0, len(c.src)-n+len(with)), c.src[:c.pos]...)
	}
	c.out = append(c.out, with...)
	c.pos += n
}

// done drops what is left and returns what was kept: src itself if that was all of it.
func (c *cutter) done() []byte {
	if c.copied {
		return c.out
	}
	return c.src[:c.pos:c.pos]
}

// same reports whether a and b are one slice, that is, nothing was copied or cut.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
