package slack

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

func states(e chat.Event) (out []chat.FileState) {
	for _, f := range e.Files {
		out = append(out, f.State)
	}
	return out
}

func TestMentionIsAThread(t *testing.T) {
	s := open(t, nil).run()
	f := s.fake.Upload("a b.png", "image/png", []byte("png"))
	m := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("what is &lt;this&gt; &amp;amp;?"), Files: []fakeslack.File{f}})
	e := s.event()
	want := chat.NewPlace(agent, Platform, fakeslack.Team, "C1", m.TS, chat.PublicThread)
	if e.Place.ID != want.ID || e.Place.Kind != chat.PublicThread || e.Place.Parent != chat.NewPlace(agent, Platform, fakeslack.Team, "C1", "", chat.Channel).ID {
		t.Errorf("place %+v", e.Place)
	}
	if e.Kind != chat.MessagePosted || e.Silent || e.Message.Text != "what is <this> &amp;?" || e.Message.NativeID != m.TS || e.Message.At != stamp(m.TS) {
		t.Errorf("message %+v", e)
	}
	if a := e.Message.Author; a.User != "U1" || a.Workspace != fakeslack.Team || a.Role != chat.Owner || a.Bot || a.Name != "person-U1" {
		t.Errorf("author %+v", a)
	}
	if len(e.Files) != 1 || e.Files[0].NativeID != f.ID || e.Files[0].Name != "a b.png" || e.Files[0].State != chat.FileAvailable || e.Files[0].Origin != chat.OriginDirect || e.Files[0].Size != 3 {
		t.Errorf("files %+v", e.Files)
	}
	s.quiet()
	if p := s.fake.AckPayloads(); len(p) > 0 {
		t.Errorf("acknowledgements carried %q", p)
	}
}

func TestPrivacyIsReadFromFlags(t *testing.T) {
	s := open(t, nil, func(f *fakeslack.Server) {
		f.AddChannel(fakeslack.Channel{ID: "G9", IsMPIM: true, IsPrivate: true, Members: []string{"U1", fakeslack.BotUser}})
	}).run()
	for channel, kind := range map[string]chat.PlaceKind{"C1": chat.PublicThread, "CPRIV": chat.PrivateThread, "G9": chat.GroupDirect, "D1": chat.Direct} {
		s.post(fakeslack.Message{Channel: channel, User: "U1", Text: mention("hi")})
		if e := s.event(); e.Place.Channel != channel || e.Place.Kind != kind {
			t.Errorf("%s: %+v", channel, e.Place)
		}
	}
}

// Case 4: whichever event comes first, and whichever has the files.
func TestTwinsAreOneMessage(t *testing.T) {
	for name, c := range map[string]struct{ first, second int }{"message first": {0, 1}, "mention first": {1, 0}} {
		for files, bareOne := range map[string]int{"message lacks files": 0, "mention lacks files": 1} {
			t.Run(name+", "+files, func(t *testing.T) {
				s := open(t, nil)
				s.twinWait = patience // the twin is what is waited for
				s.sink.hold = make(chan struct{})
				s.run()
				m := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("look"), Files: []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}})
				events := s.fake.EventsOf(m)
				delete(events[bareOne], "files")
				delete(events[0], "subtype")
				s.must(s.fake.Emit(events[c.first]))
				s.must(s.fake.Emit(events[c.second]))
				s.eventually("both have come", func() bool {
					s.queue.mu.Lock()
					defer s.queue.mu.Unlock()
					j := s.queue.pending[messageKey("C1", m.TS)]
					if j == nil {
						return false
					}
					j.mu.Lock()
					defer j.mu.Unlock()
					return j.kinds == kindMention|kindMessage
				})
				close(s.sink.hold)
				if e := s.event(); len(e.Files) != 1 || e.Silent {
					t.Errorf("%+v", e)
				}
				s.quiet()
				if n := len(s.fake.Calls("conversations.history")); n != 0 {
					t.Errorf("%d messages were read again", n)
				}
			})
		}
	}
}

