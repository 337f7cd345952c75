package discord

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"
)

// shard is one of the sessions that share the bot's servers. Direct messages
// come to the first.
type shard struct{ id, of int }

// has says whether what happens in a guild, or in none, comes to this shard.
func (s shard) has(guildID string) bool { return s.of < 2 || shardOf(guildID, s.of) == s.id }

// plan is what Discord says about how to connect.
type plan struct {
	Shards int `json:"shards"`
	Limit  struct {
		Remaining   int `json:"remaining"`
		ResetAfter  int `json:"reset_after"` // ms
		Concurrency int `json:"max_concurrency"`
	} `json:"session_start_limit"`
}

func (b *Bot) plan(ctx context.Context) (plan, error) {
	var p plan
	if err := b.rest.do(ctx, "GET", "/gateway/bot", nil, &p); err != nil {
		return plan{}, err
	}
	p.Shards, p.Limit.Concurrency = max(p.Shards, 1), max(p.Limit.Concurrency, 1)
	return p, nil
}

// planned asks until there is an answer.
func (b *Bot) planned(ctx context.Context) (plan, error) {
	wait := b.backoffMin
	for {
		p, err := b.plan(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return p, ctx.Err()
		case errors.Is(err, errToken):
			return plan{}, &FatalError{Code: 401, What: fatalCodes[4004][0], Fix: fatalCodes[4004][1]}
		}
		b.log.Warn("discord does not say how to connect; it is asked again", "error", err)
		_ = sleep(ctx, wait)
		wait = min(2*wait, b.backoffMax)
	}
}

// errMoreShards: the bot has grown out of the sessions that it has.
var errMoreShards = errors.New("discord demands more sessions")

// connections keeps as many sessions as Discord recommends, and starts anew
// when it demands more.
func (b *Bot) connections(ctx context.Context) error {
	for had := 0; ; {
		p, err := b.planned(ctx)
		if err != nil {
			return err
		}
		if p.Shards <= had {
			return &FatalError{Code: 4011, What: fatalCodes[4011][0], Fix: fatalCodes[4011][1]}
		}
		if had = p.Shards; had > 1 {
			b.log.Info("discord recommends several sessions", "shards", had, "at once", p.Limit.Concurrency)
		}
		if err := b.shards(ctx, p); !errors.Is(err, errMoreShards) {
			return err
		}
		b.log.Warn("the bot is in too many servers for its sessions; they are started again, in a larger number")
	}
}

// shards runs all sessions until one of them ends for good.
func (b *Bot) shards(ctx context.Context, p plan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	starts := newStarts(b, p)
	b.hear(p.Shards)
	var all sync.WaitGroup
	for id := range p.Shards {
		all.Go(func() {
			if err := b.stayConnected(ctx, shard{id, p.Shards}, starts); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}

// hear begins to wait for so many sessions; heard notes one that is open.
func (b *Bot) hear(shards int) {
	b.hearing.Lock()
	defer b.hearing.Unlock()
	b.silent = map[int]bool{}
	for id := range shards {
		b.silent[id] = true
	}
}

func (b *Bot) heard(s shard) {
	b.hearing.Lock()
	defer b.hearing.Unlock()
	if delete(b.silent, s.id); len(b.silent) == 0 {
		b.readyOnce.Do(func() { close(b.ready) })
	}
}

// starts paces identifications: shards of one bucket one after another, and
// with a pause. Who comes too soon or too often is refused, and after a
// thousand times in a day the token is taken away.
type starts struct {
	b       *Bot
	buckets []chan time.Time // holds when the bucket's next may begin, unless one of it is beginning

	mu   sync.Mutex
	left int // of today's identifications
}

func newStarts(b *Bot, p plan) *starts {
	s := &starts{b: b, left: p.Limit.Remaining}
	for range p.Limit.Concurrency {
		c := make(chan time.Time, 1)
		c <- time.Time{}
		s.buckets = append(s.buckets, c)
	}
	return s
}

// begin waits for a shard's turn to identify; done ends it.
func (s *starts) begin(ctx context.Context, id int) (done func(), err error) {
	bucket := s.buckets[id%len(s.buckets)]
	var from time.Time
	select {
	case from = <-bucket:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	done = func() { bucket <- time.Now().Add(s.b.identifyEvery) }
	if err = sleep(ctx, time.Until(from)); err == nil {
		err = s.spend(ctx)
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// spend takes one of today's identifications, and waits for the next day when
// there are none.
func (s *starts) spend(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.left < 1 {
		p, err := s.b.planned(ctx)
		if err != nil {
			return err
		}
		if s.left = p.Limit.Remaining; s.left > 0 {
			break
		}
		wait := max(time.Duration(p.Limit.ResetAfter)*time.Millisecond, s.b.identifyEvery)
		s.b.log.Error("discord lets this bot open no more sessions today: see that no other process uses the token", "waiting", wait)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	s.left--
	return nil
}

// shardOf is Discord's formula. What belongs to no guild goes to shard 0.
func shardOf(guildID string, of int) int {
	n, _ := strconv.ParseUint(guildID, 10, 64)
	return int(n >> 22 % uint64(of))
}
