package local

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
)

func ignoreTermination() { signal.Ignore(syscall.SIGTERM) }

// fakeCLI is the Temporal CLI's development server, played by ours: it takes the CLI's flags, refuses those that the CLI
// does not have, knows nothing of a pipe or a ready file, and gives search attributes to a new namespace only.
func fakeCLI() {
	var db, namespace, port, attributes string
	flags := map[string]*string{"--db-filename": &db, "--namespace": &namespace, "--port": &port}
	ignored := []string{"--ip", "--log-format", "--log-level", "--sqlite-pragma", "--dynamic-config-value", "--ui-ip", "--ui-port"}
	args := os.Args[3:] // temporal server start-dev
	for len(args) > 0 {
		switch name := args[0]; {
		case name == "--headless":
			args = args[1:]
			continue
		case name == "--search-attribute":
			attributes += "," + args[1]
		case flags[name] != nil:
			*flags[name] = args[1]
		case !slices.Contains(ignored, name):
			fmt.Fprintln(os.Stderr, "unknown flag", name)
			os.Exit(2)
		}
		args = args[2:]
	}
	if _, err := os.Stat(db + ".fake"); err == nil {
		attributes = ""
	}
	server, err := devserverPath()
	if err == nil {
		// The real one does not lock its database as ours does, and we hold that lock for it.
		err = syscall.Exec(server, []string{server, "--db", db + ".fake", "--addr", "127.0.0.1:" + port, "--ui-addr", "off",
			"--namespace", namespace, "--search-attributes", strings.TrimPrefix(attributes, ",")}, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// cliProgram is a program named temporal that is this test binary as fakeCLI.
func cliProgram(t *testing.T) temporalProgram {
	t.Helper()
	path := filepath.Join(t.TempDir(), "temporal")
	script := fmt.Sprintf("#!/bin/sh\nLOCAL_TEST_CHILD=cli exec '%s' \"$@\"\n", os.Args[0])
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return temporalProgram{path: path, cli: true}
}

func startCLI(t *testing.T, dir string, program temporalProgram, attributes map[string]string) *Temporal {
	t.Helper()
	l := temporalLauncher{
		config:  TemporalConfig{Dir: dir, Namespace: "test", SearchAttributes: attributes, UIAddr: "off", Progress: t.Logf},
		program: program, db: filepath.Join(dir, "temporal.db"), log: filepath.Join(dir, "log"),
	}
	s, err := l.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopped(t, s) })
	return s
}

func TestTemporalCLIServes(t *testing.T) {
	stopped(t, startTemporal(t, TemporalConfig{Dir: t.TempDir()}))
	program := cliProgram(t)
	if real, err := exec.LookPath("temporal"); err == nil {
		program.path = real
	}
	dir := t.TempDir()
	s := startCLI(t, dir, program, map[string]string{"Place": "Keyword"})
	place := temporal.NewSearchAttributeKeyKeyword("Place")
	runGreet(t, dial(t, s.Address(), "test"), "first", place.ValueSet("here"))

	// As long as it runs, it holds the lock, although it does not know.
	if lock, err := tryLock(filepath.Join(dir, "temporal.db.lock")); err == nil {
		lock.release()
		t.Error("its lock is free")
	}
	stopped(t, s)
	s = startCLI(t, dir, program, map[string]string{"Place": "Keyword", "Agent": "Keyword"})
	c := dial(t, s.Address(), "test")
	if err := c.GetWorkflow(t.Context(), "first", "").Get(t.Context(), nil); err != nil {
		t.Errorf("the workflow is gone: %v", err)
	}
	runGreet(t, c, "second", place.ValueSet("there"), temporal.NewSearchAttributeKeyKeyword("Agent").ValueSet("a1"))
}

func TestTemporalCLIEndsWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent died; elsewhere the next start ends it")
	}
	stopped(t, startTemporal(t, TemporalConfig{Dir: t.TempDir()}))
	dir := t.TempDir()
	program := cliProgram(t)
	child := hold(t, "temporal", dir, func(c *exec.Cmd) {
		// With no devserver built and the CLI on PATH, the CLI is what is used.
		cache := t.TempDir()
		c.Env = append(c.Env, "XDG_CACHE_HOME="+cache, "PATH="+filepath.Dir(program.path)+":"+os.Getenv("PATH"))
		built, err := devserverPath()
		if err != nil {
			t.Fatal(err)
		}
		// The pretended CLI needs the real one's place.
		script := fmt.Sprintf("#!/bin/sh\nXDG_CACHE_HOME='%s' LOCAL_TEST_CHILD=cli exec '%s' \"$@\"\n", filepath.Dir(filepath.Dir(built)), os.Args[0])
		if err := os.WriteFile(program.path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	})
	if child.Address == "" {
		t.Fatal("no address")
	}
	child.kill(t)
	within(t, time.Minute, "the server ends", func() bool { return !alive(child.Server) })
	within(t, 5*time.Second, "its lock is free", func() bool {
		lock, err := tryLock(filepath.Join(dir, "temporal.db.lock"))
		if err == nil {
			lock.release()
		}
		return err == nil
	})
}
