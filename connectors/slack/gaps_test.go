package slack

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// The agent is called in a gap, and the person goes on in the thread below.
func TestMissedBelowAMissedCall(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	s.event()
	s.fake.Lose(true)
	call := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("look at this")})
	below := s.post(fakeslack.Message{Channel: "C1", User: "U1", ThreadTS: call.TS, Files: []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}})
	s.fake.Lose(false)
	s.drop()
	for _, want := range []string{call.TS, below.TS} {
		if e := s.event(); e.Message.NativeID != want || e.Silent {
			t.Errorf("%+v", e)
		}
	}
	s.quiet()
}

// It is called in a gap to a thread of others that began long before.
func TestMissedInAThreadOfOthers(t *testing.T) {
	s := open(t, nil)
	root := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U2", Text: "a thread"})
	s.readDelay = 0
	s.run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	s.event()
	s.fake.Lose(true)
	m := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("come"), ThreadTS: root.TS})
	s.fake.Lose(false)
	s.drop()
	if e := s.event(); e.Message.NativeID != m.TS || e.Silent {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// A Slack that fails just after a gap is asked again: it sends no more what is
// read from history.
func TestHistoryFailsAfterAGap(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	s.event()
	s.fake.Lose(true)
	m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "two"})
	s.fake.Lose(false)
	s.fake.Fail("conversations.history", fakeslack.Failure{Status: 503, Times: 1000})
	s.drop()
	s.eventually("it was tried", func() bool { return strings.Count(s.log.String(), "can't be read") > 8 })
	s.fake.Fail("conversations.history", fakeslack.Failure{})
	if e := s.event(); e.Message.NativeID != m.TS {
		t.Errorf("%+v", e)
	}
}

// So is what the store could not take just then.
func TestStoreIsAwayAfterAGap(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	s.event()
	s.fake.Lose(true)
	m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "two"})
	s.fake.Lose(false)
	s.sink.failing(3)
	s.drop()
	if e := s.event(); e.Message.NativeID != m.TS {
		t.Errorf("%+v", e)
	}
}

// What Slack throws away in a minute of too many events is read afterwards.
func TestHeldBackEvents(t *testing.T) {
	s := open(t, nil)
	s.heldFor = 300 * time.Millisecond
	s.run()
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	s.event()
	epoch := s.facts.epoch("D1")
	held := func() {
		s.fake.EmitRaw([]byte(`{"type":"app_rate_limited","team_id":"T0001","minute_rate_limited":1}`))
	}
	began := time.Now()
	held()
	s.fake.Lose(true)
	m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "two"})
	s.fake.Lose(false)
	if time.Since(began) >= s.heldFor { // that minute was over before it was posted
		held()
	}
	if e := s.event(); e.Message.NativeID != m.TS {
		t.Errorf("%+v", e)
	}
	if s.facts.epoch("D1") <= epoch {
		t.Error("what was known still holds")
	}
}

