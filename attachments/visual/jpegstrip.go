package visual

import "bytes"

var iccPrefix = []byte("ICC_PROFILE\x00")

// jpegStrip drops every APPn but JFIF, ICC and Adobe, comments, what stands between segments and what follows EOI.
// Thumbnails inside JFIF and anything behind the Adobe fields go as well.
func jpegStrip(b []byte) []byte {
	jfif := lastIsJFIF(b)
	c := newCutter(b)
	c.keep(2)
	w := walkJPEG(b)
	for s, ok := w.next(); ok; s, ok = w.next() {
		c.drop(s.start - c.pos) // fill bytes, or garbage
		with, keep := jpegKeep(s, jfif)
		switch {
		case !keep:
			c.drop(s.end - s.start)
		case with != nil:
			c.replace(s.end-s.start, with)
		default:
			c.keep(s.end - s.start)
		}
		if s.marker == jpegEOI {
			break
		}
	}
	return c.done()
}

// lastIsJFIF tells whether the decoder ends up taking the file for a JFIF one. It goes by the last APP0, so where that
// is another kind (JFXX, a camera's own), the JFIF ones go with it: keeping them would change the colours.
func lastIsJFIF(b []byte) bool {
	f, h := jpegFrame{}, Header{}
	w := walkJPEG(b)
	for s, ok := w.next(); ok && s.marker != jpegEOI; s, ok = w.next() {
		if s.marker == jpegAPP0 {
			_ = f.read(&h, s) // an APP0 is never refused
		}
	}
	return f.jfif
}

// jpegKeep tells whether a segment stays, and what to put in its place where it stays in part.
func jpegKeep(s jpegSegment, jfif bool) (with []byte, keep bool) {
	const jfifLen, adobeLen = 14, 12
	switch m := s.marker; {
	case m == jpegCOM:
		return nil, false
	case m == jpegAPP0:
		if !jfif || !bytes.HasPrefix(s.payload, []byte("JFIF\x00")) {
			return nil, false
		}
		if len(s.payload) > jfifLen {
			with = append([]byte{0xff, m, 0, jfifLen + 2}, s.payload[:jfifLen]...)
			with[4+12], with[4+13] = 0, 0 // the thumbnail's size
		}
		return with, true
	case m == jpegAPP2:
		return nil, bytes.HasPrefix(s.payload, iccPrefix)
	case m == jpegAPP14:
		if !isAdobe(s.payload) {
			return nil, false
		}
		if len(s.payload) > adobeLen {
			with = append([]byte{0xff, m, 0, adobeLen + 2}, s.payload[:adobeLen]...)
		}
		return with, true
	case jpegAPP0 <= m && m <= jpegAPP15:
		return nil, false
	}
	return nil, true
}
