package local

import (
	"context"
	"fmt"
	"sync"
)

// A service is what the managed servers have in common: a process, a folder's lock, and an end.
type service struct {
	name    string
	proc    *proc
	lock    *fileLock
	steps   []stopStep
	log     string
	logFrom int64
	after   func() // clears away what the server left, once it has ended

	stopOnce sync.Once
	stopErr  error
}

func newService(name string, p *proc, lock *fileLock, steps []stopStep, log string, logFrom int64) *service {
	return &service{name: name, proc: p, lock: lock, steps: steps, log: log, logFrom: logFrom}
}

// PID is the server's process.
func (s *service) PID() int { return s.proc.pid }

// LogFile is where the server writes what it has to say.
func (s *service) LogFile() string { return s.log }

// Done is closed when the server has ended, wanted or not.
func (s *service) Done() <-chan struct{} { return s.proc.done }

// Err is nil while the server runs and after Stop, and else says how it ended.
func (s *service) Err() error {
	select {
	case <-s.proc.done:
	default:
		return nil
	}
	if err := s.proc.exitErr(); err != nil {
		return fmt.Errorf("%s ended: %w: %s (log: %s)", s.name, err, tail(s.log, s.logFrom), s.log)
	}
	return nil
}

// Stop ends the server: in order, and when ctx ends or patience does, by force. It returns once the process is gone and
// the folder is free. Later calls answer what the first one did.
func (s *service) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		s.stopErr = s.stop(ctx)
		if s.after != nil && s.stopErr == nil {
			s.after()
		}
		if err := s.lock.release(); err != nil && s.stopErr == nil {
			s.stopErr = fmt.Errorf("stop %s: %w", s.name, err)
		}
	})
	return s.stopErr
}

func (s *service) stop(ctx context.Context) error {
	if !s.proc.end(ctx, s.steps) {
		return fmt.Errorf("stop %s: process %d does not end", s.name, s.proc.pid)
	}
	return nil
}
