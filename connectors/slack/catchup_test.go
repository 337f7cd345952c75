package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// book is a store of what was recorded, and of aliases.
type book struct {
	mu      sync.Mutex
	rows    []Recorded
	aliases []Alias
	fail    bool
}

func (k *book) recent(context.Context) ([]Recorded, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.rows), nil
}

func (k *book) keep(e chat.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows = append([]Recorded{{e.Place.Channel, e.Place.Thread, e.Message.NativeID, e.Message.Revision}}, k.rows...)
}

func (k *book) Aliases(context.Context, chat.AgentID) ([]Alias, error) { return k.aliases, nil }

func (k *book) SetAlias(_ context.Context, _ chat.AgentID, a Alias) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail {
		return errors.New("the store is away")
	}
	k.aliases = append(k.aliases, a)
	return nil
}

// Edits and deletions that happened while nobody listened are found, in a
// channel, a thread and a direct message, by the same process and by the next.
func TestChangesInAGap(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			k := &book{}
			s := open(t, func(c *Config) { c.Recent = k.recent }).run()
			s.eventually("both sockets are open", func() bool { return s.fake.Hellos() == 2 })
			take := func(m fakeslack.Message) chat.Event {
				s.post(m)
				e := s.event()
				k.keep(e)
				return e
			}
			picture := func() []fakeslack.File { return []fakeslack.File{s.fake.Upload("x", "", []byte("x"))} }
			root := take(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("root")})
			edited := take(fakeslack.Message{Channel: "C1", User: "U2", Text: "reply", ThreadTS: root.Message.NativeID})
			gone := take(fakeslack.Message{Channel: "C1", User: "U2", Text: "another", ThreadTS: root.Message.NativeID})
			beside := take(fakeslack.Message{Channel: "C1", User: "U2", Text: "beside", Files: picture()})
			file := picture()
			lost := take(fakeslack.Message{Channel: "D1", User: "U1", Text: "a file", Files: file})
			passed := picture()
			forward := take(fakeslack.Message{Channel: "D1", User: "U1", Text: "a forward", Attachments: []fakeslack.Share{{IsShare: true, Files: passed}}})
			take(fakeslack.Message{Channel: "D1", User: "U1", Text: "stays"})
			s.fake.Lose(true)
			s.must(s.fake.DeleteFile(passed[0].ID))
			s.must(s.fake.Edit("C1", edited.Message.NativeID, func(m *fakeslack.Message) { m.Text = "reworded" }))
			s.must(s.fake.Edit("C1", beside.Message.NativeID, func(m *fakeslack.Message) { m.Text, m.Files = "nothing to see", nil }))
			s.must(s.fake.Delete("C1", gone.Message.NativeID))
			s.must(s.fake.DeleteFile(file[0].ID))
			s.fake.Lose(false)
			if restart {
				next := open(t, func(c *Config) {
					c.APIURL, c.Recent = s.fake.URL(), k.recent
					c.Marks = func(context.Context) ([]Mark, error) {
						return []Mark{{"D1", "", lost.Message.NativeID, true}, {"C1", root.Message.NativeID, gone.Message.NativeID, true}}, nil
					}
				})
				next.fake, next.seen = s.fake, newSeen(10)
				next.readDelay = -time.Hour // nothing new is read
				s = next.run()
			} else {
				s.drop()
			}
			want := map[chat.MessageID]func(chat.Event) bool{
				edited.Message.ID: func(e chat.Event) bool { return e.Kind == chat.MessageEdited && e.Message.Text == "reworded" },
				beside.Message.ID: func(e chat.Event) bool { return e.Kind == chat.MessageEdited && len(e.Files) == 0 },
				gone.Message.ID:   func(e chat.Event) bool { return e.Kind == chat.MessageDeleted && e.Message.Deleted },
			}
			for _, id := range []chat.MessageID{lost.Message.ID, forward.Message.ID} {
				want[id] = func(e chat.Event) bool {
					return e.Kind == chat.MessageEdited && slices.Equal(states(e), []chat.FileState{chat.FileDeleted})
				}
			}
			for len(want) > 0 {
				e := s.event()
				if e.Kind == chat.MessagePosted && restart {
					continue // the last one taken comes again: the store knows it
				}
				if f := want[e.Message.ID]; f == nil || !f(e) {
					t.Errorf("%+v", e)
				}
				delete(want, e.Message.ID)
			}
			s.quiet()
		})
	}
}

// A channel that the agent may not read any more looks empty, and tells
// nothing; neither does a lookup that fails.
func TestDoubtIsNoDeletion(t *testing.T) {
	k := &book{}
	s := open(t, func(c *Config) { c.Recent = k.recent }).run()
	s.post(fakeslack.Message{Channel: "CPRIV", User: "U1", Text: mention("x")})
	k.keep(s.event())
	s.post(fakeslack.Message{Channel: "C2", User: "U1", Text: mention("y")})
	k.keep(s.event())
	s.fake.ChangeChannel("CPRIV", func(c *fakeslack.Channel) { c.Members = []string{"U1"} })
	s.fake.Fail("conversations.history", fakeslack.Failure{Status: 500, Times: 1000})
	s.drop()
	s.eventually("it was tried", func() bool {
		return strings.Count(s.log.String(), "edits and deletions may have been missed")+strings.Count(s.log.String(), "can't be compared") >= 2
	})
	s.quiet()
	// Listed as missing, and the lookup of the message alone fails.
	self, err := s.me(t.Context())
	s.must(err)
	if err := s.confirm(t.Context(), self, channelInfo{ID: "C2"}, "C2", k.rows[0]); err == nil {
		t.Error("a lookup that failed is no error")
	}
	s.quiet()
}

