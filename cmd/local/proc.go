package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A proc is a running server: a child of this process, or an orphan that was adopted.
type proc struct {
	pid  int
	done chan struct{}

	mu       sync.Mutex
	err      error // how it ended; nil while running
	stopping bool  // an end is wanted
}

// startProc runs cmd. With dieWith, the kernel sends that signal to the child when this process dies, where the kernel
// can. It ties that to the thread that forked, not to the process, so a goroutine keeps its thread until the child ends.
// With lifeline, it keeps that open until then: the child sees the other end of it close when this process dies.
func startProc(cmd *exec.Cmd, dieWith syscall.Signal, lifeline io.Closer) (*proc, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A session of its own: a terminal's Ctrl-C and hang-up are for us to translate into an orderly stop.
	cmd.SysProcAttr.Setsid = true
	setDeathSignal(cmd.SysProcAttr, dieWith)
	p := &proc{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if lifeline != nil {
			defer lifeline.Close()
		}
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.ended(cmd.Wait())
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// adoptProc follows a process that is not our child by asking the kernel now and then whether it is still there.
func adoptProc(pid int) *proc {
	p := &proc{pid: pid, done: make(chan struct{})}
	go func() {
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for alive(pid) {
			<-t.C
		}
		p.ended(errors.New("adopted process is gone"))
	}()
	return p
}

func (p *proc) ended(err error) {
	p.mu.Lock()
	if p.stopping {
		err = nil
	} else if err == nil {
		err = errors.New("ended by itself")
	}
	p.err = err
	p.mu.Unlock()
	close(p.done)
}

// signal marks the end as wanted and asks for it.
func (p *proc) signal(s syscall.Signal) {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	select {
	case <-p.done: // never signal a process ID that may be someone else's by now
	default:
		_ = syscall.Kill(p.pid, s) // the only failure is that it is gone, which done will tell
	}
}

func (p *proc) exitErr() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// A stopStep is a signal and how long it may take to work before the next one.
type stopStep struct {
	signal syscall.Signal
	wait   time.Duration
}

// end goes through the steps until the process is gone, and reports whether it is. When ctx ends, the first step's
// patience does too, but the later ones must have their moment to work.
func (p *proc) end(ctx context.Context, steps []stopStep) bool {
	for i, step := range steps {
		p.signal(step.signal)
		wait := ctx
		if i > 0 {
			wait = context.WithoutCancel(ctx)
		}
		wait, cancel := context.WithTimeout(wait, step.wait)
		select {
		case <-p.done:
		case <-wait.Done():
		}
		cancel()
		select {
		case <-p.done:
			return true
		default:
		}
	}
	return false
}

// alive reports whether pid exists. A zombie exists for kill, but has ended for us.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	if err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	return !isZombie(pid)
}

// tail is the end of a log file in one line, for an error message.
func tail(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 1200
	if end, err := f.Seek(0, 2); err == nil && end-most > from {
		from = end - most
	}
	b := make([]byte, most)
	n, _ := f.ReadAt(b, from) // io.EOF with what there is
	lines := strings.Split(strings.TrimSpace(string(b[:n])), "\n")
	if len(lines) > 6 {
		lines = lines[len(lines)-6:]
	}
	return strings.Join(lines, " | ")
}

// logged reports whether a log has the words since a start, wherever: a stack
// trace after them is longer than any tail.
func logged(path string, from int64, words string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return false
	}
	b, _ := io.ReadAll(io.LimitReader(f, 4<<20)) // with what there is
	return bytes.Contains(b, []byte(words))
}

// openLog opens a server's log for appending; a long one is kept once under another name. It answers the size too,
// which is where this run's lines begin.
func openLog(path string) (*os.File, int64, error) {
	const most = 8 << 20
	if info, err := os.Stat(path); err == nil && info.Size() > most {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, fmt.Errorf("rotate log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("open log: %w", err)
	}
	return f, info.Size(), nil
}
