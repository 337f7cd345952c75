package discord

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
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
	hold := make(chan struct{}) // until then none of the burst is answered
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	w.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/channels/"+w.channel) {
			<-hold
		}
		return false
	})
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
	w.until("there are more than may be made", func() bool { return len(w.bot.rest.pace) == paceRequests })
	typing := w.Typing(w.channel)
	w.bot.Progress(t.Context(), chat.Progress{Place: e.Place})
	release()
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

// Whatever becomes of a request, its place is free a second after its end; one
// that has to wait for something else takes none.
func TestPlacesAreGivenBack(t *testing.T) {
	w := newWorld(t)
	b := w.make()
	r := b.rest
	var answers atomic.Bool
	w.Intercept(func(rw http.ResponseWriter, req *http.Request) bool {
		if answers.Load() {
			return false
		}
		<-req.Context().Done()
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 * paceRequests {
		all.Go(func() { _ = r.do(ctx, "GET", "/channels/"+w.channel, nil, nil) })
	}
	w.until("all places are taken", func() bool { return len(r.pace) == paceRequests })
	cancel()
	all.Wait()
	w.until("cancelled requests are over", func() bool { return len(r.pace) == 0 })

	answers.Store(true)
	asked := time.Now()
	func() {
		defer func() { _ = recover() }()
		_ = r.do(t.Context(), "GET", "/channels/"+w.channel, nil, &panics{})
		t.Error("it did not panic")
	}()
	if n := len(r.pace); n != 1 && time.Since(asked) < paceWindow {
		t.Errorf("%d places after a panic: it has to be held for a second", n)
	}
	w.until("a request that panicked is over", func() bool { return len(r.pace) == 0 })

	r.hold(route("GET", "/channels/"+w.channel), time.Minute)
	ctx, cancel = context.WithCancel(t.Context())
	for range 2 * paceRequests {
		all.Go(func() { _ = r.do(ctx, "GET", "/channels/"+w.channel, nil, nil) })
	}
	for range 3 {
		if err := r.do(t.Context(), "GET", "/users/@me", nil, nil); err != nil {
			t.Error(err)
		}
	}
	if n := len(r.pace); n > 3 {
		t.Errorf("%d places are held by what has to wait", n)
	}
	cancel()
	all.Wait()
	w.until("nothing is under way", func() bool { return len(r.pace) == 0 })

	// What its route has to wait for is learned while it waits for a place.
	for range paceRequests {
		if err := r.pace.take(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel = context.WithCancel(t.Context())
	all.Go(func() { _ = r.do(ctx, "GET", "/channels/"+w.guild, nil, nil) })
	time.Sleep(50 * time.Millisecond)
	r.hold(route("GET", "/channels/"+w.guild), time.Minute)
	r.pace.unused()
	w.until("the place is given back", func() bool { return len(r.pace) == paceRequests-1 })
	time.Sleep(50 * time.Millisecond)
	if n := len(r.pace); n != paceRequests-1 || w.calls("/channels/"+w.guild) != 0 {
		t.Errorf("%d places are taken, %d requests made", n, w.calls("/channels/"+w.guild))
	}
	cancel()
	all.Wait()
	r.http.CloseIdleConnections()
}

// panics is an answer that can't be taken.
type panics struct{}

var _ json.Unmarshaler = (*panics)(nil)

func (*panics) UnmarshalJSON([]byte) error { panic("an answer that can't be taken") }
