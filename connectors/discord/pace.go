package discord

import (
	"context"
	"time"
)

// Discord takes 50 requests a second of a bot, whatever they are; those of
// interactions do not count.
const (
	paceRequests = 50
	paceWindow   = time.Second
)

// pace keeps a bot below the platform's limit of all requests, whenever they
// arrive there: a place is taken from before a request is sent until a window
// after its answer, so the requests that arrive in any one window all hold a
// place at once. A rate of sending can't say that, since requests on a slow
// way arrive together.
type pace chan struct{}

func newPace() pace { return make(pace, paceRequests) }

// take waits for a place, in the order of asking.
func (p pace) take(ctx context.Context) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unused gives a place back for which nothing was sent.
func (p pace) unused() { <-p }

// answered gives a place back once the request can't count any more. One that
// failed may have arrived all the same.
func (p pace) answered() { time.AfterFunc(paceWindow, p.unused) }

// idle reports whether a call that nobody would miss keeps none waiting.
func (p pace) idle() bool { return len(p) < cap(p)/2 }
