package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Home is a state directory held by this process alone, until Close or the process's end.
type Home struct {
	dir  string
	lock *fileLock
}

// DefaultHomeDir is where state goes when nobody says otherwise: the XDG state directory, which by default is
// ~/.local/state/sightline. Without a home directory it is a folder of the working directory.
func DefaultHomeDir() string {
	if x := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(x) {
		return filepath.Join(x, "sightline")
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "sightline")
	}
	return ".sightline"
}

// OpenHome creates dir if need be, readable by its owner only, and locks it.
func OpenHome(dir string) (*Home, error) {
	if dir == "" {
		return nil, errors.New("open state directory: no directory given")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	// Whoever can write here can put another database or another socket in place of ours.
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return nil, fmt.Errorf("state directory %s is writable by others (mode %04o): run chmod 700 on it, or choose another with SIGHTLINE_HOME", dir, perm)
	}
	// A look (Holder) may have it for a moment.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	lock, err := waitLock(ctx, filepath.Join(dir, "lock"), nil)
	var held *errLocked
	if errors.As(err, &held) {
		who := "another process"
		if held.pid > 0 {
			who = fmt.Sprintf("process %d", held.pid)
		}
		return nil, fmt.Errorf("state directory %s is in use by %s: stop it, or choose another directory with SIGHTLINE_HOME (processes that share DATABASE_URL and TEMPORAL_ADDRESS have one each)", dir, who)
	}
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	return &Home{dir: dir, lock: lock}, nil
}

// Dir is the directory's absolute path.
func (h *Home) Dir() string { return h.dir }

// Close lets another process have the directory. What was started in it must have been stopped before.
func (h *Home) Close() error { return h.lock.release() }
