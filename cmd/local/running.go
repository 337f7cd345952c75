package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNotRunning means that there is no server to look at, and nobody was asked
// to start one.
var ErrNotRunning = errors.New("the managed database is not running: start sightline, or set DATABASE_URL")

// RunningPostgres is the address of the server that runs on dir, which is left
// as it is: no lock is taken and nothing is started. For whoever only looks,
// beside the service or after it was killed.
func RunningPostgres(ctx context.Context, dir string) (string, error) {
	base, err := filepath.EvalSymlinks(filepath.Join(dir, "server"))
	if errors.Is(err, os.ErrNotExist) {
		return "", ErrNotRunning
	}
	if err != nil {
		return "", fmt.Errorf("find the managed database: %w", err)
	}
	data := filepath.Join(base, "data")
	pid, sock, ok := readPostmaster(filepath.Join(data, "postmaster.pid"))
	if !ok || sock == "" || !alive(pid) || !mayServe(pid, data) {
		return "", ErrNotRunning
	}
	if err := pgReady(ctx, sock, data); err != nil {
		return "", fmt.Errorf("the managed database (process %d) does not answer: %w", pid, err)
	}
	return pgURL(sock, pgName), nil
}

// Holder is the process that has the state directory, or 0. For whoever only
// looks: the lock is tried only where its holder lives. OpenHome waits for such
// a look.
func Holder(dir string) int {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return 0
	}
	defer f.Close()
	pid := readPID(f)
	if pid <= 0 || !alive(pid) || !errors.Is(flock(f), syscall.EWOULDBLOCK) {
		return 0
	}
	return pid
}

// RunningTemporalUI is the Web UI of the server that runs on dir, or "": the
// Temporal CLI, where it stands in, leaves no note of it.
func RunningTemporalUI(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "ready.json"))
	if err != nil {
		return ""
	}
	var r struct {
		UI  string `json:"ui"`
		PID int    `json:"pid"`
	}
	if json.Unmarshal(b, &r) != nil || !alive(r.PID) {
		return ""
	}
	return r.UI
}
