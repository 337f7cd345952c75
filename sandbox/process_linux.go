package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A gated command is started and held back until it is in its control group, so that nothing of it runs
// without them. A fork bomb would get away otherwise.
type gated struct {
	cmd   *exec.Cmd
	gate  *os.File // the end that opens it; the other is descriptor 3 of the command
	group *cgroup  // nil: none
}

// launch starts cmd on a thread of its own, which lives until cmd is dead: a parent's death signal is sent when the
// thread dies, not the process. after runs once the command is dead and before launch's channel gets its error.
func launch(cmd *exec.Cmd, after func()) (<-chan error, error) {
	if err := seal(); err != nil {
		return nil, err
	}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		// The command's own exit must be seen while its pid can't be anybody else's.
		for {
			err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		after()
		ended <- cmd.Wait()
	}()
	return ended, <-started
}

// credential is whom commands run as; nil: the service's own user.
func (r *Runner) credential() *syscall.Credential {
	if r.uid < 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(r.uid), Gid: uint32(r.gid), Groups: []uint32{}}
}

// A rlimit is a limit that the kernel enforces per process, and the letter that shells know it by.
type rlimit struct {
	what       int
	letter     string
	unit       uint64 // bytes of one of the shell's units
	soft, hard uint64
}

// rlimits are set by the command's own first process: not even root may set another user's without CAP_SYS_RESOURCE, which
// containers lack. Address space is limited only where no group limits memory: Node and Java reserve far more than they use.
func rlimits(l Limits, group bool) ([]rlimit, error) {
	list := []rlimit{
		{what: unix.RLIMIT_CORE, letter: "c", unit: 512},
		{what: unix.RLIMIT_FSIZE, letter: "f", unit: 512, soft: uint64(l.File), hard: uint64(l.File)},
		{what: unix.RLIMIT_NOFILE, letter: "n", unit: 1, soft: uint64(l.Descriptors), hard: uint64(l.Descriptors)},
		{what: unix.RLIMIT_CPU, letter: "t", unit: 1, soft: uint64(l.CPU / time.Second), hard: uint64(l.CPU/time.Second) + 1},
	}
	if !group {
		list = append(list, rlimit{what: unix.RLIMIT_AS, letter: "v", unit: 1024, soft: uint64(l.Memory), hard: uint64(l.Memory)})
	}
	for i := range list {
		// The service itself may run under a lower one, and raising it is refused.
		var now unix.Rlimit
		if err := unix.Getrlimit(list[i].what, &now); err != nil {
			return nil, fmt.Errorf("read limit %d: %w", list[i].what, err)
		}
		list[i].hard = min(list[i].hard, now.Max)
		list[i].soft = min(list[i].soft, list[i].hard)
	}
	return list, nil
}

// script sets limits in a POSIX shell; it fails if one can't be set. The limit on processes is -u or -p.
func script(list []rlimit, processes int) string {
	var b strings.Builder
	for _, l := range list {
		fmt.Fprintf(&b, "ulimit -S -%s %d && ulimit -H -%s %d && ", l.letter, l.soft/l.unit, l.letter, l.hard/l.unit)
	}
	fmt.Fprintf(&b, "{ ulimit -u %[1]d 2>/dev/null || ulimit -p %[1]d; }", processes)
	return b.String()
}

// release puts the command into its group and lets it go.
func (g *gated) release() error {
	defer g.gate.Close()
	if g.group != nil && !g.cmd.SysProcAttr.UseCgroupFD {
		if err := g.group.join(g.cmd.Process.Pid); err != nil {
			return err
		}
	}
	if _, err := g.gate.Write([]byte("\n")); err != nil {
		return fmt.Errorf("let the command go: %w", err)
	}
	return nil
}

// seal keeps descriptors that the service was itself started with out of commands: whoever started it may have left some
// open, and Go marks only its own.
func seal() error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			// The one that the list was read with is closed by now.
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
				return fmt.Errorf("keep descriptor %d from commands: %w", fd, err)
			}
		}
	}
	return nil
}

// memory makes a file without a name that holds body, to be passed to a command as a descriptor.
func memory(name string, body []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(body); err != nil {
		f.Close()
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	return f, nil
}

// dead waits until the process of a pidfd is dead, which for the first process of a namespace means all in it.
func dead(pidfd int) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
