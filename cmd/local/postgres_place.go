package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// A pgPlace is the server's own folder and the user it runs as; cred is nil when that is us.
type pgPlace struct {
	base string
	cred *syscall.Credential
}

func (p pgPlace) data() string { return filepath.Join(p.base, "data") }

// choosePlace answers the folder below dir where the server may live, or one elsewhere, linked from dir, when the
// server's user can't get to dir.
func choosePlace(dir string) (pgPlace, error) {
	link := filepath.Join(dir, "server")
	if os.Geteuid() != 0 {
		return pgPlace{base: link}, mkOwned(link, nil)
	}
	cred, err := serverUser()
	if err != nil {
		return pgPlace{}, err
	}
	base, err := filepath.EvalSymlinks(link)
	if errors.Is(err, fs.ErrNotExist) {
		base, err = newBase(dir, link, cred)
	}
	if err != nil {
		return pgPlace{}, fmt.Errorf("find server folder: %w", err)
	}
	// Data that is there already belongs to whoever made it, whichever user we would pick today.
	if info, err := os.Stat(filepath.Join(base, "data")); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			cred = &syscall.Credential{Uid: st.Uid, Gid: st.Gid}
		}
	}
	return pgPlace{base: base, cred: cred}, mkOwned(base, cred)
}

// basesElsewhere are where root keeps the folders that can't be below their state directory.
var basesElsewhere = []string{"/var/lib/sightline", "/var/tmp/sightline"}

func newBase(dir, link string, cred *syscall.Credential) (string, error) {
	// A link whose target is gone leads nowhere; the target held the data, and what is gone is made anew.
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if reachable(dir, cred) {
		return link, nil
	}
	sum := sha256.Sum256([]byte(dir))
	name := hex.EncodeToString(sum[:8])
	var failed error
	for _, parent := range basesElsewhere {
		if err := mkPublic(parent); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		base := filepath.Join(parent, name)
		if err := mkOwned(base, cred); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		return base, os.Symlink(base, link)
	}
	return "", failed
}

// serverUser is who Postgres runs as under root, since it refuses to run as root.
func serverUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("postgres cannot run as root, and there is neither a user postgres nor a user nobody: run as an ordinary user, or set DATABASE_URL")
}

// reachable reports whether cred may enter every folder down to dir, by the permission bits.
func reachable(dir string, cred *syscall.Credential) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for d := real; ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil {
			return false
		}
		need := os.FileMode(0o001)
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == cred.Uid {
			need = 0o100
		} else if ok && st.Gid == cred.Gid {
			need = 0o010
		}
		if info.Mode().Perm()&need == 0 {
			return false
		}
		if d == filepath.Dir(d) {
			return true
		}
	}
}

// mkOwned creates a folder that only the server's user may enter. One that is there already must be exactly that: in a
// folder that others can write to, it could be somebody's trap.
func mkOwned(path string, cred *syscall.Credential) error {
	uid, gid := os.Geteuid(), os.Getegid()
	if cred != nil {
		uid, gid = int(cred.Uid), int(cred.Gid)
	}
	err := os.Mkdir(path, 0o700)
	if err == nil {
		if err = os.Chown(path, uid, gid); err != nil {
			return fmt.Errorf("give folder to the server's user: %w", err)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create server folder: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("check server folder: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != uid || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a folder of user %d alone (mode 0700): move it away", path, uid)
	}
	return nil
}

// mkPublic creates a folder of root that everybody may enter and nobody else may change.
func mkPublic(path string) error {
	err := os.Mkdir(path, 0o755)
	if err == nil {
		err = os.Chmod(path, 0o755) // whatever the umask is
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create folder: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("check folder: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || st.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only root can change", path)
	}
	return nil
}

// socketDir is where the socket goes: in the server's folder, or, where that won't do, in a short folder of the same user
// elsewhere.
func (p pgPlace) socketDir() (string, error) {
	dir := filepath.Join(p.base, "s")
	if !socketFits(dir) {
		sum := sha256.Sum256([]byte(p.base))
		name := "sightline-" + hex.EncodeToString(sum[:6])
		dir = filepath.Join(os.TempDir(), name)
		if !socketFits(dir) || p.cred != nil && !reachable(os.TempDir(), p.cred) {
			dir = filepath.Join("/tmp", name)
		}
	}
	return dir, mkOwned(dir, p.cred)
}

// isShortSocketDir reports whether dir is one of those elsewhere.
func isShortSocketDir(dir string) bool {
	parent := filepath.Dir(dir)
	return shortSocketDir.MatchString(filepath.Base(dir)) && (parent == "/tmp" || parent == filepath.Clean(os.TempDir()))
}

var shortSocketDir = regexp.MustCompile(`^sightline-[0-9a-f]{12}$`)

// socketFits reports whether a socket can be made in dir and named in a URL. A socket's path has a hard limit, here the
// smallest among the systems that we run on; and a client takes a comma for the end of one host and the start of another.
func socketFits(dir string) bool {
	return len(socketPath(dir)) <= 103 && !strings.Contains(dir, ",")
}

func socketPath(dir string) string { return filepath.Join(dir, ".s.PGSQL."+pgPort) }