// An event that Slack tries again after a minute tells of an outage, of which
// older events are not sent any more.
func TestOutageOfTheEventsAPI(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *Config) { c.EventsListener, c.SigningSecret, c.AppToken = l, fakeslack.SigningSecret, "" })
	s.heldFor = 300 * time.Millisecond
	s.run()
	to := "http://" + l.Addr().String() + "/"
	s.fake.EventsTo(to)
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	s.event()
	missed := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "two"})
	again := func(num int) {
		t.Helper()
		body := s.fake.Payload(map[string]any{"type": "member_joined_channel", "channel": "C1", "user": "U1"}, fmt.Sprint("Ev", num))
		if status, err := s.fake.Retry(to, body, num); err != nil || status != http.StatusOK {
			t.Fatalf("%d, %v", status, err)
		}
	}
	if again(1); s.outage.Load() != 0 { // at once: it brings what there is
		t.Error("an event that was tried again at once is taken for an outage")
	}
	again(2)
	again(3)
	if e := s.event(); e.Message.NativeID != missed.TS {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// While an earlier gap is still being read, new messages move the marks past a
// later one.
func TestGapIsNotedBeforeNewMessages(t *testing.T) {
	s := open(t, nil)
	s.readDelay = 0
	s.run()
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	s.event()
	s.fake.Lose(true)
	m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "two"})
	s.fake.Lose(false)
	s.bothOpen()
	s.filling.Lock()
	s.fake.DropSockets()
	s.eventually("both sockets are open again", func() bool { return s.fake.Hellos() == 4 })
	s.bothOpen()
	after := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "three"})
	if e := s.event(); e.Message.NativeID != after.TS {
		t.Errorf("%+v", e)
	}
	s.filling.Unlock()
	if e := s.event(); e.Message.NativeID != m.TS {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// More channels than are read at once are read one round after another.
func TestManyChannelsAreReadInRounds(t *testing.T) {
	s := open(t, nil, func(f *fakeslack.Server) {
		for n := range 2*maxChannels + 5 {
			f.AddChannel(fakeslack.Channel{ID: fmt.Sprintf("CX%03d", n), IsChannel: true, Members: []string{"U1", fakeslack.BotUser}})
		}
	})
	s.roundPause = 10 * time.Millisecond
	s.run()
	s.fake.Lose(true)
	missed := map[string]bool{}
	for n := range 2*maxChannels + 5 {
		missed[s.post(fakeslack.Message{Channel: fmt.Sprintf("CX%03d", n), User: "U1", Text: mention("x")}).TS] = true
	}
	s.fake.Lose(false)
	s.drop()
	for len(missed) > 0 {
		e := s.event()
		if !missed[e.Message.NativeID] {
			t.Fatalf("%+v", e)
		}
		delete(missed, e.Message.NativeID)
	}
}

// So are more threads.
func TestManyThreadsAreReadInRounds(t *testing.T) {
	s := open(t, nil)
	s.roundPause, s.readDelay = 10*time.Millisecond, 0
	var roots []string
	for range 2*maxThreads + 5 {
		roots = append(roots, s.fake.Store(fakeslack.Message{Channel: "C1", User: "U2", Text: "a thread"}).TS)
	}
	s.run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	s.event()
	s.fake.Lose(true)
	missed := map[string]bool{}
	for _, ts := range roots {
		missed[s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("come"), ThreadTS: ts}).TS] = true
	}
	s.fake.Lose(false)
	s.drop()
	for len(missed) > 0 {
		e := s.event()
		if !missed[e.Message.NativeID] {
			t.Fatalf("%+v", e)
		}
		delete(missed, e.Message.NativeID)
	}
	s.quiet()
}

// A long gap is read to its beginning.
func TestALongGapIsReadToItsBeginning(t *testing.T) {
	s := open(t, nil)
	s.readDelay = 0
	s.run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	s.event()
	call := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("two")})
	for range maxPages*pageSize + 100 {
		s.fake.Store(fakeslack.Message{Channel: "C1", User: "U2", Text: "not for the agent"})
	}
	s.drop()
	if e := s.event(); e.Message.NativeID != call.TS {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// A late copy of an edit does not undo the next one.
func TestLateCopyOfAnEdit(t *testing.T) {
	s := open(t, nil).run()
	m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	s.event()
	s.must(s.fake.Edit("D1", m.TS, func(m *fakeslack.Message) { m.Text = "two" }))
	s.event()
	two := s.fake.EventsOf(s.fake.Messages("D1", "")[0])[0]
	s.must(s.fake.Edit("D1", m.TS, func(m *fakeslack.Message) { m.Text = "three" }))
	if e := s.event(); e.Kind != chat.MessageEdited || e.Message.Text != "three" {
		t.Errorf("%+v", e)
	}
	s.must(s.fake.Emit(map[string]any{"type": "message", "subtype": "message_changed", "channel": "D1", "ts": "1.1", "message": two}))
	s.quiet()
}

// Nor does it where the message itself was heard of last.
func TestLateCopyOfAnEditAfterTheMessage(t *testing.T) {
	s := open(t, nil).run()
	m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "one"})
	created := s.fake.EventsOf(m)[0]
	s.fake.Lose(true)
	s.must(s.fake.Edit("D1", m.TS, func(m *fakeslack.Message) { m.Text = "two" }))
	two := s.fake.EventsOf(s.fake.Messages("D1", "")[0])[0]
	s.fake.Lose(false)
	s.must(s.fake.Edit("D1", m.TS, func(m *fakeslack.Message) { m.Text = "three" }))
	if e := s.event(); e.Kind != chat.MessageEdited || e.Message.Text != "three" {
		t.Errorf("%+v", e)
	}
	s.must(s.fake.Emit(created))
	if e := s.event(); e.Kind != chat.MessagePosted {
		t.Errorf("%+v", e)
	}
	s.must(s.fake.Emit(map[string]any{"type": "message", "subtype": "message_changed", "channel": "D1", "ts": "1.1", "message": two}))
	s.quiet()
}

