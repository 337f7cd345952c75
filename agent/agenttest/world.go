// Package agenttest is the world that tests of agent and of its tools stand
// in: an inventory, a platform and a model in memory, with counters.
//
// It owns no rule of the product: it answers what a test told it to, counts
// the bytes that were fetched, and fails the test where it is misused.
package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"io"
	"sync"
	"testing"
	"time"

	"sightline/agent"
	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

// Agent is the agent that everything belongs to.
const Agent chat.AgentID = "agent-a"

// World is one conversation of one agent.
type World struct {
	At      chat.Place
	Request attachments.Request
	Auth    *attachments.Authorizer
	Looker  *agent.Looker

	Decide   func(attachments.Question) (attachments.Decision, error)
	FetchErr error
	// FetchFrom, when set, is where bytes come from instead of memory.
	FetchFrom func(ctx context.Context, dst io.Writer) error

	mu         sync.Mutex
	rows       []chat.Attachment
	bytes      map[string][]byte
	messages   map[chat.MessageID]chat.Message
	fetched    int64
	Uses       []chat.Use
	quarantine map[string]string
}

// New returns an empty conversation in which everything is allowed.
func New(t testing.TB) *World {
	t.Helper()
	p := chat.NewPlace(Agent, "test", "ws", "general", "", chat.Channel)
	w := &World{
		At: p, bytes: map[string][]byte{}, messages: map[chat.MessageID]chat.Message{}, quarantine: map[string]string{},
		Decide: func(attachments.Question) (attachments.Decision, error) { return attachments.Allow("S1", 0, 0), nil },
	}
	w.Request = attachments.Request{
		Agent: Agent, Conversation: p.Conversation(), Destination: p.ID, Turn: "turn",
		Actor: chat.Actor{Platform: "test", User: "u1", Name: "ann", Role: chat.Guest},
	}
	var err error
	w.Auth, err = attachments.New(attachments.Config{
		Inventory: w, Visibility: map[chat.Platform]attachments.Visibility{"test": visibility{w}},
		Sources:  map[chat.AgentID]map[chat.Platform]attachments.Source{Agent: {"test": w}},
		MaxBytes: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Looker = &agent.Looker{Authorizer: w.Auth, Decoder: visual.NewDecoder(visual.DefaultLimits()), Quarantines: w}
	return w
}

// Post adds a message with one file and returns its row.
func (w *World) Post(name, declared string, b []byte) chat.Attachment {
	w.mu.Lock()
	defer w.mu.Unlock()
	native := name + time.Now().String()
	m := chat.Message{ID: chat.MessageOf(w.At.ID, native), Place: w.At.ID, NativeID: native, Author: w.Request.Actor}
	a := chat.Attachment{
		ID: chat.NewAttachmentID(), Agent: Agent, Conversation: w.At.Conversation(), Place: w.At.ID, Message: m.ID,
		Ordinal: len(w.rows) + 1, NativeFile: native, Name: name, DeclaredType: declared, Size: int64(len(b)),
		Origin: chat.OriginDirect, State: chat.FileAvailable, Author: m.Author, PostedAt: time.Unix(1e9, 0),
	}
	w.messages[m.ID] = m
	w.bytes[native] = b
	w.rows = append(w.rows, a)
	return a
}

// Replace swaps the bytes behind an attachment, as a platform might.
func (w *World) Replace(a chat.Attachment, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes[a.NativeFile] = b
}

// Delete deletes an attachment's message, as the store records it.
func (w *World) Delete(a chat.Attachment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.messages[a.Message]
	m.Deleted = true
	w.messages[a.Message] = m
}

// Mark sets the state of an attachment.
func (w *World) Mark(a chat.Attachment, s chat.FileState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.rows {
		if w.rows[i].ID == a.ID {
			w.rows[i].State = s
		}
	}
}

// Row is the row as it is now.
func (w *World) Row(id chat.AttachmentID) chat.Attachment {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rows {
		if r.ID == id {
			return r
		}
	}
	return chat.Attachment{}
}

// Fetched counts the bytes that left the platform.
func (w *World) Fetched() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fetched
}

type visibility struct{ w *World }

func (v visibility) Decide(_ context.Context, q attachments.Question) (attachments.Decision, error) {
	return v.w.Decide(q)
}

// Fetch is the platform.
func (w *World) Fetch(ctx context.Context, g attachments.Grant, dst io.Writer) error {
	l, err := g.Locator(Agent)
	if err != nil {
		return err
	}
	if w.FetchFrom != nil {
		return w.FetchFrom(ctx, dst)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.FetchErr != nil {
		return w.FetchErr
	}
	n, err := dst.Write(w.bytes[l.File()])
	w.fetched += int64(n)
	return err
}

// Attachment, Place, Message, SourcePlaces, Attachments, Learn and RecordUses
// are the inventory.
func (w *World) Attachment(_ context.Context, a chat.AgentID, c chat.ConversationID, id chat.AttachmentID) (chat.Attachment, error) {
	r := w.Row(id)
	if r.ID == "" || r.Agent != a || r.Conversation != c {
		return chat.Attachment{}, chat.ErrNotFound
	}
	return r, nil
}

func (w *World) Place(_ context.Context, a chat.AgentID, id chat.PlaceID) (chat.Place, error) {
	if id != w.At.ID || a != w.At.Agent {
		return chat.Place{}, chat.ErrNotFound
	}
	return w.At, nil
}

func (w *World) Message(_ context.Context, _ chat.PlaceID, id chat.MessageID) (chat.Message, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, ok := w.messages[id]
	if !ok {
		return m, chat.ErrNotFound
	}
	return m, nil
}

func (w *World) SourcePlaces(context.Context, chat.AgentID, chat.ConversationID) ([]chat.Place, error) {
	return []chat.Place{w.At}, nil
}

func (w *World) Attachments(_ context.Context, _ chat.AgentID, _ chat.ConversationID, _ []chat.PlaceID, _ chat.MessageID, after, limit int) ([]chat.Attachment, int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []chat.Attachment
	for _, r := range w.rows {
		if r.Ordinal > after && len(out) < limit {
			out = append(out, r)
		}
	}
	return out, len(w.rows), nil
}

func (w *World) Learn(_ context.Context, _ chat.AgentID, id chat.AttachmentID, f chat.Facts) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.rows {
		r := &w.rows[i]
		if r.ID == id {
			r.SniffedType, r.Width, r.Height, r.StateReason = f.SniffedType, f.Width, f.Height, f.StateReason
			if r.Digest == "" {
				r.Digest = f.Digest
			}
		}
	}
	return nil
}

func (w *World) RecordUses(_ context.Context, u []chat.Use) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Uses = append(w.Uses, u...)
	return nil
}

