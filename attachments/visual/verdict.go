package visual

import (
	"container/list"
	"sync"
	"time"
)

// maxVerdicts bounds the memory of verdicts, about 400 bytes each.
const maxVerdicts = 4096

// deadlineVerdict is how long an exceeded deadline quarantines a file: it may have been the machine's fault, unlike
// every other refusal, which the same bytes earn for ever.
const deadlineVerdict = 10 * time.Minute

// verdict is what is known of a digest. It holds no pixels.
type verdict struct {
	header  Header
	clean   bool // stripping was found to leave the bytes as they are
	size    int  // length of the file; a guard against a caller's wrong digest
	refusal *Refusal
	expires time.Time // zero: never
}

// err returns the refusal as an error, nil where there is none.
func (v verdict) err() error {
	if v.refusal == nil {
		return nil
	}
	return v.refusal
}

// verdicts is a bounded memory of verdicts; the one unused for longest goes first.
type verdicts struct {
	mu    sync.Mutex
	max   int
	order *list.List // of verdictEntry, newest first
	byKey map[Digest]*list.Element
	now   func() time.Time
}

type verdictEntry struct {
	key Digest
	verdict
}

func newVerdicts(n int) *verdicts {
	return &verdicts{max: n, order: list.New(), byKey: map[Digest]*list.Element{}, now: time.Now}
}

func (c *verdicts) get(key Digest, size int) (verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return verdict{}, false
	}
	v := e.Value.(verdictEntry).verdict
	if v.size != size {
		return verdict{}, false
	}
	if !v.expires.IsZero() && c.now().After(v.expires) {
		c.order.Remove(e)
		delete(c.byKey, key)
		return verdict{}, false
	}
	c.order.MoveToFront(e)
	return v, true
}

func (c *verdicts) put(key Digest, v verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.refusal != nil && v.refusal.Code == DeadlineExceeded {
		v.expires = c.now().Add(deadlineVerdict)
	}
	if e, ok := c.byKey[key]; ok {
		e.Value = verdictEntry{key, v}
		c.order.MoveToFront(e)
		return
	}
	c.byKey[key] = c.order.PushFront(verdictEntry{key, v})
	if c.order.Len() > c.max {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.byKey, last.Value.(verdictEntry).key)
	}
}

// setClean records that a file needs no stripping, so that it is not walked again.
func (c *verdicts) setClean(key Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		v := e.Value.(verdictEntry)
		v.clean = true
		e.Value = v
	}
}
