package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	nobody = 65534
	// asNobody tells the tests that they are the second run, as an ordinary user.
	asNobody = "SANDBOX_TESTS_AS_NOBODY"
)

// TestMain keeps the folders of the runners that tests share.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range shared {
		s.close()
	}
	os.Exit(code)
}

// missing skips a test for want of a program, or fails it where skipping is forbidden.
func missing(t testing.TB, what, install string) {
	t.Helper()
	if os.Getenv("SIGHTLINE_NO_SKIP") == "1" {
		t.Fatalf("this test needs %s: %s", what, install)
	}
	t.Skipf("this test needs %s: %s (set SIGHTLINE_NO_SKIP=1 to fail instead)", what, install)
}

func needProgram(t testing.TB, name, install string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		missing(t, name, install)
	}
}

// tempDir makes a folder that every user may enter: testing's own are closed to whom commands run as.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := openFolderFor("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cleared(t, dir) })
	return dir
}

func openFolderFor(name string) (string, error) {
	dir, err := os.MkdirTemp("", "sandbox"+name)
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	return dir, err
}

func cleared(t testing.TB, dir string) {
	t.Helper()
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		t.Error(err)
		return
	}
	defer parent.Close()
	if err := removeTree(parent, filepath.Base(dir)); err != nil {
		t.Error(err)
	}
}

// A sharedRunner is proved once for all tests of a driver.
type sharedRunner struct {
	once sync.Once
	dir  string
	r    *Runner
	err  error
}

var shared = map[Kind]*sharedRunner{Bubblewrap: {}, Landlock: {}}

func (s *sharedRunner) close() {
	if s.r != nil {
		s.r.Close()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// proved is a runner that passed its canaries. A machine without the driver's needs skips the test.
func proved(t testing.TB, k Kind) *Runner {
	t.Helper()
	s := shared[k]
	s.once.Do(func() {
		if s.dir, s.err = openFolderFor(string(k)); s.err == nil {
			s.r, s.err = New(t.Context(), Config{Root: filepath.Join(s.dir, "root"), Driver: k})
		}
	})
	unavailable(t, s.err)
	return s.r
}

func unavailable(t testing.TB, err error) {
	t.Helper()
	var u *Unavailable
	if errors.As(err, &u) && len(u.Checks) == 0 {
		if u.Driver == Landlock { // the kernel's, which nobody can install
			t.Skip(u.Error())
		}
		missing(t, "the "+string(u.Driver)+" driver", u.Error()+". "+u.Fix)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// limited is a runner with limits of its own, not proved again.
func limited(t testing.TB, k Kind, l Limits) *Runner {
	t.Helper()
	proved(t, k)
	r, err := newRunner(Config{Root: filepath.Join(tempDir(t), "root"), Driver: k, Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if r.drv, err = r.driver(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// idle is a runner whose driver can't run anything, for what needs no command.
func idle(t testing.TB, root string, l Limits) *Runner {
	t.Helper()
	r, err := newRunner(Config{Root: root, Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	r.drv = noDriver{}
	return r
}

var runs struct {
	sync.Mutex
	n int
}

func workspace(t testing.TB, r *Runner) *Workspace {
	t.Helper()
	runs.Lock()
	runs.n++
	id := ID{Agent: "agent", Conversation: fmt.Sprint(t.Name(), runs.n), Run: "run"}
	runs.Unlock()
	w, err := r.Workspace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func run(t testing.TB, w *Workspace, command string) Result {
	t.Helper()
	res, err := w.Exec(t.Context(), command, 0)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return res
}

func put(t testing.TB, w *Workspace, name, content string) Imported {
	t.Helper()
	got, err := w.Import(t.Context(), name, strings.NewReader(content), 0)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// wantRefused is the shape of every refusal: a kind, and two different sentences.
func wantRefused(t testing.TB, err error, kind error) {
	t.Helper()
	var r *Refused
	if !errors.As(err, &r) || !errors.Is(err, kind) {
		t.Errorf("got %v, want a refusal: %v", err, kind)
		return
	}
	if r.Person == "" || r.Operator == "" || r.Person == r.Operator {
		t.Errorf("the refusal has no two sentences: %+v", r)
	}
}

// until waits for something that happens soon.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("did not happen: %s", what)
}

// TestAsOrdinaryUser runs all the others again as a user without any rights.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getenv(asNobody) != "" {
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("these tests run as an ordinary user already; to run them as root, too, start them as root")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "tests")
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(copied, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), copied, "-test.v", "-test.timeout=3m", "-test.run=.")
	cmd.Dir = dir
	cmd.Env = []string{asNobody + "=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=/", "SIGHTLINE_NO_SKIP=" + os.Getenv("SIGHTLINE_NO_SKIP")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{}}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as nobody: %v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("--- PASS: TestEscapes/bubblewrap")) && !bytes.Contains(out, []byte("--- SKIP: TestEscapes/bubblewrap")) {
		t.Errorf("as nobody, the escapes were not tried:\n%s", out)
	}
	t.Logf("%d tests passed as nobody", bytes.Count(out, []byte("--- PASS:")))
}
