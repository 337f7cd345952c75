package document

import "time"

// Limits bound what is read out of a document. A zero field admits nothing: start from DefaultLimits.
type Limits struct {
	MaxBytes int64 // length of the file
	MaxText  int   // bytes of text that one call returns
	// MaxLine is the length at which a line is broken; each part counts as a line, so that nothing of a file without line
	// ends is out of reach.
	MaxLine int
	// MaxInflated bounds what all the entries of an archive that one call reads inflate to, MaxRatio a single entry of
	// more than a mebibyte against its packed size, and MaxEntries the entries that an archive may list.
	MaxInflated int64
	MaxRatio    int64
	MaxEntries  int
	// MaxDepth and MaxTokens bound the nesting and the number of elements and texts of XML, HTML and RTF.
	MaxDepth  int
	MaxTokens int
	// MaxToken bounds one text or one tag of XML, and a chapter of a book, which their parsers hold whole.
	MaxToken int
	// MaxStrings bounds the shared texts of a spreadsheet, which are held while a sheet is read.
	MaxStrings int64
	// MaxPDFMemory bounds the memory of the PDF engine, MaxPages the pages that a document may have.
	MaxPDFMemory int64
	MaxPages     int
	// MaxPixels, MaxEdge and MaxStorage bound a rendered page: those of attachments/visual for a decoded picture.
	MaxPixels  int64
	MaxEdge    int
	MaxStorage int64
	// Deadline bounds one stay in the reading slot; waiting for the slot and for the engine to start does not count.
	Deadline time.Duration
}

// DefaultLimits returns the limits of the design. Real office files inflate by a factor of 4 to 60; DEFLATE can reach
// 1032, so 300 tells a bomb from a long table. 128 MiB are what a spreadsheet of 10 MiB holds.
func DefaultLimits() Limits {
	return Limits{
		MaxBytes:     10 << 20,
		MaxText:      32 << 10,
		MaxLine:      4000,
		MaxInflated:  128 << 20,
		MaxRatio:     300,
		MaxEntries:   10_000,
		MaxDepth:     256,
		MaxTokens:    20_000_000,
		MaxToken:     8 << 20,
		MaxStrings:   64 << 20,
		MaxPDFMemory: 256 << 20,
		MaxPages:     20_000,
		MaxPixels:    32 << 20,
		MaxEdge:      16384,
		MaxStorage:   32 << 20,
		Deadline:     20 * time.Second,
	}
}