// Reason and Put are the quarantine.
func (w *World) Reason(_ context.Context, digest, model string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.quarantine[digest+"|"]; r != "" {
		return r, nil
	}
	return w.quarantine[digest+"|"+model], nil
}

func (w *World) Put(_ context.Context, digest, model, reason string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quarantine[digest+"|"+model] = reason
	return nil
}

// Model plays a script: each entry answers one request.
type Model struct {
	Known    agent.ModelInfo
	Script   []func(agent.ModelRequest) (agent.ModelResponse, error)
	Requests []agent.ModelRequest
}

// Seeing is a model that sees and always says the same.
func Seeing(text string) *Model {
	return &Model{
		Known: agent.ModelInfo{Name: "scripted", Key: "scripted", Capability: agent.Capability{Vision: agent.VisionYes, Source: "test"}},
		Script: []func(agent.ModelRequest) (agent.ModelResponse, error){func(agent.ModelRequest) (agent.ModelResponse, error) {
			return agent.ModelResponse{Message: agent.Message{Role: agent.RoleAssistant, Text: text}}, nil
		}},
	}
}

func (m *Model) Info(context.Context) agent.ModelInfo { return m.Known }

func (m *Model) Generate(_ context.Context, r agent.ModelRequest, _ func(string)) (agent.ModelResponse, error) {
	m.Requests = append(m.Requests, r)
	f := m.Script[0]
	if len(m.Script) > 1 {
		m.Script = m.Script[1:]
	}
	return f(r)
}

// PNG is a picture whose pixels are different for each seed.
func PNG(t testing.TB, w, h int, seed uint8) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetNRGBA(x, y, color.NRGBA{uint8(x) ^ seed, uint8(y) + seed, seed, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Decode reads a tool's JSON answer.
func Decode(t testing.TB, s string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), into); err != nil {
		t.Fatalf("answer %q: %v", s, err)
	}
}
