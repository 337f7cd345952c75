package slack

import (
	"context"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// A reading that began before events may have been lost says nothing of the
// time since.
func TestAnOldReadingIsNoNews(t *testing.T) {
	s := newSeen(10)
	s.hears(true)
	s.keep(record{channel: "C1", ts: "1.0", events: []chat.Event{{Message: chat.Message{ID: "m"}}}})
	began := s.now()
	s.missed()
	r, ok := s.byID("m")
	if !ok || s.current(r.generation) {
		t.Fatalf("after a loss: %v, %+v", ok, r)
	}
	r.live = time.Now()
	s.reread(r, began)
	if r, _ = s.byID("m"); s.current(r.generation) || !r.live.IsZero() {
		t.Errorf("an old reading counts: %+v", r)
	}
	r.live = time.Now()
	s.reread(r, s.now())
	if r, _ = s.byID("m"); !s.current(r.generation) {
		t.Errorf("a new reading does not count: %+v", r)
	}
}

// reader is a store that something happens in front of.
type reader func() chat.Message

func (r reader) Message(context.Context, chat.PlaceID, chat.MessageID) (chat.Message, error) {
	return r(), nil
}

// Who asks was a member when that was asked, and is none when the answer is
// given.
func TestAMemberWhoLeavesWhileItIsAsked(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "CPRIV", User: "U1", Text: mention("x")})
	e := s.event()
	kicked := false
	s.Bot.c.Messages = reader(func() chat.Message {
		if !kicked {
			kicked = true
			s.must(s.fake.Kick("CPRIV", "U1"))
			s.settle()
		}
		return e.Message
	})
	s.seen.missed() // so that the store is asked
	if d, err := s.ask(e, e); !kicked || d.Allowed() {
		t.Errorf("kicked %v: %+v, %v", kicked, d, err)
	}
	if d, err := s.ask(e, e); d.Allowed() || err != nil {
		t.Errorf("asked again: %+v, %v", d, err)
	}
}

// A deletion that the store can't take yet is known all the same.
func TestGoneBeforeItIsRecorded(t *testing.T) {
	s := open(t, nil).run()
	s.fake.RetryEvery(50 * time.Millisecond)
	m := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("x")})
	e := s.event()
	if s.Gone(e.Place, e.Message) {
		t.Error("it is there")
	}
	s.sink.failing(1000)
	s.must(s.fake.Delete("C1", m.TS))
	s.eventually("it is gone", func() bool { return s.Gone(e.Place, e.Message) })
	if len(s.sink.got) > 0 {
		t.Error("the store has it")
	}
	s.sink.failing(0)
}
