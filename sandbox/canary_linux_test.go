package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unsafe runs commands without any isolation, and killing one ends no more than its shell.
type unsafeDriver struct{ noDriver }

type unsafeProcess struct {
	cmd *exec.Cmd
	scriptedProcess
}

func (unsafeDriver) start(_ context.Context, j job) (process, error) {
	cmd := exec.Command("/bin/bash", "-c", j.command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = j.dir, j.stdout, j.stderr
	cmd.WaitDelay = 50 * time.Millisecond
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &unsafeProcess{cmd: cmd, scriptedProcess: scriptedProcess{ended: make(chan struct{})}}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
		p.exit.code = cmd.ProcessState.ExitCode()
	}()
	return p, nil
}

func (p *unsafeProcess) kill() { _ = p.cmd.Process.Kill() }

// end ends what it left, for the sake of the machine.
func (p *unsafeProcess) wait() (exit, error) {
	<-p.ended
	time.AfterFunc(500*time.Millisecond, func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	return p.exit, nil
}

// TestCanariesFail proves a driver that holds nothing: every canary of isolation has to see it.
func TestCanariesFail(t *testing.T) {
	needProgram(t, "unshare", "apt install util-linux")
	r := idle(t, filepath.Join(tempDir(t), "root"), Limits{})
	r.uid, r.gid = -1, -1 // commands run as the service
	r.drv = unsafeDriver{}
	_, err := r.prove(t.Context())
	var u *Unavailable
	if !errors.As(err, &u) || u.Reason == "" || u.Fix == "" {
		t.Fatalf("a driver that holds nothing was proved: %v", err)
	}
	want := map[string]bool{"workspace is writable": true, "output limit": true}
	seen := 0
	for _, c := range u.Checks {
		seen++
		if c.OK != want[c.Name] || c.Detail == "" {
			t.Errorf("canary %q: %+v", c.Name, c)
		}
	}
	if seen != len(canaries) {
		t.Errorf("%d of %d canaries ran", seen, len(canaries))
	}
	if !strings.Contains(err.Error(), "host file is unreadable") {
		t.Errorf("the error does not name what failed: %v", err)
	}
	if list, err := os.ReadDir(r.cfg.Root); err != nil || len(list) != 0 {
		t.Errorf("the canaries left %v, %v", list, err)
	}
	// A driver that starts nothing is not taken for one that keeps everything out.
	r.drv = noDriver{}
	if _, err = r.prove(t.Context()); !errors.As(err, &u) || len(u.Checks) != 1 || u.Checks[0].OK {
		t.Errorf("a driver that runs nothing: %v", err)
	}
}

func TestCanariesPass(t *testing.T) {
	for _, kind := range []Kind{Bubblewrap, Landlock} {
		t.Run(string(kind), func(t *testing.T) {
			r := proved(t, kind)
			if got := r.Checks(); len(got) != len(canaries) || r.Driver() != kind || r.Limits() != DefaultLimits() {
				t.Errorf("%v, %v, %+v", got, r.Driver(), r.Limits())
			}
			for _, c := range r.Checks() {
				t.Logf("%-28s %v  %s", c.Name, c.OK, c.Detail)
			}
			for _, n := range r.Notes() {
				t.Log(n)
			}
		})
	}
}

func TestUnavailable(t *testing.T) {
	needProgram(t, "bwrap", "apt install bubblewrap")
	dir := tempDir(t)
	script := func(name, body string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	const help = `[ "$1" = --help ] && exec bwrap --help
`
	setuid := script("setuid", help+"exit 0")
	if err := os.Chmod(setuid, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg        Config
		says, fix  string
		asRootOnly bool
	}{
		"missing": {Config{Bubblewrap: "no-such-program"}, "not found", "apt install bubblewrap", false},
		"old":     {Config{Bubblewrap: script("old", "echo --size --perms")}, "--disable-userns", "0.8", false},
		"setuid":  {Config{Bubblewrap: setuid}, "setuid", "chmod u-s", false},
		"no namespaces": {Config{Bubblewrap: script("none", help+"echo 'bwrap: No permissions to create new namespace' >&2; exit 1")},
			"No permissions to create new namespace", "user.max_user_namespaces", false},
		"runs nothing":   {Config{Bubblewrap: script("true", help+"exit 0")}, "workspace is writable", "doctor", false},
		"out of reach":   {Config{Root: filepath.Join(closed, "root")}, closed, "o+x", true},
		"out of reach 2": {Config{Root: filepath.Join(closed, "root2"), Driver: Landlock}, closed, "o+x", true},
	} {
		if c.asRootOnly && os.Geteuid() != 0 {
			continue // an ordinary user's commands are its own and pass every folder of its own
		}
		if c.cfg.Root == "" {
			c.cfg.Root = filepath.Join(dir, "root")
		}
		_, err := New(t.Context(), c.cfg)
		want := c.cfg.Driver
		if want == "" {
			want = Bubblewrap
		}
		wantUnavailable(t, name, err, want, c.says)
		var u *Unavailable
		if errors.As(err, &u) && !strings.Contains(u.Fix, c.fix) {
			t.Errorf("%s: the fix is %q, want it to name %q", name, u.Fix, c.fix)
		}
	}
}

// TestServiceKilled kills the process that runs a command, as a crash would: the command must not live on.
func TestServiceKilled(t *testing.T) {
	const envRoot, envMark = "SANDBOX_TEST_ROOT", "SANDBOX_TEST_MARK"
	if root := os.Getenv(envRoot); root != "" {
		r, err := newRunner(Config{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		if r.drv, err = r.driver(t.Context()); err != nil {
			t.Fatal(err)
		}
		run(t, workspace(t, r), "sleep "+os.Getenv(envMark)+" & setsid sleep "+os.Getenv(envMark)+" & wait")
		return
	}
	proved(t, Bubblewrap)
	root, mark := filepath.Join(tempDir(t), "root"), fmt.Sprint(10_000+rand.IntN(1_000_000_000))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestServiceKilled$")
	cmd.Env = append(os.Environ(), envRoot+"="+root, envMark+"="+mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		n := 0
		for _, s := range processes() {
			body, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.pid))
			if err == nil && strings.Contains(string(body), "sleep\x00"+mark+"\x00") {
				n++
			}
		}
		return n
	}
	until(t, "the command runs", func() bool { return count() == 2 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	until(t, "the command dies with its service", func() bool { return count() == 0 })
	// The next start cleans up; with control groups, those, too.
	r := idle(t, root, Limits{})
	if r.drv, err = r.driver(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := r.Sweep(t.Context(), Sweep{Live: func(ID) bool { return false }})
	if err != nil || len(got.Removed) != 1 {
		t.Errorf("swept %+v, %v", got, err)
	}
	b := r.drv.(*bubblewrap)
	if b.groups == nil {
		return
	}
	for _, parent := range b.groups.parents {
		left, err := filepath.Glob(filepath.Join(parent, b.groups.prefix+"*"))
		if err != nil || len(left) != 0 {
			t.Errorf("control groups were left: %v, %v", left, err)
		}
	}
}
