package attachments

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"sightline/connectors/chat"
)

func threadOf(p chat.Place, thread string) chat.Place {
	t := chat.NewPlace(p.Agent, p.Platform, p.Workspace, p.Channel, thread, chat.PrivateThread)
	t.Parent = p.ID
	return t
}

// A thread may ask for its channel's picture and a channel for its thread's:
// who may see it is the connector's to say, and it is asked.
func TestThreadsAndTheirChannelAskForEachOther(t *testing.T) {
	w, rows := newWorld(agentA)
	a := rows[agentA]
	auth := w.authorizer(t, agentA)
	channel := w.places[a.Place]
	one, two := threadOf(channel, "t1"), threadOf(channel, "t2")
	w.places[one.ID], w.places[two.ID] = one, two
	asks := map[string][2]chat.Place{"channel to thread": {channel, one}, "thread to channel": {one, channel}, "thread to thread": {one, two}}
	for name, c := range asks {
		src, dst := c[0], c[1]
		row := a
		row.ID, row.Place, row.Conversation = chat.NewAttachmentID(), src.ID, src.Conversation()
		m := chat.Message{ID: chat.MessageOf(src.ID, "9"), Place: src.ID, NativeID: "9", Revision: "r1"}
		row.Message = m.ID
		w.messages[m.ID], w.rows[row.ID] = m, row
		r := request(row)
		r.Conversation, r.Destination = dst.Conversation(), dst.ID
		for _, allowed := range []bool{true, false} {
			var asked []Question
			w.decide = func(q Question) (Decision, error) {
				asked = append(asked, q)
				if allowed {
					return Allow("S2", 1, 1), nil
				}
				return Refuse("structure", "wider"), nil
			}
			_, got, err := auth.Authorize(context.Background(), r, row.ID, "view")
			if allowed && (err != nil || got.ID != row.ID) || !allowed && err != ErrNotAvailable {
				t.Errorf("%s, allowed %v: %v", name, allowed, err)
			}
			if len(asked) != 1 || asked[0].Source.ID != src.ID || asked[0].Destination.ID != dst.ID || asked[0].Message != m.ID {
				t.Errorf("%s: the connector was asked %+v", name, asked)
			}
		}
	}
}

// Missing and forbidden must be one error, with no byte fetched and a line in
// the trail that names the rule.
func TestRefusalsAreUniformAndFetchNothing(t *testing.T) {
	base := func() (*world, chat.Attachment, chat.Attachment) {
		w, rows := newWorld(agentA, agentB)
		return w, rows[agentA], rows[agentB]
	}
	cases := []struct {
		name string
		rule string
		set  func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID)
	}{
		{"an ID that never existed", "unknown", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			return request(a), chat.NewAttachmentID()
		}},
		{"another channel's, from a store that does not filter", "unknown", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			w.lies = true
			other := chat.NewPlace(agentA, "test", "ws", "other", "", chat.Channel)
			w.places[other.ID] = other
			r := request(a)
			r.Conversation, r.Destination = other.Conversation(), other.ID
			return r, a.ID
		}},
		{"a destination that is not the conversation's", "unknown", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			thread := threadOf(w.places[a.Place], "t1")
			w.places[thread.ID] = thread
			r := request(a)
			r.Conversation = thread.Conversation()
			return r, a.ID
		}},
		{"a URL in place of an ID", "id", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			return request(a), "https://example.org/x.png"
		}},
		{"another agent's attachment", "unknown", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			return request(a), b.ID
		}},
		{"another conversation", "unknown", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			r := request(a)
			r.Conversation = "cnv_other"
			return r, a.ID
		}},
		{"an unknown destination", "place", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			r := request(a)
			r.Destination = "plc_unknown"
			return r, a.ID
		}},
		{"another agent's destination", "place", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			r := request(a)
			r.Destination = b.Place
			return r, a.ID
		}},
		{"a wider audience", "wider", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			w.decide = func(Question) (Decision, error) { return Refuse("wider", "the destination has more readers"), nil }
			return request(a), a.ID
		}},
		{"a zero decision", "", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			w.decide = func(Question) (Decision, error) { return Decision{}, nil }
			return request(a), a.ID
		}},
		{"a failed lookup", "doubt", func(w *world, a, b chat.Attachment) (Request, chat.AttachmentID) {
			w.decide = func(Question) (Decision, error) { return Allow("S1", 0, 0), errors.New("timed out") }
			return request(a), a.ID
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, a, b := base()
			auth := w.authorizer(t, agentA, agentB)
			r, id := c.set(w, a, b)
			g, row, err := auth.Authorize(context.Background(), r, id, "view")
			if !errors.Is(err, ErrNotAvailable) || err.Error() != ErrNotAvailable.Error() || errors.Is(err, ErrDoubt) != (c.rule == "doubt") {
				t.Fatalf("error %v, want what reads as ErrNotAvailable", err)
			}
			if row != (chat.Attachment{}) {
				t.Errorf("the row came back with a refusal: %+v", row)
			}
			if _, err := auth.Fetch(context.Background(), g, r, id); !errors.Is(err, ErrGrant) || w.fetched != 0 {
				t.Errorf("fetch after a refusal: %v, %d fetches", err, w.fetched)
			}
			if len(w.uses) != 1 || w.uses[0].Allowed || w.uses[0].Rule != c.rule || w.uses[0].Attachment != id {
				t.Errorf("trail %+v, want one refusal by rule %q", w.uses, c.rule)
			}
		})
	}
}

