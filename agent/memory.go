package agent

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Memory bounds the bytes of fetched files that a process holds at once, over
// all its agents: a burst of large pictures waits rather than growing the
// process. Whoever fetches takes the most that may come, before asking for a
// grant, so that no grant grows old meanwhile. Nil bounds nothing.
type Memory struct {
	free *semaphore.Weighted
	size int64
}

// NewMemory bounds to that many bytes.
func NewMemory(bytes int64) *Memory {
	return &Memory{free: semaphore.NewWeighted(bytes), size: bytes}
}

// Held is a part of a Memory. Its zero value and nil are nothing.
type Held struct {
	m  *Memory
	mu sync.Mutex
	n  int64
}

// Hold waits for n bytes, first come, first served. More than there is in all
// is all there is: such a request goes alone. One caller must not hold twice:
// two that wait for each other's would wait for ever.
func (m *Memory) Hold(ctx context.Context, n int64) (*Held, error) {
	if m == nil || n <= 0 {
		return nil, nil
	}
	n = min(n, m.size)
	if err := m.free.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("wait for memory: %w", err)
	}
	return &Held{m: m, n: n}, nil
}

// Keep gives back what turned out not to be needed.
func (h *Held) Keep(n int64) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n = max(n, 0); n < h.n {
		h.m.free.Release(h.n - n)
		h.n = n
	}
}

// Free gives back the rest. It may be called again.
func (h *Held) Free() { h.Keep(0) }
