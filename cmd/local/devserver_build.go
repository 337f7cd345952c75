package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// buildDevserver puts a devserver at path, from the sources with the Go toolchain. Of several processes that want one,
// one builds.
func buildDevserver(ctx context.Context, path string, say Progress) error {
	missing := &MissingError{Service: "Temporal server", Ways: []string{
		"start Sightline in its checkout, with Go installed (https://go.dev/dl), to build one once",
		"install the Temporal CLI (https://docs.temporal.io/cli)",
		"set TEMPORAL_ADDRESS to a server of yours",
	}}
	src, why := devserverSources()
	if src == "" {
		missing.Tried = why
		return missing
	}
	tool, err := goTool()
	if err != nil {
		missing.Tried = []string{err.Error()}
		return missing
	}
	lock, err := waitLock(ctx, path+".lock", func(pid int) {
		say.say("waiting for process %d to build the local Temporal server", pid)
	})
	if err != nil {
		return fmt.Errorf("build devserver: %w", err)
	}
	defer lock.release()
	if usable(path) {
		return nil // built while we waited
	}
	b := goBuild{tool: tool, src: src, say: say, start: time.Now()}
	if err := b.run(ctx, path); err != nil {
		return fmt.Errorf("build devserver: %w", err)
	}
	dropUnused(path)
	return nil
}

// usualGo is where Go's own installer puts it, and PATH often forgets it.
var usualGo = "/usr/local/go/bin/go"

func goTool() (string, error) {
	if path, err := exec.LookPath("go"); err == nil {
		return filepath.Abs(path)
	}
	if _, err := os.Stat(usualGo); err != nil {
		return "", errors.New("the go command is not on PATH")
	}
	return usualGo, nil
}

type goBuild struct {
	tool, src string
	say       Progress
	start     time.Time

	loaded, compiled, total atomic.Int64
}

func (b *goBuild) run(ctx context.Context, path string) error {
	b.say.say("building the local Temporal server, once; this takes some minutes")
	stop := b.report(ctx)
	defer stop()
	// Listing the packages downloads them, and says how many there are to compile.
	list, err := b.command(ctx, &b.loaded, "list", "-mod=readonly", "-deps", ".")
	if err != nil {
		return err
	}
	b.total.Store(int64(bytes.Count(list, []byte{'\n'})))
	tmp, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "devserver")
	if _, err := b.command(ctx, &b.compiled, "build", "-mod=readonly", "-buildvcs=false", "-ldflags=-s -w", "-v", "-o", out, "."); err != nil {
		return err
	}
	if err := os.Rename(out, path); err != nil {
		return err
	}
	b.say.say("built the local Temporal server in %s", time.Since(b.start).Round(time.Second))
	return nil
}

// command runs the Go tool and counts its lines on stderr, one for each package as it gets to it.
func (b *goBuild) command(ctx context.Context, count *atomic.Int64, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.tool, args...)
	cmd.Dir = b.src
	// Neither a workspace nor flags of the surrounding project are meant for this module.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "GOFLAGS=") || strings.HasPrefix(kv, "GOWORK=") ||
			strings.HasPrefix(kv, "GOOS=") || strings.HasPrefix(kv, "GOARCH=") || strings.HasPrefix(kv, "PWD=")
	}), "GOFLAGS=", "GOWORK=off", "PWD="+b.src)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	r, w := io.Pipe()
	cmd.Stderr = w
	last := make(chan string, 1)
	go func() { last <- countLines(r, count) }()
	err := cmd.Run()
	w.Close()
	said := <-last
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, said)
	}
	return out.Bytes(), nil
}

// countLines reads to the end and answers the last lines.
func countLines(r io.Reader, count *atomic.Int64) string {
	var last []string
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		count.Add(1)
		if last = append(last, s.Text()); len(last) > 8 {
			last = last[1:]
		}
	}
	_, _ = io.Copy(io.Discard, r) // the rest of a line too long to scan: the tool must not block
	return strings.Join(last, " | ")
}

// report says every so often how far the build is, until stop.
func (b *goBuild) report(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep(ctx, 10*time.Second) == nil {
			took := time.Since(b.start).Round(time.Second)
			switch compiled, fetched := b.compiled.Load(), b.loaded.Load(); {
			case compiled > 0:
				b.say.say("building the local Temporal server: %d of at most %d packages, %s", compiled, b.total.Load(), took)
			case fetched > 0:
				b.say.say("building the local Temporal server: %d modules fetched, %s", fetched, took)
			default:
				b.say.say("building the local Temporal server: %s", took)
			}
		}
	}()
	return func() { cancel(); <-done }
}