// Cases 5 and 33: one event is enough, and "not there yet" is not "no files".
func TestLoneMentionIsReadAgain(t *testing.T) {
	s := open(t, nil).run()
	m := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("look"), Files: []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}})
	s.fake.HideFor(m.TS, 2)
	e := s.fake.EventsOf(m)[1]
	delete(e, "files")
	s.must(s.fake.Emit(e))
	if e := s.event(); len(e.Files) != 1 {
		t.Errorf("%+v", e)
	}
	// Not there for long: nothing is delivered or acknowledged, and Slack's own
	// retry, which alone comes again, brings it.
	s.fake.RetryEvery(300 * time.Millisecond)
	m = s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("look"), Files: []fakeslack.File{s.fake.Upload("y", "", []byte("y"))}})
	s.fake.HideFor(m.TS, 3)
	e = s.fake.EventsOf(m)[1]
	delete(e, "files")
	s.must(s.fake.Emit(e))
	if e := s.event(); len(e.Files) != 1 || e.Message.NativeID != m.TS {
		t.Errorf("%+v", e)
	}
	s.eventually("it is acknowledged", func() bool { return s.fake.Open() == 0 })
}

// Case 34, and one event over both sockets.
func TestOneTurnPerMessage(t *testing.T) {
	s := open(t, nil).run()
	s.eventually("both sockets are open", func() bool { return s.fake.Hellos() == 2 })
	m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "hi"})
	e := s.fake.EventsOf(m)[0]
	for _, id := range []string{"Ev1", "Ev2", "Ev1"} {
		s.fake.EmitRaw(s.fake.Payload(e, id))
	}
	if got := s.event(); got.Place.Thread != "" || got.Place.Kind != chat.Direct {
		t.Errorf("%+v", got)
	}
	s.quiet()
	s.eventually("all are acknowledged", func() bool { return s.fake.Open() == 0 })
}

func TestNothingIsAcknowledgedBeforeItIsDurable(t *testing.T) {
	s := open(t, nil).run()
	s.fake.RetryEvery(200 * time.Millisecond)
	s.fake.Fail("conversations.history", fakeslack.Failure{Status: 503, Times: 1 << 20}) // the platform's retry alone is enough
	s.sink.failing(2)
	m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "hi"})
	id := s.fake.EmitRaw(s.fake.Payload(s.fake.EventsOf(m)[0], "Ev1"))
	e := s.event()
	if e.Message.NativeID != m.TS {
		t.Errorf("%+v", e)
	}
	s.eventually("it is acknowledged", func() bool { return s.fake.Acked(id) })
	if l := s.log.String(); strings.Count(l, "not acknowledged") < 2 {
		t.Errorf("log: %s", l)
	}
}

func TestThreadsOfTheAgent(t *testing.T) {
	s := open(t, nil).run()
	file := func(name string) []fakeslack.File { return []fakeslack.File{s.fake.Upload(name, "", []byte(name))} }
	// Of somebody else's thread the files alone are recorded, until the agent
	// is called.
	root := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: "a thread", Files: file("root")})
	s.post(fakeslack.Message{Channel: "C1", User: "U2", Text: "plain", ThreadTS: root.TS})
	second := s.post(fakeslack.Message{Channel: "C1", User: "U2", Text: "second", ThreadTS: root.TS, Files: file("second")})
	for _, want := range []struct{ ts, thread string }{{root.TS, ""}, {second.TS, root.TS}} {
		if e := s.event(); !e.Silent || len(e.Files) != 1 || e.Message.NativeID != want.ts || e.Place.Thread != want.thread {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
	ask := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("the picture?"), ThreadTS: root.TS})
	if e := s.event(); e.Place.Thread != root.TS || e.Silent || e.Message.NativeID != ask.TS {
		t.Errorf("%+v", e)
	}
	// Now it takes part.
	m := s.post(fakeslack.Message{Channel: "C1", User: "U2", Text: "and this?", ThreadTS: root.TS})
	if e := s.event(); e.Silent || e.Message.NativeID != m.TS || e.Message.Author.Role != chat.Guest {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// What was posted in a thread before the agent came to the channel is read
// when it is called there; the first message is its channel's.
func TestInventoryOfAThread(t *testing.T) {
	s := open(t, nil)
	file := func(name string) []fakeslack.File { return []fakeslack.File{s.fake.Upload(name, "", []byte(name))} }
	root := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: "a thread", Files: file("root")})
	s.fake.Store(fakeslack.Message{Channel: "C1", User: "U2", Text: "plain", ThreadTS: root.TS})
	s.fake.Store(fakeslack.Message{Channel: "C1", User: "U2", Text: "second", ThreadTS: root.TS, Files: file("second")})
	s.run()
	ask := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("the picture?"), ThreadTS: root.TS})
	for _, want := range []struct {
		file, thread string
		silent       bool
	}{{"root", "", true}, {"second", root.TS, true}, {"", root.TS, false}} {
		e := s.event()
		if e.Silent != want.silent || e.Place.Thread != want.thread || (want.file != "") != (len(e.Files) == 1) || want.file != "" && e.Files[0].Name != want.file {
			t.Errorf("%+v, want %+v", e, want)
		}
		if !want.silent && e.Message.NativeID != ask.TS {
			t.Errorf("%+v", e)
		}
	}
	s.quiet()
}

