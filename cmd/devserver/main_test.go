package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the program, so that tests start, kill and restart real processes.
func TestMain(m *testing.M) {
	if os.Getenv("DEVSERVER_TEST_RUN_MAIN") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

type child struct {
	readyFile
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *bytes.Buffer
	exited chan error
}

// launch starts the program on dir; it may not be ready yet, or never.
func launch(t *testing.T, dir string, args ...string) (*child, string) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	args = append([]string{"--db", filepath.Join(dir, "t.db"), "--addr", "127.0.0.1:0", "--ui-addr", "127.0.0.1:0",
		"--log", filepath.Join(dir, "log"), "--ready", ready, "--parent-pipe"}, args...)
	c := &child{cmd: exec.Command(os.Args[0], args...), stderr: &bytes.Buffer{}, exited: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), "DEVSERVER_TEST_RUN_MAIN=1")
	c.cmd.Stderr = c.stderr
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.exited <- c.cmd.Wait() }()
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c, ready
}

func start(t *testing.T, dir string, args ...string) *child {
	t.Helper()
	c, ready := launch(t, dir, args...)
	c.await(t, ready)
	return c
}

func (c *child) await(t *testing.T, ready string) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		b, err := os.ReadFile(ready)
		if err == nil {
			if err := json.Unmarshal(b, &c.readyFile); err != nil {
				t.Fatalf("ready file %q: %v", b, err)
			}
			return
		}
		select {
		case err := <-c.exited:
			t.Fatalf("devserver ended: %v: %s", err, c.stderr)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(until) {
			t.Fatalf("devserver is not ready: %s", c.stderr)
		}
	}
}

func (c *child) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.exited:
		return err
	case <-time.After(time.Minute):
		t.Fatal("devserver does not end")
		return nil
	}
}

func (c *child) stop(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.wait(t); err != nil {
		t.Fatalf("devserver ended badly: %v: %s", err, c.stderr)
	}
}

func TestEndsWithItsParent(t *testing.T) {
	c := start(t, t.TempDir())
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.wait(t); err != nil {
		t.Fatalf("devserver ended badly: %v: %s", err, c.stderr)
	}
}

func TestSecondServerWaitsForTheFirst(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	second, ready := launch(t, dir)
	select {
	case err := <-second.exited:
		t.Fatalf("the second gave up at once: %v: %s", err, second.stderr)
	case <-time.After(time.Second):
	}
	if _, err := os.Stat(ready); err == nil {
		t.Fatal("two servers run on one file")
	}
	first.stop(t)
	second.await(t, ready)
	second.stop(t)
}

func TestInterruptedSchemaIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"t.db": "half", "t.db-wal": "half", "t.db.making": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start(t, dir).stop(t)
	if _, err := os.Stat(filepath.Join(dir, "t.db.making")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark is still there: %v", err)
	}
}

func TestDatabaseWithoutMarkIsNeverThrownAway(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "t.db")
	if err := os.WriteFile(file, []byte("somebody's file, not a database, but somebody's all the same"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ := launch(t, dir)
	if err := c.wait(t); err == nil {
		t.Error("a file that is no database was accepted")
	}
	if b, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(b, []byte("somebody's")) {
		t.Errorf("the file was changed: %q, %v", b, err)
	}
}

func TestFlags(t *testing.T) {
	ok := []string{"--db", "x"}
	for name, bad := range map[string][]string{
		"no database":       nil,
		"address of all":    {"--db", "x", "--addr", "0.0.0.0:7233"},
		"address of host":   {"--db", "x", "--addr", "192.0.2.1:7233"},
		"no host":           {"--db", "x", "--addr", ":7233"},
		"UI for all":        {"--db", "x", "--ui-addr", "[::]:8233"},
		"port too large":    {"--db", "x", "--addr", "127.0.0.1:70000"},
		"attribute no type": {"--db", "x", "--search-attributes", "Place"},
		"attribute type":    {"--db", "x", "--search-attributes", "Place=Shape"},
		"attribute twice":   {"--db", "x", "--search-attributes", "A=Int,A=Bool"},
		"attribute quote":   {"--db", "x", "--search-attributes", "A B=Int"},
		"argument":          {"--db", "x", "y"},
	} {
		if _, err := parseFlags(bad, io.Discard); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := parseFlags(ok, io.Discard); err != nil {
		t.Error(err)
	}
	o, err := parseFlags(append(ok, "--search-attributes", "B=Keyword, A=Int"), io.Discard)
	if err != nil || o.attributes.String() != "A=Int,B=Keyword" {
		t.Errorf("attributes %q, %v", o.attributes.String(), err)
	}
}
