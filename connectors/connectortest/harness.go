package connectortest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"sightline/attachments"
	"sightline/connectors/chat"
)

// Harness is one connector with a platform behind it. Open one per test; its
// functions fail the test themselves.
type Harness struct {
	Agent      chat.AgentID
	Source     attachments.Source
	Visibility attachments.Visibility

	// Send posts a message with these files (by name) as a person, in one of
	// two places that don't share an audience, and answers the event that the
	// connector delivered for it.
	Send func(place int, text string, files ...Upload) chat.Event
	// Delete removes the message on the platform.
	Delete func(e chat.Event)
	// Post is the connector's way to say something; Said are the agent's own
	// posts in a place as the platform has them now.
	Post func(ctx context.Context, r chat.Reply) (chat.Posted, error)
	Said func(place chat.Place) []string
	// Shown are the files of those posts, and Forget makes the connector what
	// it is after a restart: it knows nothing of what it posted.
	Shown  func(place chat.Place) []Upload
	Forget func()
	// Drafts shows an answer while it is made; nil: the connector has another
	// way to do so.
	Drafts Drafter
}

// Drafter is what workflows asks of a connector that shows drafts.
type Drafter interface {
	Draft(ctx context.Context, r chat.Reply) (chat.Posted, error)
	Withdraw(ctx context.Context, r chat.Reply) error
}

// Upload is a file that a person posts.
type Upload struct {
	Name string
	Data []byte
}

// Run runs the suite. open gives every test a platform of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range map[string]func(*testing.T, *suite){
		"grants":     testGrants,
		"fetch":      testFetch,
		"cap":        testCap,
		"cancel":     testCancel,
		"gone":       testGone,
		"foreign":    testForeign,
		"visibility": testVisibility,
		"uniform":    testUniform,
		"post":       testPost,
		"post files": testPostFiles,
		"draft":      testDraft,
		"lost draft": testLostDraft,
		"withdraw":   testWithdraw,
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			if h.Agent == "" || h.Source == nil || h.Visibility == nil || h.Send == nil || h.Delete == nil || h.Post == nil || h.Said == nil || h.Shown == nil || h.Forget == nil {
				t.Fatal("connectortest: the harness leaves something out")
			}
			test(t, &suite{Harness: h, t: t, inventory: newInventory()})
		})
	}
}

// suite is a harness with an inventory that believes whatever it is told.
type suite struct {
	Harness
	t         *testing.T
	inventory *inventory
}

// record keeps an event as the store would, and answers its files' rows.
func (s *suite) record(e chat.Event) []chat.Attachment {
	s.t.Helper()
	if e.Place.Agent != s.Agent || e.Message.ID != chat.MessageOf(e.Place.ID, e.Message.NativeID) || e.Message.Place != e.Place.ID {
		s.t.Fatalf("the event's names don't follow from each other: %+v", e)
	}
	return s.inventory.record(e)
}

// with posts one file in the first place and answers its row.
func (s *suite) with(data []byte) (chat.Event, chat.Attachment) {
	s.t.Helper()
	e := s.Send(0, "look", Upload{"picture.bin", data})
	rows := s.record(e)
	if len(rows) != 1 {
		s.t.Fatalf("%d files in the event, want 1", len(rows))
	}
	return e, rows[0]
}

// authorizer mints over the suite's inventory. Audiences are let through
// unless the connector itself shall judge.
func (s *suite) authorizer(judge bool, now func() time.Time) *attachments.Authorizer {
	s.t.Helper()
	var v attachments.Visibility = anybody{}
	if judge {
		v = s.Visibility
	}
	platforms := map[chat.Platform]attachments.Visibility{}
	sources := map[chat.AgentID]map[chat.Platform]attachments.Source{}
	for _, p := range s.inventory.places {
		platforms[p.Platform] = v
		if sources[p.Agent] == nil {
			sources[p.Agent] = map[chat.Platform]attachments.Source{}
		}
		sources[p.Agent][p.Platform] = s.Source
	}
	a, err := attachments.New(attachments.Config{
		Inventory: s.inventory, Visibility: platforms, Sources: sources, MaxBytes: 8 << 20, Now: now,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func request(row chat.Attachment) attachments.Request {
	return attachments.Request{
		Agent: row.Agent, Actor: row.Author, Conversation: row.Conversation,
		Destination: row.Place, Trigger: row.Message, Turn: chat.TurnOf(row.Message),
	}
}

// grant is a good one for the row.
func (s *suite) grant(ctx context.Context, a *attachments.Authorizer, row chat.Attachment) attachments.Grant {
	s.t.Helper()
	g, _, err := a.Authorize(ctx, request(row), row.ID, "test")
	if err != nil {
		s.t.Fatalf("authorize: %v", err)
	}
	return g
}

// nothing asserts that a fetch fails before its first byte.
func (s *suite) nothing(ctx context.Context, what string, g attachments.Grant) error {
	s.t.Helper()
	var b bytes.Buffer
	err := s.Source.Fetch(ctx, g, &b)
	if err == nil {
		s.t.Errorf("%s: fetched", what)
	}
	if b.Len() > 0 {
		s.t.Errorf("%s: %d bytes went out", what, b.Len())
	}
	return err
}

// anybody lets every audience through: these tests look at what comes after.
type anybody struct{}

func (anybody) Decide(context.Context, attachments.Question) (attachments.Decision, error) {
	return attachments.Allow("test", 0, 0), nil
}

// noise is n bytes that repeat nowhere.
func noise(n int) []byte {
	b := make([]byte, 0, n+sha256.Size)
	for sum := sha256.Sum256([]byte("noise")); len(b) < n; sum = sha256.Sum256(sum[:]) {
		b = append(b, sum[:]...)
	}
	return b[:n]
}
