package web

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Where replies are made in other processes than the page is served in, they
// wake its listeners through the database they share. Nothing hangs on it: a
// wake that is lost, or that a connection pooler does not carry, is made up
// for at the next heartbeat.
const (
	wakeChannel = "sightline_web"
	maxWake     = 7900 // bytes; Postgres takes less than 8000
	tellEvery   = 250 * time.Millisecond
	tellTimeout = 2 * time.Second
)

// wake is what one process tells the others.
type wake struct {
	From     string         `json:"from"`
	Conv     string         `json:"conv"`
	Turn     chat.TurnID    `json:"turn,omitempty"` // that has its reply now
	Progress *chat.Progress `json:"progress,omitempty"`
}

// changed says that a conversation's rows changed, here and to the others.
func (p *Place) changed(ctx context.Context, conv string, turn chat.TurnID) {
	p.hub.changed(conv, turn)
	p.tell(ctx, wake{Conv: conv, Turn: turn})
}

func (p *Place) tell(ctx context.Context, w wake) {
	w.From = p.self
	b, err := json.Marshal(w)
	if err == nil && len(b) > maxWake && w.Progress != nil {
		pr := *w.Progress
		pr.Draft = "" // too long to be shown while it is made
		w.Progress = &pr
		b, err = json.Marshal(w)
	}
	if err == nil && len(b) > maxWake {
		err = errors.New("it is too long")
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
		defer cancel()
		_, err = p.c.Pool.Exec(ctx, `select pg_notify($1, $2)`, wakeChannel, string(b))
	}
	if err != nil {
		p.c.Log.Debug("other processes are not told of a change; they see it later", "error", err)
	}
}

// teller passes progress on without holding up whoever makes it: of each
// conversation the latest, and not more often than people read.
type teller struct {
	mu   sync.Mutex
	next map[string]chat.Progress
	busy bool
}

func (t *teller) put(p *Place, pr chat.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = map[string]chat.Progress{}
	}
	t.next[pr.Place.Channel] = pr
	if !t.busy {
		t.busy = true
		go t.work(p)
	}
}

func (t *teller) work(p *Place) {
	for {
		t.mu.Lock()
		list := t.next
		t.next = nil
		t.busy = len(list) > 0
		t.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for conv, pr := range list {
			p.tell(context.Background(), wake{Conv: conv, Progress: &pr})
		}
		time.Sleep(tellEvery)
	}
}

// hear passes on what other processes tell, until ctx ends. It has a
// connection of its own: one of the pool's would be one less for all.
func (p *Place) hear(ctx context.Context) {
	for ctx.Err() == nil {
		if err := p.listenOnce(ctx); err != nil && ctx.Err() == nil {
			p.c.Log.Info("what other processes do is seen at heartbeats only, for now", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

func (p *Place) listenOnce(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, p.c.Pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "listen "+wakeChannel); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		var w wake
		if json.Unmarshal([]byte(n.Payload), &w) != nil || w.From == p.self || !isID(conversationPrefix, w.Conv) {
			continue
		}
		if w.Progress == nil {
			p.hub.changed(w.Conv, w.Turn)
			continue
		}
		w.Progress.Place = p.placeOf(w.Conv)
		p.hub.progress(*w.Progress)
	}
}
