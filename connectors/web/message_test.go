package web

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"sightline/connectors/chat"
)

func TestAMessageIsDeliveredBeforeItIsAcknowledged(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	shot := s.uploaded(api, "shot.png", picture(30, 20))
	doc := s.uploaded(api, "notes.txt", []byte("hello, notes"))
	m := s.sent(api, "k1", "what is this?", shot.ID, doc.ID)

	events := s.sink.all()
	if len(events) != 1 {
		t.Fatalf("%d events", len(events))
	}
	e := events[0]
	place := chat.NewPlace(agent, "web", "local", conv, "", chat.Direct)
	if e.Kind != chat.MessagePosted || e.Place != place || e.Message.Place != place.ID {
		t.Errorf("event %+v", e)
	}
	if e.Message.ID != chat.MessageOf(place.ID, m.Message) || m.Turn != chat.TurnOf(e.Message.ID) || m.Conversation != place.Conversation() {
		t.Errorf("ids: %+v and %+v", e.Message, m)
	}
	if e.Message.Text != "what is this?" || e.Message.Author.Role != chat.Owner || e.Message.Author.User != "local" || e.Message.Author.Name == "" || e.Message.At.IsZero() {
		t.Errorf("message %+v", e.Message)
	}
	want := []chat.File{
		{NativeID: shot.ID, Name: "shot.png", DeclaredType: "image/png", SniffedType: "image/png", Size: shot.Size, Width: 30, Height: 20, Origin: chat.OriginDirect, State: chat.FileAvailable},
		{NativeID: doc.ID, Name: "notes.txt", DeclaredType: "image/png", SniffedType: "text/plain", Size: 12, Origin: chat.OriginDirect, State: chat.FileAvailable},
	}
	if len(e.Files) != 2 || e.Files[0] != want[0] || e.Files[1] != want[1] {
		t.Errorf("files %+v, want %+v", e.Files, want)
	}
}

func TestARetryWithTheSameKeyPostsOnce(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	u := s.uploaded(api, "a.png", picture(4, 4))
	var wg sync.WaitGroup
	got := make([]answer, 8)
	for i := range got {
		wg.Go(func() { got[i] = s.send(api, "once", "hello", u.ID) })
	}
	wg.Wait()
	for _, a := range got {
		if a.status != http.StatusAccepted || a.body != got[0].body {
			t.Errorf("%d %s, and %s", a.status, a.body, got[0].body)
		}
	}
	list, err := s.db.messages(t.Context(), conv, 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d messages, %v", len(list), err)
	}
	if n := len(s.sink.all()); n != 1 {
		t.Errorf("delivered %d times", n)
	}
	for _, other := range []answer{s.send(api, "once", "other text", u.ID), s.send(api, "once", "hello")} {
		if other.status != http.StatusConflict {
			t.Errorf("the key of another message: %d %s", other.status, other.body)
		}
	}
}

func TestAnUndeliverableMessageIsSavedAndNotAcknowledged(t *testing.T) {
	s := open(t)
	_, api := s.conv("work")
	s.sink.failing(func(chat.Event) error { return errSink })
	a := s.send(api, "k1", "first")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "saved") || strings.Contains(a.body, errSink.Error()) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	s.sink.failing(nil)
	// The next one brings it along, in order, and the retry posts nothing new.
	s.sent(api, "k2", "second")
	s.sent(api, "k1", "first")
	var texts []string
	for _, e := range s.sink.all() {
		texts = append(texts, e.Message.Text)
	}
	if strings.Join(texts, ",") != "first,second" {
		t.Errorf("delivered %v", texts)
	}
}

func TestWhatACrashLeftIsDeliveredAtTheNextStart(t *testing.T) {
	s := open(t)
	_, api := s.conv("work")
	s.sink.failing(func(chat.Event) error { return errSink })
	s.send(api, "k1", "before the crash")
	s.stop()
	s.sink.failing(nil)
	s.start("127.0.0.1:0")
	events := s.sink.all()
	if len(events) != 1 || events[0].Message.Text != "before the crash" {
		t.Errorf("after the start: %+v", events)
	}
}

func TestAFailingSinkIsTriedAgainWithoutAnybodyAsking(t *testing.T) {
	s := open(t)
	_, api := s.conv("work")
	first := true
	s.sink.failing(func(chat.Event) error {
		if first {
			first = false
			return errSink
		}
		return nil
	})
	s.send(api, "k1", "hello")
	await(t, "delivery", func() bool { return len(s.sink.all()) == 1 })
}