// Pictures beside the agent are recorded in their channel, in silence; words
// are not. The next mention's thread is around them.
func TestPicturesBesideTheAgent(t *testing.T) {
	s := open(t, nil).run()
	picture := func() []fakeslack.File { return []fakeslack.File{s.fake.Upload("x", "", []byte("x"))} }
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: "just words"})
	m := s.post(fakeslack.Message{Channel: "C1", User: "U2", Text: "look at this", Files: picture()})
	beside := s.event()
	if !beside.Silent || beside.Place.Thread != "" || beside.Place.Kind != chat.Channel || beside.Message.NativeID != m.TS || len(beside.Files) != 1 {
		t.Errorf("%+v", beside)
	}
	bot := s.post(fakeslack.Message{Channel: "C1", BotID: "B9", User: "UB9", Subtype: "bot_message", Text: "a chart", Files: picture()})
	if e := s.event(); !e.Silent || e.Message.NativeID != bot.TS || !e.Message.Author.Bot {
		t.Errorf("%+v", e)
	}
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("what is that?")})
	ask := s.event()
	if !ask.Place.Around(beside.Place) {
		t.Errorf("%+v is not around %+v", beside.Place, ask.Place)
	}
	if d, err := s.ask(beside, ask); err != nil || !d.Allowed() {
		t.Errorf("%+v, %v", d, err)
	}
	// Its edits and its deletion are heard.
	s.must(s.fake.Edit("C1", m.TS, func(m *fakeslack.Message) { m.Text = "look" }))
	if e := s.event(); e.Kind != chat.MessageEdited || e.Message.ID != beside.Message.ID || e.Message.Text != "look" {
		t.Errorf("%+v", e)
	}
	s.must(s.fake.Delete("C1", m.TS))
	if e := s.event(); e.Kind != chat.MessageDeleted || e.Message.ID != beside.Message.ID {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// An edit that is heard of before its message must not be taken for it.
func TestEditBeforeItsMessage(t *testing.T) {
	s := open(t, nil).run()
	m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	created := s.fake.EventsOf(m)[0]
	s.must(s.fake.Edit("D1", m.TS, func(m *fakeslack.Message) { m.Text = "two" }))
	if e := s.event(); e.Kind != chat.MessageEdited || e.Message.Text != "two" {
		t.Errorf("%+v", e)
	}
	// From history, as it is now.
	after := s.fake.EventsOf(s.fake.Messages("D1", "")[0])[0]
	s.must(s.fake.Emit(after))
	if e := s.event(); e.Kind != chat.MessagePosted || e.Silent || e.Message.NativeID != m.TS {
		t.Errorf("%+v", e)
	}
	s.must(s.fake.Emit(created))
	s.must(s.fake.Emit(after))
	s.quiet()
}

// After a restart the thread tells that the agent takes part.
func TestThreadIsRememberedBySlack(t *testing.T) {
	s := open(t, nil)
	root := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("earlier")})
	s.fake.Store(fakeslack.Message{Channel: "C1", User: fakeslack.BotUser, BotID: fakeslack.BotID, Text: "an answer", ThreadTS: root.TS})
	s.run()
	m := s.post(fakeslack.Message{Channel: "C1", User: "U2", Text: "more", ThreadTS: root.TS})
	if e := s.event(); e.Message.NativeID != m.TS || e.Silent {
		t.Errorf("%+v", e)
	}
}

