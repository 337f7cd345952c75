package attachments

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
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

// intake keeps what a source writes, and hashes it on a goroutine of its own
// meanwhile: on the way to every inference the digest costs little beside
// the reading.
type intake struct {
	buf   []byte
	parts chan []byte
	sum   chan [sha256.Size]byte
}

func newIntake(size int64) *intake {
	t := &intake{buf: make([]byte, 0, size+64<<10), parts: make(chan []byte, 64), sum: make(chan [sha256.Size]byte, 1)}
	go func() {
		h := sha256.New()
		for p := range t.parts {
			h.Write(p)
		}
		t.sum <- [sha256.Size]byte(h.Sum(nil))
	}()
	return t
}

func (t *intake) Write(p []byte) (int, error) {
	n := len(t.buf)
	t.buf = append(t.buf, p...)
	// What was appended is never written again, even when buf moves on.
	t.parts <- t.buf[n:]
	return len(p), nil
}

// readFrom reads straight into the buffer, without a copy on the way.
func (t *intake) readFrom(r io.Reader, left int64) (n int64, over bool, err error) {
	const piece = 64 << 10
	for {
		if cap(t.buf)-len(t.buf) < piece {
			t.buf = slices.Grow(t.buf, max(piece, len(t.buf)/4))
		}
		at := len(t.buf)
		m, err := r.Read(t.buf[at : at+piece])
		n += int64(m)
		if n > left {
			return n - int64(m), true, errCap
		}
		if m > 0 {
			t.buf = t.buf[:at+m]
			t.parts <- t.buf[at:]
		}
		if err == io.EOF {
			return n, false, nil
		}
		if err != nil {
			return n, false, err
		}
	}
}

// done ends the intake; it must be called, once.
func (t *intake) done() Content {
	close(t.parts)
	return Content{bytes: t.buf, sum: <-t.sum}
}

// capped passes at most left bytes on; the byte after them is an error, so a
// source can't hand over more than was allowed, whatever it believes.
type capped struct {
	in   *intake
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
	n, err := c.in.Write(p)
	c.left -= int64(n)
	c.n += int64(n)
	return n, err
}

// ReadFrom is what io.Copy uses.
func (c *capped) ReadFrom(r io.Reader) (int64, error) {
	n, over, err := c.in.readFrom(r, c.left)
	c.left -= n
	c.n += n
	c.over = c.over || over
	return n, err
}
