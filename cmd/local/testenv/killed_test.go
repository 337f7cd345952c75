package testenv

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// running is what a child process says of its servers.
type running struct {
	Servers []int
	Folders []string
	Error   string
}

// runServers is the child: a test process in the middle of a test.
func runServers() {
	var r running
	p, err := postgres.get()
	if err == nil {
		r.Servers = append(r.Servers, p.PID())
		t, err2 := temporal.get()
		if err = err2; err == nil {
			r.Servers = append(r.Servers, t.PID())
		}
	}
	if err != nil {
		r.Error = err.Error()
	}
	r.Folders = []string{postgres.dir, temporal.dir}
	_ = json.NewEncoder(os.Stdout).Encode(r)
	select {}
}

func TestKilledTestProcessLeavesNothing(t *testing.T) {
	Postgres(t) // skips if it is not installed
	Temporal(t)
	tmp := t.TempDir()
	if err := os.Chmod(tmp, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TESTENV_TEST_CHILD=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var r running
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil || r.Error != "" {
		t.Fatalf("child says %q: %v", line, err)
	}
	sweep(0)
	for _, dir := range r.Folders {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("a folder in use was swept: %v", err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if runtime.GOOS == "linux" { // elsewhere the sweep ends Postgres
		awaitEnd(t, r.Servers)
	}
	sweep(0)
	awaitEnd(t, r.Servers)
	for _, dir := range r.Folders {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s was left", dir)
		}
	}
}

func awaitEnd(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for until := time.Now().Add(10 * time.Second); isRunning(pid); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("process %d outlives the test process", pid)
			}
		}
	}
}

// isRunning reports whether the process is there and not merely unreaped.
func isRunning(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	var n int
	var name, state string
	_, err = fmt.Sscan(string(stat), &n, &name, &state)
	return err != nil || state != "Z"
}
