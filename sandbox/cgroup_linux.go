package sandbox

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups are the folders in which this process may make control groups: one on version 2, one a controller on version 1.
type cgroups struct {
	v2      bool
	parents map[string]string // controller to folder; on version 2 all are the same
	prefix  string            // of the names of our groups: tells the groups of two state directories apart
}

// A cgroup is the group of one command.
type cgroup struct {
	of   *cgroups
	dirs map[string]string
}

var errNoCgroup = errors.New("no control group with memory and pids limits can be made here")

// findCgroups looks for memory and pids controllers that we may use, and proves it by making a group.
func findCgroups(root string) (*cgroups, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	errs := []error{errNoCgroup}
	for _, c := range candidates(string(mounts), string(own)) {
		c.prefix = "sightline-" + digest(root)[:8] + "-"
		if c.v2 {
			if err := c.enable(); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		g, err := c.create(DefaultLimits(), 0)
		if err == nil {
			err = g.remove()
		}
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// candidates reads the kernel's two tables; the version that has the memory controller is the one in use.
func candidates(mounts, own string) []*cgroups {
	paths := map[string]string{} // controller to our own path; "" is version 2
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 {
			for _, c := range strings.Split(f[1], ",") {
				paths[c] = f[2]
			}
		}
	}
	v1 := &cgroups{parents: map[string]string{}}
	var out []*cgroups
	for line := range strings.Lines(mounts) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		in := func(c string) (string, bool) {
			p, ok := paths[c]
			if l[3] != "/" { // a part of the hierarchy is mounted
				p = strings.TrimPrefix(p, l[3])
			}
			return filepath.Join(l[4], p), ok
		}
		switch r[0] {
		case "cgroup2":
			dir, ok := in("")
			if !ok {
				continue
			}
			out = append(out, inOne(dir))
			// systemd's DelegateSubgroup= puts the service into a group below the one that is its own.
			if up := filepath.Dir(dir); up != filepath.Dir(l[4]) && delegated(up) {
				out = append(out, inOne(up))
			}
		case "cgroup":
			for _, c := range strings.Split(r[2], ",") {
				if dir, ok := in(c); ok && slices.Contains([]string{"memory", "pids", "cpuacct"}, c) {
					v1.parents[c] = dir
				}
			}
		}
	}
	if v1.parents["memory"] != "" && v1.parents["pids"] != "" {
		out = append(out, v1)
	}
	return out
}

func inOne(dir string) *cgroups {
	return &cgroups{v2: true, parents: map[string]string{"memory": dir, "pids": dir}}
}

// delegated reports whether systemd gave the group away: others are its own to write in, even where root could.
func delegated(dir string) bool {
	v := make([]byte, 8)
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, v); err == nil && string(v[:n]) == "1" {
			return true
		}
	}
	return false
}

// enable makes the controllers available to the groups below.
func (c *cgroups) enable() error {
	control := filepath.Join(c.parents["memory"], "cgroup.subtree_control")
	body, err := os.ReadFile(control)
	if err != nil {
		return fmt.Errorf("enable controllers: %w", err)
	}
	on := strings.Fields(string(body))
	if slices.Contains(on, "memory") && slices.Contains(on, "pids") {
		return nil
	}
	if err := write(control, "+memory +pids"); err != nil {
		return fmt.Errorf("enable controllers (a systemd unit needs Delegate=yes and DelegateSubgroup=): %w", err)
	}
	return nil
}

