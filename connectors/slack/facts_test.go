package slack

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Whoever waits shares one question; what changed while it was asked is asked
// again.
func TestFactsAreAskedOnce(t *testing.T) {
	var asked atomic.Int32
	gate := make(chan struct{})
	f := newFactsCache(time.Now, func(context.Context, string) (channelInfo, error) {
		n := asked.Add(1)
		<-gate
		return channelInfo{ID: "C1", IsMember: n == 1}, nil
	})
	var wg sync.WaitGroup
	got := make([]channelInfo, 8)
	for n := range got {
		wg.Go(func() { got[n], _ = f.get(t.Context(), "C1", time.Minute) })
	}
	for asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	f.drop("C1") // it was a member when it was asked, and is none now
	close(gate)
	wg.Wait()
	for _, i := range got {
		if i.IsMember {
			t.Error("an answer from before the change was used")
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestEpochsOnlyGrow(t *testing.T) {
	now := time.Unix(1, 0)
	f := newFactsCache(func() time.Time { return now }, nil)
	last := f.epoch("C1")
	for _, channel := range []string{"C1", "C1", "", "C1", ""} {
		f.drop(channel)
		if e := f.epoch("C1"); e <= last {
			t.Errorf("%d after %d", e, last)
		} else {
			last = e
		}
	}
}

// A conversion, an archive, a join are told as messages, too: what was known of
// the channel is asked again.
func TestMessagesThatChangeTheAudience(t *testing.T) {
	s := open(t, nil).run()
	for _, subtype := range []string{"channel_convert_to_private", "channel_convert_to_public", "channel_archive", "channel_unarchive", "channel_join", "group_leave"} {
		before, other := s.facts.epoch("C1"), s.facts.epoch("C2")
		s.must(s.fake.Emit(map[string]any{"type": "message", "subtype": subtype, "channel": "C1", "user": "U2", "ts": "1.1", "text": "it happened"}))
		s.settle()
		if s.facts.epoch("C1") <= before || s.facts.epoch("C2") != other {
			t.Errorf("%s: nothing is asked again", subtype)
		}
	}
	s.quiet()
}
