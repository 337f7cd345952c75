package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A stat is what the kernel tells everybody of a process.
type stat struct {
	pid, parent, group int
	dead               bool   // a zombie, waiting for its parent
	began              string // in ticks since the machine's start
}

func statOf(pid int) (stat, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The second field is the program's name in parentheses and can hold anything.
	f := strings.Fields(string(body[strings.LastIndexByte(string(body), ')')+1:]))
	if len(f) < 20 {
		return stat{}, errors.New("read state of a process: too short")
	}
	s := stat{pid: pid, dead: f[0] == "Z" || f[0] == "X", began: f[19]}
	var errs [2]error
	s.parent, errs[0] = strconv.Atoi(f[1])
	s.group, errs[1] = strconv.Atoi(f[2])
	return s, errors.Join(errs[:]...)
}

// processes are all that this process can see.
func processes() []stat {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var out []stat
	for _, n := range names {
		pid, err := strconv.Atoi(filepath.Base(n))
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil {
			out = append(out, s)
		}
	}
	return out
}

// owner names a running process so that it can be told from a later one with the same pid.
func owner(pid int) (string, error) {
	s, err := statOf(pid)
	if err == nil && s.dead { // nobody waited for it, which doesn't make it run
		err = os.ErrProcessDone
	}
	return fmt.Sprintf("%d-%s", pid, s.began), err
}

// descendants are the processes below top, itself included. In a pid namespace nothing gets out from under its first
// process.
func descendants(top int) []int {
	children := map[int][]int{}
	for _, s := range processes() {
		children[s.parent] = append(children[s.parent], s.pid)
	}
	out := []int{top}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}
