package local

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPostgresSocketOfALongPath(t *testing.T) {
	dir := filepath.Join(folder(t), strings.Repeat("long-", 20), strings.Repeat("path-", 20))
	p := startPostgres(t, PostgresConfig{Dir: dir, Ephemeral: true})
	remember(t, p.URL())
	if n := len(socketPath(p.sock)); n > 103 {
		t.Errorf("the socket's path has %d bytes", n)
	}
	stopped(t, p)
	if fileExists(p.sock) {
		t.Errorf("%s was left", p.sock)
	}
}

func TestPostgresFolderWithOddName(t *testing.T) {
	dir := filepath.Join(folder(t), `a, "b" c's ?&#%20`)
	p := startPostgres(t, PostgresConfig{Dir: dir, Ephemeral: true})
	remember(t, p.URL())
	remembers(t, p.URL())
}

// A home directory of root cannot be entered by the user that Postgres runs as.
func TestPostgresUnderRootInAPrivateDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this test is about root")
	}
	private := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(private, "postgres")
	p := startPostgres(t, PostgresConfig{Dir: dir})
	remember(t, p.URL())
	base, err := filepath.EvalSymlinks(filepath.Join(dir, "server"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if strings.HasPrefix(base, private) {
		t.Errorf("its data is in %s", base)
	}
	info, err := os.Stat(base)
	if err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Errorf("%s: %v, %v", base, info, err)
	}
	stopped(t, p)
	p = startPostgres(t, PostgresConfig{Dir: dir})
	remembers(t, p.URL())
	stopped(t, p)

	// With the folder gone, there is nothing to follow the link to.
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	startPostgres(t, PostgresConfig{Dir: dir})
}

func TestServerFolderOfSomebodyElseIsRefused(t *testing.T) {
	dir := filepath.Join(folder(t), "trap")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := mkOwned(dir, nil); err == nil {
		t.Error("a folder that others can enter was accepted")
	}
	link := filepath.Join(folder(t), "link")
	if err := os.Symlink(folder(t), link); err != nil {
		t.Fatal(err)
	}
	if err := mkOwned(link, nil); err == nil {
		t.Error("a link was accepted")
	}
}

// asNobody runs the child as an ordinary user, from a copy that this user can reach.
func asNobody(t *testing.T, home string) func(*exec.Cmd) {
	t.Helper()
	src, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	binary := filepath.Join(home, "test")
	dst, err := os.OpenFile(binary, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close(), os.Chown(home, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	return func(c *exec.Cmd) {
		c.Path, c.Args[0], c.Dir = binary, binary, home
		c.Env = append(c.Env, "HOME="+home, "TMPDIR="+home)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
}

func TestPostgresAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("every other test runs as an ordinary user already")
	}
	needPostgres(t)
	home := folder(t)
	as := asNobody(t, home)
	dir := filepath.Join(home, "state", "postgres")
	child := hold(t, "postgres", dir, as)
	child.kill(t)
	second := hold(t, "postgres", dir, as)
	if second.Server != child.Server {
		t.Error("it was not adopted")
	}
	second.stop(t)
	if alive(second.Server) {
		t.Error("it does not end")
	}
}

func TestEphemeralPostgresEndsWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent died; elsewhere Sweep ends it")
	}
	needPostgres(t)
	dir := filepath.Join(folder(t), "ephemeral")
	child := hold(t, "ephemeral", dir)
	if err := Sweep(dir); err == nil {
		t.Fatal("a folder in use was swept")
	}
	child.kill(t)
	within(t, 10*time.Second, "the server ends", func() bool { return !alive(child.Server) })
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is still there")
	}
}

func TestSweepEndsAServerThatOutlivedItsParent(t *testing.T) {
	needPostgres(t)
	dir := filepath.Join(folder(t), "left")
	child := hold(t, "postgres", dir)
	child.kill(t)
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	if alive(child.Server) {
		t.Error("the server is still there")
	}
}

func TestSweepRefusesWhatIsNotAService(t *testing.T) {
	dir := filepath.Join(folder(t), "dear")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(dir); err == nil || !fileExists(filepath.Join(dir, "letter")) {
		t.Errorf("a folder of letters: %v", err)
	}
	// A service's folder that names another's as its server's.
	left := filepath.Join(folder(t), "left")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(left, "server")); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(left); err != nil || fileExists(left) || !fileExists(filepath.Join(dir, "letter")) {
		t.Errorf("a folder that links to letters: %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "letter")); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(dir); err == nil {
		t.Error("a folder that others can change was swept")
	}
}
