package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// bubblewrap runs commands in new namespaces of every kind.
type bubblewrap struct {
	r       *Runner
	program string
	shell   string
	filter  []byte
	groups  *cgroups
	said    []string
}

func newBubblewrap(r *Runner) (driver, error) {
	no := func(reason, fix string, err error) (driver, error) {
		return nil, &Unavailable{Driver: Bubblewrap, Reason: reason, Fix: fix, Err: err}
	}
	b := &bubblewrap{r: r, program: r.cfg.Bubblewrap}
	if b.program == "" {
		b.program = "bwrap"
	}
	var err error
	if b.program, err = exec.LookPath(b.program); err != nil {
		return no("the program bwrap was not found", "Install it: apt install bubblewrap.", err)
	}
	if b.program, err = filepath.Abs(b.program); err != nil {
		return no("the program bwrap was not found", "Name it by an absolute path.", err)
	}
	if st, err := os.Stat(b.program); err == nil && st.Mode()&os.ModeSetuid != 0 {
		return no("this bwrap is setuid, in which mode it can neither bound memory file systems nor end nested namespaces",
			"Take the bit away (chmod u-s) and allow user namespaces, or configure the docker driver.", nil)
	}
	help, err := exec.Command(b.program, "--help").CombinedOutput()
	for _, option := range []string{"--disable-userns", "--size", "--perms", "--clearenv", "--json-status-fd"} {
		if err != nil || !strings.Contains(string(help), option+" ") {
			return no("this bwrap has no "+option, "Install bubblewrap 0.8 or newer.", err)
		}
	}
	if r.uid >= 0 {
		if closed := barrier(r.cfg.Root, r.uid); closed != "" {
			return no(fmt.Sprintf("uid %d, whom commands run as, can't enter %s on the way to the workspaces", r.uid, closed),
				"Keep the workspaces below folders that every user may enter (mode o+x), such as /var/lib, or don't run as root.", nil)
		}
	}
	program, err := program(append(common(), networked()...))
	if err != nil {
		return no("the seccomp filter can't be made", "Report this.", err)
	}
	b.filter = encode(program)
	b.shell = "/bin/sh"
	if _, err := os.Stat("/bin/bash"); err == nil {
		b.shell = "/bin/bash"
	}
	if b.groups, err = findCgroups(r.cfg.Root); err != nil {
		b.said = append(b.said, "No control groups: memory is limited per process by address space and in total by a watch, CPU time per process only ("+err.Error()+").")
	}
	if r.uid < 0 {
		b.said = append(b.said, "Commands run as the service's own user, in namespaces of their own; under root they would run as a user who owns nothing else.")
	}
	b.said = append(b.said, "Disk use is watched while a command runs: a fast writer can pass the quota for a moment.")
	return b, nil
}

