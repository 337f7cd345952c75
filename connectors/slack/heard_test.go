package slack

import (
	"context"
	"slices"
	"testing"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// Whoever says nothing but the agent's name asks all the same: below what was
// said before.
func TestNothingButTheName(t *testing.T) {
	s := open(t, nil).run()
	for _, channel := range []string{"C1", "D1"} {
		s.post(fakeslack.Message{Channel: channel, User: "U1", Text: mention("")})
		if e := s.event(); e.Message.Text != "@agent" || e.Silent {
			t.Errorf("%+v", e)
		}
	}
}

// A forward says what it forwards, with words beside it or without, whichever
// of its events has them.
func TestForwardedWords(t *testing.T) {
	s := open(t, nil).run()
	share := []fakeslack.Share{{IsShare: true, Text: "a &lt; b"}, {FromURL: "https://example.com", Text: "a preview"}}
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Attachments: share})
	if e := s.event(); e.Message.Text != "(forwarded) a < b" {
		t.Errorf("%+v", e)
	}
	for lacking := range 2 {
		m := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("what is it?"), Attachments: share})
		events := s.fake.EventsOf(m)
		delete(events[lacking], "attachments")
		for _, e := range events {
			s.must(s.fake.Emit(e))
		}
		if e := s.event(); e.Message.Text != "what is it?\n\n(forwarded) a < b" {
			t.Errorf("event %d without it: %+v", lacking, e)
		}
	}
	s.quiet()
}

// The event of a file's deletion names no message: one that an earlier process
// delivered is found in the store. One that is remembered is told once.
func TestFileOfAnEarlierProcessIsDeleted(t *testing.T) {
	var list []Recorded
	s := open(t, func(c *Config) {
		c.WithFile = func(context.Context, string) ([]Recorded, error) { return list, nil }
	}).run()
	f, g := s.fake.Upload("x", "", []byte("x")), s.fake.Upload("y", "", []byte("y"))
	for _, shown := range []fakeslack.Message{{Files: []fakeslack.File{f, g}}, {Attachments: []fakeslack.Share{{IsShare: true, Files: []fakeslack.File{f, g}}}}} {
		shown.Channel, shown.User = "D1", "U1"
		s.post(shown)
		s.event()
	}
	for _, m := range s.fake.Messages("D1", "") {
		list = append(list, Recorded{Channel: "D1", TS: m.TS})
	}
	want := []chat.FileState{chat.FileDeleted, chat.FileAvailable}
	s.must(s.fake.DeleteFile(f.ID))
	for range list {
		if e := s.event(); e.Kind != chat.MessageEdited || !slices.Equal(states(e), want) {
			t.Errorf("remembered: %+v", e)
		}
	}
	s.quiet()
	s.seen = newSeen(10) // another process
	s.must(s.fake.DeleteFile(f.ID))
	for range list {
		if e := s.event(); e.Kind != chat.MessageEdited || !slices.Equal(states(e), want) {
			t.Errorf("of an earlier process: %+v", e)
		}
	}
	s.quiet()
}

// An edit from before the deletion of its file, which was on its way in its
// channel's lane, may be told after it: what the store has then is not left so.
func TestFileDeletedBesideAnEdit(t *testing.T) {
	s := open(t, nil).run()
	f := s.fake.Upload("x", "", []byte("x"))
	m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Files: []fakeslack.File{f}})
	s.event()
	s.settle()
	s.fake.Purge(f.ID)
	s.must(s.fileLost(t.Context(), f.ID, Recorded{Channel: "D1", TS: m.TS}))
	if e := s.event(); e.Kind != chat.MessageEdited || !slices.Equal(states(e), []chat.FileState{chat.FileDeleted}) {
		t.Errorf("%+v", e)
	}
	s.must(s.fileLost(t.Context(), f.ID, Recorded{Channel: "D1", TS: m.TS}))
	s.quiet()
}
