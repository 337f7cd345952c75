package slack

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"slices"
	"time"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"
)

const (
	sockets     = 2 // Slack closes a connection before another is open: one of two stays
	maxFrame    = 4 << 20
	ackTimeout  = 5 * time.Second
	longestWait = 10 * time.Second // between two tries to connect; slack-go's grows to five minutes
)

// sockets keeps the connections. The first refusal of the token ends all.
func (b *Bot) sockets(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range sockets {
		b.running.Go(func() { cancel(b.socket(ctx)) })
	}
	<-ctx.Done()
	b.running.Wait()
	return context.Cause(ctx)
}

// socket is one of them, over all its connections.
func (b *Bot) socket(ctx context.Context) error {
	hellos := 0
	for {
		wait, err := b.session(ctx, &hellos)
		if err != nil {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// session is one life of slack-go's client, which connects again by itself
// for as long as it does so soon enough.
func (b *Bot) session(ctx context.Context, hellos *int) (wait time.Duration, err error) {
	api := slackgo.New(b.c.BotToken, slackgo.OptionAppLevelToken(b.c.AppToken), slackgo.OptionAPIURL(b.c.APIURL),
		slackgo.OptionHTTPClient(plainClient(b.dialTimeout)))
	s := socketmode.New(api, socketmode.OptionReadLimit(maxFrame), socketmode.OptionLog(log.New(io.Discard, "", 0)))
	sctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.RunContext(sctx) }()
	defer func() {
		cancel()
		if !done(ended) {
			<-ended
		}
	}()
	heard := false
	hear := func(yes bool) {
		if heard != yes {
			heard = yes
			b.seen.hears(yes)
		}
	}
	defer hear(false)
	for {
		select {
		case err := <-ended:
			ended <- nil
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			if slices.Contains(refusals, err.Error()) {
				return 0, &AuthError{Token: "app", Code: err.Error()}
			}
			return b.redial, nil
		case e := <-s.Events:
			switch e.Type {
			case socketmode.EventTypeConnecting:
				hear(false)
			case socketmode.EventTypeConnectionError:
				hear(false)
				c, ok := e.Data.(*slackgo.ConnectionErrorEvent)
				if !ok {
					continue
				}
				// slack-go takes some refusals for passing ones.
				if code := c.ErrorObj.Error(); slices.Contains(refusals, code) {
					return 0, &AuthError{Token: "app", Code: code}
				}
				b.log.Warn("no connection to slack; it is tried again", "error", bare(c.ErrorObj), "in", c.Backoff)
				if _, limited := c.ErrorObj.(*slackgo.RateLimitedError); limited {
					continue
				}
				if c.Backoff > longestWait {
					return longestWait, nil
				}
			case socketmode.EventTypeHello:
				*hellos++
				b.connected(ctx, *hellos > 1)
				hear(true)
				b.isReady()
			default:
				b.envelope(ctx, sctx, s, e)
			}
		}
	}
}

// done reports whether the run has ended and been told of.
func done(ended chan error) bool { return len(ended) > 0 }

// isReady: what happens from now on is heard, and what was known before is
// asked again.
func (b *Bot) isReady() { b.readyOnce.Do(func() { close(b.ready) }) }

// connected: after a gap nothing that was known of places holds. It comes before
// the connection counts as heard: what is remembered would be taken for the
// truth in between. Of two connections the second waits until that was done.
func (b *Bot) connected(ctx context.Context, again bool) {
	b.opening.Lock()
	defer b.opening.Unlock()
	first := b.begun.CompareAndSwap(false, true)
	if again || first {
		b.facts.drop("")
		b.seen.missed()
	}
	if again || first && b.c.Marks != nil {
		b.gaps.open(b.seen.marked(), b.newSince)
		b.running.Go(func() { b.catchUp(ctx) })
	}
}

// envelope reads the envelope as it came: slack-go's own reading of a payload
// loses files, and refuses what it does not know without acknowledging it.
func (b *Bot) envelope(ctx, session context.Context, s *socketmode.Client, e socketmode.Event) {
	req := e.Request
	if bad, ok := e.Data.(*socketmode.ErrorBadMessage); ok {
		req = &socketmode.Request{}
		if err := json.Unmarshal(bad.Message, req); err != nil {
			b.unreadable("", "a frame of the socket is no envelope", err)
			return
		}
	}
	if req == nil || req.EnvelopeID == "" {
		return
	}
	// An acknowledgement carries nothing: Slack drops those of 20 KB.
	ack := func(err error) {
		if err == nil {
			// A connection that is down must not hold up a lane.
			actx, cancel := context.WithTimeout(session, ackTimeout)
			defer cancel()
			err = s.AckCtx(actx, req.EnvelopeID, nil)
		}
		if err != nil && ctx.Err() == nil {
			b.log.Warn("an event is not acknowledged; slack sends it again", "error", err)
		}
	}
	switch req.Type {
	case socketmode.RequestTypeEventsAPI:
		b.take(ctx, req.Payload, ack)
	case socketmode.RequestTypeSlashCommands:
		ack(nil)
		var c slash
		if err := json.Unmarshal(req.Payload, &c); err != nil {
			b.log.Warn("a command can't be read", "error", err)
			return
		}
		b.running.Go(func() { b.command(ctx, c) })
	case socketmode.RequestTypeInteractive:
		ack(nil)
		if c, ok := menuCommand(req.Payload); ok {
			b.running.Go(func() { b.command(ctx, c) })
		}
	default:
		ack(nil)
	}
}
