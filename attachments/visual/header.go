package visual

import "fmt"

// Header is what the bytes of a file say about the picture, before anything is decoded.
type Header struct {
	Format Format
	// Mode is the variant in short, for operators: "ct2/8bit+adam7", "ycc 2x2,1x1 SOF2 8bit", "pal8", "vp8+alph1+vp8x".
	Mode          string
	Width, Height int // as stored; Upright gives them as seen
	BitDepth      int
	Frames        int // pictures in the file; 1 when it is not animated
	Animated      bool
	Orientation   int // EXIF, 1 to 8
	Scans         int // of a JPEG
	// Out is what the decoded picture occupies, Transient what its decoder may need on top while it works.
	Out, Transient int64

	interlaced  bool
	alpha       bool // may hold transparent pixels
	cmyk        bool
	lossy       bool // a photo codec: when it must be encoded again, JPEG loses little
	ownDefault  bool // APNG: the default picture is not a frame of the animation
	partial     bool // the first frame covers only a part of the canvas
	framePixels int64
}

// Upright returns width and height as seen once the orientation is applied.
func (h Header) Upright() (width, height int) {
	if h.Orientation >= 5 {
		return h.Height, h.Width
	}
	return h.Width, h.Height
}

// ReadHeader recognises b, parses its headers and applies the limits. It never decodes and allocates next to nothing.
// Its errors are *Refusal.
func ReadHeader(b []byte, l Limits) (Header, error) {
	if int64(len(b)) > l.MaxBytes {
		return Header{}, refuse(TooLargeBytes,
			fmt.Sprintf("This file is %s; the limit for viewing is %s. %s", mebibytes(int64(len(b))), mebibytes(l.MaxBytes), wayOut),
			"%d bytes over %d", len(b), l.MaxBytes)
	}
	h, r := parseHeader(b)
	if r == nil {
		r = h.bound(l)
	}
	if r != nil {
		return h, r
	}
	return h, nil
}

// parseHeader parses without judging sizes; what it returns beside a Refusal is only what it had read so far.
func parseHeader(b []byte) (h Header, r *Refusal) {
	f := Sniff(b)
	switch f {
	case PNG:
		h, r = pngHeader(b)
	case JPEG:
		h, r = jpegHeader(b)
	case GIF:
		h, r = gifHeader(b)
	case WebP:
		h, r = webpHeader(b)
	default:
		r = refuseFormat(f)
	}
	h.Format = f
	return h, r
}

// bound applies the limits to a parsed header.
func (h Header) bound(l Limits) *Refusal {
	pixels := int64(h.Width) * int64(h.Height)
	size := fmt.Sprintf("This %s is %dx%d pixels", h.Format.display(), h.Width, h.Height)
	switch {
	case h.Width <= 0 || h.Height <= 0:
		return zeroSize(h.Format, h.Width, h.Height)
	case h.Width > l.MaxEdge || h.Height > l.MaxEdge:
		return refuse(EdgeTooLong, fmt.Sprintf("%s; no side may be longer than %d. %s", size, l.MaxEdge, wayOut),
			"%s %dx%d: edge over %d", h.Format, h.Width, h.Height, l.MaxEdge)
	case pixels > l.MaxPixels:
		return refuse(TooManyPixels, fmt.Sprintf("%s (%s); the limit is %.1f megapixels. %s", size,
			megapixels(h.Width, h.Height), float64(l.MaxPixels)/1e6, wayOut),
			"%s %dx%d: pixels over %d", h.Format, h.Width, h.Height, l.MaxPixels)
	case h.Out > l.MaxStorage:
		return refuseStorage(h, l)
	case h.Scans > l.MaxScans:
		return refuse(TooManyScans, fmt.Sprintf("This JPEG is built of %d passes; ordinary ones have at most 15, and the limit is %d. Post it saved again, or import it into a workspace (where one is enabled).", h.Scans, l.MaxScans),
			"jpeg: %d scans over %d", h.Scans, l.MaxScans)
	case h.framePixels > l.MaxFramePixels:
		return refuse(TooManyFrames, fmt.Sprintf("%s with %d frames, %.0f megapixels together; the limit is %.0f. Post a shorter or smaller one or a still picture of it, or import it into a workspace (where one is enabled).",
			size, h.Frames, float64(h.framePixels)/1e6, float64(l.MaxFramePixels)/1e6),
			"%s: %d frames of %d pixels over %d", h.Format, h.Frames, h.framePixels, l.MaxFramePixels)
	case h.Out+h.Transient > l.MaxWorking:
		return refuse(WorkingTooLarge, fmt.Sprintf("%s and could take up to %s to decode in this form; the limit is %s. %s",
			size, mebibytes(h.Out+h.Transient), mebibytes(l.MaxWorking), wayOut),
			"%s %s %dx%d: out %d and transient %d over %d", h.Format, h.Mode, h.Width, h.Height, h.Out, h.Transient, l.MaxWorking)
	}
	return nil
}
