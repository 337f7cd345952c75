package sandbox

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Output is what a command wrote to one stream.
type Output struct {
	Text  string // head and tail; the place of a cut is marked in it
	Total int64  // bytes written
	Cut   int64  // bytes left out between head and tail
}

// A capture keeps the head and the tail of a stream and counts the rest, so that a flood costs no memory.
type capture struct {
	mu         sync.Mutex
	head, tail []byte
	at         int // where the ring in tail begins
	half       int
	total      int64
	flood      *flood
}

// A flood counts the bytes of several streams and calls over once when there are too many.
type flood struct {
	mu   sync.Mutex
	left int64
	over func()
}

func (f *flood) add(n int) {
	f.mu.Lock()
	before := f.left
	f.left -= int64(n)
	now := f.left
	f.mu.Unlock()
	if before >= 0 && now < 0 {
		f.over()
	}
}

func newCapture(limit int64, f *flood) *capture {
	return &capture{half: int(limit / 2), flood: f}
}

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.mu.Lock()
	c.total += int64(n)
	if room := c.half - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > c.half {
		p = p[len(p)-c.half:]
	}
	if room := c.half - len(c.tail); room > 0 {
		k := min(room, len(p))
		c.tail = append(c.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 { // the ring is full: the oldest bytes give way
		k := copy(c.tail[c.at:], p)
		c.at = (c.at + k) % c.half
		p = p[k:]
	}
	c.mu.Unlock()
	c.flood.add(n)
	return n, nil
}

func (c *capture) output() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := string(c.tail[c.at:]) + string(c.tail[:c.at])
	o := Output{Total: c.total, Cut: c.total - int64(len(c.head)+len(c.tail))}
	if o.Cut == 0 {
		o.Text = strings.ToValidUTF8(string(c.head)+tail, "\uFFFD")
		return o
	}
	o.Text = strings.ToValidUTF8(string(c.head), "\uFFFD") +
		fmt.Sprintf("\n[%d bytes left out]\n", o.Cut) + strings.ToValidUTF8(tail, "\uFFFD")
	return o
}

// firstWords passes everything on and remembers its beginning.
type firstWords struct {
	mu    sync.Mutex
	w     io.Writer
	start []byte
}

func (f *firstWords) Write(b []byte) (int, error) {
	f.mu.Lock()
	f.start = append(f.start, b[:min(len(b), 512-len(f.start))]...)
	f.mu.Unlock()
	return f.w.Write(b)
}

func (f *firstWords) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.TrimSpace(string(f.start))
}
