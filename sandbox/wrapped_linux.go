package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// wrapped is a command under bubblewrap. What bubblewrap says on its status pipe tells a command that ran from one whose
// sandbox could not be set up.
//
//	started ──▶ running (its first process is known) ──▶ outer process dead ──▶ reap ──▶ ended
type wrapped struct {
	dir      string
	cmd      *exec.Cmd
	group    *cgroup // nil: none
	messages firstWords

	running chan struct{} // closed when the namespace's first process is known
	heard   chan struct{} // closed when nothing more will be said on the status pipe
	ended   chan struct{} // closed when all is over

	mu     sync.Mutex
	first  int // the first process of the namespace; 0: not known
	pidfd  int // the same, immune to the reuse of pids; -1: not open
	killed bool

	// Valid after ended.
	exited bool // the command ran, and this is its exit code
	code   int
	oom    bool
	forks  bool
	err    error
}

func newWrapped(j job) *wrapped {
	return &wrapped{dir: j.dir, pidfd: -1, messages: firstWords{w: j.stderr},
		running: make(chan struct{}), heard: make(chan struct{}), ended: make(chan struct{})}
}

// abandon releases what a command has that was never started.
func (p *wrapped) abandon() {
	if p.cmd == nil && p.group != nil {
		p.err = errors.Join(p.err, p.group.remove())
	}
}

// listen reads the status pipe to its end and then waits for everything else.
func (p *wrapped) listen(status *os.File, done <-chan error) {
	said := json.NewDecoder(io.LimitReader(status, 64<<10))
	for {
		var s struct {
			Child *int `json:"child-pid"`
			Exit  *int `json:"exit-code"`
		}
		if said.Decode(&s) != nil {
			break
		}
		if s.Child != nil && p.adopt(*s.Child) {
			close(p.running)
		}
		if s.Exit != nil {
			p.exited, p.code = true, *s.Exit
		}
	}
	status.Close()
	close(p.heard)
	err := <-done
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.err = errors.Join(p.err, err)
	}
	if p.group != nil {
		p.oom, p.forks = p.group.outOfMemory(), p.group.forksRefused()
		p.err = errors.Join(p.err, p.group.remove())
	}
	p.mu.Lock()
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
		p.pidfd = -1
	}
	p.mu.Unlock()
	close(p.ended)
}

// begun waits until the command runs or is over, or its sandbox could not be set up.
func (p *wrapped) begun(ctx context.Context) error {
	select {
	case <-p.running:
		return nil
	case <-p.ended:
		// A quick command may be over before we could take hold of its first process: only what it left behind tells it
		// from one that was never run.
		_, err := p.wait()
		return err
	case <-ctx.Done():
		p.kill()
		<-p.ended
		return ctx.Err()
	}
}

// adopt takes a handle of the namespace's first process. Its pid is surely its own as long as its parent is the process
// that we started, which can't be reaped before heard is closed.
func (p *wrapped) adopt(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	if st, err := statOf(pid); err != nil || st.parent != p.cmd.Process.Pid {
		unix.Close(fd)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first, p.pidfd = pid, fd
	if p.killed {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	return true
}

// reap runs when the process that we started is dead: its namespace is ended, with what the command left in the background.
func (p *wrapped) reap() {
	<-p.heard
	p.mu.Lock()
	fd := p.pidfd
	p.mu.Unlock()
	if fd >= 0 {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		dead(fd)
	}
	if p.group != nil {
		p.group.kill()
	}
}

func (p *wrapped) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	if p.pidfd >= 0 {
		_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
		return
	}
	select {
	case <-p.ended:
	default:
		// Killing bubblewrap ends its child, too, by the death signal of --die-with-parent.
		_ = p.cmd.Process.Kill()
	}
}

// failure says why the sandbox was not set up; ended must be closed.
func (p *wrapped) failure() error {
	err := fmt.Errorf("set up sandbox: bubblewrap: %s", p.messages.text())
	return errors.Join(err, p.err)
}

func (p *wrapped) wait() (exit, error) {
	<-p.ended
	e := exit{code: p.code, outOfMem: p.oom, forksOver: p.forks}
	p.mu.Lock()
	killed := p.killed
	p.mu.Unlock()
	if !p.exited {
		if !killed && !p.oom {
			return exit{}, p.failure()
		}
		e.code = 128 + int(unix.SIGKILL)
	}
	return e, p.err
}

func (p *wrapped) load() load {
	l := unknownLoad()
	p.mu.Lock()
	first := p.first
	p.mu.Unlock()
	var pids []int
	if p.group != nil {
		pids = p.group.pids()
		l.cpu, l.starved = p.group.cpu(), p.group.outOfMemory()
	} else {
		pids = descendants(first)
		l.memory = private(pids)
	}
	l.deleted = deleted(pids, p.dir)
	return l
}

var _ process = (*wrapped)(nil)
