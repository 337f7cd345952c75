package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A canary is a command that would succeed in doing harm if the driver didn't hold. Each looks for the harm itself, not for
// the setting that should prevent it.
type canary struct {
	name string
	run  func(ctx context.Context, c *cage) (detail string, err error)
}

// A cage is the workspace in which canaries run.
type cage struct {
	*held
	limits Limits
}

func (c *cage) exec(ctx context.Context, command string, change func(*Limits)) (Result, error) {
	l := c.limits
	if change != nil {
		change(&l)
	}
	return c.held.exec(ctx, command, 0, l)
}

var canaries = []canary{
	{"workspace is writable", writable},
	{"network is unreachable", noNetwork},
	{"host file is unreadable", noHostFile},
	{"no nested user namespace", noNamespace},
	{"process limit", forkCap},
	{"memory limit", memoryCap},
	{"output limit", outputCap},
	{"wall limit ends all", wallCap},
}

// prove runs all canaries; the error is an *Unavailable with all results if one failed.
func (r *Runner) prove(ctx context.Context) (checks []Check, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	// Of its own, so that two processes with one root can prove at once.
	w, err := r.Workspace(ctx, ID{Agent: "canary", Conversation: "canary " + rand.Text(), Run: "canary"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Remove(context.WithoutCancel(ctx))) }()
	h, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer h.leave()
	c := &cage{held: h, limits: r.limits}
	c.limits.Wall = min(c.limits.Wall, 20*time.Second)
	failed := false
	for _, k := range canaries {
		detail, err := k.run(ctx, c)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("prove sandbox: %w", ctx.Err())
		}
		check := Check{Name: k.name, OK: err == nil, Detail: detail}
		if err != nil {
			failed = true
			check.Detail = err.Error()
		}
		checks = append(checks, check)
		if k.name == canaries[0].name && err != nil {
			break // nothing runs at all: the others would say the same
		}
	}
	if failed {
		return nil, &Unavailable{Driver: r.drv.kind(), Reason: "it does not hold what it should", Fix: r.fix(checks), Checks: checks}
	}
	return checks, nil
}

// fix is the way out that an operator most likely has.
func (r *Runner) fix(checks []Check) string {
	all := ""
	for _, c := range checks {
		all += c.Detail
	}
	switch {
	case r.drv.kind() == Docker:
		return "Check with docker info that the engine runs, and that the configured image is there and has a shell."
	case r.drv.kind() == Landlock:
		return "Use the bubblewrap or docker driver."
	case strings.Contains(all, "namespace") || strings.Contains(all, "uid map"):
		return "Allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; " +
			"in a container, its seccomp profile), or configure the docker driver."
	}
	return "Run doctor on the host itself, or configure the docker driver."
}

func saw(r Result) string {
	return fmt.Sprintf("exit %d, ended %q, stdout %.200q, stderr %.200q", r.ExitCode, r.Ended, r.Stdout.Text, r.Stderr.Text)
}

func writable(ctx context.Context, c *cage) (string, error) {
	r, err := c.exec(ctx, "mkdir -p sub && echo well > sub/canary && cat sub/canary", nil)
	if err != nil {
		return "", err
	}
	if r.Stdout.Text != "well\n" || len(r.Changes) != 1 || r.Changes[0].Path != Inside+"/sub/canary" {
		return "", errors.New("a file could not be written: " + saw(r))
	}
	// What commands write must be ours to read and remove.
	f, _, err := c.open("sub/canary")
	if err != nil {
		return "", err
	}
	f.Close()
	return "a file was written and read back", nil
}

// noNetwork listens on this machine and lets every program that might be there try to connect. Programs can be missing, so
// the interfaces are looked at as well: a driver with namespaces has loopback only.
func noNetwork(ctx context.Context, c *cage) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for a connection that must not come: %w", err)
	}
	var came atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			conn.Close()
		}
	}()
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", err
	}
	r, err := c.exec(ctx, `try() { command -v "$1" >/dev/null 2>&1 || return 0; echo "tried $1"; "$@" </dev/null >/dev/null 2>&1 && echo "reached $1"; }
p=`+port+`
try bash -c "exec 9<>/dev/tcp/127.0.0.1/$p"
try perl -MIO::Socket::INET -e 'exit(IO::Socket::INET->new(PeerAddr=>"127.0.0.1:$ARGV[0]",Timeout=>2)?0:1)' $p
try python3 -c 'import socket,sys; socket.create_connection(("127.0.0.1",int(sys.argv[1])),2)' $p
try nc -w 2 127.0.0.1 $p
sed 's/^ */device /' /proc/net/dev 2>/dev/null | grep ':' | cut -d: -f1
true`, nil)
	if err != nil {
		return "", err
	}
	out := r.Stdout.Text
	if came.Load() > 0 || strings.Contains(out, "reached ") {
		return "", errors.New("a connection came through: " + saw(r))
	}
	devices := strings.Count(out, "device ")
	// An isolated namespace shows loopback and perhaps tunnels that every namespace has; without /proc, somebody must have tried.
	for line := range strings.Lines(out) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "device ")
		if ok && name != "lo" && !strings.Contains("tunl0 sit0 ip6tnl0 gre0 gretap0 erspan0 ip_vti0 ip6_vti0 ip6gre0", name) {
			return "", fmt.Errorf("there is a network device %q", name)
		}
	}
	if devices == 0 && !strings.Contains(out, "tried ") {
		return "", errors.New("nothing could try to connect: " + saw(r))
	}
	return fmt.Sprintf("%d programs tried to connect, %d devices, no connection", strings.Count(out, "tried "), devices), nil
}

