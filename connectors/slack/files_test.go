package slack

import (
	"slices"
	"strings"
	"testing"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// Cases 3, 6 and 7: every file is listed, with the state that it has.
func TestFileStates(t *testing.T) {
	s := open(t, nil).run()
	connect := s.fake.Upload("connect.png", "image/png", []byte("png"))
	other := s.fake.Upload("other.png", "image/png", []byte("other"))
	denied := fakeslack.File{ID: "FDEN", FileAccess: "access_denied"}
	big := s.fake.Upload("big", "", nil)
	big.Size = 9 << 20
	snippet := s.fake.Upload("snippet.go", "text/plain", []byte("package x"))
	snippet.Mode, snippet.Filetype = "snippet", "go"
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Files: []fakeslack.File{
		{ID: connect.ID, FileAccess: "check_file_info"},
		{ID: "FEXT", Name: "doc", Mode: "external", IsExternal: true, URLPrivate: "https://docs.example.com/x"},
		{ID: "FTOMB", Mode: "tombstone"},
		{ID: "FHID", Mode: "hidden_by_limit"},
		denied, big, snippet,
		{ID: "FNONE", FileAccess: "check_file_info"},
		{ID: other.ID, Mode: "file_access", FileAccess: "check_file_info", Name: "stub"}, // as Slack Connect sends it
		{ID: "FEXT2", Mode: "external", URLPrivate: "https://docs.example.com/y"},
	}})
	e := s.event()
	want := []chat.FileState{chat.FileAvailable, chat.FileExternal, chat.FileDeleted, chat.FileHidden, chat.FileDenied, chat.FileOversize, chat.FileAvailable, chat.FileDenied, chat.FileAvailable, chat.FileExternal}
	if got := states(e); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if e.Files[0].Name != "connect.png" || e.Files[0].Size != 3 || e.Files[8].Name != "other.png" {
		t.Errorf("not hydrated: %+v", e.Files[0])
	}
	// An external file leaves later messages alone.
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "and now?"})
	if e := s.event(); e.Message.Text != "and now?" {
		t.Errorf("%+v", e)
	}
}

// What can't be looked up just now is left to Slack's retry, not listed as
// something that it may not be.
func TestFileThatCannotBeLookedUp(t *testing.T) {
	s := open(t, nil).run()
	f := s.fake.Upload("x.png", "", []byte("png"))
	s.fake.Fail("files.info", fakeslack.Failure{Status: 503, Times: maxTries})
	s.fake.RetryEvery(200e6)
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Files: []fakeslack.File{{ID: f.ID, FileAccess: "check_file_info"}}})
	if e := s.event(); !slices.Equal(states(e), []chat.FileState{chat.FileAvailable}) {
		t.Errorf("%+v", e)
	}
}

func TestForwardsAndPreviews(t *testing.T) {
	s := open(t, nil).run()
	f, p := s.fake.Upload("forwarded", "", []byte("f")), s.fake.Upload("previewed", "", []byte("p"))
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Attachments: []fakeslack.Share{
		{IsShare: true, Files: []fakeslack.File{f}}, {FromURL: "https://x.slack.com/archives/C9/p1", Files: []fakeslack.File{p}},
	}})
	e := s.event()
	if len(e.Files) != 1 || e.Files[0].NativeID != f.ID || e.Files[0].Origin != chat.OriginForward {
		t.Errorf("%+v", e.Files)
	}
}

// slack-go hides top-level files behind an empty inner message.
func TestFilesBesideAnEmptyInnerMessage(t *testing.T) {
	s := open(t, nil).run()
	m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "x", Files: []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}})
	o := s.fake.EventsOf(m)[0]
	o["message"] = map[string]any{}
	s.must(s.fake.Emit(o))
	if e := s.event(); len(e.Files) != 1 || len(s.fake.Calls("conversations.history")) > 0 {
		t.Errorf("%+v", e)
	}
}

// A message that says it has files, and names none, is read again.
func TestFileShareWithoutFilesIsReadAgain(t *testing.T) {
	s := open(t, nil).run()
	m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "x", Files: []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}})
	o := s.fake.EventsOf(m)[0]
	delete(o, "files")
	s.must(s.fake.Emit(o))
	if e := s.event(); len(e.Files) != 1 {
		t.Errorf("%+v", e)
	}
}

