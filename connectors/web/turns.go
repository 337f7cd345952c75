package web

import (
	"context"
	"errors"
)

// shownMessages is how far back the page and the stream go.
const shownMessages = 200

// status is what became of a person's message: the reply to the turn it
// began, or to the one it joined.
func (p *Place) status(ctx context.Context, conv string, m message) (statusJSON, error) {
	s := statusJSON{State: "running", Turn: m.Turn}
	if p.c.Turns == nil {
		return p.withReply(ctx, conv, s, m.Deleted)
	}
	v, ok, err := p.c.Turns.TurnFor(ctx, p.placeOf(conv).Conversation(), m.MessageID)
	switch {
	case err != nil:
		return s, err
	case !ok:
		s.State = "queued"
	default:
		s.Turn, s.State, s.Reason = v.Turn, v.State, v.Reason
	}
	return p.withReply(ctx, conv, s, m.Deleted && !ok)
}

// withReply looks for the reply itself: the turn's record may be behind it.
func (p *Place) withReply(ctx context.Context, conv string, s statusJSON, gone bool) (statusJSON, error) {
	r, err := p.db.replyOf(ctx, conv, s.Turn)
	switch {
	case errors.Is(err, errNotFound):
		if gone {
			s.State = "deleted"
		}
		return s, nil
	case err != nil:
		return s, err
	}
	s.State = map[string]string{"answer": "answered", "failure": "failed", "stopped": "stopped"}[r.Kind]
	if s.State == "failed" {
		s.Reason = r.Text
	}
	j := messageToJSON(r)
	s.Reply = &j
	return s, nil
}

// busy reports whether an answer is on its way: a message waits that no
// reply belongs to.
func (p *Place) busy(ctx context.Context, conv string) (bool, error) {
	waiting, err := p.db.waiting(ctx, conv, p.c.Turns == nil)
	if err != nil {
		return false, err
	}
	for _, m := range waiting {
		s, err := p.status(ctx, conv, m)
		if err != nil {
			return false, err
		}
		if s.Reply == nil && (s.State == "queued" || s.State == "running") {
			return true, nil
		}
	}
	return false, nil
}
