package discord

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"sightline/connectors/chat"
)

// Two hundred conversations at once, with a store that takes its time: each
// message comes once, and no channel waits for all others.
func TestManyConversations(t *testing.T) {
	w := newWorld(t)
	var channels []string
	for range 200 {
		channels = append(channels, w.AddChannel(w.guild))
	}
	slow := &slowSink{sink: w.sink}
	w.change = func(c *Config) { c.Sink = slow }
	w.run()
	began := time.Now()
	want := map[string]bool{}
	for i := range 600 {
		want[w.Post(channels[i%200], w.alice, draft{Text: fmt.Sprintf("%s %d", w.at(), i)}).ID] = true
	}
	for range 600 {
		id := w.next().Message.NativeID
		if !want[id] {
			t.Fatalf("%s came twice, or was never said", id)
		}
		delete(want, id)
	}
	if d := time.Since(began); d > 15*time.Second {
		t.Errorf("600 messages took %s", d)
	} else {
		t.Logf("600 messages in %s", d)
	}
	w.nothing(w.channel)
	slow.mu.Lock()
	defer slow.mu.Unlock()
	if slow.most < 2 {
		t.Error("one channel at a time")
	}
}

type slowSink struct {
	*sink
	mu        sync.Mutex
	now, most int
}

func (s *slowSink) Deliver(ctx context.Context, e chat.Event) error {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	return s.sink.Deliver(ctx, e)
}
