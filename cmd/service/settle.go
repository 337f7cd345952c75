package service

import (
	"context"
	"time"

	"sightline/workflows"
)

const settleEvery = 5 * time.Second

// keepSettled tells conversations what they are owed: messages that came while
// Temporal was away. Failures are Temporal's own and said elsewhere.
func (s *service) keepSettled(g *workflows.Ingress) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.later(func(context.Context) { cancel(); <-done })
	go func() {
		defer close(done)
		for {
			if err := g.Settle(ctx); err != nil && ctx.Err() == nil {
				s.log.Debug("messages wait for Temporal", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(settleEvery):
			}
		}
	}()
}
