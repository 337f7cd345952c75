package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be other programs too: a process that holds services and is killed, and the Temporal CLI.
func TestMain(m *testing.M) {
	switch os.Getenv("LOCAL_TEST_CHILD") {
	case "":
	case "cli":
		fakeCLI()
	default:
		holdServices()
	}
	code := m.Run()
	if left := leaked(); left != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines left:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked answers the goroutines of this package that do not end.
func leaked() string {
	var mine []string
	for range 100 {
		buf := make([]byte, 1<<20)
		mine = nil
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "sightline/cmd/local.") && !strings.Contains(g, "TestMain") {
				mine = append(mine, g)
			}
		}
		if mine == nil {
			return ""
		}
		time.Sleep(50 * time.Millisecond)
	}
	return strings.Join(mine, "\n\n")
}

// held is what a child process says of the services that it holds.
type held struct {
	URL, Address, UI string
	PID, Server      int
	Error            string
}

// holdServices starts what the environment names, says so, and holds it until stdin ends.
func holdServices() {
	ctx := context.Background()
	say := func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }
	out := held{PID: os.Getpid()}
	var stop func(context.Context) error
	var err error
	switch dir := os.Getenv("LOCAL_TEST_DIR"); os.Getenv("LOCAL_TEST_CHILD") {
	case "home":
		var h *Home
		if h, err = OpenHome(dir); err == nil {
			stop = func(context.Context) error { return h.Close() }
		}
	case "postgres", "ephemeral":
		var p *Postgres
		p, err = StartPostgres(ctx, PostgresConfig{Dir: dir, Ephemeral: os.Getenv("LOCAL_TEST_CHILD") == "ephemeral", NoDownload: true, Progress: say})
		if err == nil {
			out.URL, out.Server, stop = p.URL(), p.PID(), p.Stop
		}
	case "temporal":
		var t *Temporal
		t, err = StartTemporal(ctx, TemporalConfig{Dir: dir, Namespace: "test", UIAddr: "off", Progress: say})
		if err == nil {
			out.Address, out.Server, stop = t.Address(), t.PID(), t.Stop
		}
	case "stubborn": // a server that neither notices its parent's end nor hears a signal
		var l *fileLock
		if l, err = tryLock(filepath.Join(dir, "temporal.db.lock")); err == nil {
			ignoreTermination()
			defer l.release()
			stop = func(context.Context) error { select {} }
		}
	}
	if err != nil {
		out.Error = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
	if err != nil {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// holder is the child process.
type holder struct {
	held
	cmd   *exec.Cmd
	stdin io.Closer
}

// hold starts a child that holds what; as runs it as another user, with a copy of the test binary at binary.
func hold(t *testing.T, what, dir string, change ...func(*exec.Cmd)) *holder {
	t.Helper()
	h := &holder{cmd: exec.Command(os.Args[0])}
	h.cmd.Env = append(os.Environ(), "LOCAL_TEST_CHILD="+what, "LOCAL_TEST_DIR="+dir)
	h.cmd.Stderr = os.Stderr
	for _, f := range change {
		f(h.cmd)
	}
	var err error
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		if h.Server > 0 && alive(h.Server) {
			_ = syscall.Kill(h.Server, syscall.SIGKILL)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("child says nothing: %v", err)
	}
	if err := json.Unmarshal(line, &h.held); err != nil {
		t.Fatalf("child says %q: %v", line, err)
	}
	if h.Error != "" {
		t.Fatalf("child: %s", h.Error)
	}
	return h
}

// kill ends the child as a crash would.
func (h *holder) kill(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
}

// stop ends the child in order.
func (h *holder) stop(t *testing.T) {
	t.Helper()
	_ = h.stdin.Close()
	if err := h.cmd.Wait(); err != nil {
		t.Fatalf("child: %v", err)
	}
}

func within(t *testing.T, d time.Duration, what string, f func() bool) {
	t.Helper()
	for until := time.Now().Add(d); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

func stopped(t *testing.T, s interface {
	Stop(context.Context) error
	PID() int
}) {
	t.Helper()
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if alive(s.PID()) {
		t.Errorf("process %d is still there after Stop", s.PID())
	}
}