func TestBots(t *testing.T) {
	s := open(t, nil).run()
	bot := func(text string, f ...fakeslack.File) fakeslack.Message {
		return fakeslack.Message{Channel: "C1", BotID: "B9", User: "UB9", Subtype: "bot_message", Text: text, Files: f}
	}
	s.post(bot(mention("echo")))
	s.post(fakeslack.Message{Channel: "C1", User: fakeslack.BotUser, BotID: fakeslack.BotID, Text: mention("myself")})
	s.quiet()
	s.post(bot(mention("a chart"), s.fake.Upload("chart", "", []byte("c"))))
	if e := s.event(); !e.Silent || len(e.Files) != 1 || !e.Message.Author.Bot {
		t.Errorf("%+v", e)
	}
}

func TestEdits(t *testing.T) {
	s := open(t, nil).run()
	m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one", Files: []fakeslack.File{s.fake.Upload("old", "", []byte("1"))}})
	before, f := s.event(), s.fake.Upload("new", "", []byte("2"))
	s.must(s.fake.Edit("D1", m.TS, func(m *fakeslack.Message) { m.Text, m.Files = "two", []fakeslack.File{f} }))
	e := s.event()
	if e.Kind != chat.MessageEdited || e.Message.ID != before.Message.ID || e.Message.Text != "two" || e.Message.Revision == before.Message.Revision || e.Files[0].Name != "new" {
		t.Errorf("%+v", e)
	}
	// A preview of a link changes nothing.
	list := s.fake.Messages("D1", "")
	o := map[string]any{}
	b, _ := json.Marshal(list[0])
	s.must(json.Unmarshal(b, &o))
	o["attachments"] = []any{map[string]any{"from_url": "https://example.com", "files": []any{map[string]any{"id": "FPREVIEW"}}}}
	s.must(s.fake.Emit(map[string]any{"type": "message", "subtype": "message_changed", "channel": "D1", "ts": "1.1", "message": o}))
	s.quiet()
}

// slack-go reads the deletion event's own ts as the message's.
func TestDeletions(t *testing.T) {
	s := open(t, nil).run()
	m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	before := s.event()
	s.must(s.fake.Delete("D1", m.TS))
	if e := s.event(); e.Kind != chat.MessageDeleted || e.Message.ID != before.Message.ID || !e.Message.Deleted {
		t.Errorf("%+v", e)
	}
}

// A deletion that could not be delivered counts at once, and is delivered
// when Slack sends it again.
func TestDeletionIsNotLost(t *testing.T) {
	s := open(t, nil).run()
	s.fake.RetryEvery(100 * time.Millisecond)
	m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	before := s.event()
	s.sink.failing(2)
	s.must(s.fake.Delete("D1", m.TS))
	s.eventually("it is refused", func() bool { d, err := s.ask(before, before); return err == nil && !d.Allowed() })
	if e := s.event(); e.Kind != chat.MessageDeleted || e.Message.ID != before.Message.ID {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// Case 15.
func TestDeletionBeforeCreation(t *testing.T) {
	s := open(t, nil).run()
	m := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("secret"), Files: []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}})
	events := s.fake.EventsOf(m)
	s.must(s.fake.Delete("C1", m.TS))
	e := s.event()
	if e.Kind != chat.MessageDeleted || e.Place.Thread != m.TS || e.Message.NativeID != m.TS {
		t.Errorf("%+v", e)
	}
	for _, e := range events {
		s.must(s.fake.Emit(e))
	}
	s.quiet()
}

