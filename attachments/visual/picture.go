package visual

import (
	"errors"
	"fmt"
	"log/slog"
)

// Region is a part of the upright picture, in its native pixels.
type Region struct{ X, Y, Width, Height int }

func (r Region) String() string { return fmt.Sprintf("%d,%d,%d,%d", r.X, r.Y, r.Width, r.Height) }

// Target is what a model takes. A zero field is no limit; no Formats means all the native ones.
type Target struct {
	Formats   []Format
	MaxEdge   int
	MaxPixels int64
	MaxBytes  int64
	// MinEdge is the shortest side that the model reads; a smaller picture is refused, never enlarged.
	MinEdge int
}

func (t Target) takes(f Format) bool {
	for _, g := range t.Formats {
		if f == g {
			return true
		}
	}
	return len(t.Formats) == 0 && f.Native()
}

// Picture is a rebuilt visual input. It holds pixels: it formats, logs and refuses to marshal without them.
type Picture struct {
	MIME                      string
	Bytes                     []byte
	Width, Height             int      // of what is sent
	NativeWidth, NativeHeight int      // of the posted picture, upright
	Notes                     []string // what was done to it, for person and model
	Reencoded                 bool     // the pixels went through an encoder again; false: they are the posted ones
}

// String describes the picture without its bytes.
func (p Picture) String() string {
	return fmt.Sprintf("picture(%s %dx%d of %dx%d, %d bytes redacted)", p.MIME, p.Width, p.Height, p.NativeWidth, p.NativeHeight, len(p.Bytes))
}

// GoString is String, so that %#v shows no bytes either.
func (p Picture) GoString() string { return p.String() }

// Format keeps every other verb (%x, %d, %+v) from reaching the bytes.
func (p Picture) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(p.String())) }

// LogValue logs the picture without its bytes.
func (p Picture) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalJSON refuses: a picture is rebuilt for each inference and never stored.
func (p Picture) MarshalJSON() ([]byte, error) {
	return nil, errors.New("visual: a picture is never serialized")
}

// MarshalText refuses like MarshalJSON, for the other encoders.
func (p Picture) MarshalText() ([]byte, error) { return p.MarshalJSON() }

// MarshalBinary refuses like MarshalJSON, for gob.
func (p Picture) MarshalBinary() ([]byte, error) { return p.MarshalJSON() }
