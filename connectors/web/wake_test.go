package web

import (
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
)

// Where another process makes the answers, the page shows what it is doing,
// and the answer at once rather than at the next heartbeat.
func TestOtherProcessesWakeListeners(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	m := s.sent(api, "k1", "hello")
	worker, err := New(Config{Agent: agent, Pool: s.pool, Dir: s.home})
	if err != nil {
		t.Fatal(err)
	}
	l := s.listen(api + "/events?view=live")
	l.next("snapshot")
	// Until the page's process listens, nothing comes.
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for step := 0; ; step++ {
			worker.Progress(t.Context(), chat.Progress{Turn: m.Turn, Place: s.placeOf(conv), Step: step, Text: "looking", Draft: "so far"})
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	if v := l.next("progress"); v["text"] != "looking" || v["draft"] != "so far" {
		t.Errorf("progress %v", v)
	}
	close(done)
	<-ended
	// A draft that no notification carries is left out, not the rest.
	worker.Progress(t.Context(), chat.Progress{Turn: m.Turn, Place: s.placeOf(conv), Step: 1 << 20, Text: "nearly there", Draft: strings.Repeat("long ", 4000)})
	for {
		v := l.next("progress")
		if v["text"] == "nearly there" {
			if v["draft"] != nil {
				t.Errorf("a draft of %d bytes came", len(v["draft"].(string)))
			}
			break
		}
	}
	began := time.Now()
	if _, err := worker.Post(t.Context(), chat.Reply{Key: "k", Turn: m.Turn, Place: s.placeOf(conv), Kind: chat.ReplyAnswer, Text: "from elsewhere"}); err != nil {
		t.Fatal(err)
	}
	if v := l.next("reply"); v["text"] != "from elsewhere" {
		t.Errorf("reply %v", v)
	}
	if took := time.Since(began); took > heartbeat/2 {
		t.Errorf("the reply took %v", took)
	}
}