func noHostFile(ctx context.Context, c *cage) (string, error) {
	secret := rand.Text()
	name := filepath.Join(c.r.cfg.Root, "t-canary-"+rand.Text())
	if err := os.WriteFile(name, []byte(secret), 0o644); err != nil {
		return "", fmt.Errorf("write a file that must not be read: %w", err)
	}
	defer os.Remove(name)
	base := filepath.Base(name)
	r, err := c.exec(ctx, fmt.Sprintf("cat '%[1]s' ../../'%[2]s' ../../../'%[2]s' /proc/1/root'%[1]s' /proc/%[3]d/root'%[1]s' /proc/%[3]d/environ; ls -l /proc/%[3]d/exe; true",
		name, base, os.Getpid()), nil)
	if err != nil {
		return "", err
	}
	if strings.Contains(r.Stdout.Text, secret) || strings.Contains(r.Stdout.Text, "-> ") {
		return "", errors.New("a file outside of the workspace was read, or another process's")
	}
	return "a readable file beside the workspaces was not reached", nil
}

func noNamespace(ctx context.Context, c *cage) (string, error) {
	r, err := c.exec(ctx, "command -v unshare >/dev/null || { echo missing; exit; }; unshare -U true 2>/dev/null && echo nested; unshare -Ur true 2>/dev/null && echo nested; echo done", nil)
	if err != nil {
		return "", err
	}
	switch r.Stdout.Text {
	case "done\n":
		return "unshare was refused", nil
	case "missing\n":
		return "", errors.New("nothing to try it with: the program unshare is missing (apt install util-linux)")
	}
	return "", errors.New("a user namespace was made: " + saw(r))
}

func forkCap(ctx context.Context, c *cage) (string, error) {
	const limit, want = 12, 40
	// Every process that comes to life leaves a file, so that those that didn't can't be missed.
	r, err := c.exec(ctx, fmt.Sprintf(`exec sh -c 'mkdir born; i=0; while [ $i -lt %d ]; do (: >born/$i; exec sleep 9) & i=$((i+1)); done; echo all'`, want),
		func(l *Limits) { l.Processes, l.Wall = limit, 3*time.Second })
	if err != nil {
		return "", err
	}
	born := 0
	for _, ch := range r.Changes {
		if strings.HasPrefix(ch.Path, Inside+"/born/") {
			born++
		}
	}
	if born > limit || !strings.Contains(r.Stderr.Text, "fork") {
		return "", fmt.Errorf("%d processes were started, %d are allowed: %s", born, limit, saw(r))
	}
	return fmt.Sprintf("%d of %d processes were started where %d are allowed", born, want, limit), nil
}

func memoryCap(ctx context.Context, c *cage) (string, error) {
	const limit, want = 64 << 20, 192 << 20
	r, err := c.exec(ctx, fmt.Sprintf("head -c %d /dev/zero | tail | wc -c", want), func(l *Limits) { l.Memory, l.Wall = limit, 10*time.Second })
	if err != nil {
		return "", err
	}
	if strings.Contains(r.Stdout.Text, strconv.Itoa(want)) {
		return "", fmt.Errorf("a process held %d bytes where %d are allowed", want, limit)
	}
	return fmt.Sprintf("holding %d MiB failed where %d are allowed", want>>20, limit>>20), nil
}

func outputCap(ctx context.Context, c *cage) (string, error) {
	r, err := c.exec(ctx, "yes canary", func(l *Limits) { l.Output, l.Flood, l.Wall = 4<<10, 256<<10, 10*time.Second })
	if err != nil {
		return "", err
	}
	if r.Ended != EndedFlood || len(r.Stdout.Text) > 5<<10 || r.Stdout.Cut == 0 {
		return "", errors.New("a flood of output was not ended: " + saw(r))
	}
	return fmt.Sprintf("ended after %d bytes, %d kept", r.Stdout.Total, len(r.Stdout.Text)), nil
}

// wallCap leaves a process behind that writes on; it must be as dead as the command.
func wallCap(ctx context.Context, c *cage) (string, error) {
	r, err := c.exec(ctx, "(while :; do echo beat >beat; done) >/dev/null 2>&1 & while [ ! -s beat ]; do sleep 0.02; done; sleep 60",
		func(l *Limits) { l.Wall = 600 * time.Millisecond })
	if err != nil {
		return "", err
	}
	if r.Ended != EndedWall || r.Wall > 10*time.Second {
		return "", errors.New("a sleeping command was not ended: " + saw(r))
	}
	if len(r.Changes) != 1 {
		return "", errors.New("the process in the background did not run: " + saw(r))
	}
	before, err := c.files.snapshot(c.limits.Entries)
	if err != nil {
		return "", err
	}
	time.Sleep(200 * time.Millisecond)
	after, err := c.files.snapshot(c.limits.Entries)
	if err != nil {
		return "", err
	}
	if list, _ := changes(before, after); len(list) > 0 {
		return "", errors.New("a process outlived its command")
	}
	return fmt.Sprintf("ended after %d ms with its background process", r.Wall.Milliseconds()), nil
}
