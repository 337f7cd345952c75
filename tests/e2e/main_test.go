package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sightline/cmd/local/testenv"
	"sightline/cmd/service"
)

// Variables by which the test tells its child what to do.
const (
	childVar    = "SIGHTLINE_TEST_CHILD"
	crashVar    = "SIGHTLINE_TEST_CRASH" // boundary, or boundary#n for its nth time
	boundaryVar = "SIGHTLINE_TEST_BOUNDARIES"
	pdfVar      = "SIGHTLINE_TEST_PDF" // folder of the compiled PDF engine
	armVar      = "SIGHTLINE_TEST_ARM" // a file that says what crashVar would, and may change
)

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(child())
	}
	os.Exit(testenv.Main(m))
}

// child is the program with a hook at its boundaries.
func child() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The child ends with its test, however that ends.
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		stop()
	}()
	err := service.Run(ctx, service.Options{
		Stderr:   os.Stderr,
		PDFCache: os.Getenv(pdfVar),
		At:       boundaries(os.Getenv(crashVar), os.Getenv(boundaryVar), os.Getenv(armVar)),
		Ready: func(r service.Running) {
			_ = json.NewEncoder(os.Stdout).Encode(r)
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "sightline:", err)
		return 1
	}
	return 0
}

// boundaries writes each boundary that is passed to a file, with the time, and kills the
// process at the chosen one: no deferred function runs, no buffer is flushed.
func boundaries(crash, file, arm string) func(string) {
	var name, spec string
	left := 0
	set := func(s string) {
		var nth string
		spec = s
		name, nth, _ = strings.Cut(s, "#")
		if left, _ = strconv.Atoi(nth); left == 0 {
			left = 1
		}
	}
	set(crash)
	var mu sync.Mutex
	var f *os.File
	if file != "" {
		f, _ = os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	return func(b string) {
		mu.Lock()
		defer mu.Unlock()
		if f != nil {
			fmt.Fprintln(f, b, time.Now().UnixNano())
		}
		if arm != "" {
			if now, err := os.ReadFile(arm); err == nil && string(now) != spec {
				set(string(now))
			}
		}
		if b != name {
			return
		}
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}
