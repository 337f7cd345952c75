package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHomeIsPrivateAndExclusive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "sightline")
	h, err := OpenHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory has mode %v, %v", info.Mode(), err)
	}
	_, err = OpenHome(dir)
	if err == nil {
		t.Fatal("the directory was opened twice")
	}
	for _, want := range []string{dir, fmt.Sprintf("process %d", os.Getpid()), "SIGHTLINE_HOME"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q does not say %q in one line", err, want)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h, err = OpenHome(dir)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if h.Dir() != dir {
		t.Errorf("Dir is %q", h.Dir())
	}
	h.Close()
}

func TestHomeOfAKilledProcessIsFree(t *testing.T) {
	dir := t.TempDir()
	other := hold(t, "home", dir)
	if _, err := OpenHome(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", other.PID)) {
		t.Fatalf("beside another process: %v", err)
	}
	other.kill(t)
	h, err := OpenHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
}

func TestHomeThatOthersCanWriteIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenHome(dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("opened: %v", err)
	}
	if _, err := OpenHome(""); err == nil {
		t.Error("no directory is a directory")
	}
}

func TestDefaultHomeDir(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	t.Setenv("XDG_STATE_HOME", "")
	if got := DefaultHomeDir(); got != "/home/somebody/.local/state/sightline" {
		t.Error(got)
	}
	t.Setenv("XDG_STATE_HOME", "/state")
	if got := DefaultHomeDir(); got != "/state/sightline" {
		t.Error(got)
	}
}

// Whoever only looks learns who has a directory, and leaves it as it is.
func TestHolder(t *testing.T) {
	dir := t.TempDir()
	if pid := Holder(dir); pid != 0 {
		t.Errorf("nobody has it: %d", pid)
	}
	h, err := OpenHome(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pid := Holder(dir); pid != os.Getpid() {
		t.Errorf("this process has it: %d", pid)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	// The file still names a process that lives.
	if pid := Holder(dir); pid != 0 {
		t.Errorf("nobody has it any more: %d", pid)
	}
	if h, err = OpenHome(dir); err != nil {
		t.Fatalf("after a look: %v", err)
	}
	_ = h.Close()
	// It may even be another process's by now, as in a container, where all have
	// the same number; a look then has the lock for a moment.
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := flock(f); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { f.Close() })
	if h, err = OpenHome(dir); err != nil {
		t.Fatalf("during a look: %v", err)
	}
	_ = h.Close()
}
