package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRemoveWaitsAndIsFinal(t *testing.T) {
	r := idle(t, filepath.Join(tempDir(t), "root"), Limits{})
	inside, leave := make(chan struct{}), make(chan struct{})
	r.drv = scripted{body: func(job, <-chan struct{}) (exit, error) { close(inside); <-leave; return exit{code: 7}, nil }}
	w := workspace(t, r)
	put(t, w, Inside+"/deep/file", "x")
	ran := make(chan error)
	go func() {
		res, err := w.Exec(t.Context(), "x", 0)
		if res.ExitCode != 7 {
			err = errors.Join(err, fmt.Errorf("got %+v", res))
		}
		ran <- err
	}()
	<-inside
	removed := make(chan error)
	go func() { removed <- w.Remove(t.Context()) }()
	select {
	case err := <-removed:
		t.Fatalf("removed under a running command: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	if err := w.Remove(t.Context()); err != nil {
		t.Errorf("removing it again: %v", err)
	}
	_, err := w.Exec(t.Context(), "x", 0)
	wantRefused(t, err, ErrGone)
	_, err = w.Import(t.Context(), Inside+"/x", strings.NewReader("x"), 0)
	wantRefused(t, err, ErrGone)
	if list, err := os.ReadDir(r.cfg.Root); err != nil || len(list) != 0 {
		t.Errorf("left: %v %v", list, err)
	}
}

// TestRemoveRaces removes folders while somebody swaps them for links to what must stay.
func TestRemoveRaces(t *testing.T) {
	dir := tempDir(t)
	keep := filepath.Join(dir, "keep")
	if err := os.MkdirAll(filepath.Join(keep, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(keep, fmt.Sprint("file", i)), []byte("keep"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	parent, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	for range 20 {
		tree := filepath.Join(dir, "tree")
		for i := range 20 {
			if err := os.MkdirAll(filepath.Join(tree, fmt.Sprint("d", i), "sub"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				d := filepath.Join(tree, fmt.Sprint("d", i%20))
				_ = os.Rename(d, d+"x")
				_ = os.Symlink(keep, d)
				_ = os.Remove(d)
				_ = os.Rename(d+"x", d)
			}
		})
		err := removeTree(parent, "tree")
		close(stop)
		wg.Wait()
		if err != nil && !strings.Contains(err.Error(), "filled as fast") {
			t.Fatal(err)
		}
		if err := removeTree(parent, "tree"); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := os.ReadDir(keep); err != nil || len(list) != 51 {
		t.Errorf("the folder outside holds %d entries, %v", len(list), err)
	}
}

// TestRemoveStubborn removes what a command can leave to make removing hard.
func TestRemoveStubborn(t *testing.T) {
	r := idle(t, filepath.Join(tempDir(t), "root"), Limits{})
	w := workspace(t, r)
	top, err := os.OpenRoot(files(r, w))
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	if err := top.MkdirAll("closed/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, w, Inside+"/closed/sub/file", "x")
	for _, p := range []string{"closed/sub", "closed"} {
		if err := top.Chmod(p, 0); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := w.List(t.Context(), true); err != nil || len(list) != 3 {
		t.Errorf("closed folders were not listed: %+v %v", list, err)
	}
	if err := top.Chmod("closed", 0o400); err != nil { // can be listed, but nothing in it looked at
		t.Fatal(err)
	}
	at := top
	for range 300 {
		if err := at.Mkdir("d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot("d")
		if err != nil {
			t.Fatal(err)
		}
		if at != top {
			at.Close()
		}
		at = next
	}
	at.Close()
	_, err = w.List(t.Context(), false)
	wantRefused(t, err, ErrQuota)
	if err := w.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(r.cfg.Root); err != nil || len(list) != 0 {
		t.Errorf("left: %v %v", list, err)
	}
}
