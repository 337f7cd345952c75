package local

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
)

// fakeGo puts a go tool on PATH that runs script, with the output's path as $out when it builds.
func fakeGo(t *testing.T, script string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	text := fmt.Sprintf(`#!/bin/sh
echo "$1" >> '%s'
[ "$1" = list ] && { echo one; echo two; exit 0; }
for a; do [ "$prev" = -o ] && out=$a; prev=$a; done
echo some/package >&2
%s
`, log, script)
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return func() string {
		b, _ := os.ReadFile(log)
		return strings.Join(strings.Fields(string(b)), " ")
	}
}

func TestOfTwoBuildersOneBuilds(t *testing.T) {
	calls := fakeGo(t, `sleep 0.3; printf '#!/bin/sh\n' > "$out"; chmod 755 "$out"`)
	path := filepath.Join(t.TempDir(), "devserver-test")
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := buildDevserver(t.Context(), path, t.Logf); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := calls(); got != "list build" {
		t.Errorf("the go tool was called for: %s", got)
	}
	if !usable(path) {
		t.Error("there is no devserver")
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "build-*"))
	if left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestBuildThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	fakeGo(t, `echo "x.go:1: it is broken" >&2; exit 1`)
	path := filepath.Join(t.TempDir(), "devserver-test")
	err := buildDevserver(t.Context(), path, nil)
	if err == nil || !strings.Contains(err.Error(), "it is broken") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	if fileExists(path) {
		t.Error("there is a devserver")
	}
}

func TestBuildIsInterruptible(t *testing.T) {
	fakeGo(t, `exec sleep 60`)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := buildDevserver(ctx, filepath.Join(t.TempDir(), "devserver-test"), nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestMissingTemporalNamesTheWaysOut(t *testing.T) {
	nowhere(t)
	_, err := StartTemporal(t.Context(), TemporalConfig{Dir: t.TempDir(), UIAddr: "off"})
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	for _, want := range []string{"go command is not on PATH", "TEMPORAL_ADDRESS", "Temporal CLI", "go.dev"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q does not say %q in one line", err, want)
		}
	}
}

func TestSourcesOfSomebodyElseAreNotBuilt(t *testing.T) {
	was := devserverSum
	t.Cleanup(func() { devserverSum = was })
	if dir, why := devserverSources(); dir == "" {
		t.Fatalf("our own sources are not found: %v", why)
	}
	devserverSum = strings.Repeat("0", 64)
	dir, why := devserverSources()
	if dir != "" {
		t.Fatalf("sources in %s pass for ours", dir)
	}
	if !strings.Contains(strings.Join(why, " "), "-update") {
		t.Errorf("it does not say what to do after a change: %v", why)
	}
}

func TestUnusedDevserversAreDropped(t *testing.T) {
	dir := t.TempDir()
	old, young, keep := filepath.Join(dir, "devserver-old"), filepath.Join(dir, "devserver-young"), filepath.Join(dir, "devserver-keep")
	for _, path := range []string{old, young, keep} {
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ago := time.Now().Add(-60 * 24 * time.Hour)
	for _, path := range []string{old, keep} {
		if err := os.Chtimes(path, ago, ago); err != nil {
			t.Fatal(err)
		}
	}
	dropUnused(keep)
	if fileExists(old) || !fileExists(young) || !fileExists(keep) {
		t.Errorf("old %v, young %v, kept %v", fileExists(old), fileExists(young), fileExists(keep))
	}
}
