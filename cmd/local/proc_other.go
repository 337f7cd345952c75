//go:build unix && !linux

package local

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// setDeathSignal has no counterpart here: an orphan is adopted or swept by the next start.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}

func isZombie(pid int) bool { return strings.HasPrefix(ps(pid, "stat="), "Z") }

// processName is the short name of a process's program, "" if that cannot be told.
func processName(pid int) string {
	if name := ps(pid, "comm="); name != "" {
		return filepath.Base(name)
	}
	return ""
}

func ps(pid int, column string) string {
	out, err := exec.Command("ps", "-o", column, "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// mayServe reports whether a process may be the Postgres of that data.
func mayServe(pid int, _ string) bool {
	name := processName(pid)
	return name == "" || name == "postgres" || name == "postmaster"
}