func write(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// create makes a group with its limits set; nothing is in it yet. beside is how many processes of the driver's own it will hold.
func (c *cgroups) create(l Limits, beside int) (*cgroup, error) {
	me, err := owner(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("create control group: %w", err)
	}
	g := &cgroup{of: c, dirs: map[string]string{}}
	name := c.prefix + me + "-" + rand.Text()[:8]
	for controller, parent := range c.parents {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !(c.v2 && errors.Is(err, os.ErrExist)) {
			return nil, errors.Join(fmt.Errorf("create control group: %w", err), g.remove())
		}
		g.dirs[controller] = dir
	}
	if err := g.limit(l, beside); err != nil {
		return nil, errors.Join(fmt.Errorf("limit control group: %w", err), g.remove())
	}
	return g, nil
}

func (g *cgroup) limit(l Limits, beside int) error {
	memory, swap, pids := g.dirs["memory"], "", filepath.Join(g.dirs["pids"], "pids.max")
	bytes := strconv.FormatInt(l.Memory, 10)
	if err := write(pids, strconv.Itoa(l.Processes+beside)); err != nil {
		return err
	}
	if g.of.v2 {
		if err := write(filepath.Join(memory, "memory.max"), bytes); err != nil {
			return err
		}
		if err := write(filepath.Join(memory, "memory.oom.group"), "1"); err != nil { // all or none
			return err
		}
		swap, bytes = filepath.Join(memory, "memory.swap.max"), "0"
	} else {
		if err := write(filepath.Join(memory, "memory.limit_in_bytes"), bytes); err != nil {
			return err
		}
		swap = filepath.Join(memory, "memory.memsw.limit_in_bytes")
	}
	// A kernel without swap accounting has no such file.
	if err := write(swap, bytes); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// open is the group as a descriptor to start a process in; version 2 only.
func (g *cgroup) open() (*os.File, error) { return os.Open(g.dirs["memory"]) }

// join moves a process that is still held back into the group; version 1 has no way to start it there.
func (g *cgroup) join(pid int) error {
	for _, dir := range g.dirs {
		if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("join control group: %w", err)
		}
	}
	return nil
}

func (g *cgroup) pids() []int {
	body, err := os.ReadFile(filepath.Join(g.dirs["pids"], "cgroup.procs"))
	if err != nil {
		return nil
	}
	var out []int
	for _, f := range strings.Fields(string(body)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	return out
}

func (g *cgroup) kill() {
	if g.of.v2 && write(filepath.Join(g.dirs["memory"], "cgroup.kill"), "1") == nil {
		return
	}
	_ = write(filepath.Join(g.dirs["pids"], "pids.max"), "0") // nothing new while the old are killed
	for range 100 {
		pids := g.pids()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// field reads "name value" lines.
func field(file, name string) (int64, bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if v, ok := strings.CutPrefix(sc.Text(), name+" "); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

func (g *cgroup) outOfMemory() bool {
	name := "memory.oom_control"
	if g.of.v2 {
		name = "memory.events"
	}
	n, _ := field(filepath.Join(g.dirs["memory"], name), "oom_kill")
	return n > 0
}

func (g *cgroup) forksRefused() bool {
	n, _ := field(filepath.Join(g.dirs["pids"], "pids.events"), "max")
	return n > 0
}

func (g *cgroup) cpu() time.Duration {
	if g.of.v2 {
		if n, ok := field(filepath.Join(g.dirs["memory"], "cpu.stat"), "usage_usec"); ok {
			return time.Duration(n) * time.Microsecond
		}
		return -1
	}
	body, err := os.ReadFile(filepath.Join(g.dirs["cpuacct"], "cpuacct.usage"))
	n, errN := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 64)
	if err != nil || errN != nil || g.dirs["cpuacct"] == "" {
		return -1
	}
	return time.Duration(n)
}

// remove removes the group once its last process is gone.
func (g *cgroup) remove() error {
	var errs []error
	for _, dir := range g.dirs {
		var err error
		for try := range 200 {
			err = unix.Rmdir(dir)
			if err == nil || errors.Is(err, unix.ENOENT) {
				err = nil
				break
			}
			if !errors.Is(err, unix.EBUSY) {
				break
			}
			time.Sleep(time.Duration(min(1+try, 10)) * time.Millisecond)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// sweep ends groups whose maker is dead.
func (c *cgroups) sweep() error {
	var errs []error
	for controller, parent := range c.parents {
		list, err := os.ReadDir(parent)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep control groups: %w", err))
			continue
		}
		for _, e := range list {
			rest, ours := strings.CutPrefix(e.Name(), c.prefix)
			part := strings.Split(rest, "-")
			if !ours || len(part) != 3 {
				continue
			}
			pid, err := strconv.Atoi(part[0])
			if err != nil {
				continue
			}
			if now, err := owner(pid); err == nil && now == part[0]+"-"+part[1] {
				continue
			}
			dir := filepath.Join(parent, e.Name())
			g := &cgroup{of: c, dirs: map[string]string{controller: dir, "pids": dir, "memory": dir}}
			g.kill()
			errs = append(errs, g.remove())
		}
	}
	return errors.Join(errs...)
}
