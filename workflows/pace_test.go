package workflows

import (
	"testing"
	"time"
)

func TestPaceLeavesRoomForReplies(t *testing.T) {
	var p pace
	now := time.Unix(1e9, 0)
	took := func(account string, perMinute int, long time.Duration) (n int) {
		for end := now.Add(long); now.Before(end); now = now.Add(100 * time.Millisecond) {
			if p.take(account, perMinute, now) {
				n++
			}
		}
		return n
	}
	if n := took("a", 30, 0); n != 0 {
		t.Errorf("%d calls in no time", n)
	}
	// The burst, and then the pace: 10 + 30 in the first minute, 30 in the next.
	if n := took("a", 30, time.Minute); n < 38 || n > 41 {
		t.Errorf("%d calls in the first minute", n)
	}
	if n := took("a", 30, time.Minute); n < 29 || n > 31 {
		t.Errorf("%d calls in the second minute", n)
	}
	if !p.take("b", 30, now) {
		t.Error("another account has to wait")
	}
	if p.take("c", 0, now) {
		t.Error("no pace, and a call")
	}
}
