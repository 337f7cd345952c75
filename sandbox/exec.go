package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Ended says what ended a command, if it did not end by itself.
type Ended string

// What ends a command.
const (
	EndedItself  Ended = ""
	EndedWall    Ended = "wall"      // Limits.Wall or the timeout asked for
	EndedCPU     Ended = "cpu"       // Limits.CPU
	EndedMemory  Ended = "memory"    // Limits.Memory
	EndedDisk    Ended = "disk"      // Limits.Workspace, Limits.Entries, or folders nested too deep, which are removed
	EndedFile    Ended = "file"      // Limits.File
	EndedFlood   Ended = "output"    // Limits.Flood
	EndedContext Ended = "cancelled" // the caller's context
)

// Result is what a command did.
type Result struct {
	ExitCode int
	// Signal names the signal that ended the command, as its shell reports it: a command that exits with 128 and more by
	// itself can't be told apart.
	Signal       string
	Ended        Ended
	ForksRefused bool // a process could not be started, for Limits.Processes
	Stdout       Output
	Stderr       Output
	Changes      []Change // at most 200
	ChangesTotal int      // -1: too many to be counted
	Wall         time.Duration
	Timeout      time.Duration // what applied, after Limits.Wall
}

const maxCommand = 64 << 10

// Exec runs command with a shell in the workspace and returns when everything that it started is dead. Its environment
// holds nothing of the service's, its standard input is empty. A timeout of 0, or one over Limits.Wall, is Limits.Wall.
//
// With an error that is no *Refused, the command may have run in part. If ctx ends meanwhile, the result is valid and comes
// with ctx's error.
func (w *Workspace) Exec(ctx context.Context, command string, timeout time.Duration) (Result, error) {
	switch {
	case strings.TrimSpace(command) == "":
		return Result{}, refuse(ErrCommand, "There is no command to run.", "refuse command: empty")
	case len(command) > maxCommand:
		return Result{}, refuse(ErrCommand, "The command is too long. Write a script into the workspace and run that.", "refuse command: %d bytes", len(command))
	case strings.ContainsRune(command, 0):
		return Result{}, refuse(ErrCommand, "The command holds a NUL byte.", "refuse command: a NUL byte")
	}
	h, err := w.enter(ctx)
	if err != nil {
		return Result{}, err
	}
	defer h.leave()
	return h.exec(ctx, command, timeout, w.r.limits)
}

func (h *held) exec(ctx context.Context, command string, timeout time.Duration, limits Limits) (Result, error) {
	if timeout <= 0 || timeout > limits.Wall {
		timeout = limits.Wall
	}
	// A full workspace may be used to make room in it, so what counts is what a command adds.
	before, err := h.shape(limits)
	if err != nil {
		return Result{}, h.full(err)
	}
	used, n, err := h.files.usage(most(limits))
	if err != nil {
		return Result{}, h.full(err)
	}
	quota := quota{bytes: max(limits.Workspace, used), entries: max(limits.Entries, n)}

	v := &verdict{}
	fl := &flood{left: limits.Flood, over: func() { v.end(EndedFlood) }}
	stdout, stderr := newCapture(limits.Output, fl), newCapture(limits.Output, fl)
	began := time.Now()
	p, err := h.r.drv.start(ctx, job{dir: h.filesPath(), command: command, limits: limits, stdout: stdout, stderr: stderr})
	if err != nil {
		return Result{}, fmt.Errorf("start command: %w", err)
	}
	v.armed(p)
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		h.watch(ctx, stop, p, v, limits, time.NewTimer(timeout), quota)
	})
	end, err := p.wait()
	close(stop)
	watch.Wait()
	if err != nil {
		return Result{}, fmt.Errorf("run command: %w", err)
	}
	res := Result{ExitCode: end.code, ForksRefused: end.forksOver, Stdout: stdout.output(), Stderr: stderr.output(),
		Wall: time.Since(began), Timeout: timeout}
	res.Signal, res.Ended = signalOf(end, v.what())
	if res.Ended == EndedItself && h.over(quota, 0) {
		res.Ended = EndedDisk // it was faster than the watch
	}
	switch after, err := h.shape(limits); {
	case errors.Is(err, errTooMany):
		res.ChangesTotal = -1
	case err != nil:
		return res, fmt.Errorf("look at what the command changed: %w", err)
	default:
		res.Changes, res.ChangesTotal = changes(before, after)
	}
	if res.Ended == EndedContext {
		return res, fmt.Errorf("run command: %w", context.Cause(ctx))
	}
	return res, nil
}

// signalOf reads the shell's exit code: 128 and the number of the signal.
func signalOf(end exit, ended Ended) (string, Ended) {
	if ended == EndedItself && end.outOfMem {
		ended = EndedMemory
	}
	if end.code <= 128 || end.code > 128+64 {
		return "", ended
	}
	sig := unix.Signal(end.code - 128)
	if ended == EndedItself {
		switch sig {
		case unix.SIGXCPU:
			ended = EndedCPU
		case unix.SIGXFSZ:
			ended = EndedFile
		}
	}
	return unix.SignalName(sig), ended
}

// A verdict is the first reason to end a command; later ones change nothing.
type verdict struct {
	mu    sync.Mutex
	ended Ended
	p     process
}

func (v *verdict) armed(p process) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.p = p
	if v.ended != EndedItself {
		p.kill()
	}
}

func (v *verdict) end(why Ended) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended == EndedItself {
		v.ended = why
	}
	if v.p != nil {
		v.p.kill()
	}
}

func (v *verdict) what() Ended {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ended
}

// shape is a snapshot with room for more than a workspace may have, so that a command can make room in a full one. What is
// nested too deep to be looked at goes.
func (h *held) shape(l Limits) (map[string]entry, error) {
	n := most(l)
	list, err := h.files.snapshot(n)
	if errors.Is(err, errTooDeep) {
		if err = h.files.prune(n); err == nil {
			list, err = h.files.snapshot(n)
		}
	}
	return list, err
}

// most is how many entries are looked at: what a command can make between two looks of the watch, however few it may
// have. With more than that a workspace could not even be cleaned up.
func most(l Limits) int { return max(10*l.Entries, 200_000) }

type quota struct {
	bytes   int64
	entries int
}

// over reports whether the workspace is over its quota; deleted bytes are in no folder any more. What can't be looked at
// is taken for too much.
func (h *held) over(q quota, deleted int64) bool {
	used, _, err := h.files.usage(q.entries)
	return err != nil || used+deleted > q.bytes
}

const look = 100 * time.Millisecond

// watch ends the command when it passes a limit that the kernel doesn't enforce.
func (h *held) watch(ctx context.Context, stop <-chan struct{}, p process, v *verdict, limits Limits, wall *time.Timer, q quota) {
	defer wall.Stop()
	next := time.NewTimer(look)
	defer next.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			v.end(EndedContext)
			<-stop
			return
		case <-wall.C:
			v.end(EndedWall)
			<-stop
			return
		case <-next.C:
			began := time.Now()
			now := p.load()
			if now.cpu > limits.CPU {
				v.end(EndedCPU)
			}
			if now.starved || now.memory > limits.Memory {
				v.end(EndedMemory)
			}
			if h.over(q, max(now.deleted, 0)) {
				v.end(EndedDisk)
			}
			// A look at a large workspace must not keep a processor busy.
			next.Reset(max(look, 4*time.Since(began)))
		}
	}
}