func TestStateIsNamedOnlyOnceTheAudienceHolds(t *testing.T) {
	w, rows := newWorld(agentA)
	r := rows[agentA]
	r.State = chat.FileDeleted
	w.rows[r.ID] = r
	auth := w.authorizer(t, agentA)
	var state *StateError
	if _, _, err := auth.Authorize(context.Background(), request(r), r.ID, "view"); !errors.As(err, &state) || state.State != chat.FileDeleted {
		t.Errorf("a deleted file: %v", err)
	}
	w.decide = func(Question) (Decision, error) { return Refuse("wider", "x"), nil }
	if _, _, err := auth.Authorize(context.Background(), request(r), r.ID, "view"); err != ErrNotAvailable {
		t.Errorf("a deleted file outside its audience: %v", err)
	}
	w, rows = newWorld(agentA)
	r = rows[agentA]
	m := w.messages[r.Message]
	m.Deleted = true
	w.messages[r.Message] = m
	if _, _, err := w.authorizer(t, agentA).Authorize(context.Background(), request(r), r.ID, "view"); !errors.As(err, &state) {
		t.Errorf("a deleted message: %v", err)
	}
	// Of which the connector has heard, and the store has not: the connector
	// refuses the message, and the place as a whole may hear why.
	w, rows = newWorld(agentA)
	r = rows[agentA]
	w.gone = map[chat.MessageID]bool{r.Message: true}
	w.decide = func(q Question) (Decision, error) {
		if q.Message != "" {
			return Refuse("message", "the source message was deleted"), nil
		}
		return Allow("S1", 1, 1), nil
	}
	if _, _, err := w.authorizer(t, agentA).Authorize(context.Background(), request(r), r.ID, "view"); !errors.As(err, &state) || state.State != chat.FileDeleted || state.Person != "its message was deleted" {
		t.Errorf("a message whose deletion is under way: %v", err)
	}
}

func TestWithoutATrailNothingIsAllowed(t *testing.T) {
	w, rows := newWorld(agentA)
	r := rows[agentA]
	w.usesErr = errors.New("disk full")
	auth := w.authorizer(t, agentA)
	g, _, err := auth.Authorize(context.Background(), request(r), r.ID, "view")
	if err == nil || errors.Is(err, ErrNotAvailable) {
		t.Fatalf("error %v, want the store's", err)
	}
	if _, err := g.Locator(agentA); !errors.Is(err, ErrGrant) {
		t.Errorf("a grant without a trail opens: %v", err)
	}
}

func TestFetchStopsAtTheCap(t *testing.T) {
	w, rows := newWorld(agentA)
	r := rows[agentA]
	w.bytes = make([]byte, 1<<20+1)
	auth := w.authorizer(t, agentA)
	g, _, err := auth.Authorize(context.Background(), request(r), r.ID, "view")
	if err != nil {
		t.Fatal(err)
	}
	c, err := auth.Fetch(context.Background(), g, request(r), r.ID)
	var large *TooLargeError
	if !errors.As(err, &large) || c.Bytes() != nil {
		t.Errorf("over the cap: %v, %d bytes", err, len(c.Bytes()))
	}
	// The same for a source that copies from a reader.
	w.copies = true
	if c, err = auth.Fetch(context.Background(), g, request(r), r.ID); !errors.As(err, &large) || c.Bytes() != nil {
		t.Errorf("over the cap, copied: %v, %d bytes", err, len(c.Bytes()))
	}
	w.bytes = w.bytes[:1<<20]
	w.bytes[12345] = 7
	if c, err = auth.Fetch(context.Background(), g, request(r), r.ID); err != nil || !bytes.Equal(c.Bytes(), w.bytes) || c.Sum() != sha256.Sum256(w.bytes) {
		t.Errorf("at the cap, copied: %v, %d bytes", err, len(c.Bytes()))
	}
	w.copies = false
	if c, err = auth.Fetch(context.Background(), g, request(r), r.ID); err != nil || c.Sum() != sha256.Sum256(w.bytes) || len(c.Bytes()) != 1<<20 {
		t.Errorf("at the cap: %v, %d bytes", err, len(c.Bytes()))
	}
}

