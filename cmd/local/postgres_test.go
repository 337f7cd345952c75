package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func startPostgres(t *testing.T, c PostgresConfig) *Postgres {
	t.Helper()
	start := time.Now()
	c.NoDownload, c.Progress = true, t.Logf
	p, err := StartPostgres(t.Context(), c)
	var missing *MissingError
	if errors.As(err, &missing) && os.Getenv("SIGHTLINE_NO_SKIP") != "1" {
		t.Skipf("this test needs Postgres: %v (set SIGHTLINE_NO_SKIP=1 to fail instead)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Postgres answers after %v", time.Since(start).Round(time.Millisecond))
	t.Cleanup(func() { stopped(t, p) })
	return p
}

// folder is a temporary directory that Postgres's user can get to, as t.TempDir is not under root.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// needPostgres skips the test if there is none.
func needPostgres(t *testing.T) {
	t.Helper()
	if _, err := findPostgres(t.Context(), PostgresConfig{NoDownload: true}, nil, 0); err != nil && os.Getenv("SIGHTLINE_NO_SKIP") != "1" {
		t.Skipf("this test needs Postgres: %v (set SIGHTLINE_NO_SKIP=1 to fail instead)", err)
	}
}

// query answers a row of one column.
func query[T any](t *testing.T, url, sql string) (v T) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func remember(t *testing.T, url string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE kept AS SELECT 42 AS answer"); err != nil {
		t.Fatal(err)
	}
}

func remembers(t *testing.T, url string) {
	t.Helper()
	if got := query[int](t, url, "SELECT answer FROM kept"); got != 42 {
		t.Errorf("the row says %d", got)
	}
}

func TestPostgresStartsStopsAndStartsAgain(t *testing.T) {
	dir := folder(t)
	p := startPostgres(t, PostgresConfig{Dir: dir})
	remember(t, p.URL())
	if got := query[string](t, p.URL(), "SHOW listen_addresses"); got != "" {
		t.Errorf("it listens on %q", got)
	}
	// Text search needs letters that are not ASCII to be letters.
	if got := query[string](t, p.URL(), "SELECT upper('ж')"); got != "Ж" {
		t.Errorf("upper of ж is %q", got)
	}
	sock := query[string](t, p.URL(), "SHOW unix_socket_directories")
	info, err := os.Stat(strings.Trim(sock, `"`))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("socket folder %s: %v, %v", sock, info, err)
	}
	if info, err := os.Stat(fmt.Sprintf("/proc/%d", p.PID())); err == nil && info.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Error("it runs as root")
	}
	if err := p.Err(); err != nil {
		t.Errorf("while it runs, Err is %v", err)
	}
	stopped(t, p)
	if err := p.Err(); err != nil {
		t.Errorf("after Stop, Err is %v", err)
	}
	p = startPostgres(t, PostgresConfig{Dir: dir})
	remembers(t, p.URL())
}

func TestPostgresIsAdoptedAfterAKill(t *testing.T) {
	dir := folder(t)
	needPostgres(t)
	child := hold(t, "postgres", dir)
	remember(t, child.URL)
	child.kill(t)
	if !alive(child.Server) {
		t.Fatal("the server ended with its parent: data was at risk for nothing")
	}
	p := startPostgres(t, PostgresConfig{Dir: dir})
	if p.PID() != child.Server {
		t.Errorf("server %d was started beside %d", p.PID(), child.Server)
	}
	remembers(t, p.URL())
	stopped(t, p)
}

func TestPostgresThatIsKilledSaysSoAndStartsAgain(t *testing.T) {
	dir := folder(t)
	p := startPostgres(t, PostgresConfig{Dir: dir})
	remember(t, p.URL())
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatal("its death was not noticed")
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err is %v", err)
	}
	stopped(t, p) // releases the folder
	p = startPostgres(t, PostgresConfig{Dir: dir})
	remembers(t, p.URL())
}

func TestPostgresStartsAfterParentAndServerWereKilled(t *testing.T) {
	dir := folder(t)
	needPostgres(t)
	child := hold(t, "postgres", dir)
	remember(t, child.URL)
	child.kill(t)
	if err := syscall.Kill(child.Server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p := startPostgres(t, PostgresConfig{Dir: dir})
	remembers(t, p.URL())
}

func TestAdoptedPostgresThatDiesSaysSo(t *testing.T) {
	dir := folder(t)
	needPostgres(t)
	child := hold(t, "postgres", dir)
	child.kill(t)
	p := startPostgres(t, PostgresConfig{Dir: dir})
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatal("its death was not noticed")
	}
	if p.Err() == nil {
		t.Error("Err is nil")
	}
}

func TestPostgresFolderIsExclusive(t *testing.T) {
	dir := folder(t)
	startPostgres(t, PostgresConfig{Dir: dir, Ephemeral: true})
	_, err := StartPostgres(t.Context(), PostgresConfig{Dir: dir, Ephemeral: true})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("locked by process %d", os.Getpid())) {
		t.Errorf("second start: %v", err)
	}
}

func TestPostgresTakesOverAStalePIDFile(t *testing.T) {
	dir := folder(t)
	p := startPostgres(t, PostgresConfig{Dir: dir})
	data := query[string](t, p.URL(), "SHOW data_directory")
	remember(t, p.URL())
	stopped(t, p)
	other := startPostgres(t, PostgresConfig{Dir: folder(t), Ephemeral: true})
	// The number of a server of before a reboot belongs to another program now: this one, or another Postgres.
	for _, pid := range []int{os.Getpid(), other.PID()} {
		content := fmt.Sprintf("%d\n%s\n1700000000\n%s\n%s\n\n%9d %9d\nready   \n", pid, data, pgPort, other.sock, 1, 1)
		if err := os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		p = startPostgres(t, PostgresConfig{Dir: dir})
		remembers(t, p.URL())
		stopped(t, p)
	}
	var notOurs *notOursError
	if err := pgReady(t.Context(), other.sock, data); !errors.As(err, &notOurs) {
		t.Errorf("a server on other data passes for ours: %v", err)
	}
}

func TestPostgresHalfMadeDataIsCleared(t *testing.T) {
	dir := folder(t)
	at, err := choosePlace(dir)
	if err != nil {
		t.Fatal(err)
	}
	half := at.data() + ".new-half"
	if err := os.MkdirAll(filepath.Join(half, "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	startPostgres(t, PostgresConfig{Dir: dir, Ephemeral: true})
	if fileExists(half) {
		t.Error("the half is still there")
	}
}
