package agent

import (
	"context"
	"errors"
	"testing"
	"time"
)

// What is held never exceeds the bound, what is given back lets the next one
// go on, and a wait ends with its context.
func TestMemory(t *testing.T) {
	m := NewMemory(100)
	hold := func(n int64, wait time.Duration) (*Held, error) {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		return m.Hold(ctx, n)
	}
	must := func(n int64) *Held {
		t.Helper()
		h, err := hold(n, time.Minute) // one whose time is over gets nothing, even what is free
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	refused := func(n int64) {
		t.Helper()
		if _, err := hold(n, 20*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%d more were held: %v", n, err)
		}
	}
	first, second := must(60), must(40)
	refused(1)
	first.Keep(10) // and 50 are free
	refused(51)
	third := must(50)
	refused(1)
	first.Keep(60) // more than it has is no more
	refused(1)
	third.Free()
	third.Free()
	refused(51)
	must(50).Free()
	first.Free()
	second.Free()
	all := must(1 << 40) // goes alone
	refused(1)
	must(0).Free() // nothing waits for nothing
	all.Free()
	must(100).Free()
}
