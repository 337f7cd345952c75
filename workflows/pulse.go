package workflows

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// BeatEvery is how often a long activity tells that it lives. The answer
// carries a cancellation, so it bounds how long a stop takes to reach another
// process. Most activities end before the first.
const BeatEvery = 750 * time.Millisecond

// HurryEvery is how often they do so for a moment after a stop was asked for in
// this process. The worker must not throttle beats to less.
const HurryEvery = 50 * time.Millisecond

// Pulse makes the activities of a process beat. It is shared with Ingress, so
// that a stop is not kept waiting for the next beat. Nil never hurries.
type Pulse struct {
	mu      sync.Mutex
	hurried chan struct{} // closed by the next hurry
}

// hurry is called when a cancellation is on its way to some activity.
func (p *Pulse) hurry() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hurried != nil {
		close(p.hurried)
		p.hurried = nil
	}
}

func (p *Pulse) next() <-chan struct{} {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hurried == nil {
		p.hurried = make(chan struct{})
	}
	return p.hurried
}

// beat keeps the server told that this worker lives, and carries its
// cancellation to ctx, until end is called.
func (p *Pulse) beat(ctx context.Context) (end func()) {
	return p.beats(ctx, func() { activity.RecordHeartbeat(ctx) })
}

func (p *Pulse) beats(ctx context.Context, beat func()) (end func()) {
	stop := make(chan struct{})
	gone := make(chan struct{})
	hurried := p.next()
	go func() {
		defer close(gone)
		every, left := BeatEvery, 0
		t := time.NewTimer(every)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			case <-hurried:
				hurried = p.next()
				every, left = HurryEvery, int(BeatEvery/HurryEvery)
			case <-t.C:
				beat()
				if left--; left <= 0 {
					every = BeatEvery
				}
			}
			t.Reset(every)
		}
	}()
	return func() { close(stop); <-gone }
}
