package slack

import (
	"net/url"
	"strings"
	"sync"
	"time"
)

// holds are the methods that Slack wants to be left alone for a while. A
// refusal is for all who call the method: whoever asked on, one call after
// another, would be told to wait for ever longer.
type holds struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// subject is what Slack counts by: a method, and what posts also by their
// channel.
func subject(method string, in url.Values) string {
	if strings.HasPrefix(method, "chat.") {
		return method + " " + in.Get("channel")
	}
	return method
}

func (h *holds) put(subject string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	for k, t := range h.until {
		if !t.After(now) {
			delete(h.until, k)
		}
	}
	if t := now.Add(d); t.After(h.until[subject]) {
		h.until[subject] = t
	}
}

// left is how long it is still to be left alone.
func (h *holds) left(subject string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(0, time.Until(h.until[subject]))
}
