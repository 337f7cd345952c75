package web

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"sightline/connectors/chat"
)

const (
	deliverTimeout = 30 * time.Second
	retryEvery     = 3 * time.Second
)

// hold takes the conversation's lock: what people do in one conversation is
// written and handed over in one order.
func (p *Place) hold(ctx context.Context, conv string) (release func(), err error) {
	p.mu.Lock()
	l := p.turns[conv]
	if l == nil {
		l = make(chan struct{}, 1)
		p.turns[conv] = l
	}
	p.mu.Unlock()
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// settle hands over, in order, every event of a conversation that the sink
// has not taken yet. The caller holds the conversation.
func (p *Place) settle(ctx context.Context, conv string) error {
	// A person who closes the page does not take back what was committed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliverTimeout)
	defer cancel()
	for {
		list, err := p.db.pending(ctx, conv)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, m := range list {
			if err := p.c.Sink.Deliver(ctx, p.event(conv, m)); err != nil {
				return fmt.Errorf("web: deliver message: %w", err)
			}
			if err := p.db.delivered(ctx, m); err != nil {
				return err
			}
		}
	}
}

// redeliver settles every conversation; a failure in one leaves the others.
func (p *Place) redeliver(ctx context.Context) {
	list, err := p.db.unsettled(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.c.Log.Warn("looking for undelivered messages failed", "error", err)
		}
		return
	}
	for _, c := range list {
		release, err := p.hold(ctx, c.ID)
		if err != nil {
			return
		}
		err = p.settle(ctx, c.ID)
		release()
		if err != nil {
			p.c.Log.Warn("a message is saved and not delivered yet; it is tried again", "conversation", c.ID, "error", err)
		}
	}
}

func (p *Place) event(conv string, m message) chat.Event {
	place := p.placeOf(conv)
	e := chat.Event{Kind: chat.MessagePosted, Place: place, Message: chat.Message{
		ID: m.MessageID, Place: place.ID, NativeID: m.ID, Revision: strconv.Itoa(m.Revision),
		Author: p.person, Text: m.Text, At: m.At, Deleted: m.Deleted,
	}}
	if m.Deleted {
		e.Kind = chat.MessageDeleted
		e.Message.Text = ""
		return e
	}
	for _, u := range m.Uploads {
		e.Files = append(e.Files, chat.File{
			NativeID: u.ID, Name: u.Name, DeclaredType: u.DeclaredType, SniffedType: u.SniffedType,
			Size: u.Size, Width: u.Width, Height: u.Height, Origin: chat.OriginDirect, State: chat.FileAvailable,
		})
	}
	return e
}

// Sweep removes uploads that were never sent since before, files whose rows
// say that they are gone, and what an interrupted upload left behind.
func (p *Place) Sweep(ctx context.Context, before time.Time) (removed int, err error) {
	if _, err := p.db.dropStale(ctx, before); err != nil {
		return 0, err
	}
	// A file younger than this may be waiting for its row.
	ids, temps, err := p.files.older(p.c.Now().Add(-time.Hour))
	if err != nil {
		return 0, err
	}
	keep, err := p.db.kept(ctx, ids)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if keep[id] {
			continue
		}
		if err := p.files.remove(id); err != nil {
			return removed, err
		}
		removed++
	}
	for _, t := range temps {
		if os.Remove(t) == nil {
			removed++
		}
	}
	return removed, nil
}
