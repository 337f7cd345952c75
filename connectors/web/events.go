package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"sightline/connectors/chat"
)

const (
	heartbeat    = 10 * time.Second
	writeTimeout = 10 * time.Second // of a listener that does not read
)

type progressJSON struct {
	Turn  chat.TurnID `json:"turn"`
	Step  int         `json:"step"`
	Text  string      `json:"text"`
	Draft string      `json:"draft,omitempty"`
	HTML  string      `json:"draft_html,omitempty"`
}

// events is the live stream. It begins with what is there, so a listener that
// comes back after a restart has missed nothing; then it sends what changes.
//
//	view=page  messages come rendered too, and the side bar's conversations
//	view=live  what is there already is left out
//
// The database is read again at every heartbeat as well: a reply of another
// process whose wake was lost arrives a little later, not never.
func (p *Place) events(streams context.Context) func(http.ResponseWriter, *http.Request, caller, conversation) {
	return func(w http.ResponseWriter, r *http.Request, c caller, conv conversation) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(streams, cancel)()

		view := r.URL.Query().Get("view")
		s := &stream{p: p, conv: conv.ID, owner: conv.Owner, w: w, rc: http.NewResponseController(w), html: view == "page"}
		l := p.hub.listen(conv.ID) // before the first read: nothing falls between
		defer l.close()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		if err := s.begin(ctx, view == "live"); err != nil {
			p.failed(w, r, err)
			return
		}
		beat := time.NewTicker(heartbeat)
		defer beat.Stop()
		for {
			dirty, pr := l.take()
			var err error
			if dirty {
				err = s.changes(ctx)
			}
			if err == nil && pr != nil {
				err = s.progress(*pr)
			}
			if err != nil {
				return // the listener left, or is too slow: it comes back and reads again
			}
			select {
			case <-ctx.Done():
				return
			case <-l.wake:
			case <-beat.C:
				if err := s.beat(ctx); err != nil {
					return
				}
			}
		}
	}
}

// stream is what one listener was told.
type stream struct {
	p     *Place
	conv  string
	owner string
	w     http.ResponseWriter
	rc    *http.ResponseController
	html  bool

	known map[string]bool
	busy  bool
	bar   map[string]bool // conversations that the page's side bar has
}

// begin sends the state of things. Its errors come before the first byte.
func (s *stream) begin(ctx context.Context, live bool) error {
	ids, err := s.p.db.shown(ctx, s.conv, shownMessages)
	if err != nil {
		return err
	}
	var list []message
	if !live {
		if list, err = s.p.db.messagesByID(ctx, s.conv, ids); err != nil {
			return err
		}
	}
	if s.busy, err = s.p.busy(ctx, s.conv); err != nil {
		return err
	}
	bar, err := s.opened(ctx)
	if err != nil {
		return err
	}
	s.known = map[string]bool{}
	for _, id := range ids {
		s.known[id] = true
	}
	if err := s.send("snapshot", map[string]any{"ids": ids, "running": s.busy}); err != nil {
		return nil // the headers are out: the loop finds out by itself
	}
	for _, m := range list {
		if s.message(m) != nil {
			return nil
		}
	}
	if len(bar) > 0 {
		_ = s.send("conversations", map[string]any{"conversations": bar})
	}
	return nil
}

type openedJSON struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// opened are the conversations that a page was not told of yet, newest first.
func (s *stream) opened(ctx context.Context) ([]openedJSON, error) {
	if !s.html {
		return nil, nil
	}
	list, err := s.p.db.opened(ctx, s.owner, listedConversations)
	if err != nil {
		return nil, err
	}
	var fresh []openedJSON
	now := map[string]bool{}
	for _, c := range list {
		now[c.ID] = true
		if !s.bar[c.ID] {
			fresh = append(fresh, openedJSON{c.ID, c.Name})
		}
	}
	s.bar = now
	return fresh, nil
}

// changes compares what is there with what the listener knows.
func (s *stream) changes(ctx context.Context) error {
	ids, err := s.p.db.shown(ctx, s.conv, shownMessages)
	if err != nil {
		return err
	}
	now, fresh := map[string]bool{}, []string(nil)
	for _, id := range ids {
		now[id] = true
		if !s.known[id] {
			fresh = append(fresh, id)
		}
	}
	for id := range s.known {
		if !now[id] {
			if err := s.send("deleted", map[string]string{"id": id}); err != nil {
				return err
			}
		}
	}
	s.known = now
	list, err := s.p.db.messagesByID(ctx, s.conv, fresh)
	if err != nil {
		return err
	}
	for _, m := range list {
		if err := s.message(m); err != nil {
			return err
		}
	}
	if bar, err := s.opened(ctx); err != nil {
		return err
	} else if len(bar) > 0 {
		if err := s.send("conversations", map[string]any{"conversations": bar}); err != nil {
			return err
		}
	}
	busy, err := s.p.busy(ctx, s.conv)
	if err != nil || (busy == s.busy && len(fresh) == 0) {
		return err
	}
	s.busy = busy
	return s.send("state", map[string]bool{"running": busy})
}

func (s *stream) message(m message) error {
	j := messageToJSON(m)
	event := "message"
	if m.Kind != kindPerson {
		event = "reply"
	}
	if s.html {
		h, err := s.p.renderMessage(m)
		if err != nil {
			return err
		}
		j.HTML = h
	}
	return s.send(event, j)
}

func (s *stream) progress(pr chat.Progress) error {
	j := progressJSON{Turn: pr.Turn, Step: pr.Step, Text: pr.Text, Draft: pr.Draft}
	if s.html && pr.Draft != "" {
		j.Draft, j.HTML = "", markdown(pr.Draft)
	}
	return s.send("progress", j)
}

func (s *stream) beat(ctx context.Context) error {
	if err := s.write(": still here\n\n"); err != nil {
		return err
	}
	return s.changes(ctx)
}

func (s *stream) send(event string, v any) error {
	b, err := json.Marshal(v) // one line: JSON escapes newlines
	if err != nil {
		return fmt.Errorf("web: encode event: %w", err)
	}
	return s.write("event: " + event + "\ndata: " + string(b) + "\n\n")
}

func (s *stream) write(text string) error {
	s.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}
