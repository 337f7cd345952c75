package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Several processes may be told to connect the same bot. One does, and the
// others stand by: a lease in the database says which. Its holder renews it,
// and stops its connection before anybody else can have it, by its own clock
// where the database can't be reached.
//
//	          took it                       lost it, or could not renew it
//	standby ----------> connection runs ----------------------------------> standby
//	   ^                      |
//	   '---- given back ------'  at a clean stop: the next one has it at once
//
// Nothing hangs on there being one alone: whatever two processes hear at once
// is recorded and answered once (workflows.Ingress). The lease spares the
// platform's limits, and keeps what a connection remembers true.
const (
	leaseTTL    = 10 * time.Second
	leaseEvery  = 3 * time.Second // it is renewed
	leaseTry    = time.Second     // whoever stands by asks for it
	leaseMargin = 2 * time.Second // before it runs out, its holder stops
)

// leases is the store of them.
type leases interface {
	Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	Release(ctx context.Context, name, holder string) error
}

// lease is the right to be the one that runs something.
type lease struct {
	store                   leases
	name, holder            string
	ttl, every, try, margin time.Duration
	log                     *slog.Logger
}

func newLease(store leases, name, holder string, log *slog.Logger) *lease {
	return &lease{store: store, name: name, holder: holder, ttl: leaseTTL, every: leaseEvery, try: leaseTry, margin: leaseMargin, log: log.With("lease", name)}
}

// holder names this process among those that share the database. Only one
// process at a time has a managed database, so that one that was killed gets
// its leases back without waiting for them to run out.
func (s *service) holder() string {
	if s.c.DatabaseURL == "" {
		return "managed"
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text())
}

// keep runs f whenever this process has the lease, until ctx ends or f does.
// told hears of each change: whether f runs here, or this process stands by.
func (l *lease) keep(ctx context.Context, told func(here bool), f func(context.Context) error) error {
	for standing := false; ; standing = false {
		until, ok, err := l.take(ctx)
		for !ok {
			if err != nil && ctx.Err() == nil {
				l.log.Warn("a lease could not be asked for; it is asked for again", "error", err)
			}
			if err == nil && !standing {
				standing = true
				told(false)
			}
			if !pause(ctx, l.try) {
				return nil
			}
			until, ok, err = l.take(ctx)
		}
		told(true)
		err = l.hold(ctx, until, f)
		l.release()
		if !errors.Is(err, errLeaseLost) {
			return err
		}
	}
}

var errLeaseLost = errors.New("the lease is lost")

// take asks for the lease once, and answers until when it is good. That is
// counted from before the question, so that it never is later than the
// database's own count.
func (l *lease) take(ctx context.Context) (until time.Time, ok bool, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, l.every)
	defer cancel()
	ok, err = l.store.Lease(ctx, l.name, l.holder, l.ttl)
	return began.Add(l.ttl), ok && err == nil, err
}

// hold runs f and renews the lease. It returns once f has ended.
func (l *lease) hold(ctx context.Context, until time.Time, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		until time.Time
		ok    bool
		err   error
	}
	answers := make(chan answer, 1)
	asking := false
	defer func() {
		cancel()
		if asking {
			<-answers // a late renewal would outlive what follows, the return of the lease
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	stop := func(why string, err error) error {
		l.log.Warn("the connection is stopped: its lease is lost", "why", why, "error", err)
		cancel()
		<-ended
		return errLeaseLost
	}
	renew := time.NewTicker(l.every)
	defer renew.Stop()
	// What can't be renewed ends in time, though a question may be under way.
	last := time.NewTimer(time.Until(until) - l.margin)
	defer last.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-last.C:
			return stop("it could not be renewed in time", nil)
		case <-renew.C:
			if asking || ctx.Err() != nil {
				continue
			}
			asking = true
			go func() {
				until, ok, err := l.take(ctx)
				answers <- answer{until, ok, err}
			}()
		case a := <-answers:
			asking = false
			switch {
			case ctx.Err() != nil: // f is ending
			case a.err != nil:
				l.log.Warn("a lease was not renewed; it is tried again", "error", a.err)
			case !a.ok:
				return stop("another process has it", nil)
			default:
				last.Reset(time.Until(a.until) - l.margin)
			}
		}
	}
}

// release gives the lease to whoever waits for it. Where that fails it runs
// out by itself.
func (l *lease) release() {
	ctx, cancel := context.WithTimeout(context.Background(), l.every)
	defer cancel()
	if err := l.store.Release(ctx, l.name, l.holder); err != nil {
		l.log.Info("a lease was not given back; it runs out", "error", err)
	}
}

// pause reports whether the time went by before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