func TestGuessesAreLimitedWithoutALookup(t *testing.T) {
	w, rows := newWorld(agentA)
	r := rows[agentA]
	auth := w.authorizer(t, agentA)
	for range 20 {
		if _, _, err := auth.Authorize(context.Background(), request(r), chat.NewAttachmentID(), "view"); err != ErrNotAvailable {
			t.Fatal(err)
		}
	}
	before := w.lookups
	if _, _, err := auth.Authorize(context.Background(), request(r), r.ID, "view"); !errors.Is(err, ErrLimited) || !errors.Is(err, ErrNotAvailable) || err.Error() != ErrNotAvailable.Error() || w.lookups != before {
		t.Errorf("after 20 guesses: %v, %d more lookups", err, w.lookups-before)
	}
	if u := w.uses[len(w.uses)-1]; u.Rule != "guess-limit" {
		t.Errorf("trail says %q", u.Rule)
	}
	w.now = w.now.Add(guessWindow + time.Second)
	if _, _, err := auth.Authorize(context.Background(), request(r), r.ID, "view"); err != nil {
		t.Errorf("after the window: %v", err)
	}
}

// Another conversation is another chance, and not without end: whoever opens
// threads opens conversations.
func TestGuessesAreLimitedOverConversations(t *testing.T) {
	w, rows := newWorld(agentA)
	r := rows[agentA]
	auth := w.authorizer(t, agentA)
	spread := request(r)
	for n := range 5 * 20 {
		if _, _, err := auth.Authorize(context.Background(), request(r), r.ID, "view"); err != nil {
			t.Fatalf("after %d guesses elsewhere: %v", n, err)
		}
		spread.Conversation = chat.ConversationOf(agentA, chat.PlaceID(fmt.Sprint("thread", n/19)))
		if _, _, err := auth.Authorize(context.Background(), spread, chat.NewAttachmentID(), "view"); err != ErrNotAvailable {
			t.Fatal(err)
		}
	}
	for who, want := range map[string]error{request(r).Actor.User: ErrLimited, "somebody else": nil} {
		q := request(r)
		q.Actor.User = who
		if _, _, err := auth.Authorize(context.Background(), q, r.ID, "view"); err != want {
			t.Errorf("%s, after 100 guesses in all: %v", who, err)
		}
	}
	if len(auth.guesses) == 0 {
		t.Fatal("nothing is remembered")
	}
	w.now = w.now.Add(guessWindow + time.Second)
	if _, _, err := auth.Authorize(context.Background(), request(r), r.ID, "view"); err != nil {
		t.Errorf("after the window: %v", err)
	}
}

func TestListShowsOnlyWhatTheDestinationMayKnow(t *testing.T) {
	w, rows := newWorld(agentA)
	r := rows[agentA]
	auth := w.authorizer(t, agentA)
	other := chat.NewPlace(agentA, "test", "ws", "private", "", chat.PrivateThread)
	m := chat.Message{ID: chat.MessageOf(other.ID, "9"), Place: other.ID, NativeID: "9"}
	hidden := r
	hidden.ID, hidden.Place, hidden.Message, hidden.Ordinal = chat.NewAttachmentID(), other.ID, m.ID, 2
	w.places[other.ID], w.messages[m.ID], w.rows[hidden.ID] = other, m, hidden
	w.decide = func(q Question) (Decision, error) {
		if q.Source.ID == other.ID {
			return Refuse("wider", "x"), nil
		}
		return Allow("S1", 1, 1), nil
	}
	page, err := auth.List(context.Background(), request(r), 0, 10)
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != r.ID || page.Total != 1 || page.Next != 0 {
		t.Errorf("page %+v, %v", page, err)
	}
	// A command answers no message; a deleted file has none to ask about: the
	// place as a whole is asked, and a yes to that lists no single message that
	// is refused.
	gone := r
	gone.ID, gone.Ordinal, gone.State = chat.NewAttachmentID(), 3, chat.FileDeleted
	w.rows[gone.ID] = gone
	w.decide = func(q Question) (Decision, error) {
		if q.Source.ID == other.ID || q.Message != "" {
			return Refuse("message", "x"), nil
		}
		return Allow("S1", 1, 1), nil
	}
	req := request(r)
	req.Trigger = ""
	if page, err = auth.List(context.Background(), req, 0, 10); err != nil || len(page.Items) != 1 || page.Items[0].ID != gone.ID {
		t.Errorf("of a place as a whole: %+v, %v", page, err)
	}
	w.decide = func(Question) (Decision, error) { return Allow("S1", 1, 1), errors.New("doubt") }
	if page, err = auth.List(context.Background(), request(r), 0, 10); err != nil || len(page.Items) != 0 || page.Total != 0 {
		t.Errorf("in doubt: %+v, %v", page, err)
	}
}

