package sandbox

import (
	"context"
	"errors"
	"sync"
)

// noDriver can't run anything.
type noDriver struct{}

func (noDriver) kind() Kind                                  { return "none" }
func (noDriver) seen(string) string                          { return Inside }
func (noDriver) notes() []string                             { return nil }
func (noDriver) sweep(context.Context) error                 { return nil }
func (noDriver) start(context.Context, job) (process, error) { return nil, errors.New("no driver") }

// scripted runs a Go function in place of a command, until the function returns or is killed.
type scripted struct {
	noDriver
	body func(j job, killed <-chan struct{}) (exit, error)
}

type scriptedProcess struct {
	once   sync.Once
	killed chan struct{}
	ended  chan struct{}
	exit   exit
	err    error
}

func (s scripted) start(_ context.Context, j job) (process, error) {
	p := &scriptedProcess{killed: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.exit, p.err = s.body(j, p.killed)
	}()
	return p, nil
}

func (p *scriptedProcess) wait() (exit, error) { <-p.ended; return p.exit, p.err }
func (p *scriptedProcess) kill()               { p.once.Do(func() { close(p.killed) }) }
func (p *scriptedProcess) load() load          { return unknownLoad() }
