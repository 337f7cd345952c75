package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/connectors/chat"
)

// stream reads a live stream for a test.
type reader struct {
	t     *testing.T
	lines *bufio.Scanner
}

func (s *served) listen(path string) *reader {
	t := s.t.(*testing.T)
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	req, _ := http.NewRequestWithContext(ctx, "GET", s.base+path, nil)
	res, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 8<<20)
	return &reader{t, lines}
}

// next expects an event of that name and answers its data. The running state,
// and which conversations there are, may be told between any two others.
func (r *reader) next(name string) map[string]any {
	r.t.Helper()
	event := ""
	for r.lines.Scan() {
		if e, ok := strings.CutPrefix(r.lines.Text(), "event: "); ok {
			event = e
		}
		if d, ok := strings.CutPrefix(r.lines.Text(), "data: "); ok {
			if (event == "state" || event == "conversations") && name != event {
				continue
			}
			if event != name {
				r.t.Fatalf("event %s (%s), want %s", event, d, name)
			}
			v := map[string]any{}
			if err := json.Unmarshal([]byte(d), &v); err != nil {
				r.t.Fatal(err)
			}
			return v
		}
	}
	r.t.Fatalf("the stream ended before a %s: %v", name, r.lines.Err())
	return nil
}

func TestTheLiveStream(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	first := s.sent(api, "k1", "before")
	l := s.listen(api + "/events?view=page")
	if v := l.next("snapshot"); len(v["ids"].([]any)) != 1 || v["running"] != true {
		t.Errorf("snapshot %v", v)
	}
	if v := l.next("message"); v["id"] != first.Message || !strings.Contains(v["html"].(string), "before") {
		t.Errorf("message %v", v)
	}
	place := s.placeOf(conv)
	s.Progress(t.Context(), chat.Progress{Turn: first.Turn, Place: place, Step: 1, Text: "looking", Draft: "so **far** <img src=x>"})
	if v := l.next("progress"); v["text"] != "looking" || !strings.Contains(v["draft_html"].(string), "<strong>far</strong>") || strings.Contains(v["draft_html"].(string), "<img") {
		t.Errorf("progress %v", v)
	}
	s.reply(conv, first, chat.ReplyAnswer, "the *answer*")
	if v := l.next("reply"); v["kind"] != "answer" || !strings.Contains(v["html"].(string), "<em>answer</em>") {
		t.Errorf("reply %v", v)
	}
	if v := l.next("state"); v["running"] != false {
		t.Errorf("state %v", v)
	}
	// Progress that comes after its reply is no news.
	s.Progress(t.Context(), chat.Progress{Turn: first.Turn, Place: place, Text: "late"})
	s.do("DELETE", api+"/messages/"+first.Message, nil)
	if v := l.next("deleted"); v["id"] != first.Message {
		t.Errorf("deleted %v", v)
	}

	// A second listener finds things as they are; what runs, it is told.
	second := s.sent(api, "k2", "again")
	l.next("message")
	s.Progress(t.Context(), chat.Progress{Turn: second.Turn, Place: place, Text: "on it"})
	late := s.listen(api + "/events")
	if v := late.next("snapshot"); len(v["ids"].([]any)) != 2 {
		t.Errorf("snapshot %v", v)
	}
	if v := late.next("reply"); v["text"] != "the *answer*" || v["html"] != nil {
		t.Errorf("reply %v", v)
	}
	late.next("message")
	if v := late.next("progress"); v["text"] != "on it" {
		t.Errorf("progress %v", v)
	}
	l.next("progress")
	// A page learns of conversations that are opened anywhere, once and by
	// name; a terminal does not ask.
	for _, name := range []string{"by the API", "by a form"} {
		if name == "by the API" {
			s.conv(name)
			s.conv(name)
		} else {
			s.do("POST", "/conversations", strings.NewReader("name=by+a+form"), "Content-Type", "application/x-www-form-urlencoded")
		}
		v := l.next("conversations")["conversations"].([]any)
		if len(v) != 1 || v[0].(map[string]any)["name"] != name {
			t.Errorf("opened: %v, want %q", v, name)
		}
	}
	// Another conversation's listener hears nothing of it.
	_, other := s.conv("other")
	o := s.listen(other + "/events?view=live")
	o.next("snapshot")
	s.sent(other, "k3", "elsewhere")
	if v := o.next("message"); v["text"] != "elsewhere" {
		t.Errorf("the other conversation %v", v)
	}
}