// That the message being answered may be seen says nothing of what else its
// place holds: what is listed for it alone is of no place as a whole.
func TestTheTriggerIsNotItsPlace(t *testing.T) {
	w, rows := newWorld(agentA)
	r := rows[agentA]
	auth := w.authorizer(t, agentA)
	req := request(r)
	req.Trigger = r.Message
	w.decide = func(q Question) (Decision, error) {
		if q.Message != "" && q.Message == q.Trigger {
			return Allow("S1", 1, 1), nil
		}
		return Refuse("S1", "not everybody reads the history"), nil
	}
	for n := range 3 { // others of its place
		m := chat.Message{ID: chat.MessageOf(r.Place, fmt.Sprint("other", n)), Place: r.Place}
		other := r
		other.ID, other.Message, other.Ordinal = chat.NewAttachmentID(), m.ID, n+2
		w.messages[m.ID], w.rows[other.ID] = m, other
	}
	page, err := auth.List(context.Background(), req, 0, 1)
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != r.ID || len(page.Places) != 0 || page.Total != 1 || page.Next != 0 {
		t.Errorf("for the message alone: %+v, %v", page, err)
	}
	if err := auth.Known(context.Background(), req, r.Place, "context"); err != ErrNotAvailable {
		t.Errorf("its place as a whole: %v", err)
	}
	if err := auth.Known(context.Background(), req, "plc_unknown", "context"); err != ErrNotAvailable {
		t.Errorf("a place that is not known: %v", err)
	}
	w.decide = func(Question) (Decision, error) { return Allow("S1", 1, 1), nil }
	if page, err = auth.List(context.Background(), req, 0, 10); err != nil || len(page.Places) != 1 || page.Places[0] != r.Place {
		t.Errorf("of a place as a whole: %+v, %v", page, err)
	}
	if err := auth.Known(context.Background(), req, r.Place, "context"); err != nil {
		t.Errorf("its place as a whole: %v", err)
	}
}

// What is gone is screened out as soon as the connector has heard of it, the
// message being answered, too.
func TestScreen(t *testing.T) {
	w, rows := newWorld(agentA)
	r := rows[agentA]
	auth := w.authorizer(t, agentA)
	screened := func(trigger chat.MessageID) string {
		t.Helper()
		req := request(r)
		req.Trigger = trigger
		out, err := auth.Screen(t.Context(), req, []chat.AttachmentID{r.ID, r.ID}, "context")
		if err != nil || len(w.uses) != len(out) {
			t.Fatalf("%v, %v, %d rows of the trail", out, err, len(w.uses))
		}
		w.uses = nil
		return out[r.ID]
	}
	msg, place := w.messages[r.Message], w.places[r.Place]
	for want, c := range map[string]struct{ before, after func() }{
		"":                        {func() {}, func() {}},
		"its message was deleted": {func() { w.gone = map[chat.MessageID]bool{r.Message: true} }, func() { w.gone = nil }},
		"it was deleted": {
			func() { d := r; d.State = chat.FileDeleted; w.rows[r.ID] = d },
			func() { w.rows[r.ID] = r },
		},
		"its place is not known": {func() { delete(w.places, r.Place) }, func() { w.places[r.Place] = place }},
	} {
		c.before()
		for _, trigger := range []chat.MessageID{"", r.Message} {
			if got := screened(trigger); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		c.after()
	}
	deleted := msg
	deleted.Deleted = true
	w.messages[r.Message] = deleted
	if got := screened(r.Message); got != "its message was deleted" {
		t.Error(got)
	}
	w.messages[r.Message] = msg
	w.decide = func(Question) (Decision, error) { return Refuse("S1", "x"), nil }
	if got := screened(r.Message); got != "" { // it is on every screen
		t.Error(got)
	}
	out, err := auth.Screen(t.Context(), request(r), []chat.AttachmentID{r.ID}, "context")
	if err != nil || out[r.ID] != "its place may not be known of here now" {
		t.Errorf("%v, %v", out, err)
	}
}
