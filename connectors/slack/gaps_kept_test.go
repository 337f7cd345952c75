package slack

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// ledger is what several processes find in the store.
type ledger struct {
	mu    sync.Mutex
	marks []Mark
	gaps  map[string]string
	fail  bool
}

func (l *ledger) Gaps(context.Context, chat.AgentID) (out []Gap, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for channel, from := range l.gaps {
		out = append(out, Gap{channel, from})
	}
	return out, nil
}

func (l *ledger) SetGaps(_ context.Context, _ chat.AgentID, opened, closed []Gap) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail {
		return errors.New("the store is away")
	}
	if l.gaps == nil {
		l.gaps = map[string]string{}
	}
	for _, c := range closed {
		if l.gaps[c.Channel] == c.From {
			delete(l.gaps, c.Channel)
		}
	}
	for _, g := range opened {
		l.gaps[g.Channel] = g.From
	}
	return nil
}

func (l *ledger) kept() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.gaps)
}

func (l *ledger) failing(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = yes
}

func (l *ledger) config(c *Config) {
	c.Gaps = l
	c.Marks = func(context.Context) ([]Mark, error) { return l.marks, nil }
}

// readByTheNext starts another process with the same store, on the same
// workspace, and waits until it has read what was missed, and all that was left.
func (s *setup) readByTheNext(l *ledger, marks []Mark, missed fakeslack.Message) {
	s.t.Helper()
	l.marks = marks
	n := open(s.t, func(c *Config) { c.APIURL = s.fake.URL(); l.config(c) })
	n.fake, n.readDelay = s.fake, 0
	defer n.begin()()
	for n.event().Message.NativeID != missed.TS {
	}
	n.eventually("nothing is left to read", func() bool { return len(l.kept()) == 0 })
}

// A process is killed while it can't read a gap, and has taken a newer message
// of the same channel: the next one reads what it left.
func TestGapOutlivesItsProcess(t *testing.T) {
	l := &ledger{}
	s := open(t, l.config)
	s.fake.RetryEvery(100 * time.Millisecond)
	s.readDelay = 0
	end := s.begin()
	one := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	s.event()
	s.eventually("all is read", s.caughtUp)
	s.eventually("nothing is left to read", func() bool { return len(l.kept()) == 0 })
	s.fake.Lose(true)
	two := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "two"})
	s.fake.Lose(false)
	s.fake.Fail("conversations.history", fakeslack.Failure{Status: 503, Times: 100000})
	hellos := s.fake.Hellos()
	s.drop()
	s.eventually("both sockets are open again", func() bool { return s.fake.Hellos() == hellos+sockets })
	s.bothOpen()

	// Nothing newer is taken before the gap is noted.
	l.failing(true)
	m, err := s.fake.Post(fakeslack.Message{Channel: "D1", User: "U1", Text: "three"})
	s.must(err)
	s.eventually("it was tried", func() bool { return strings.Contains(s.log.String(), "keep which gaps") })
	if len(s.sink.got) > 0 {
		t.Errorf("taken before it was noted what is missing: %+v", s.event())
	}
	l.failing(false)
	if e := s.event(); e.Message.NativeID != m.TS {
		t.Fatalf("%+v", e)
	}
	if from := l.kept()["D1"]; from != one.TS {
		t.Errorf("noted from %q on, want %q: %v", from, one.TS, l.kept())
	}
	end()
	s.fake.Fail("conversations.history", fakeslack.Failure{})
	s.readByTheNext(l, []Mark{{"D1", "", m.TS, true}}, two)
}

// So is one in a channel of which nothing was ever taken, and which the killed
// process had no time to find.
func TestGapInAnUnknownChannelOutlivesItsProcess(t *testing.T) {
	l := &ledger{}
	s := open(t, l.config)
	s.readDelay = 0
	end := s.begin()
	one := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	s.event()
	s.eventually("all is read", s.caughtUp)
	s.fake.Lose(true)
	two := s.post(fakeslack.Message{Channel: "C2", User: "U1", Text: mention("two")})
	s.fake.Lose(false)
	s.fake.Fail("users.conversations", fakeslack.Failure{Status: 503, Times: 100000})
	hellos := s.fake.Hellos()
	s.drop()
	s.eventually("both sockets are open again", func() bool { return s.fake.Hellos() == hellos+sockets })
	s.bothOpen()
	three := s.post(fakeslack.Message{Channel: "C2", User: "U1", Text: mention("three")})
	if e := s.event(); e.Message.NativeID != three.TS {
		t.Fatalf("%+v", e)
	}
	end()
	s.fake.Fail("users.conversations", fakeslack.Failure{})
	s.readByTheNext(l, []Mark{{"D1", "", one.TS, true}, {"C2", three.TS, three.TS, true}}, two)
}

// What refuses the token, or is no answer of Slack's, says nothing about the
// channel: what was missed there is read when the token is good again.
func TestGapOutlivesARefusalOfTheToken(t *testing.T) {
	for _, refusal := range []fakeslack.Failure{{Code: "token_revoked"}, {Code: "invalid_auth"}, {Status: 403}} {
		l := &ledger{}
		s := open(t, l.config)
		s.readDelay = 0
		end := s.begin()
		s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
		s.event()
		s.eventually("all is read", s.caughtUp)
		s.fake.Lose(true)
		two := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "two"})
		s.fake.Lose(false)
		refusal.Times = 1 << 20
		s.fake.Fail("conversations.history", refusal)
		s.drop()
		s.eventually("it was tried", func() bool { return strings.Contains(s.log.String(), "a channel can't be read") })
		s.fake.Fail("conversations.history", fakeslack.Failure{})
		if e := s.event(); e.Message.NativeID != two.TS {
			t.Errorf("%+v: %+v", refusal, e)
		}
		end()
	}
}

// A message that the store can't keep, whoever tries, is not owed for ever:
// neither is one that comes, nor one that is read.
func TestAMessageThatCantBeKept(t *testing.T) {
	l := &ledger{}
	s := open(t, l.config)
	s.readDelay = 0
	defer s.begin()()
	one := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	if e := s.event(); e.Message.NativeID != one.TS {
		t.Fatalf("%+v", e)
	}
	s.sink.unfit("bad")
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "bad"})
	if !strings.Contains(s.log.String(), "an event is lost") {
		t.Errorf("log:\n%s", s.log)
	}
	s.fake.Lose(true)
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "bad"})
	two := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "two"})
	s.fake.Lose(false)
	s.drop()
	if e := s.event(); e.Message.NativeID != two.TS {
		t.Errorf("%+v", e)
	}
	s.eventually("nothing is left to read", func() bool { return s.caughtUp() && len(l.kept()) == 0 })
	if !strings.Contains(s.log.String(), "a missed message is lost") {
		t.Errorf("log:\n%s", s.log)
	}
}
