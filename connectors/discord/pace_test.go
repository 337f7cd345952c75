package discord

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sightline/connectors/chat"
)

// A burst stays below the platform's limit of all requests, and none fails;
// while there are more than may be made, nobody is shown to be typing.
func TestPace(t *testing.T) {
	w := newWorld(t)
	w.GlobalLimit = 50
	var waits atomic.Int64
	w.change = func(c *Config) { c.Limited = func(time.Duration) { waits.Add(1) } }
	w.run()
	e := w.said(w.channel)
	const calls = 120
	began := time.Now()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if err := w.bot.rest.do(t.Context(), "GET", "/channels/"+w.channel, nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	typing := w.Typing(w.channel)
	w.bot.Progress(t.Context(), chat.Progress{Place: e.Place})
	all.Wait()
	if n := w.Held(); n > 0 {
		t.Errorf("%d of %d requests were refused", n, calls)
	}
	if n := waits.Load(); n < calls/2 {
		t.Errorf("only %d waits were told of", n)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%d requests took %v", calls, took)
	}
	time.Sleep(300 * time.Millisecond) // nothing waits any more
	if n := w.Typing(w.channel); n != typing {
		t.Errorf("typing was shown %d times in a burst", n-typing)
	}
}
