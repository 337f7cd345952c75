package slack

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"sightline/connectors/chat"
)

const statusEvery = 3 * time.Second

// statuses keeps signs of life rare: one at a time for each thread, and none
// where Slack does not take them.
type statuses struct {
	mu   sync.Mutex
	last map[chat.PlaceID]time.Time
	busy map[chat.PlaceID]bool
	off  bool
}

func newStatuses() *statuses {
	return &statuses{last: map[chat.PlaceID]time.Time{}, busy: map[chat.PlaceID]bool{}}
}

// begin says whether one may be sent now.
func (s *statuses) begin(p chat.PlaceID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off || s.busy[p] || now.Sub(s.last[p]) < statusEvery || len(s.busy) > 20 {
		return false
	}
	if len(s.last) > 1000 {
		clear(s.last)
	}
	s.busy[p], s.last[p] = true, now
	return true
}

func (s *statuses) end(p chat.PlaceID, off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, p)
	s.off = s.off || off
}

// note says that the thread was seen alive: an answer grows there.
func (s *statuses) note(p chat.PlaceID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[p] = now
}

// shown reports whether a status may still stand. Slack takes one away when
// the app posts, and after two minutes; it does not when the app edits.
func (s *statuses) shown(p chat.PlaceID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.off && !s.last[p].IsZero() && now.Sub(s.last[p]) < 2*time.Minute
}

// unstatus takes the status away.
func (b *Bot) unstatus(ctx context.Context, p chat.Place) {
	if p.Thread == "" || !b.status.shown(p.ID, b.c.Now()) {
		return
	}
	_, err := b.api.once(ctx, b.api.token, "assistant.threads.setStatus", url.Values{
		"channel_id": {b.facts.present(p.Channel)}, "thread_ts": {p.Thread}, "status": {""},
	}, nil)
	if err != nil {
		b.log.Debug("a status stays until it ends by itself", "error", err)
	}
}

// Progress shows the agent's status in its thread. It never blocks, and
// losing one loses nothing.
func (b *Bot) Progress(_ context.Context, p chat.Progress) {
	b.idMu.Lock()
	self := b.self
	b.idMu.Unlock()
	if self.Team == "" || p.Place.Thread == "" || !b.ours(self, p.Place) || !b.status.begin(p.Place.ID, b.c.Now()) {
		return
	}
	text := strings.Join(strings.Fields(p.Text), " ")
	if text == "" {
		text = "is thinking..."
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := b.api.once(ctx, b.api.token, "assistant.threads.setStatus", url.Values{
			"channel_id": {b.facts.present(p.Place.Channel)}, "thread_ts": {p.Place.Thread}, "status": {cut(text, 50)},
		}, nil)
		switch code := codeOf(err); code {
		case "missing_scope", "not_allowed_token_type", "unknown_method", "http_404":
			b.log.Info("slack takes no status from this app, so none is shown", "reason", code)
			b.status.end(p.Place.ID, true)
		default:
			b.status.end(p.Place.ID, false)
		}
	}()
}