// So is one of a thread, to its end.
func TestALongGapOfAThreadIsReadToItsEnd(t *testing.T) {
	s := open(t, nil)
	s.readDelay = 0
	s.run()
	root := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	s.event()
	for range maxPages*pageSize + 100 {
		s.fake.Store(fakeslack.Message{Channel: "C1", User: fakeslack.BotUser, Text: "its own words", ThreadTS: root.TS})
	}
	call := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: "two", ThreadTS: root.TS})
	s.drop()
	if e := s.event(); e.Message.NativeID != call.TS {
		t.Errorf("%+v", e)
	}
	s.quiet()
}

// What could not be read of a thread is still owed when its channel has another
// gap, which begins later.
func TestTwoGapsOfOneThread(t *testing.T) {
	s := open(t, nil)
	root := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U2", Text: "a thread"})
	s.readDelay = 0
	s.run()
	missed := func(text string) fakeslack.Message {
		s.fake.Lose(true)
		defer s.fake.Lose(false)
		return s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention(text), ThreadTS: root.TS})
	}
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	s.event()
	two := missed("two")
	s.fake.Fail("conversations.replies", fakeslack.Failure{Status: 503, Times: 1 << 20})
	s.drop()
	s.eventually("it was tried", func() bool { return strings.Contains(s.log.String(), "can't be read") })
	s.bothOpen()
	three := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("three")})
	if e := s.event(); e.Message.NativeID != three.TS {
		t.Fatalf("%+v", e)
	}
	s.eventually("the channel was read", func() bool {
		s.gaps.mu.Lock()
		defer s.gaps.mu.Unlock()
		return s.gaps.from["C1"] == "" && s.gaps.reading["C1"] == "" && s.gaps.from["C1/"+root.TS] != ""
	})
	four := missed("four")
	s.filling.Lock()
	s.fake.Fail("conversations.replies", fakeslack.Failure{})
	hellos := s.fake.Hellos()
	s.drop()
	s.eventually("both sockets are open again", func() bool { return s.fake.Hellos() == hellos+sockets })
	s.bothOpen()
	s.filling.Unlock()
	want := map[string]bool{two.TS: true, four.TS: true}
	for len(want) > 0 {
		e := s.event()
		if !want[e.Message.NativeID] || e.Silent {
			t.Fatalf("%+v", e)
		}
		delete(want, e.Message.NativeID)
	}
}

// What is away for longer than Slack repeats itself loses nothing: the message
// is read from history once it can be taken.
func TestWhatSlackRepeatsNoMoreIsRead(t *testing.T) {
	s := open(t, nil).run()
	root := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	s.event()
	s.fake.RetryEvery(time.Hour)
	for _, m := range []fakeslack.Message{{Channel: "D1", Text: "two"}, {Channel: "C1", Text: "three", ThreadTS: root.TS}} {
		m.User = "U1"
		s.sink.failing(2) // its event, and the first reading
		m, err := s.fake.Post(m)
		s.must(err)
		if e := s.event(); e.Message.NativeID != m.TS || e.Silent {
			t.Errorf("%+v", e)
		}
	}
	if s.fake.Open() != 2 {
		t.Errorf("%d events are not acknowledged: the store was away for both", s.fake.Open())
	}
}

// What Slack refuses for good is not asked for ever.
func TestRefusedForGoodIsNotOwed(t *testing.T) {
	s := open(t, nil).run()
	s.fake.RetryEvery(time.Hour)
	s.fake.Fail("files.info", fakeslack.Failure{Code: "method_deprecated", Times: 1 << 20})
	f := s.fake.Upload("x.png", "image/png", []byte("x"))
	f.FileAccess = "check_file_info"
	_, err := s.fake.Post(fakeslack.Message{Channel: "D1", User: "U1", Text: "look", Files: []fakeslack.File{f}})
	s.must(err)
	s.eventually("it was tried", func() bool { return strings.Contains(s.log.String(), "not acknowledged") })
	s.eventually("nothing is left to read", func() bool {
		s.gaps.mu.Lock()
		defer s.gaps.mu.Unlock()
		return len(s.gaps.from) == 0 && len(s.gaps.reading) == 0 && !s.gaps.retrying
	})
	if n := len(s.fake.Calls("files.info")); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
