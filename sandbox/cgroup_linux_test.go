package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCgroupCandidates(t *testing.T) {
	const v1 = `30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
`
	const v2 = "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	for name, c := range map[string]struct {
		mounts, own string
		want        []map[string]string
	}{
		"version 2": {v2, "0::/system.slice/sightline.service\n", []map[string]string{
			{"memory": "/sys/fs/cgroup/system.slice/sightline.service", "pids": "/sys/fs/cgroup/system.slice/sightline.service"}}},
		"version 1": {v1, "3:cpu,cpuacct:/c\n2:pids:/p\n1:memory:/a/b\n", []map[string]string{
			{"memory": "/sys/fs/cgroup/memory/a/b", "pids": "/sys/fs/cgroup/pids/p", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/c"}}},
		"a part is mounted": {"30 25 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/x/y\n", []map[string]string{
			{"memory": "/sys/fs/cgroup/y", "pids": "/sys/fs/cgroup/y"}}},
		"no memory": {strings.Join(strings.Split(v1, "\n")[1:], "\n"), "2:pids:/p\n1:memory:/a\n", nil},
		"none":      {"1 1 0:1 / / rw - ext4 /dev/root rw\n", "", nil},
		"broken":    {"x - \n- cgroup2\n", "::::\nx\n", nil},
	} {
		var got []map[string]string
		for _, g := range candidates(c.mounts, c.own) {
			got = append(got, g.parents)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// fakeV2 is a folder that looks like a group of version 2 whose controllers can be had: this kernel may have version 1.
func TestCgroupFilesV2(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cgroup.kill", "cgroup.procs"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for f, body := range map[string]string{"memory.events": "low 0\noom 3\noom_kill 2\n", "pids.events": "max 0\n", "cpu.stat": "usage_usec 1500000\nuser_usec 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g := &cgroup{of: inOne(dir), dirs: map[string]string{"memory": dir, "pids": dir}}
	if err := g.limit(Limits{Memory: 1000, Processes: 5}, 2); err != nil {
		t.Fatal(err)
	}
	g.kill()
	for f, want := range map[string]string{"memory.max": "1000", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "7", "cgroup.kill": "1"} {
		if got, err := os.ReadFile(filepath.Join(dir, f)); err != nil || string(got) != want {
			t.Errorf("%s is %q, want %q (%v)", f, got, want, err)
		}
	}
	if !g.outOfMemory() || g.forksRefused() || g.cpu() != 1500*time.Millisecond {
		t.Errorf("read %v, %v, %v", g.outOfMemory(), g.forksRefused(), g.cpu())
	}
}

// TestStartInGroupV2 starts a command in a real group of version 2, which needs no controllers for it.
func TestStartInGroupV2(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range candidates(string(mounts), string(own)) {
		if !c.v2 {
			continue
		}
		dir := filepath.Join(c.parents["memory"], "sightline-test")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("no group of version 2 can be made here, which is no fault: %v", err)
		}
		g := &cgroup{of: c, dirs: map[string]string{"memory": dir, "pids": dir}}
		defer func() {
			if err := g.remove(); err != nil {
				t.Error(err)
			}
		}()
		fd, err := g.open()
		if err != nil {
			t.Fatal(err)
		}
		defer fd.Close()
		var out strings.Builder
		cmd := exec.Command("/bin/sh", "-c", "cat /proc/self/cgroup; sleep 100 & sleep 100")
		cmd.Stdout = &out
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(fd.Fd())}
		ended, err := launch(cmd, func() {})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "two processes are in the group", func() bool { return len(g.pids()) == 3 })
		g.kill()
		var exit *exec.ExitError
		if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != -1 {
			t.Errorf("ended with %v", err)
		}
		if !strings.Contains(out.String(), "/sightline-test\n") {
			t.Errorf("its group was %q", out.String())
		}
		return
	}
	t.Skip("no control groups of version 2 here, which is no fault")
}

// TestCgroupSweep finds the groups of a process that died, with what runs in them, and leaves its own alone.
func TestCgroupSweep(t *testing.T) {
	root := tempDir(t)
	c, err := findCgroups(root)
	if err != nil {
		t.Skipf("no control groups here, which is no fault: %v", err)
	}
	mine, err := c.create(DefaultLimits(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := mine.remove(); err != nil {
			t.Error(err)
		}
	}()
	dead := &cgroup{of: c, dirs: map[string]string{}}
	for controller, parent := range c.parents {
		dead.dirs[controller] = filepath.Join(parent, c.prefix+"999999999-1-AAAAAAAA")
		if err := os.Mkdir(dead.dirs[controller], 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	left := exec.Command("/bin/sleep", "1000")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	if err := dead.join(left.Process.Pid); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- left.Wait() }()
	if err := c.sweep(); err != nil {
		t.Error(err)
	}
	if err := <-waited; err == nil || err.Error() != "signal: killed" {
		t.Errorf("what ran in it ended with %v", err)
	}
	for _, dir := range dead.dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
	for _, dir := range mine.dirs {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("our own was removed: %v", err)
		}
	}
}

func TestOwner(t *testing.T) {
	me, err := owner(os.Getpid())
	if err != nil || !strings.HasPrefix(me, fmt.Sprint(os.Getpid())+"-") {
		t.Errorf("got %q, %v", me, err)
	}
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	until(t, "it is a zombie", func() bool { s, err := statOf(pid); return err == nil && s.dead })
	if got, err := owner(pid); err == nil {
		t.Errorf("a zombie counts as running: %q", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, err := owner(pid); err == nil {
		t.Errorf("a process that is gone counts as running: %q", got)
	}
}