// The costs of comparing are bounded, whatever the store has.
func TestComparingIsBounded(t *testing.T) {
	k := &book{}
	s := open(t, func(c *Config) { c.Recent = k.recent })
	root := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("x")})
	for n := range 300 {
		k.rows = append(k.rows, Recorded{"C1", fmt.Sprintf("1600000%03d.000000", n), fmt.Sprintf("1600001%03d.000000", n), "/x"},
			Recorded{"C1", root.TS, fmt.Sprintf("1600002%03d.000000", n), "/x"})
	}
	s.run()
	s.drop()
	s.eventually("all were read", func() bool { return s.caughtUp() && len(s.fake.Calls("conversations.replies")) > 0 })
	if n := len(s.fake.Calls("conversations.replies")); n > 3*maxCompared+maxConfirms*maxCompared {
		t.Errorf("%d calls", n)
	}
}

// caughtUp: no catching up is under way, and all that it read was delivered. One
// that is still to be started is not known here.
func (s *setup) caughtUp() bool {
	if s.waiting.Load() || !s.filling.TryLock() {
		return false
	}
	defer s.filling.Unlock()
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.n == 0
}

// The agent is called to a channel while nobody listens, and Slack has given
// up on telling.
func TestMissedInAChannelThatIsNew(t *testing.T) {
	s := open(t, nil).run()
	s.fake.Lose(true)
	s.fake.AddChannel(fakeslack.Channel{ID: "C9", IsChannel: true, Members: []string{"U1", fakeslack.BotUser}})
	m := s.post(fakeslack.Message{Channel: "C9", User: "U1", Text: mention("come")})
	s.fake.Lose(false)
	s.drop()
	if e := s.event(); e.Message.NativeID != m.TS || e.Silent {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// A thread in which only pictures were noted is not one that the agent takes
// part in, after a restart either.
func TestNotedIsNotTakingPart(t *testing.T) {
	s := open(t, nil)
	root := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U2", Text: "a thread"})
	noted := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U2", Text: "look", ThreadTS: root.TS, Files: []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}})
	s.c.Marks = func(context.Context) ([]Mark, error) { return []Mark{{"C1", root.TS, noted.TS, false}}, nil }
	s.run()
	s.post(fakeslack.Message{Channel: "C1", User: "U2", Text: "not for the agent", ThreadTS: root.TS})
	s.eventually("all is read", s.caughtUp)
	for len(s.sink.got) > 0 {
		if e := s.event(); !e.Silent {
			t.Errorf("%+v", e)
		}
	}
}

// Case 24, across a restart: the place keeps the ID under which it was met.
func TestAliasesAreKept(t *testing.T) {
	k := &book{fail: true}
	s := open(t, func(c *Config) { c.Aliases = k }).run()
	s.fake.RetryEvery(100 * time.Millisecond)
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("hi")})
	before := s.event()
	s.must(s.fake.Share("C1", "CNEW"))
	s.eventually("it is not acknowledged while the store is away", func() bool { return strings.Contains(s.log.String(), "not acknowledged") })
	k.mu.Lock()
	k.fail = false
	k.mu.Unlock()
	s.settle()
	if len(k.aliases) == 0 || k.aliases[0] != (Alias{"C1", "CNEW"}) {
		t.Fatalf("%+v", k.aliases)
	}
	next := open(t, func(c *Config) { c.APIURL, c.Aliases = s.fake.URL(), k })
	next.fake = s.fake
	next.run()
	m := next.post(fakeslack.Message{Channel: "CNEW", User: "U1", Text: mention("more"), ThreadTS: before.Message.NativeID})
	for {
		var e chat.Event
		select {
		case e = <-s.sink.got: // the first process still runs: it may be told instead
		case e = <-next.sink.got:
		case <-time.After(patience):
			t.Fatal("nothing came")
		}
		if e.Place.ID != before.Place.ID {
			t.Errorf("%+v", e.Place)
		}
		if e.Message.NativeID == m.TS {
			break
		}
	}
	// Learned from a lookup, it is kept as well.
	other := &book{fail: true}
	third := open(t, func(c *Config) { c.APIURL, c.Aliases = s.fake.URL(), other })
	if _, err := third.facts.get(t.Context(), "C1", kindAge); err == nil {
		t.Error("an ID counts that was not kept")
	}
	other.fail = false
	if _, err := third.facts.get(t.Context(), "C1", kindAge); err != nil || len(other.aliases) != 1 {
		t.Errorf("%v, %+v", err, other.aliases)
	}
}
