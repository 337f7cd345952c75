package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

func files(r *Runner, w *Workspace) string { return filepath.Join(r.cfg.Root, w.id.folder(), "files") }

func TestImportRefuses(t *testing.T) {
	r := idle(t, filepath.Join(tempDir(t), "root"), Limits{Workspace: 1 << 20, File: 1 << 20, Entries: 16})
	w := workspace(t, r)
	read := 0
	content := func() io.Reader { return iotest.DataErrReader(countReader{strings.NewReader("x"), &read}) }
	for _, p := range []string{"", "x", "workspace/x", "/x", "/", Inside, Inside + "/", Inside + "/a/", "/workspace2/x", "/workspacex", Inside + "/../x",
		Inside + "/a/../x", Inside + "/..", "/../workspace/x", Inside + "/a\x00b", Inside + "/\xff", Inside + "/" + strings.Repeat("a", 256),
		Inside + strings.Repeat("/a", maxDepth+1), Inside + "/" + strings.Repeat("a/", 600)} {
		_, err := w.Import(t.Context(), p, content(), 0)
		wantRefused(t, err, ErrPath)
		_, err = w.View(t.Context(), p, 0)
		if !errors.Is(err, ErrPath) && !errors.Is(err, ErrKind) && !errors.Is(err, ErrNotFound) {
			t.Errorf("view %q: %v", p, err)
		}
	}
	put(t, w, Inside+"/dir/file", "x")
	_, err := w.Import(t.Context(), Inside+"/dir", content(), 0)
	wantRefused(t, err, ErrKind)
	_, err = w.Import(t.Context(), Inside+"/dir/file/below", content(), 0)
	wantRefused(t, err, ErrKind)
	if read != 0 {
		t.Errorf("%d bytes were read of what was refused by its path", read)
	}

	_, err = w.Import(t.Context(), Inside+"/new/big", strings.NewReader("12345"), 4)
	wantRefused(t, err, ErrTooLarge)
	_, err = w.Import(t.Context(), Inside+"/new/big", bytes.NewReader(make([]byte, 1<<20+1)), 0)
	wantRefused(t, err, ErrTooLarge) // the limit of a file is under that of an import
	put(t, w, Inside+"/half", strings.Repeat("x", 700_000))
	_, err = w.Import(t.Context(), Inside+"/new/half", strings.NewReader(strings.Repeat("x", 700_000)), 0)
	wantRefused(t, err, ErrQuota)
	if got := put(t, w, Inside+"/half", strings.Repeat("y", 800_000)); !got.Replaced { // what is replaced makes room
		t.Errorf("got %+v", got)
	}
	_, err = w.Import(t.Context(), Inside+strings.Repeat("/d", 14), content(), 0)
	wantRefused(t, err, ErrQuota)
	if _, err := os.Lstat(files(r, w) + "/new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused import made folders: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(filepath.Dir(files(r, w)), "stage")); err != nil || len(left) > 0 {
		t.Errorf("staged files were left: %v %v", left, err)
	}
}

type countReader struct {
	r io.Reader
	n *int
}

func (c countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	*c.n += n
	return n, err
}

