package sandbox

import (
	"context"
	"sync"
)

// A queue lets one holder in at a time, in the order of asking. Its zero value is free.
type queue struct {
	mu      sync.Mutex
	held    bool
	waiting []chan struct{}
}

// enter waits for its turn; an error means that ctx ended first and nothing is held.
func (q *queue) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	if !q.held {
		q.held = true
		q.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	for i, w := range q.waiting {
		if w == turn {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			q.mu.Unlock()
			return ctx.Err()
		}
	}
	q.mu.Unlock()
	q.leave() // the turn came at the same moment: it goes to the next
	return ctx.Err()
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.held = false
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// queues has one queue for every key that somebody holds or waits for.
type queues struct {
	mu sync.Mutex
	m  map[string]*counted
}

type counted struct {
	queue
	users int
}

func (qs *queues) enter(ctx context.Context, key string) (leave func(), err error) {
	qs.mu.Lock()
	if qs.m == nil {
		qs.m = map[string]*counted{}
	}
	q := qs.m[key]
	if q == nil {
		q = &counted{}
		qs.m[key] = q
	}
	q.users++
	qs.mu.Unlock()
	done := func() {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(qs.m, key)
		}
	}
	if err := q.enter(ctx); err != nil {
		done()
		return nil, err
	}
	return func() { q.leave(); done() }, nil
}
