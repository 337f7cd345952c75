package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A fileLock is an advisory lock that the kernel releases when the process ends, however it ends. The file holds the
// holder's process ID, for people and for messages; the lock, not the file, is what counts.
type fileLock struct{ f *os.File }

// errLocked carries the process ID of the holder, 0 if it cannot be read.
type errLocked struct {
	path string
	pid  int
}

func (e *errLocked) Error() string {
	if e.pid > 0 {
		return fmt.Sprintf("%s is locked by process %d", e.path, e.pid)
	}
	return e.path + " is locked by another process"
}

// tryLock takes the lock at path or fails at once with *errLocked.
func tryLock(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, &errLocked{path: path, pid: readPID(f)}
	}
	l := &fileLock{f: f}
	if err := l.setPID(os.Getpid()); err != nil {
		f.Close()
		return nil, fmt.Errorf("write lock %s: %w", path, err)
	}
	return l, nil
}

func (l *fileLock) setPID(pid int) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}

// waitLock retries tryLock until it has the lock or ctx ends; waiting runs once, when it turns out that it must wait.
func waitLock(ctx context.Context, path string, waiting func(pid int)) (*fileLock, error) {
	for first := true; ; first = false {
		l, err := tryLock(path)
		var held *errLocked
		if !errors.As(err, &held) {
			return l, err
		}
		if first && waiting != nil {
			waiting(held.pid)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", held, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// release keeps the file: removing a lock file would let two processes lock two files of the same name.
func (l *fileLock) release() error {
	if l == nil || l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func readPID(f *os.File) int {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}
