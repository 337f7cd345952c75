package sandbox

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestCapture compares with the whole text, whatever the pieces in which it is written.
func TestCapture(t *testing.T) {
	const limit = 64
	for total := range 300 {
		var all strings.Builder
		for i := 0; all.Len() < total; i++ {
			fmt.Fprintf(&all, "%d,", i)
		}
		text := all.String()[:total]
		over := 0
		c := newCapture(limit, &flood{left: 100, over: func() { over++ }})
		for rest := text; rest != ""; {
			n := 1 + rand.IntN(min(len(rest), 90))
			if _, err := c.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		o := c.output()
		want, cut := text, 0
		if total > limit {
			cut = total - limit
			want = text[:limit/2] + fmt.Sprintf("\n[%d bytes left out]\n", cut) + text[total-limit/2:]
		}
		if o.Text != want || o.Total != int64(total) || o.Cut != int64(cut) {
			t.Fatalf("of %d bytes kept %+v, want %q", total, o, want)
		}
		if want := map[bool]int{true: 1}[total > 100]; over != want {
			t.Fatalf("%d bytes: the flood was called %d times", total, over)
		}
	}
	c := newCapture(64, &flood{left: 100, over: func() {}})
	_, _ = c.Write([]byte("\xff\x00ok"))
	if got := c.output().Text; got != "\uFFFD\x00ok" {
		t.Errorf("got %q", got)
	}
}
