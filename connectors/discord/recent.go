package discord

import "sync"

// recent remembers the last keys it was given.
type recent struct {
	mu   sync.Mutex
	keys map[string]bool
	ring []string
	at   int
}

func newRecent(n int) *recent { return &recent{keys: map[string]bool{}, ring: make([]string, n)} }

func (r *recent) has(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[key]
}

func (r *recent) add(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[key] {
		return
	}
	delete(r.keys, r.ring[r.at])
	r.ring[r.at], r.keys[key] = key, true
	r.at = (r.at + 1) % len(r.ring)
}
