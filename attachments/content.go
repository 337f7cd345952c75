package attachments

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Content is a fetched original. It lives inside one activity; it prints and
// marshals as nothing.
type Content struct {
	bytes []byte
	sum   [sha256.Size]byte
}

// Bytes is the original. Callers must not keep it beyond their activity.
func (c Content) Bytes() []byte { return c.bytes }

// Sum is the SHA-256 of the original, computed here from what arrived.
func (c Content) Sum() [sha256.Size]byte { return c.sum }

// Digest is Sum in hex.
func (c Content) Digest() string { return hex.EncodeToString(c.sum[:]) }

func (c Content) String() string             { return fmt.Sprintf("[content %d bytes]", len(c.bytes)) }
func (c Content) GoString() string           { return c.String() }
func (c Content) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }
func (c Content) LogValue() slog.Value       { return slog.StringValue(c.String()) }
func (Content) MarshalJSON() ([]byte, error) {
	return nil, errors.New("attachments: content is never serialized")
}

// capped passes at most left bytes on; the byte after them is an error, so a
// source can't hand over more than was allowed, whatever it believes.
type capped struct {
	w    io.Writer
	left int64
	over bool
	n    int64
}

var errCap = errors.New("attachments: byte cap reached")

func (c *capped) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		c.over = true
		return 0, errCap
	}
	n, err := c.w.Write(p)
	c.left -= int64(n)
	c.n += int64(n)
	return n, err
}