// barrier is the first folder on the way to root that uid can't enter; "" if there is none.
func barrier(root string, uid int) string {
	for at := root; ; at = filepath.Dir(at) {
		st, err := os.Stat(at)
		if err != nil {
			return at
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if st.Mode().Perm()&0o001 == 0 && !(ok && int(sys.Uid) == uid) {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

func (b *bubblewrap) kind() Kind         { return Bubblewrap }
func (b *bubblewrap) seen(string) string { return Inside }
func (b *bubblewrap) notes() []string    { return b.said }
func (b *bubblewrap) sweep(context.Context) error {
	if b.groups == nil {
		return nil // without a group, commands die with the process that started them
	}
	return b.groups.sweep()
}

// hold is the script that waits at the gate and then becomes its arguments.
const hold = `IFS= read -r go <&3 || exit 125; exec "$@" 3<&-`

// within is the script inside of the sandbox that sets the limits, %s, and becomes the shell of the command, %s. Processes
// are counted per user namespace, so that limit must be set in there.
const within = `%s || { echo "limits can't be set" >&2; exit 125; }; exec %s /run/command`

// readOnly is what commands see of the host besides /usr. All of /etc would be too much: services keep secrets there.
var readOnly = []string{"/nix/store", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/fonts",
	"/etc/ssl/certs", "/etc/mime.types", "/etc/ImageMagick-6", "/etc/ImageMagick-7", "/etc/localtime", "/etc/debian_version", "/etc/os-release"}

// The descriptors that bubblewrap is started with; 3 is the gate.
const (
	fdArgs = 4 + iota
	fdFilter
	fdStatus
	fdCommand
	fdPasswd
	fdGroup
)

// inner is the uid that commands see; whom it stands for outside is another matter.
const inner = DefaultUID

func (b *bubblewrap) options(j job) []string {
	n := strconv.Itoa
	size := func(v int64) string { return strconv.FormatInt(v, 10) }
	o := []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--uid", n(inner), "--gid", n(inner), "--hostname", "sandbox",
		"--die-with-parent", "--new-session", "--clearenv",
		"--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
		"--setenv", "HOME", "/tmp", "--setenv", "USER", "sandbox", "--setenv", "LANG", "C.UTF-8", "--setenv", "TMPDIR", "/tmp",
		"--ro-bind", "/usr", "/usr",
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if to, err := os.Readlink(dir); err == nil {
			o = append(o, "--symlink", to, dir)
		} else if _, err := os.Stat(dir); err == nil {
			o = append(o, "--ro-bind", dir, dir)
		}
	}
	for _, p := range readOnly {
		o = append(o, "--ro-bind-try", p, p)
	}
	return append(o,
		"--proc", "/proc",
		// The roots that bubblewrap mounts for / and /dev are in memory and without a size: nobody writes there.
		"--dev", "/dev", "--perms", "1777", "--size", size(j.limits.Scratch), "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--perms", "1777", "--size", size(j.limits.Scratch), "--tmpfs", "/tmp",
		"--ro-bind-data", n(fdPasswd), "/etc/passwd", "--ro-bind-data", n(fdGroup), "/etc/group",
		"--ro-bind-data", n(fdCommand), "/run/command",
		"--bind", j.dir, Inside,
		"--remount-ro", "/",
		"--seccomp", n(fdFilter), "--json-status-fd", n(fdStatus), "--chdir", Inside)
}

func (b *bubblewrap) start(ctx context.Context, j job) (_ process, err error) {
	p := newWrapped(j)
	var closing []*os.File
	defer func() {
		for _, f := range closing {
			f.Close() // some are closed by then, which does no harm
		}
		if err != nil {
			p.abandon()
		}
	}()
	own := func(f *os.File, e error) *os.File {
		if f != nil {
			closing = append(closing, f)
		}
		err = errors.Join(err, e)
		return f
	}
	pipe := func() (r, w *os.File) {
		r, w, e := os.Pipe()
		return own(r, e), own(w, nil)
	}
	gate, open := pipe()
	status, told := pipe()
	limits, e := rlimits(j.limits, b.groups != nil)
	err = errors.Join(err, e)
	cmd := b.command(j, limits)
	cmd.ExtraFiles = []*os.File{gate,
		own(memory("args", []byte(strings.Join(b.options(j), "\x00")+"\x00"))),
		own(memory("filter", b.filter)),
		told,
		own(memory("command", []byte(j.command+"\n"))),
		own(memory("passwd", fmt.Appendf(nil, "sandbox:x:%d:%d::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", inner, inner))),
		own(memory("group", fmt.Appendf(nil, "sandbox:x:%d:\nnogroup:x:65534:\n", inner))),
	}
	cmd.Stdout, cmd.Stderr = j.stdout, &p.messages
	if err == nil && b.groups != nil {
		if p.group, err = b.groups.create(j.limits, overhead); err == nil && b.groups.v2 {
			dir := own(p.group.open())
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start bubblewrap: %w", err)
	}
	done, err := launch(cmd, p.reap)
	if err != nil {
		return nil, fmt.Errorf("start bubblewrap: %w", err)
	}
	p.cmd = cmd
	told.Close()
	go p.listen(status, done)
	closing = slices.DeleteFunc(closing, func(f *os.File) bool { return f == status })

	g := &gated{cmd: cmd, gate: open, group: p.group}
	if err := g.release(); err != nil {
		p.kill()
		<-p.ended
		return nil, err
	}
	if err := p.begun(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

func (b *bubblewrap) command(j job, limits []rlimit) *exec.Cmd {
	// One process more than asked for: the first process of the namespace counts.
	cmd := exec.Command("/bin/sh", "-c", hold, "gate", b.program, "--args", strconv.Itoa(fdArgs), "--",
		"/bin/sh", "-c", fmt.Sprintf(within, script(limits, j.limits.Processes+1), b.shell))
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.r.credential(), Setsid: true}
	return cmd
}