// slack-go does not acknowledge what it can't read.
func TestUnreadableEventsAreAcknowledged(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "x"})
	e := s.event()
	for what, raw := range map[string]string{
		"an unknown event":          `{"type":"event_callback","team_id":"T0001","event":{"type":"never_heard_of","channel":"D1"}}`,
		"a field of another type":   `{"type":"event_callback","team_id":"T0001","event":{"type":"message","channel":"D1","ts":5}}`,
		"no event":                  `{"type":"event_callback","team_id":"T0001"}`,
		"a message without channel": `{"type":"event_callback","team_id":"T0001","event":{"type":"message","ts":"1.2"}}`,
		"an array":                  `[]`,
	} {
		before, generation := s.facts.epoch("D1"), s.seen.generation
		id := s.fake.EmitRaw([]byte(raw))
		s.eventually(what+" is acknowledged", func() bool { return s.fake.Acked(id) })
		if s.facts.epoch("D1") <= before || s.seen.current(generation) {
			t.Errorf("%s: the place is not stale", what)
		}
	}
	if strings.Count(s.log.String(), "without being understood") != 5 {
		t.Errorf("log: %s", s.log)
	}
	// A message with a block that slack-go can't read is read all the same.
	m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "blocks"})
	o := s.fake.EventsOf(m)[0]
	o["blocks"], o["reply_count"] = "not a list", "three"
	s.must(s.fake.Emit(o))
	if got := s.event(); got.Message.Text != "blocks" || got.Place.ID != e.Place.ID {
		t.Errorf("%+v", got)
	}
}

// Some events carry a channel or a person as an object. They are understood,
// and touch that channel alone.
func TestObjectsInEvents(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	s.event()
	e1, e2 := s.facts.epoch("C1"), s.facts.epoch("C2")
	id := s.fake.EmitRaw(s.fake.Payload(map[string]any{"type": "channel_rename", "channel": map[string]any{"id": "C1", "name": "x"}}, "Ev9"))
	s.eventually("acked", func() bool { return s.fake.Acked(id) })
	if s.facts.epoch("C1") <= e1 || s.facts.epoch("C2") != e2 {
		t.Errorf("epochs %d %d", s.facts.epoch("C1")-e1, s.facts.epoch("C2")-e2)
	}
	for _, kind := range []string{ // those of the manifest
		"member_joined_channel", "member_left_channel", "channel_archive", "channel_unarchive", "channel_deleted", "channel_shared", "channel_unshared",
		"channel_left", "group_archive", "group_unarchive", "group_deleted", "group_left",
	} {
		e1 = s.facts.epoch("C1")
		id := s.fake.EmitRaw(s.fake.Payload(map[string]any{"type": kind, "user": "U2", "channel": "C1"}, "Ev"+kind))
		s.eventually("acked", func() bool { return s.fake.Acked(id) })
		if s.facts.epoch("C1") <= e1 || s.facts.epoch("C2") != e2 {
			t.Errorf("%s: epochs %d %d", kind, s.facts.epoch("C1")-e1, s.facts.epoch("C2")-e2)
		}
	}
	id = s.fake.EmitRaw(s.fake.Payload(map[string]any{"type": "team_join", "user": map[string]any{"id": "U7"}}, "Ev10"))
	s.eventually("acked", func() bool { return s.fake.Acked(id) })
	if strings.Contains(s.log.String(), "without being understood") {
		t.Error(s.log.String())
	}
}

// What may be read as a document may be larger than a picture.
func TestDocumentsMayBeLarger(t *testing.T) {
	s := open(t, func(c *Config) { c.MaxBytes, c.MaxDocument = 10, 20 })
	for f, want := range map[file]chat.FileState{
		{Mimetype: "image/png", Size: 15}: chat.FileOversize, {Mimetype: "application/pdf", Size: 15}: chat.FileAvailable,
		{Mimetype: "application/pdf", Size: 21}: chat.FileOversize, {Mimetype: "image/png", Size: 10}: chat.FileAvailable,
	} {
		f.URLPrivate = "x"
		if got := s.file(f).State; got != want {
			t.Errorf("%+v: %s, want %s", f, got, want)
		}
	}
}
