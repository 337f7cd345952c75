package local

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

func setDeathSignal(a *syscall.SysProcAttr, s syscall.Signal) { a.Pdeathsig = s }

func isZombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the command's name, which is in parentheses and may contain anything.
	i := bytes.LastIndexByte(b, ')')
	return i >= 0 && i+2 < len(b) && (b[i+2] == 'Z' || b[i+2] == 'X')
}

// processName is the short name of a process's program, "" if that cannot be told.
func processName(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// mayServe reports whether a process may be the Postgres of that data: it works in the data's folder.
func mayServe(pid int, data string) bool {
	here, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		name := processName(pid)
		return name == "" || name == "postgres"
	}
	there, err := os.Stat(data)
	return err == nil && os.SameFile(here, there)
}
