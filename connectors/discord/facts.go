package discord

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// factsLife is how old a fact about who can read what may be.
const factsLife = 30 * time.Second

// facts are guilds and channels as the platform says they are now. discordgo's
// State is never asked.
type facts struct {
	rest *rest
	now  func() time.Time

	mu     sync.Mutex
	epochs map[string]int64 // by guild; "" is everything
	m      map[string]*fact
	single map[string][]time.Time // by guild: when its channels were last asked for, one by one
	many   int
}

// manyChannels of a guild that were asked for one by one, in the life of a
// fact, are reason to ask for all at once: of the few requests that the
// platform takes in a second, each of them costs one as well.
const manyChannels = 8

type fact struct {
	done  chan struct{}
	epoch int64
	at    time.Time // of the question, not of the answer
	value any
	err   error
}

func newFacts(r *rest, now func() time.Time) *facts {
	return &facts{rest: r, now: now, epochs: map[string]int64{}, m: map[string]*fact{}, single: map[string][]time.Time{}, many: manyChannels}
}

// drop forgets what is known of a guild, or of everything. What is being
// asked just now is not kept either.
func (f *facts) drop(guild string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epochs[guild]++
}

// epoch counts what may have changed for a guild. The caller holds mu.
func (f *facts) epoch(guild string) int64 { return f.epochs[guild] + f.epochs[""] }

func (f *facts) epochOf(guild string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.epoch(guild)
}

// ask answers a fact that is fresh, joins a question that is under way, or
// asks. Failures are not kept.
func ask[T any](ctx context.Context, f *facts, guild, path string) (T, error) {
	var zero T
	for {
		f.mu.Lock()
		e := f.epoch(guild)
		k := f.m[path]
		if k == nil || k.epoch != e || f.now().Sub(k.at) >= factsLife {
			if len(f.m) > 20_000 {
				clear(f.m)
			}
			k = &fact{done: make(chan struct{}), epoch: e, at: f.now()}
			f.m[path] = k
			f.count(guild, path)
			f.mu.Unlock()
			var v T
			k.err = f.rest.do(ctx, "GET", path, nil, &v)
			k.value = v
			if k.err != nil {
				f.mu.Lock()
				if f.m[path] == k {
					delete(f.m, path)
				}
				f.mu.Unlock()
			}
			close(k.done)
		} else {
			f.mu.Unlock()
		}
		select {
		case <-k.done:
		case <-ctx.Done():
			return zero, ctx.Err()
		}
		// Whoever asked may have been cancelled, which is not our answer.
		if ended(k.err) && ctx.Err() == nil {
			continue
		}
		if k.err != nil {
			return zero, k.err
		}
		// Dropped while it was asked: it may be about the time before.
		if f.epochOf(guild) != k.epoch {
			continue
		}
		v, ok := k.value.(T)
		if !ok {
			return zero, errors.New("discord: a fact of another kind")
		}
		return v, nil
	}
}

// count notes a question about one channel. The caller holds mu.
func (f *facts) count(guild, path string) {
	if guild == "" || !strings.HasPrefix(path, "/channels/") {
		return
	}
	l := append(f.single[guild], f.now())
	f.single[guild] = l[max(0, len(l)-manyChannels):]
}

// busy reports whether so many channels of a guild are asked for that all of
// them are better asked for at once.
func (f *facts) busy(guild string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.single[guild]
	return guild != "" && len(l) >= f.many && (f.many == 0 || f.now().Sub(l[len(l)-f.many]) < factsLife)
}

func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