func TestImportIsWholeOrNotAtAll(t *testing.T) {
	r := idle(t, filepath.Join(tempDir(t), "root"), Limits{})
	w := workspace(t, r)
	name := Inside + "/a/file"
	put(t, w, name, "old")
	broken := errors.New("broken")
	_, err := w.Import(t.Context(), name, io.MultiReader(strings.NewReader("new"), iotest.ErrReader(broken)), 0)
	if !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = w.Import(ctx, name, io.MultiReader(strings.NewReader("new"), readerFunc(func([]byte) (int, error) { cancel(); return 1, nil })), 0)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// While new content arrives, the old is all there.
	halfway := readerFunc(func([]byte) (int, error) {
		body, err := os.ReadFile(files(r, w) + "/a/file")
		if err != nil || string(body) != "old" {
			t.Errorf("in between there is %q, %v", body, err)
		}
		return 0, io.EOF
	})
	got, err := w.Import(t.Context(), name, io.MultiReader(strings.NewReader("new"), halfway), 0)
	if err != nil || !got.Replaced {
		t.Fatalf("got %+v, %v", got, err)
	}
	seen, err := w.View(t.Context(), name, 3)
	if err != nil || string(seen.Bytes) != "new" || seen.SHA256 != got.SHA256 || seen.Path != name {
		t.Errorf("got %+v, %v", seen, err)
	}
	_, err = w.View(t.Context(), name, 2)
	wantRefused(t, err, ErrTooLarge)
	_, err = w.View(t.Context(), Inside+"/a/none", 0)
	wantRefused(t, err, ErrNotFound)
	_, err = w.View(t.Context(), Inside+"/none/none", 0)
	wantRefused(t, err, ErrNotFound)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestDeleteCopies(t *testing.T) {
	r := idle(t, filepath.Join(tempDir(t), "root"), Limits{})
	w := workspace(t, r)
	source := put(t, w, Inside+"/source", "the same")
	put(t, w, Inside+"/deep/moved", "the same")
	put(t, w, Inside+"/other", "another")
	if err := os.Link(files(r, w)+"/source", files(r, w)+"/linked"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(files(r, w)+"/deep/moved", 0); err != nil {
		t.Fatal(err)
	}
	got, err := w.DeleteCopies(t.Context(), source.SHA256)
	if want := []string{Inside + "/deep/moved", Inside + "/linked", Inside + "/source"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("deleted %v (%v), want %v", got, err, want)
	}
	list, err := w.List(t.Context(), false)
	if err != nil || len(list) != 2 || list[1].Path != Inside+"/other" || list[1].SHA256 != "" {
		t.Errorf("left: %+v, %v", list, err)
	}
	if err := w.Delete(t.Context(), Inside+"/other"); err != nil {
		t.Error(err)
	}
	wantRefused(t, w.Delete(t.Context(), Inside+"/other"), ErrNotFound)
	wantRefused(t, w.Delete(t.Context(), Inside+"/deep"), ErrKind)
	wantRefused(t, w.Delete(t.Context(), Inside), ErrKind)
}

func TestWorkspacesAreApart(t *testing.T) {
	r := idle(t, filepath.Join(tempDir(t), "root"), Limits{})
	ids := []ID{{"a", "b", "c"}, {"a", "b", "d"}, {"a", "bc", "d"}, {"ab", "c", "d"}, {"../a", "/etc", ".."}}
	for _, id := range ids {
		w, err := r.Workspace(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		put(t, w, Inside+"/id", fmt.Sprint(id))
	}
	for _, id := range ids {
		w, err := r.Find(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if seen, err := w.View(t.Context(), Inside+"/id", 0); err != nil || string(seen.Bytes) != fmt.Sprint(id) {
			t.Errorf("%v: %q %v", id, seen.Bytes, err)
		}
	}
	if all, err := r.Workspaces(); err != nil || len(all) != len(ids) {
		t.Errorf("listed %v, %v", all, err)
	}
	if list, err := os.ReadDir(r.cfg.Root); err != nil || len(list) != len(ids) {
		t.Errorf("the root holds %v, %v", list, err)
	}
	for _, id := range []ID{{}, {Agent: "a", Conversation: "b"}} {
		if _, err := r.Workspace(t.Context(), id); err == nil {
			t.Errorf("made a workspace for %+v", id)
		}
		if _, err := r.Find(t.Context(), id); err == nil {
			t.Errorf("found a workspace for %+v", id)
		}
	}
	_, err := r.Find(t.Context(), ID{"x", "y", "z"})
	wantRefused(t, err, ErrGone)
}

// TestOneAtATime holds the conversation with one command and lets others come in a known order.
func TestOneAtATime(t *testing.T) {
	r := idle(t, filepath.Join(tempDir(t), "root"), Limits{})
	var mu sync.Mutex
	var order []string
	go1 := make(chan struct{})
	r.drv = scripted{body: func(j job, killed <-chan struct{}) (exit, error) {
		mu.Lock()
		order = append(order, j.command)
		mu.Unlock()
		if j.command == "first" {
			<-go1
		}
		return exit{}, nil
	}}
	w, err := r.Workspace(t.Context(), ID{"a", "c", "1"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.Workspace(t.Context(), ID{"a", "c", "2"}) // another run of the same conversation
	if err != nil {
		t.Fatal(err)
	}
	free, err := r.Workspace(t.Context(), ID{"a", "d", "1"})
	if err != nil {
		t.Fatal(err)
	}
	waiting := func(n int) func() bool {
		return func() bool {
			r.queues.mu.Lock()
			defer r.queues.mu.Unlock()
			q := r.queues.m[w.id.queue()]
			return q != nil && q.users == n
		}
	}
	var wg sync.WaitGroup
	begin := func(w *Workspace, command string) {
		wg.Go(func() {
			if _, err := w.Exec(t.Context(), command, 0); err != nil {
				t.Error(err)
			}
		})
	}
	begin(w, "first")
	until(t, "the first runs", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == 1 })
	begin(other, "second")
	until(t, "the second waits", waiting(2))
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() { _, err := w.Exec(ctx, "gave up", 0); gaveUp <- err }()
	until(t, "the third waits", waiting(3))
	begin(w, "fourth")
	until(t, "the fourth waits", waiting(4))
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting ended with %v", err)
	}
	begin(free, "free") // nobody waits for another conversation
	until(t, "another conversation runs", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == 2 })
	close(go1)
	wg.Wait()
	if want := []string{"first", "free", "second", "fourth"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if len(r.queues.m) != 0 {
		t.Errorf("queues were left: %v", r.queues.m)
	}
}

// TestTwoProcesses is two runners with one root, as two processes of the service have.
func TestTwoProcesses(t *testing.T) {
	root := filepath.Join(tempDir(t), "root")
	a, b := idle(t, root, Limits{}), idle(t, root, Limits{})
	id := ID{"a", "b", "c"}
	wa, err := a.Workspace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	wb, err := b.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	inside, leave := make(chan struct{}), make(chan struct{})
	a.drv = scripted{body: func(job, <-chan struct{}) (exit, error) { close(inside); <-leave; return exit{}, nil }}
	done := make(chan error)
	go func() { _, err := wa.Exec(t.Context(), "x", 0); done <- err }()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := wb.Import(ctx, Inside+"/x", strings.NewReader("x"), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the other process was let in: %v", err)
	}
	if got, err := b.Sweep(t.Context(), Sweep{MaxAge: time.Nanosecond}); err != nil || got.Busy != 1 || len(got.Removed) != 0 {
		t.Errorf("a workspace in use was swept: %+v %v", got, err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	put(t, wb, Inside+"/x", "x")
}

func TestSweep(t *testing.T) {
	root := filepath.Join(tempDir(t), "root")
	r := idle(t, root, Limits{})
	make1 := func(run string, age time.Duration) *Workspace {
		w, err := r.Workspace(t.Context(), ID{"a", "b", run})
		if err != nil {
			t.Fatal(err)
		}
		put(t, w, Inside+"/x", "x")
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(root, w.id.folder()), at, at); err != nil {
			t.Fatal(err)
		}
		return w
	}
	old, young, over := make1("old", 25*time.Hour), make1("young", 23*time.Hour), make1("over", 0)
	// What crashes leave: a removal and an import in the middle, a folder without an id, and one with somebody else's.
	for _, dir := range []string{"t-half/files/x", "w-noid/files", "w-wrong/files", "w-justmade"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "w-wrong/id"), []byte(`{"agent":"a","conversation":"b","run":"young"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	stage := filepath.Join(root, young.id.folder(), "stage", "half")
	if err := os.WriteFile(stage, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"w-noid", "w-wrong"} {
		at := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(root, dir), at, at); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Add(-23 * time.Hour) // staging touched nothing but its own folder
	if err := os.Chtimes(filepath.Join(root, young.id.folder()), at, at); err != nil {
		t.Fatal(err)
	}
	got, err := r.Sweep(t.Context(), Sweep{Live: func(id ID) bool { return id.Run != "over" }})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got.Removed, func(a, b ID) int { return strings.Compare(a.Run, b.Run) })
	if want := []ID{old.id, over.id}; !slices.Equal(got.Removed, want) || got.Leavings != 4 || got.Busy != 0 {
		t.Errorf("swept %+v, want %v and 4 leavings", got, want)
	}
	list, err := os.ReadDir(root)
	if err != nil || len(list) != 2 {
		t.Errorf("left: %v %v", list, err)
	}
	if _, err := os.Stat(stage); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a half import was left: %v", err)
	}
	if seen, err := young.View(t.Context(), Inside+"/x", 0); err != nil || string(seen.Bytes) != "x" {
		t.Errorf("a live workspace was harmed: %v", err)
	}
	_, err = old.View(t.Context(), Inside+"/x", 0)
	wantRefused(t, err, ErrGone)
}

func TestConfig(t *testing.T) {
	dir := tempDir(t)
	writable := filepath.Join(dir, "writable")
	if err := os.Mkdir(writable, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(writable, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{
		"relative root":  {Root: "x"},
		"no root":        {},
		"writable root":  {Root: writable},
		"unknown driver": {Root: dir + "/x", Driver: "chroot"},
		"tiny memory":    {Root: dir + "/x", Limits: Limits{Memory: 1}},
		"negative wall":  {Root: dir + "/x", Limits: Limits{Wall: -1}},
		"negative uid":   {Root: dir + "/x", UID: -5},
	} {
		r, err := New(t.Context(), cfg)
		var u *Unavailable
		if err == nil || r != nil || errors.As(err, &u) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got := (Limits{}).filled(); got != DefaultLimits() {
		t.Errorf("defaults are %+v", got)
	}
}