func TestFileDeleted(t *testing.T) {
	s := open(t, nil).run()
	f, g := s.fake.Upload("x", "", []byte("x")), s.fake.Upload("y", "", []byte("y"))
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Files: []fakeslack.File{f, g}})
	s.event()
	s.must(s.fake.DeleteFile(f.ID))
	if e := s.event(); e.Kind != chat.MessageEdited || !slices.Equal(states(e), []chat.FileState{chat.FileDeleted, chat.FileAvailable}) {
		t.Errorf("%+v", e)
	}
}

func TestStopIsAnOwnersWord(t *testing.T) {
	s := open(t, nil).run()
	root := s.post(fakeslack.Message{Channel: "C1", User: "U2", Text: mention("work")})
	e := s.event()
	s.post(fakeslack.Message{Channel: "C1", User: "U2", Text: "stop", ThreadTS: root.TS})
	if e := s.event(); e.Message.Text != "stop" {
		t.Errorf("a guest's word: %+v", e)
	}
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: "Stop", ThreadTS: root.TS})
	select {
	case c := <-s.sink.stopped:
		if c != e.Place.Conversation() {
			t.Error("another conversation was stopped")
		}
	case <-time.After(patience):
		t.Error("not stopped")
	}
}

func TestChannelGetsAnotherID(t *testing.T) {
	s := open(t, nil).run()
	root := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("hi"), Files: []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}})
	e := s.event()
	epoch := s.facts.epoch("C1")
	s.must(s.fake.Share("C1", "CNEW"))
	s.settle()
	m := s.post(fakeslack.Message{Channel: "CNEW", User: "U1", Text: "more", ThreadTS: root.TS})
	if got := s.event(); got.Place.ID != e.Place.ID || got.Message.NativeID != m.TS || got.Place.Epoch <= epoch {
		t.Errorf("%+v", got)
	}
	p, err := s.Post(t.Context(), chat.Reply{Key: "k", Place: e.Place, ReplyTo: e.Message, Text: "still here"})
	if err != nil || p.NativeID == "" || len(s.said(e.Place)) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// A word that was meant for a turn of before stops none of now: not a copy of
// it, nor what is read again from history.
func TestStopIsForItsTime(t *testing.T) {
	s := open(t, nil).run()
	for _, channel := range []string{"C1", "D1"} {
		root := s.post(fakeslack.Message{Channel: channel, User: "U1", Text: mention("one")})
		s.event()
		in := root.TS
		if channel == "D1" {
			in = ""
		}
		m := s.post(fakeslack.Message{Channel: channel, User: "U1", Text: "stop", ThreadTS: in})
		<-s.sink.stopped
		stop := s.fake.EventsOf(m)[0]
		s.must(s.fake.Emit(stop))
		s.settle()
		s.post(fakeslack.Message{Channel: channel, User: "U1", Text: "two", ThreadTS: in})
		s.event()
		s.seen.restore(record{channel: channel, ts: m.TS}, false) // another process's
		s.must(s.fake.Emit(stop))
		s.quiet()
		if len(s.sink.stopped) > 0 {
			t.Errorf("%s: a copy stopped again", channel)
		}
	}
	s.drop()
	s.eventually("all is read", func() bool { return s.fake.Hellos() >= 4 && s.caughtUp() })
	if len(s.sink.stopped) > 0 {
		t.Error("it was read from history, and stopped again")
	}
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "stop"})
	select {
	case <-s.sink.stopped:
	case <-time.After(patience):
		t.Error("not stopped")
	}
}

// A reply that is shown in the channel too is one message, of its thread.
func TestReplyShownInTheChannelToo(t *testing.T) {
	s := open(t, nil).run()
	root := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	s.event()
	m := s.post(fakeslack.Message{Channel: "C1", User: "U1", Subtype: "thread_broadcast", Text: "two", ThreadTS: root.TS})
	if e := s.event(); e.Message.NativeID != m.TS || e.Place.Thread != root.TS || e.Silent {
		t.Errorf("%+v", e)
	}
	s.drop() // history has it as well
	s.eventually("all is read", func() bool { return s.fake.Hellos() == 4 && s.caughtUp() })
	s.quiet()
}
