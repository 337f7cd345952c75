package visual

import "time"

// Limits bound what is decoded. A zero field admits nothing: start from DefaultLimits.
type Limits struct {
	MaxBytes  int64 // length of the encoded file
	MaxPixels int64 // width times height
	MaxEdge   int   // width, and height
	// MaxStorage bounds the decoded picture as the decoder really allocates it (padding and alpha included).
	MaxStorage int64
	// MaxWorking bounds the decoded picture together with what its decoder needs on top while it works.
	MaxWorking int64
	// MaxScans bounds the scans of a JPEG: each may cost a pass over all its pixels and only 57 bytes of file.
	MaxScans int
	// MaxFramePixels bounds the pixels of all the frames of a GIF together.
	MaxFramePixels int64
	// Deadline bounds one stay in the decoding slot; waiting for the slot does not count.
	Deadline time.Duration
}

// DefaultLimits returns the limits of the design.
//
// "32 megapixels" is 32 Mi pixels, not 32 million: it is then exactly what 32 MiB of storage hold at one byte a pixel
// (a gray or palette PNG of 8192x4096), so no picture that storage admits is refused for its pixels.
//
// MaxWorking leaves 205 MiB, which VP8L Huffman tables may take, beside a 4K picture with its alpha.
func DefaultLimits() Limits {
	return Limits{
		MaxBytes:       8 << 20,
		MaxPixels:      32 << 20,
		MaxEdge:        16384,
		MaxStorage:     32 << 20,
		MaxWorking:     288 << 20,
		MaxScans:       100,
		MaxFramePixels: 128e6,
		Deadline:       10 * time.Second,
	}
}