func TestMessagesThatAreRefusedHaveASentence(t *testing.T) {
	s := open(t)
	_, api := s.conv("work")
	u := s.uploaded(api, "a.png", picture(4, 4))
	for name, c := range map[string]struct {
		key, text string
		uploads   []string
		status    int
		says      string
	}{
		"empty":        {"k", " \n\t", nil, 400, "empty"},
		"too long":     {"k", strings.Repeat("x", maxText+1), nil, 400, "64 KiB"},
		"nul":          {"k", "a\x00b", nil, 400, "NUL"},
		"no key":       {"", "hello", nil, 400, "client_key"},
		"file twice":   {"k", "", []string{u.ID, u.ID}, 400, "twice"},
		"unknown file": {"k", "", []string{newID(uploadPrefix)}, 409, "no longer there"},
		"no id at all": {"k", "", []string{"../../etc/passwd"}, 409, "no longer there"},
		"many files":   {"k", "", many(maxFiles + 1), 400, "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.send(api, c.key, c.text, c.uploads...)
			var said map[string]string
			a.into(t, &said)
			if a.status != c.status || !strings.Contains(said["error"], c.says) {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	if n := len(s.sink.all()); n != 0 {
		t.Errorf("%d events delivered", n)
	}
	// All or nothing: the good file of a refused message is still unsent.
	s.send(api, "k3", "both", u.ID, newID(uploadPrefix))
	s.sent(api, "k4", "", u.ID)
	if a := s.send(api, "k5", "again", u.ID); a.status != http.StatusConflict {
		t.Errorf("a file was sent twice: %d", a.status)
	}
	if n := len(s.sink.all()); n != 1 {
		t.Errorf("%d events delivered, want 1", n)
	}
	// The text's limit itself is allowed.
	s.sent(api, "k6", strings.Repeat("x", maxText))
}

func many(n int) (ids []string) {
	for range n {
		ids = append(ids, newID(uploadPrefix))
	}
	return ids
}

func TestDeletingAMessageRemovesItsFilesAndSaysSo(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	u := s.uploaded(api, "a.png", picture(4, 4))
	m := s.sent(api, "k1", "secret words", u.ID)
	path, _ := s.files.path(u.ID)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	for range 2 { // twice is once
		if a := s.do("DELETE", api+"/messages/"+m.Message, nil); a.status != http.StatusNoContent {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if a := s.do("GET", "/uploads/"+u.ID, nil); a.status != http.StatusNotFound {
		t.Errorf("the file is still served: %d", a.status)
	}
	events := s.sink.all()
	if len(events) != 2 || events[1].Kind != chat.MessageDeleted || events[1].Message.NativeID != m.Message ||
		events[1].Message.ID != events[0].Message.ID || events[1].Message.Text != "" || len(events[1].Files) != 0 {
		t.Fatalf("events %+v", events)
	}
	if a := s.do("GET", api, nil); strings.Contains(a.body, "secret words") {
		t.Error("the deleted text is still read")
	}
	// The agent's own messages, and those of nobody, are not there to delete.
	s.reply(conv, m, chat.ReplyAnswer, "an answer")
	list, _ := s.db.messages(t.Context(), conv, 10)
	for _, id := range []string{list[0].ID, newID(messagePrefix), "..%2f..", "x"} {
		if a := s.do("DELETE", api+"/messages/"+id, nil); a.status != http.StatusNotFound {
			t.Errorf("delete %s: %d", id, a.status)
		}
	}
}

func TestADeletionBeforeDeliveryIsOnlyADeletion(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	s.sink.failing(func(chat.Event) error { return errSink })
	s.send(api, "k1", "regretted")
	list, _ := s.db.messages(t.Context(), conv, 10)
	if a := s.do("DELETE", api+"/messages/"+list[0].ID, nil); a.status != http.StatusServiceUnavailable {
		t.Fatalf("acknowledged with a sink that is down: %d", a.status)
	}
	s.sink.failing(nil)
	if a := s.do("DELETE", api+"/messages/"+list[0].ID, nil); a.status != http.StatusNoContent {
		t.Fatal(a)
	}
	if events := s.sink.all(); len(events) != 1 || events[0].Kind != chat.MessageDeleted {
		t.Errorf("events %+v", events)
	}
}

func TestStop(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	if a := s.do("POST", api+"/stop", nil); a.status != http.StatusAccepted {
		t.Fatal(a)
	}
	if len(s.sink.stopped) != 1 || s.sink.stopped[0] != s.placeOf(conv).Conversation() {
		t.Errorf("stopped %v", s.sink.stopped)
	}
}

// Either mark is enough: a crash between the rows would be no way in.
func TestADeletedMessageAloneClosesItsFiles(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	u := s.uploaded(api, "a.png", picture(4, 4))
	m := s.sent(api, "k", "", u.ID)
	if _, err := s.db.live(t.Context(), conv, m.Message, "1", u.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `update web_message set deleted_at = now() where id = $1`, m.Message); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.live(t.Context(), conv, m.Message, "1", u.ID); !errors.Is(err, errNotFound) {
		t.Errorf("fetched: %v", err)
	}
	if a := s.do("GET", "/uploads/"+u.ID, nil); a.status != http.StatusNotFound {
		t.Errorf("served: %d", a.status)
	}
}