func TestAReplyOfAnotherProcessArrivesToo(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a heartbeat")
	}
	s := open(t)
	conv, api := s.conv("work")
	m := s.sent(api, "k1", "hello")
	l := s.listen(api + "/events?view=live")
	l.next("snapshot")
	worker, err := New(Config{Agent: agent, Pool: s.pool, Dir: s.home})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Post(t.Context(), chat.Reply{Key: "k", Turn: m.Turn, Place: s.placeOf(conv), Kind: chat.ReplyAnswer, Text: "from elsewhere"}); err != nil {
		t.Fatal(err)
	}
	if v := l.next("reply"); v["text"] != "from elsewhere" {
		t.Errorf("reply %v", v)
	}
}

func TestListenersAreBoundedAndProgressNeverWaits(t *testing.T) {
	h := newHub()
	place := chat.NewPlace(agent, Platform, workspace, newID(conversationPrefix), "", chat.Direct)
	l := h.listen(place.Channel)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100_000 {
			h.progress(chat.Progress{Turn: "t", Place: place, Step: i})
			h.changed(place.Channel, "")
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("progress waits for a listener that does not listen")
	}
	if dirty, pr := l.take(); !dirty || pr == nil || pr.Step != 99_999 {
		t.Errorf("%v %+v", dirty, pr)
	}
	h.changed(place.Channel, "t")
	l.close()
	if len(h.rooms) != 0 {
		t.Errorf("%d rooms are left", len(h.rooms))
	}
}

// joined says that every message joined one turn.
type joined struct {
	mu   sync.Mutex
	view TurnView
	ok   bool
}

func (j *joined) set(v TurnView) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.view, j.ok = v, true
}

func (j *joined) TurnFor(context.Context, chat.ConversationID, chat.MessageID) (TurnView, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.view, j.ok, nil
}

func TestWhatBecameOfAMessage(t *testing.T) {
	turns := &joined{}
	s := open(t, func(c *Config) { c.Turns = turns })
	conv, api := s.conv("work")
	first, second := s.sent(api, "k1", "first"), s.sent(api, "k2", "second, while the first runs")
	status := func(m sentJSON) (j statusJSON) {
		s.do("GET", api+"/messages/"+m.Message, nil).into(t, &j)
		return j
	}
	if j := status(second); j.State != "queued" || j.Reply != nil {
		t.Errorf("%+v", j)
	}
	turns.set(TurnView{Turn: first.Turn, State: "running"})
	if j := status(second); j.State != "running" || j.Turn != first.Turn {
		t.Errorf("%+v", j)
	}
	s.reply(conv, first, chat.ReplyAnswer, "for both")
	for _, m := range []sentJSON{first, second} {
		if j := status(m); j.State != "answered" || j.Reply == nil || j.Reply.Text != "for both" {
			t.Errorf("%+v", j)
		}
	}
	if busy, err := s.busy(t.Context(), conv); busy || err != nil {
		t.Errorf("busy after the answer: %v %v", busy, err)
	}
	// A turn that ended without a word.
	third := s.sent(api, "k3", "third")
	turns.set(TurnView{Turn: third.Turn, State: "failed", Reason: "no model"})
	if j := status(third); j.State != "failed" || j.Reason != "no model" {
		t.Errorf("%+v", j)
	}
	if a := s.do("GET", api+"/messages/"+newID(messagePrefix), nil); a.status != http.StatusNotFound {
		t.Errorf("an unknown message: %d", a.status)
	}
}

func TestStatesWithoutAReaderOfTurns(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	m := s.sent(api, "k1", "first")
	steering := s.sent(api, "k2", "by the way")
	if busy, _ := s.busy(t.Context(), conv); !busy {
		t.Error("not busy while nothing is answered")
	}
	s.reply(conv, m, chat.ReplyStopped, "Stopped.")
	if busy, _ := s.busy(t.Context(), conv); busy {
		t.Error("busy after the reply")
	}
	var j statusJSON
	s.do("GET", api+"/messages/"+m.Message, nil).into(t, &j)
	if j.State != "stopped" || j.Reply.Text != "Stopped." {
		t.Errorf("%+v", j)
	}
	s.do("DELETE", api+"/messages/"+steering.Message, nil)
	s.do("GET", api+"/messages/"+steering.Message, nil).into(t, &j)
	if j.State != "deleted" {
		t.Errorf("%+v", j)
	}
}
