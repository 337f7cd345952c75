package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// TemporalConfig says where a managed Temporal server lives and what it must have.
type TemporalConfig struct {
	// Dir holds the lock, the log, the database and the port of the last time.
	Dir string
	// Namespace is created if need be; "default" if empty.
	Namespace string
	// SearchAttributes are added to the namespace: names and types, such as Keyword or Datetime.
	SearchAttributes map[string]string
	// UIAddr is where the Web UI listens, on loopback: "off" for nowhere; if empty, port 8233 or, if that is taken, another.
	UIAddr string
	// Binary is a devserver to use instead of looking for one (SIGHTLINE_DEVSERVER).
	Binary   string
	Progress Progress
}

// Temporal is a managed server that answers.
type Temporal struct {
	*service
	address, namespace, ui string
}

// Address is the server's host:port for gRPC.
func (t *Temporal) Address() string { return t.address }

// Namespace is the one that was asked for.
func (t *Temporal) Namespace() string { return t.namespace }

// UIURL is the Web UI's address, "" if there is none.
func (t *Temporal) UIURL() string { return t.ui }

// startPatience is how long the server may take to answer; it takes less than a second on an idle machine.
const startPatience = 2 * time.Minute

// StartTemporal finds or builds a server, starts it on c.Dir, and returns when it answers and has the namespace with its
// search attributes.
func StartTemporal(ctx context.Context, c TemporalConfig) (_ *Temporal, err error) {
	if c.Dir == "" {
		return nil, errors.New("start temporal: no directory given")
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("start temporal: %w", err)
	}
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	lock, err := lockDir(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("start temporal: %w", err)
	}
	defer func() {
		if err != nil {
			lock.release()
		}
	}()
	program, err := findTemporal(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("start temporal: %w", err)
	}
	l := temporalLauncher{config: c, program: program, db: filepath.Join(c.Dir, "temporal.db"), log: filepath.Join(c.Dir, "log")}
	for try := 1; ; try++ {
		t, err := l.start(ctx)
		if err == nil {
			t.lock = lock
			return t, nil
		}
		// Between choosing a port and using it, somebody else may have taken it.
		if try == 3 || !logged(l.log, l.logFrom, "address already in use") && !strings.Contains(err.Error(), "address already in use") {
			return nil, fmt.Errorf("start temporal: %w", err)
		}
		l.forgetPort()
	}
}

type temporalLauncher struct {
	config  TemporalConfig
	program temporalProgram
	db, log string
	logFrom int64
}

// start runs the server once.
func (l *temporalLauncher) start(ctx context.Context) (*Temporal, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	dbLock, err := l.endPredecessor(ctx)
	if err != nil {
		return nil, err
	}
	defer dbLock.release()
	if err := l.removeStale(); err != nil {
		return nil, err
	}
	ports, err := l.choosePorts()
	if err != nil {
		return nil, err
	}
	p, err := l.launch(dbLock, ports)
	if err != nil {
		return nil, err
	}
	t := &Temporal{address: ports.address(), namespace: l.config.Namespace, ui: ports.uiURL()}
	if err := l.waitReady(ctx, p, t); err != nil {
		p.end(ctx, temporalStop)
		return nil, fmt.Errorf("%w: %s (log: %s)", err, tail(l.log, l.logFrom), l.log)
	}
	l.rememberPort(ports.frontend)
	t.service = newService("temporal", p, nil, temporalStop, l.log, l.logFrom)
	return t, nil
}

// launch runs the program, so that it ends when this process does.
func (l *temporalLauncher) launch(dbLock *fileLock, ports temporalPorts) (*proc, error) {
	log, from, err := openLog(l.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	l.logFrom = from
	cmd := exec.Command(l.program.path, l.program.args(l, ports)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, l.config.Dir
	if l.program.cli {
		// It knows neither of pipes nor of our lock. The kernel tells it when we die, where the kernel can; and it inherits
		// the lock, which then lasts as long as it does.
		cmd.ExtraFiles = []*os.File{dbLock.f}
		p, err := startProc(cmd, syscall.SIGTERM, nil)
		if err != nil {
			return nil, err
		}
		if err := dbLock.setPID(p.pid); err != nil {
			p.end(context.Background(), temporalStop)
			return nil, fmt.Errorf("write lock: %w", err)
		}
		return p, nil
	}
	if err := dbLock.release(); err != nil { // for the server to take
		return nil, fmt.Errorf("release lock: %w", err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer in.Close()
	cmd.Stdin = in
	return startProc(cmd, 0, out) // this end is open as long as we live
}

var temporalStop = []stopStep{{syscall.SIGTERM, 15 * time.Second}, {syscall.SIGKILL, 5 * time.Second}}

// waitReady waits for a server that has what it must have.
func (l *temporalLauncher) waitReady(ctx context.Context, p *proc, t *Temporal) error {
	probe, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan error, 1)
	go func() {
		if !l.program.cli {
			ready <- awaitReadyFile(probe, l.readyFile(), p.pid)
			return
		}
		ready <- ensureNamespace(probe, t.address, t.namespace, l.config.SearchAttributes)
	}()
	wait := func(err error) error {
		cancel()
		<-ready
		return err
	}
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-ready:
			if err == nil && !l.program.cli {
				return ensureNamespace(ctx, t.address, t.namespace, l.config.SearchAttributes)
			}
			return err
		case <-p.done:
			return wait(fmt.Errorf("the server does not start: %w", p.exitErr()))
		case <-ctx.Done():
			return wait(fmt.Errorf("the server does not answer: %w", ctx.Err()))
		case <-tick.C:
			l.config.Progress.say("waiting for the local Temporal server")
		}
	}
}

func (l *temporalLauncher) readyFile() string { return filepath.Join(l.config.Dir, "ready.json") }

// endPredecessor takes the database's lock. A server that outlived the process that started it has noticed, and ends; one
// that doesn't is ended.
func (l *temporalLauncher) endPredecessor(ctx context.Context) (*fileLock, error) {
	path := l.db + ".lock"
	patience := []struct {
		signal syscall.Signal // before the wait; 0: none
		wait   time.Duration
	}{{0, 5 * time.Second}, {syscall.SIGTERM, 5 * time.Second}, {syscall.SIGKILL, 5 * time.Second}}
	var last error
	for _, step := range patience {
		var held *errLocked
		if step.signal != 0 && errors.As(last, &held) && held.pid > 0 {
			// The lock is held, so its holder lives, and the number in it is not yet another's.
			l.config.Progress.say("ending the local Temporal server that was left over (process %d)", held.pid)
			_ = syscall.Kill(held.pid, step.signal)
		}
		wait, cancel := context.WithTimeout(ctx, step.wait)
		lock, err := waitLock(wait, path, nil)
		cancel()
		if err == nil {
			return lock, nil
		}
		if last = err; ctx.Err() != nil || !errors.As(err, &held) {
			break
		}
	}
	return nil, fmt.Errorf("wait for the server before: %w", last)
}

// removeStale clears the ready file of a server that was killed.
func (l *temporalLauncher) removeStale() error {
	if err := os.Remove(l.readyFile()); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("clear ready file: %w", err)
	}
	return nil
}
