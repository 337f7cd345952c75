package slack

import (
	"sync"
	"time"
)

const (
	// streamLife is less than the five minutes after which Slack ends a stream.
	streamLife = 4 * time.Minute
	// streamIdle is less than the half minute without news after which it does.
	streamIdle = 20 * time.Second
)

// stream is a draft that Slack streams. Whoever holds the reply's key owns it.
type stream struct {
	channel, ts string
	sent        string // so far; a stream only grows
	until       time.Time
	idle        *time.Timer
}

// streams are those of this process. One that is not here is edited.
type streams struct {
	max int
	mu  sync.Mutex
	m   map[string]*stream
	off bool
	// shown is what a message that is edited was last made to say.
	shown map[string]string
}

func newStreams(max int) *streams {
	return &streams{max: max, m: map[string]*stream{}, shown: map[string]string{}}
}

// shows reports whether a draft says this already.
func (s *streams) shows(key, ts, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.shown[key]
	return ok && v == ts+" "+text
}

func (s *streams) show(key, ts, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.shown[key]; !ok && len(s.shown) >= s.max {
		for other := range s.shown { // one whose reply another process posted, as like as not
			delete(s.shown, other)
			break
		}
	}
	s.shown[key] = ts + " " + text
}

func (s *streams) get(key, ts string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.m[key]; v != nil && v.ts == ts {
		return v
	}
	return nil
}

func (s *streams) put(key string, v *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.m) < s.max {
		s.m[key] = v
	}
}

func (s *streams) drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.m[key]; v != nil && v.idle != nil {
		v.idle.Stop()
	}
	delete(s.m, key)
	delete(s.shown, key)
}

// refuse remembers that this app may not stream at all.
func (s *streams) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = true
}

func (s *streams) refused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off
}
