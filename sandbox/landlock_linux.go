package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sightline/sandbox/confine"
)

// landlock runs commands without namespaces, on the host's own file system: what they may open is ruled by Landlock, what
// they may ask of the kernel by seccomp, and killing their process group, which they can't leave, ends them.
type landlock struct {
	r      *Runner
	shell  string
	filter []unix.SockFilter
	groups *cgroups
	said   []string
}

// Version 6 scopes signals and abstract sockets; without that, commands could reach the service's processes.
const landlockABI = 6

func newLandlock(r *Runner) (driver, error) {
	no := func(reason, fix string, err error) (driver, error) {
		return nil, &Unavailable{Driver: Landlock, Reason: reason, Fix: fix, Err: err}
	}
	abi, err := confine.ABI()
	if err != nil {
		return no("the kernel has no Landlock", "Boot with landlock in the lsm= list, or use another driver.", err)
	}
	if abi < landlockABI {
		return no(fmt.Sprintf("the kernel's Landlock has version %d, and %d is needed", abi, landlockABI), "Run Linux 6.12 or newer, or use another driver.", nil)
	}
	if r.uid >= 0 {
		if closed := barrier(r.cfg.Root, r.uid); closed != "" {
			return no(fmt.Sprintf("uid %d, whom commands run as, can't enter %s on the way to the workspaces", r.uid, closed),
				"Keep the workspaces below folders that every user may enter (mode o+x), such as /var/lib, or don't run as root.", nil)
		}
	}
	l := &landlock{r: r, shell: "/bin/sh"}
	if _, err := os.Stat("/bin/bash"); err == nil {
		l.shell = "/bin/bash"
	}
	if l.filter, err = program(append(common(), bare()...)); err != nil {
		return no("the seccomp filter can't be made", "Report this.", err)
	}
	l.said = []string{
		"Reduced isolation: no namespaces. Commands see the host's process numbers and which files exist, and their workspace under its real path.",
		"Commands can't open sockets, leave their process group, or change modes, owners and times by name (chmod and the like fail).",
		"Disk use is watched while a command runs: a fast writer can pass the quota for a moment.",
	}
	if l.groups, err = findCgroups(r.cfg.Root); err != nil {
		l.said = append(l.said, "No control groups: memory is limited per process by address space and in total by a watch, CPU time per process only; "+
			"processes are counted together with the user's others; if the service is killed, what a command left in the background stays ("+err.Error()+").")
	}
	if r.uid < 0 {
		l.said = append(l.said, "Commands run as the service's own user.")
	}
	return l, nil
}

func (l *landlock) kind() Kind             { return Landlock }
func (l *landlock) seen(dir string) string { return dir }
func (l *landlock) notes() []string        { return l.said }

func (l *landlock) sweep(context.Context) error {
	if l.groups == nil {
		return nil
	}
	return l.groups.sweep()
}

func (l *landlock) start(ctx context.Context, j job) (_ process, err error) {
	p := &ruled{dir: j.dir, ended: make(chan struct{})}
	started := false
	var closing []*os.File
	defer func() {
		for _, f := range closing {
			f.Close()
		}
		if err != nil && !started && p.group != nil {
			err = errors.Join(err, p.group.remove())
		}
	}()
	limits, err := rlimits(j.limits, l.groups != nil)
	if err != nil {
		return nil, err
	}
	if l.groups == nil {
		running, err := threads(l.r.uid)
		if err != nil {
			return nil, fmt.Errorf("count processes: %w", err)
		}
		most := uint64(running + j.limits.Processes)
		limits = append(limits, rlimit{what: unix.RLIMIT_NPROC, soft: most, hard: most})
	}
	s := launchSpec{Dir: j.dir, Shell: l.shell, Command: j.command, UID: l.r.uid, GID: l.r.gid, Parent: os.Getpid(), Filter: l.filter}
	for _, r := range limits {
		s.Limits = append(s.Limits, launchLimit{r.what, r.soft, r.hard})
	}
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("describe command: %w", err)
	}
	spec, err := memory("spec", body)
	if err != nil {
		return nil, err
	}
	closing = append(closing, spec)
	gate, open, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make gate: %w", err)
	}
	closing = append(closing, gate, open)
	status, told, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make status pipe: %w", err)
	}
	closing = append(closing, status, told)
	if l.groups != nil {
		if p.group, err = l.groups.create(j.limits, 0); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{launcherName}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{gate, spec, told}
	cmd.Stdout, cmd.Stderr = j.stdout, j.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd = cmd // before launch: reap needs it
	done, err := launch(cmd, p.reap)
	if err != nil {
		return nil, fmt.Errorf("start launcher: %w", err)
	}
	started = true
	told.Close()
	go p.follow(done)
	g := &gated{cmd: cmd, gate: open, group: p.group}
	if err := g.release(); err != nil {
		p.kill()
		<-p.ended
		return nil, err
	}
	// The launcher's end closes when it becomes the shell; before that, it says what went wrong.
	why, err := io.ReadAll(io.LimitReader(status, 4096))
	if err != nil || len(why) > 0 {
		p.kill()
		<-p.ended
		return nil, errors.Join(fmt.Errorf("confine command: %s", why), err)
	}
	return p, nil
}

// threads counts what RLIMIT_NPROC counts: everything of one user; -1 is ourselves.
func threads(uid int) (int, error) {
	if uid < 0 {
		uid = os.Getuid()
	}
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(name, &st) != nil || int(st.Uid) != uid {
			continue
		}
		tasks, err := os.ReadDir(name + "/task")
		if err == nil {
			n += len(tasks)
		}
	}
	return n, nil
}

// ruled is a command under Landlock: one process group.
type ruled struct {
	dir   string
	cmd   *exec.Cmd
	group *cgroup

	mu     sync.Mutex
	reaped bool // the pid may be somebody else's
	ended  chan struct{}

	// Valid after ended.
	result exit
	err    error
}

func (p *ruled) follow(done <-chan error) {
	err := <-done
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		p.err = err
	}
	ws, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	p.result.code = ws.ExitStatus()
	if ws.Signaled() {
		p.result.code = 128 + int(ws.Signal())
	}
	if p.group != nil {
		p.result.outOfMem, p.result.forksOver = p.group.outOfMemory(), p.group.forksRefused()
		p.err = errors.Join(p.err, p.group.remove())
	}
	close(p.ended)
}

// reap ends what the command left behind. Its own process is a zombie until it returns, so the group's number is its own.
func (p *ruled) reap() {
	p.kill()
	for range 400 {
		if len(p.members()) == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
}

func (p *ruled) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	if p.group != nil {
		p.group.kill()
	}
}

// members are the living processes of the group.
func (p *ruled) members() []int {
	var out []int
	for _, s := range processes() {
		if s.group == p.cmd.Process.Pid && !s.dead {
			out = append(out, s.pid)
		}
	}
	return out
}

func (p *ruled) wait() (exit, error) {
	<-p.ended
	return p.result, p.err
}

func (p *ruled) load() load {
	l := unknownLoad()
	pids := p.members()
	if p.group != nil {
		l.cpu, l.starved = p.group.cpu(), p.group.outOfMemory()
	} else {
		l.memory = private(pids)
	}
	l.deleted = deleted(pids, p.dir)
	return l
}

var _ process = (*ruled)(nil)
