package slack

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// rowOf is a store with one row, of the first file of an event.
type rowOf struct {
	attachments.Inventory
	e  chat.Event
	id chat.AttachmentID
}

func (r rowOf) Attachment(context.Context, chat.AgentID, chat.ConversationID, chat.AttachmentID) (chat.Attachment, error) {
	return chat.Attachment{
		ID: r.id, Agent: agent, Conversation: r.e.Place.Conversation(), Place: r.e.Place.ID, Message: r.e.Message.ID,
		NativeFile: r.e.Files[0].NativeID, State: chat.FileAvailable, Origin: r.e.Files[0].Origin,
	}, nil
}

func (r rowOf) Place(context.Context, chat.AgentID, chat.PlaceID) (chat.Place, error) {
	return r.e.Place, nil
}

func (r rowOf) Message(context.Context, chat.PlaceID, chat.MessageID) (chat.Message, error) {
	return r.e.Message, nil
}

func (r rowOf) RecordUses(context.Context, []chat.Use) error { return nil }

// fetch asks through a real authorizer, the audience decided by the bot.
func (s *setup) fetch(e chat.Event) (string, error) {
	s.t.Helper()
	id := chat.NewAttachmentID()
	a, err := attachments.New(attachments.Config{
		Inventory: rowOf{e: e, id: id}, MaxBytes: 1 << 20, Visibility: map[chat.Platform]attachments.Visibility{Platform: s.Bot},
	})
	s.must(err)
	g, _, err := a.Authorize(s.t.Context(), attachments.Request{
		Agent: agent, Actor: e.Message.Author, Conversation: e.Place.Conversation(), Destination: e.Place.ID, Trigger: e.Message.ID,
	}, id, "test")
	s.must(err)
	var b bytes.Buffer
	err = s.Fetch(s.t.Context(), g, &b)
	return b.String(), err
}

func TestFetchOfEveryShape(t *testing.T) {
	s := open(t, nil).run()
	f := s.fake.Upload("x.png", "image/png", []byte("picture"))
	root := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("x"), Files: []fakeslack.File{f}})
	for what, m := range map[string]fakeslack.Message{
		"a reply":                  {Channel: "C1", User: "U1", ThreadTS: root.TS, Files: []fakeslack.File{f}},
		"a direct message":         {Channel: "D1", User: "U1", Files: []fakeslack.File{f}},
		"a forward":                {Channel: "D1", User: "U1", Attachments: []fakeslack.Share{{IsShare: true, Files: []fakeslack.File{f}}}},
		"a file of Slack Connect":  {Channel: "D1", User: "U1", Files: []fakeslack.File{{ID: f.ID, FileAccess: "check_file_info"}}},
		"a message in a private's": {Channel: "CPRIV", User: "U1", Text: mention("x"), Files: []fakeslack.File{f}},
	} {
		for len(s.sink.got) > 0 {
			<-s.sink.got
		}
		s.post(m)
		if got, err := s.fetch(s.event()); got != "picture" || err != nil {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// Case 14 of the audience: what has become of a file since it was listed.
func TestFetchOfWhatChanged(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*fakeslack.File)
		want   error
		words  string
		state  chat.FileState // that a person is told of
	}{
		"deleted":  {func(f *fakeslack.File) { *f = fakeslack.File{ID: f.ID, Mode: "tombstone"} }, attachments.ErrGone, "", ""},
		"hidden":   {func(f *fakeslack.File) { f.Mode = "hidden_by_limit" }, attachments.ErrDenied, "plan", chat.FileHidden},
		"external": {func(f *fakeslack.File) { f.Mode = "external" }, attachments.ErrDenied, "outside", chat.FileExternal},
		"denied":   {func(f *fakeslack.File) { f.FileAccess = "access_denied" }, attachments.ErrDenied, "denies", chat.FileDenied},
		"unsaid":   {func(f *fakeslack.File) { f.FileAccess = "check_file_info" }, attachments.ErrDenied, "denies", chat.FileDenied},
		"elsewhere": {func(f *fakeslack.File) { f.URLPrivate = "https://example.com/x.png" },
			attachments.ErrDenied, "not on a host of Slack's", ""},
	} {
		s := open(t, nil).run()
		f := s.fake.Upload("x.png", "image/png", []byte("picture"))
		s.post(fakeslack.Message{Channel: "D1", User: "U1", Files: []fakeslack.File{f}})
		e := s.event()
		c.change(&f)
		s.fake.PutFile(f)
		got, err := s.fetch(e)
		if got != "" || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) || s.fake.Served() != 0 {
			t.Errorf("%s: %q, %v, %d bytes served", what, got, err, s.fake.Served())
		}
		var state *attachments.StateError
		if errors.As(err, &state) != (c.state != "") || state != nil && (state.State != c.state || state.Person == "") {
			t.Errorf("%s: a person is told %+v", what, state)
		}
	}
}
