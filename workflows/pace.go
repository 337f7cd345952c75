package workflows

import (
	"sync"
	"time"
)

// paceBurst is how far ahead of its pace an account may be.
const paceBurst = 20 * time.Second

// pace keeps drafts from using up what a platform takes from one account in a
// minute: replies need some of it, and matter more. The zero value is ready.
type pace struct {
	mu    sync.Mutex
	spent map[string]time.Time // up to when an account's time is used
}

// take asks for one call of perMinute. What is refused is left out, not waited
// for.
func (p *pace) take(account string, perMinute int, now time.Time) bool {
	if perMinute < 1 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.spent[account]
	if earliest := now.Add(-paceBurst); t.Before(earliest) {
		t = earliest
	}
	if t = t.Add(time.Minute / time.Duration(perMinute)); t.After(now) {
		return false
	}
	if p.spent == nil {
		p.spent = map[string]time.Time{}
	}
	p.spent[account] = t
	return true
}
