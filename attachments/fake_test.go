package attachments

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"sightline/connectors/chat"
)

// world is a small inventory, visibility and source in one, with counters.
type world struct {
	mu       sync.Mutex
	rows     map[chat.AttachmentID]chat.Attachment
	places   map[chat.PlaceID]chat.Place
	messages map[chat.MessageID]chat.Message
	decide   func(Question) (Decision, error)
	bytes    []byte
	fetchErr error
	uses     []chat.Use
	usesErr  error
	lookups  int
	fetched  int
	copies   bool // the source uses io.Copy
	lies     bool // the inventory does not filter by conversation
	now      time.Time
	gone     map[chat.MessageID]bool // heard of, and not recorded yet
}

func (w *world) Attachment(_ context.Context, agent chat.AgentID, conv chat.ConversationID, id chat.AttachmentID) (chat.Attachment, error) {
	w.lookups++
	r, ok := w.rows[id]
	if !ok || r.Agent != agent || r.Conversation != conv && !w.lies && !w.near(agent, conv, r.Place) {
		return chat.Attachment{}, chat.ErrNotFound
	}
	return r, nil
}

// near is chat.Place.Around for the place of a conversation.
func (w *world) near(agent chat.AgentID, conv chat.ConversationID, src chat.PlaceID) bool {
	for _, p := range w.places {
		if p.Agent == agent && p.Conversation() == conv && p.Around(w.places[src]) {
			return true
		}
	}
	return false
}

func (w *world) Place(_ context.Context, agent chat.AgentID, id chat.PlaceID) (chat.Place, error) {
	p, ok := w.places[id]
	if !ok || p.Agent != agent {
		return chat.Place{}, chat.ErrNotFound
	}
	return p, nil
}

func (w *world) Message(_ context.Context, _ chat.PlaceID, id chat.MessageID) (chat.Message, error) {
	m, ok := w.messages[id]
	if !ok {
		return chat.Message{}, chat.ErrNotFound
	}
	return m, nil
}

func (w *world) SourcePlaces(_ context.Context, agent chat.AgentID, conv chat.ConversationID) ([]chat.Place, error) {
	seen := map[chat.PlaceID]bool{}
	var out []chat.Place
	for _, r := range w.rows {
		if r.Agent == agent && r.Conversation == conv && !seen[r.Place] {
			seen[r.Place] = true
			out = append(out, w.places[r.Place])
		}
	}
	return out, nil
}

func (w *world) Attachments(_ context.Context, agent chat.AgentID, conv chat.ConversationID, sources []chat.PlaceID, one chat.MessageID, after, limit int) ([]chat.Attachment, int, error) {
	ok := map[chat.PlaceID]bool{}
	for _, s := range sources {
		ok[s] = true
	}
	var out []chat.Attachment
	total := 0
	for n := 1; n <= len(w.rows); n++ {
		for _, r := range w.rows {
			if r.Ordinal == n && r.Agent == agent && r.Conversation == conv && (ok[r.Place] || r.Message == one) {
				total++
				if n > after && len(out) < limit {
					out = append(out, r)
				}
			}
		}
	}
	return out, total, nil
}

func (w *world) Learn(_ context.Context, _ chat.AgentID, id chat.AttachmentID, f chat.Facts) error {
	r := w.rows[id]
	r.SniffedType = f.SniffedType
	w.rows[id] = r
	return nil
}

func (w *world) RecordUses(_ context.Context, u []chat.Use) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.usesErr != nil {
		return w.usesErr
	}
	w.uses = append(w.uses, u...)
	return nil
}

func (w *world) Decide(_ context.Context, q Question) (Decision, error) { return w.decide(q) }

func (w *world) Gone(_ chat.Place, m chat.Message) bool { return w.gone[m.ID] }

// source honours its duty: nothing without a locator.
type source struct {
	w     *world
	agent chat.AgentID
}

func (s source) Fetch(_ context.Context, g Grant, dst io.Writer) error {
	if _, err := g.Locator(s.agent); err != nil {
		return err
	}
	if s.w.fetchErr != nil {
		return s.w.fetchErr
	}
	s.w.fetched++
	if s.w.copies {
		_, err := io.Copy(dst, struct{ io.Reader }{bytes.NewReader(s.w.bytes)})
		return err
	}
	_, err := dst.Write(s.w.bytes)
	return err
}

const (
	agentA chat.AgentID = "a"
	agentB chat.AgentID = "b"
)

// newWorld has one place per agent with one picture each.
func newWorld(agents ...chat.AgentID) (*world, map[chat.AgentID]chat.Attachment) {
	w := &world{
		rows: map[chat.AttachmentID]chat.Attachment{}, places: map[chat.PlaceID]chat.Place{}, messages: map[chat.MessageID]chat.Message{},
		decide: func(Question) (Decision, error) { return Allow("S1", 1, 1), nil },
		bytes:  []byte("picture bytes"), now: time.Unix(1e9, 0),
	}
	out := map[chat.AgentID]chat.Attachment{}
	for _, a := range agents {
		p := chat.NewPlace(a, "test", "ws", "chan-"+string(a), "", chat.Channel)
		m := chat.Message{ID: chat.MessageOf(p.ID, "1"), Place: p.ID, NativeID: "1", Revision: "r1"}
		r := chat.Attachment{
			ID: chat.NewAttachmentID(), Agent: a, Conversation: p.Conversation(), Place: p.ID, Message: m.ID,
			Ordinal: 1, NativeFile: "f1", Name: "x.png", State: chat.FileAvailable, Origin: chat.OriginDirect,
		}
		w.places[p.ID], w.messages[m.ID], w.rows[r.ID], out[a] = p, m, r, r
	}
	return w, out
}

func (w *world) authorizer(t interface {
	Helper()
	Fatal(...any)
}, agents ...chat.AgentID) *Authorizer {
	t.Helper()
	src := map[chat.AgentID]map[chat.Platform]Source{}
	for _, a := range agents {
		src[a] = map[chat.Platform]Source{"test": source{w, a}}
	}
	a, err := New(Config{
		Inventory: w, Visibility: map[chat.Platform]Visibility{"test": w}, Sources: src, MaxBytes: 1 << 20,
		Now: func() time.Time { return w.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func request(r chat.Attachment) Request {
	return Request{Agent: r.Agent, Conversation: r.Conversation, Destination: r.Place, Actor: chat.Actor{User: "u", Role: chat.Guest}, Turn: "t"}
}
