package slack

import (
	"context"
	"errors"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// begin runs it until the test says so.
func (s *setup) begin() (end func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.bothOpen()
	return func() {
		s.t.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.t.Errorf("run: %v", err)
		}
	}
}

// A process that hears nothing, since another one takes the events, does not
// take its memory for the truth: it reads again whether a message is there.
func TestMemoryOfADeafProcess(t *testing.T) {
	s := open(t, nil)
	end := s.begin()
	m := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("look"), Files: []fakeslack.File{s.fake.Upload("x.png", "image/png", []byte("png"))}})
	e := s.event()
	reads := func() int { return len(s.fake.Calls("conversations.history")) }
	n := reads()
	if d, err := s.ask(e, e); err != nil || !d.Allowed() || reads() != n {
		t.Fatalf("while it hears: %+v, %v, %d reads", d, err, reads()-n)
	}
	end()
	if d, err := s.ask(e, e); err != nil || !d.Allowed() || reads() == n {
		t.Fatalf("afterwards: %+v, %v, %d reads", d, err, reads()-n)
	}
	_, err := s.fake.Remove("C1", m.TS) // whoever is told, it is not this process
	s.must(err)
	if d, err := s.ask(e, e); err != nil || d.Allowed() {
		t.Errorf("deleted while it was deaf: %+v, %v", d, err)
	}
	// Nor when it hears again: what it knew is older than that.
	m = s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: "another"})
	defer s.begin()()
	if d, err := s.ask(e, e); err != nil || d.Allowed() {
		t.Errorf("once it hears again: %+v, %v", d, err)
	}
}

// Nor for the moment in which it hears again and has not dropped it yet, over
// whichever connection.
func TestMemoryIsDroppedBeforeItCounts(t *testing.T) {
	s := open(t, nil)
	known := s.seen.now()
	s.facts.mu.Lock() // to drop what was known takes its time
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.eventually("both sockets are open", func() bool { return s.fake.Hellos() == sockets })
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s.seen.current(known) {
			t.Error("what was remembered before counts as told of")
			break
		}
	}
	s.facts.mu.Unlock()
	s.bothOpen()
	if s.seen.current(known) {
		t.Error("it still does")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
}

// What was said between two runs of one process is read from history, as it is
// at a start; a thread that the agent was called to meanwhile is one of its own.
func TestRunAgain(t *testing.T) {
	var marks []Mark
	s := open(t, func(c *Config) { c.Marks = func(context.Context) ([]Mark, error) { return marks, nil } })
	end := s.begin()
	root := s.post(fakeslack.Message{Channel: "C2", User: "U1", Text: "not for the agent"})
	s.post(fakeslack.Message{Channel: "C2", User: "U1", Text: "nor is this", ThreadTS: root.TS})
	first := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	if e := s.event(); e.Message.NativeID != first.TS {
		t.Fatalf("%+v", e)
	}
	end()
	marks = []Mark{{"D1", "", first.TS, true}}
	missed := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "two"})
	called := s.fake.Store(fakeslack.Message{Channel: "C2", User: "U1", Text: mention("come"), ThreadTS: root.TS})
	defer s.begin()()
	want := map[string]bool{missed.TS: true, called.TS: true} // of two channels, in any order
	for len(want) > 0 {
		e := s.event()
		if !want[e.Message.NativeID] || e.Silent {
			t.Fatalf("%+v", e)
		}
		delete(want, e.Message.NativeID)
	}
	s.eventually("all is read", s.caughtUp)
	s.quiet()
	m := s.post(fakeslack.Message{Channel: "C2", User: "U1", Text: "and now?", ThreadTS: root.TS})
	if e := s.event(); e.Message.NativeID != m.TS || e.Silent {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// The store is away when a process takes over: it waits, rather than ending.
func TestRunWaitsForTheStore(t *testing.T) {
	fails := 3
	s := open(t, func(c *Config) {
		c.Marks = func(context.Context) ([]Mark, error) {
			if fails--; fails > 0 {
				return nil, errors.New("the store is away")
			}
			return nil, nil
		}
	})
	s.begin()()
	if fails > 0 {
		t.Errorf("asked %d times too few", fails)
	}
}

// rowThat is a row that may be deleted.
type rowThat struct {
	rowOf
	deleted bool
}

func (r *rowThat) Message(ctx context.Context, p chat.PlaceID, id chat.MessageID) (chat.Message, error) {
	m, err := r.rowOf.Message(ctx, p, id)
	m.Deleted = r.deleted
	return m, err
}

// A process that takes no events at all decides, reads and posts: it learns
// from the store, and from Slack, what the process that takes them was told.
func TestWithoutRunning(t *testing.T) {
	k := &book{}
	var clock time.Time
	s := open(t, func(c *Config) { c.Aliases = k }).run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("look"), Files: []fakeslack.File{s.fake.Upload("x.png", "image/png", []byte("png"))}})
	e := s.event()
	clock = time.Now()
	row := &rowThat{rowOf: rowOf{e: e}}
	w := open(t, func(c *Config) {
		c.APIURL, c.Aliases, c.Now, c.Messages = s.fake.URL(), k, func() time.Time { return clock }, row
	})
	w.fake = s.fake
	if d, err := w.ask(e, e); err != nil || !d.Allowed() {
		t.Fatalf("%+v, %v", d, err)
	}
	// The store is asked each time, Slack no more than half a minute is old.
	reads := len(s.fake.Calls("conversations.history"))
	if d, err := w.ask(e, e); err != nil || !d.Allowed() || len(s.fake.Calls("conversations.history")) != reads {
		t.Errorf("%+v, %v", d, err)
	}
	row.deleted = true
	if d, err := w.ask(e, e); err != nil || d.Allowed() {
		t.Errorf("deleted, as the store says: %+v, %v", d, err)
	}
	row.deleted = false
	if got, err := w.fetch(e); err != nil || got != "png" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := w.reply(e, "k1", "here"); err != nil {
		t.Error(err)
	}
	// The channel gets another ID. Only the first is told, and the second
	// names the same place, and asks under the new ID, half a minute later.
	s.must(s.fake.Share("C1", "CNEW"))
	s.settle()
	clock = clock.Add(factsAge + time.Second)
	if _, err := w.reply(e, "k2", "again"); err != nil {
		t.Error(err)
	}
	calls := s.fake.Calls("chat.postMessage")
	if c := calls[len(calls)-1].Form["channel"]; c != "CNEW" {
		t.Errorf("it was posted to %q", c)
	}
	// A stranger to the channel by now is refused, though no event says so here.
	s.fake.ChangeChannel("CNEW", func(c *fakeslack.Channel) { c.Members = nil })
	clock = clock.Add(factsAge + time.Second)
	if d, err := w.ask(e, e); err != nil || d.Allowed() {
		t.Errorf("%+v, %v", d, err)
	}
}

