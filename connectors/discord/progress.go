package discord

import (
	"context"
	"sync"
	"time"

	"sightline/connectors/chat"
)

// Discord shows typing for ten seconds.
const (
	typingEvery   = 8 * time.Second
	typingTimeout = 5 * time.Second
	typingAtOnce  = 8
)

// typing remembers where the bot was last seen typing.
type typing struct {
	mu   sync.Mutex
	last map[string]time.Time
	busy int
}

// Progress shows that the bot is typing. It never blocks; when there is too
// much to show, it shows nothing.
func (b *Bot) Progress(ctx context.Context, pr chat.Progress) {
	id, ok := b.native(pr.Place)
	if !ok || !b.rest.pace.idle() || !b.typing.take(id, b.c.Now()) {
		return
	}
	go func() {
		defer b.typing.leave()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typingTimeout)
		defer cancel()
		if err := b.rest.do(ctx, "POST", "/channels/"+id+"/typing", nil, nil); err != nil {
			b.log.Debug("typing is not shown", "channel", id, "error", err)
		}
	}()
}

func (t *typing) take(id string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy >= typingAtOnce || now.Sub(t.last[id]) < typingEvery {
		return false
	}
	if t.last == nil || len(t.last) > 1000 {
		t.last = map[string]time.Time{}
	}
	t.last[id] = now
	t.busy++
	return true
}

// note says that the bot was seen at work: an answer grows, which says more
// than that it types.
func (t *typing) note(id string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil || len(t.last) > 1000 {
		t.last = map[string]time.Time{}
	}
	t.last[id] = now
}

func (t *typing) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
}
