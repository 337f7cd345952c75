package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/cmd/local"
)

// prefix names the folders of test services in the temporary directory.
const prefix = "sightline-test-"

// A shared service is started by the first test that wants it, and stopped by Main.
type shared[T interface{ Stop(context.Context) error }] struct {
	start func(ctx context.Context, dir string) (T, error)

	mu      sync.Mutex
	tried   bool
	service T
	dir     string
	err     error
}

func (s *shared[T]) get() (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried {
		return s.service, s.err
	}
	s.tried = true
	sweepOnce.Do(func() { sweep(time.Minute) })
	if s.dir, s.err = os.MkdirTemp("", prefix); s.err != nil {
		return s.service, s.err
	}
	// Postgres's own user passes through here when root runs the tests.
	if s.err = os.Chmod(s.dir, 0o711); s.err != nil {
		return s.service, s.err
	}
	s.service, s.err = s.start(context.Background(), s.dir)
	return s.service, s.err
}

func (s *shared[T]) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.tried && s.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = s.service.Stop(ctx)
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// Main runs a package's tests and then stops what they started. It answers the process's exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if err := errors.Join(postgres.stop(), temporal.stop()); err != nil {
		fmt.Fprintln(os.Stderr, "testenv: stop services:", err)
		if code == 0 {
			code = 1
		}
	}
	return code
}

// give ends the test if there is no service: a skip if it is not installed, and else a failure.
func give(t testing.TB, what string, err error) {
	t.Helper()
	var missing *local.MissingError
	switch {
	case err == nil:
	case errors.As(err, &missing) && os.Getenv("SIGHTLINE_NO_SKIP") != "1":
		t.Skipf("this test needs %s: %v (set SIGHTLINE_NO_SKIP=1 to fail instead)", what, err)
	default:
		t.Fatalf("testenv: %v", err)
	}
}

var sweepOnce sync.Once

// sweep removes what test processes that were killed left behind. A folder whose lock is taken is in use; one without a
// lock is left alone while it is younger than age, since its process may be about to take it.
func sweep(age time.Duration) {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < age {
			continue
		}
		_ = local.Sweep(dir) // best effort: the next run tries again
	}
}

func say(format string, args ...any) {
	fmt.Fprintln(os.Stderr, "testenv: "+strings.TrimSpace(fmt.Sprintf(format, args...)))
}
