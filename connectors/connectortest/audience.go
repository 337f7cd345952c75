package connectortest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"sightline/attachments"
	"sightline/connectors/chat"
)

// testVisibility: R+(destination) ⊆ R-(source), on doubt refused.
func testVisibility(t *testing.T, s *suite) {
	here, there := s.Send(0, "here"), s.Send(1, "there")
	if here.Place.ID == there.Place.ID {
		t.Fatal("the harness has only one place")
	}
	good := attachments.Question{
		Agent: s.Agent, Actor: here.Message.Author, Source: here.Place, Message: here.Message.ID,
		Destination: here.Place, Trigger: here.Message.ID,
	}
	d, err := s.Visibility.Decide(t.Context(), good)
	if err != nil || !d.Allowed() || d.Rule == "" {
		t.Fatalf("S1, same place: %+v, %v", d, err)
	}
	for what, change := range map[string]func(*attachments.Question){
		"nothing asked":     func(q *attachments.Question) { *q = attachments.Question{} },
		"another place":     func(q *attachments.Question) { q.Destination = there.Place },
		"from there":        func(q *attachments.Question) { q.Source, q.Message = there.Place, there.Message.ID },
		"another agent":     func(q *attachments.Question) { q.Agent = "somebody-else" },
		"a foreign source":  func(q *attachments.Question) { q.Source.Agent = "somebody-else" },
		"another platform":  func(q *attachments.Question) { q.Destination.Platform = "elsewhere" },
		"an unknown source": func(q *attachments.Question) { q.Message = chat.MessageOf(here.Place.ID, "0") },
		"a message of another place": func(q *attachments.Question) {
			q.Message = there.Message.ID
		},
		"a place that is none": func(q *attachments.Question) {
			p := chat.NewPlace(s.Agent, here.Place.Platform, here.Place.Workspace, "0", "", here.Place.Kind)
			q.Source, q.Destination = p, p
		},
		"a place under another's name": func(q *attachments.Question) {
			q.Source.ID, q.Destination.ID = there.Place.ID, there.Place.ID
		},
	} {
		q := good
		change(&q)
		d, err := s.Visibility.Decide(t.Context(), q)
		if d.Allowed() {
			t.Errorf("%s: allowed by %s", what, d.Rule)
		}
		if err == nil && d.Reason == "" {
			t.Errorf("%s: refused without a reason", what)
		}
	}
	// The place as a whole, as a listing or a command asks: the same place
	// only, whatever is answered.
	for _, trigger := range []chat.MessageID{"", here.Message.ID} {
		q := good
		q.Message, q.Trigger = "", trigger
		if d, err := s.Visibility.Decide(t.Context(), q); err != nil || !d.Allowed() {
			t.Errorf("the place as a whole: %+v, %v", d, err)
		}
		q.Destination = there.Place
		if d, err := s.Visibility.Decide(t.Context(), q); d.Allowed() || (err == nil && d.Reason == "") {
			t.Errorf("the place as a whole, from elsewhere: %+v, %v", d, err)
		}
	}
	s.Delete(here)
	if d, err := s.Visibility.Decide(t.Context(), good); d.Allowed() || (err == nil && d.Reason == "") {
		t.Errorf("a deleted source: %+v, %v", d, err)
	}
}

// testUniform: whoever asks for what is not theirs to see learns nothing.
func testUniform(t *testing.T, s *suite) {
	_, row := s.with(noise(100))
	elsewhere := s.record(s.Send(1, "another place", Upload{"elsewhere.bin", noise(100)}))[0]
	a := s.authorizer(true, nil)
	for what, id := range map[string]chat.AttachmentID{
		"one of another conversation": elsewhere.ID, "a guessed one": chat.NewAttachmentID(), "no id": "../x",
	} {
		g, got, err := a.Authorize(t.Context(), request(row), id, "test")
		if !errors.Is(err, attachments.ErrNotAvailable) || err.Error() != attachments.ErrNotAvailable.Error() || got != (chat.Attachment{}) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		s.nothing(t.Context(), what, g)
	}
	// The right row for an answer that is read elsewhere.
	r := request(row)
	r.Destination = elsewhere.Place
	if g, _, err := a.Authorize(t.Context(), r, row.ID, "test"); !errors.Is(err, attachments.ErrNotAvailable) {
		t.Errorf("read elsewhere: %v", err)
	} else {
		s.nothing(t.Context(), "read elsewhere", g)
	}
}

// testPost: law 8. A retried reply is posted once.
func testPost(t *testing.T, s *suite) {
	e := s.Send(0, "a question")
	reply := chat.Reply{
		Key: "key-1", Turn: chat.TurnOf(e.Message.ID), Place: e.Place, ReplyTo: e.Message, Kind: chat.ReplyAnswer,
		Text: "an answer\n\n```go\nfunc main() {}\n```\n@everyone <!channel>",
	}
	var wg sync.WaitGroup
	posted, errs := make([]chat.Posted, 8), make([]error, 8)
	for i := range posted {
		wg.Go(func() { posted[i], errs[i] = s.Post(t.Context(), reply) })
	}
	wg.Wait()
	for i := range posted {
		if errs[i] != nil || posted[i] != posted[0] || posted[i].NativeID == "" {
			t.Errorf("post %d: %+v, %v", i, posted[i], errs[i])
		}
	}
	if said := s.Said(e.Place); !slices.Equal(said, []string{reply.Text}) {
		t.Errorf("said %q", said)
	}
	second := reply
	second.Key, second.Kind, second.Text = "key-2", chat.ReplyFailure, "no answer"
	p, err := s.Post(t.Context(), second)
	if err != nil || p == posted[0] {
		t.Errorf("another key: %+v, %v", p, err)
	}
	for what, change := range map[string]func(*chat.Reply){
		"no key":        func(r *chat.Reply) { r.Key = "" },
		"foreign agent": func(r *chat.Reply) { r.Place.Agent = "somebody-else" },
		"no such place": func(r *chat.Reply) {
			r.Place = chat.NewPlace(s.Agent, e.Place.Platform, e.Place.Workspace, "0", "", e.Place.Kind)
		},
	} {
		bad := reply
		bad.Key = fmt.Sprint("key-bad-", what)
		change(&bad)
		if p, err := s.Post(t.Context(), bad); err == nil {
			t.Errorf("%s: posted %+v", what, p)
		}
	}
	if said := s.Said(e.Place); len(said) != 2 {
		t.Errorf("said %q", said)
	}
}
