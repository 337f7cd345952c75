package service

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sightline/checkpoints"
	"sightline/cmd/local/testenv"
)

// switched is the store with a line that can be cut.
type switched struct {
	leases
	down  atomic.Bool
	taken atomic.Int64 // when it was last had, in ns
}

func (s *switched) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	if s.down.Load() {
		<-ctx.Done()
		return false, ctx.Err()
	}
	ok, err := s.leases.Lease(ctx, name, holder, ttl)
	if ok && err == nil {
		s.taken.Store(time.Now().UnixNano())
	}
	return ok, err
}

// contender runs something under a lease, and notes when.
type contender struct {
	*lease
	store  *switched
	here   chan bool
	stop   context.CancelFunc
	ended  chan error
	runs   *atomic.Int32 // of all contenders, now
	both   *atomic.Bool
	result error // of what runs, once poked
	poke   chan struct{}
}

func contend(t *testing.T, db *checkpoints.DB, holder string, runs *atomic.Int32, both *atomic.Bool) *contender {
	t.Helper()
	c := &contender{store: &switched{leases: db}, here: make(chan bool, 100), ended: make(chan error, 1), runs: runs, both: both, poke: make(chan struct{})}
	c.lease = newLease(c.store, "bot/main/discord", holder, slog.New(slog.DiscardHandler))
	// Long enough for a machine that stands still for seconds to lose no lease.
	c.ttl, c.every, c.try, c.margin = 6*time.Second, 500*time.Millisecond, 50*time.Millisecond, time.Second
	ctx, cancel := context.WithCancel(t.Context())
	c.stop = cancel
	go func() {
		c.ended <- c.keep(ctx, func(here bool) { c.here <- here }, func(ctx context.Context) error {
			if runs.Add(1) > 1 {
				both.Store(true)
			}
			defer runs.Add(-1)
			select {
			case <-ctx.Done():
				return nil
			case <-c.poke:
				return c.result
			}
		})
	}()
	t.Cleanup(cancel)
	return c
}

func (c *contender) want(t *testing.T, here bool) {
	t.Helper()
	select {
	case got := <-c.here:
		if got != here {
			t.Fatalf("%s runs: %v", c.holder, got)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s does not come to run: %v", c.holder, here)
	}
}

// Of two processes one runs, the other takes over: at once when the first
// stops, before the lease runs out when the first loses the database, and
// never do both run.
func TestLeaseTakeOver(t *testing.T) {
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	var runs atomic.Int32
	var both atomic.Bool
	a := contend(t, db, "a", &runs, &both)
	a.want(t, true)
	b := contend(t, db, "b", &runs, &both)
	b.want(t, false)
	// Renewed beyond its first time.
	first := time.Unix(0, a.store.taken.Load())
	for end := first.Add(time.Minute); time.Unix(0, a.store.taken.Load()).Before(first.Add(a.ttl)); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a does not renew its lease")
		}
	}
	select {
	case here := <-b.here:
		t.Fatalf("b runs: %v, though a is well", here)
	default:
	}

	// The database does not answer a: it stops by its own clock.
	a.store.down.Store(true)
	b.want(t, true)
	a.store.down.Store(false)
	a.want(t, false)

	// A clean stop gives it back.
	b.stop()
	if err := <-b.ended; err != nil {
		t.Errorf("stopped: %v", err)
	}
	began := time.Now()
	a.want(t, true)
	if took := time.Since(began); took > a.ttl-2*a.try {
		t.Errorf("after a clean stop it took %v", took)
	}

	// What runs ends by itself: so does all, and the lease is free.
	a.result = errors.New("a wrong token")
	close(a.poke)
	if err := <-a.ended; err != a.result {
		t.Errorf("ended with %v", err)
	}
	if ok, err := db.Lease(t.Context(), "bot/main/discord", "c", time.Second); err != nil || !ok {
		t.Errorf("the lease is not free: %v", err)
	}
	if both.Load() {
		t.Error("both ran at once")
	}
}

// Somebody else has the lease, though it was never given back: a process that
// slept through its time stops as soon as it asks.
func TestLeaseStolen(t *testing.T) {
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	var runs atomic.Int32
	var both atomic.Bool
	a := contend(t, db, "a", &runs, &both)
	a.want(t, true)
	if err := db.Release(t.Context(), a.name, "a"); err != nil {
		t.Fatal(err)
	}
	if ok, err := db.Lease(t.Context(), a.name, "thief", 3*time.Second); err != nil || !ok {
		t.Skip("a renewed in between") // the two lines above are not one
	}
	a.want(t, false)
	if n := runs.Load(); n != 0 {
		t.Errorf("%d run without the lease", n)
	}
	a.want(t, true) // once the thief's has run out
}

// A reopening listener takes nothing until it is opened, and can be opened
// again after a server closed it.
func TestReopening(t *testing.T) {
	l := &reopening{addr: "127.0.0.1:0"}
	var wg sync.WaitGroup
	for range 2 {
		if err := l.open(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if c, err := l.Accept(); err == nil {
				_ = c.Close()
			}
		})
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		wg.Wait()
		at := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if c, err := net.Dial("tcp", at); err == nil {
			_ = c.Close()
			t.Error("it listens while it is closed")
		}
		if _, err := l.Accept(); err == nil {
			t.Error("it accepts while it is closed")
		}
	}
}