// hooked is a row, and something that happens while it is looked up.
type hooked struct {
	rowOf
	do func()
}

func (h *hooked) Message(ctx context.Context, p chat.PlaceID, id chat.MessageID) (chat.Message, error) {
	h.do()
	return h.rowOf.Message(ctx, p, id)
}

// What changes while a decision is made counts in it.
func TestChangeDuringADecision(t *testing.T) {
	row := &hooked{do: func() {}}
	s := open(t, func(c *Config) { c.Messages = row })
	m := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: "x"})
	self, err := s.me(t.Context())
	s.must(err)
	p := s.place(self, "C1", "", channelInfo{})
	e := chat.Event{Place: p, Message: chat.Message{
		ID: chat.MessageOf(p.ID, m.TS), NativeID: m.TS, Author: chat.Actor{Platform: Platform, Workspace: fakeslack.Team, User: "U1"},
	}}
	row.rowOf = rowOf{e: e}
	if d, err := s.ask(e, e); err != nil || !d.Allowed() {
		t.Fatalf("%+v, %v", d, err)
	}
	row.do = func() {
		s.fake.ChangeChannel("C1", func(c *fakeslack.Channel) { c.Members = nil })
		s.facts.drop("C1")
	}
	if d, err := s.ask(e, e); d.Allowed() || err != nil || d.Rule != "member" {
		t.Errorf("%+v, %v", d, err)
	}
}

// rows are what an earlier process delivered.
type rows map[chat.MessageID]chat.Message

func (r rows) Message(_ context.Context, place chat.PlaceID, id chat.MessageID) (chat.Message, error) {
	if m, ok := r[id]; ok && m.Place == place {
		return m, nil
	}
	return chat.Message{}, chat.ErrNotFound
}

// An edit took from a message what had made it the agent's business. What
// becomes of it then, the next process, which does not remember it, delivers
// all the same; what nobody recorded it leaves alone.
func TestChangedAfterARestart(t *testing.T) {
	for name, what := range map[string]struct {
		m     fakeslack.Message
		files bool
	}{
		"called":   {m: fakeslack.Message{Channel: "C1", Text: mention("look")}},
		"a file":   {m: fakeslack.Message{Channel: "C1", Text: "beside"}, files: true},
		"a thread": {m: fakeslack.Message{Channel: "C1", Text: "beside"}, files: true},
	} {
		t.Run(name, func(t *testing.T) {
			known := rows{}
			s := open(t, func(c *Config) { c.Messages = known })
			end := s.begin()
			if name == "a thread" {
				what.m.ThreadTS = s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: "of people"}).TS
			}
			if what.files {
				what.m.Files = []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}
			}
			what.m.User = "U1"
			m := s.post(what.m)
			e := s.event()
			known[e.Message.ID] = e.Message
			other := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: "of people"})
			s.must(s.fake.Edit("C1", m.TS, func(m *fakeslack.Message) { m.Text, m.Files = "nothing to see", nil }))
			s.settle()
			if e := s.event(); e.Kind != chat.MessageEdited {
				t.Fatalf("%+v", e)
			}
			end()
			s.seen = newSeen(100)
			defer s.begin()()
			s.must(s.fake.Edit("C1", m.TS, func(m *fakeslack.Message) { m.Text = "nothing at all" }))
			s.settle()
			if got := s.event(); got.Kind != chat.MessageEdited || got.Message.ID != e.Message.ID || got.Message.Text != "nothing at all" {
				t.Errorf("edited: %+v", got)
			}
			s.seen = newSeen(100)
			s.must(s.fake.Delete("C1", m.TS))
			s.settle()
			if got := s.event(); got.Kind != chat.MessageDeleted || got.Message.ID != e.Message.ID {
				t.Errorf("deleted: %+v", got)
			}
			s.must(s.fake.Edit("C1", other.TS, func(m *fakeslack.Message) { m.Text = "of people, still" }))
			s.must(s.fake.Delete("C1", other.TS))
			s.quiet()
		})
	}
}
