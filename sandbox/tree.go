package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A tree is the files of a workspace. Nothing in it is reached by a path that the kernel resolves at once: every folder is
// opened from its parent, and links are never followed.
type tree struct{ top *os.File }

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// An entry is what a walk sees of a file. The change time can't be set by its owner, so it tells a rewritten file.
type entry struct {
	mode         uint32
	size, blocks int64
	inode, links uint64
	changed      unix.Timespec
}

func (e entry) kind() uint32 { return e.mode & unix.S_IFMT }

var (
	errTooMany = errors.New("too many files and folders")
	errTooDeep = errors.New("folders are nested too deep")
)

func openTree(dir *os.File, name string) (*tree, error) {
	fd, err := openFolder(int(dir.Fd()), name)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", name, err)
	}
	return &tree{top: os.NewFile(uintptr(fd), name)}, nil
}

func (t *tree) close() { t.top.Close() }

// openFolder opens the folder name in dir. A command may have taken the owner's own permissions away, and the owner is us.
func openFolder(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, folderFlags, 0)
	if errors.Is(err, unix.EACCES) {
		if err := setMode(dir, name, 0o700); err != nil {
			return -1, err
		}
		fd, err = unix.Openat(dir, name, folderFlags, 0)
	}
	return fd, err
}

// walk calls see for everything in the tree, folders before what is in them, and ignores what vanishes meanwhile.
func (t *tree) walk(entries int, see func(dir int, rel string, e entry) error) error {
	n := 0
	var into func(dir *os.File, rel string, depth int) error
	into = func(dir *os.File, rel string, depth int) error {
		if depth > maxDepth {
			return errTooDeep
		}
		for {
			names, err := dir.Readdirnames(256)
			for _, name := range names {
				if n++; n > entries {
					return errTooMany
				}
				var st unix.Stat_t
				if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
					if errors.Is(err, unix.EACCES) && dir.Chmod(0o700) == nil {
						err = unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
					}
					if errors.Is(err, unix.ENOENT) {
						continue
					}
					if err != nil {
						return fmt.Errorf("look at %s: %w", path.Join(rel, name), err)
					}
				}
				at := path.Join(rel, name)
				e := entryOf(&st)
				if err := see(int(dir.Fd()), at, e); err != nil {
					return err
				}
				if e.kind() != unix.S_IFDIR {
					continue
				}
				fd, err := openFolder(int(dir.Fd()), name)
				if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
					continue // replaced since it was seen
				}
				if err != nil {
					return fmt.Errorf("open folder %s: %w", at, err)
				}
				sub := os.NewFile(uintptr(fd), at)
				err = into(sub, at, depth+1)
				sub.Close()
				if err != nil {
					return err
				}
			}
			if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
				return nil
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("list folder %s: %w", rel, err)
			}
		}
	}
	fd, err := openFolder(int(t.top.Fd()), ".")
	if err != nil {
		return fmt.Errorf("open workspace: %w", err)
	}
	top := os.NewFile(uintptr(fd), t.top.Name())
	defer top.Close()
	return into(top, "", 0)
}

// usage is what the tree takes up on the disk, and the number of its entries. A file with several names counts once.
func (t *tree) usage(entries int) (bytes int64, n int, err error) {
	seen := map[uint64]bool{}
	err = t.walk(entries, func(_ int, _ string, e entry) error {
		n++
		if e.links > 1 && e.kind() != unix.S_IFDIR {
			if seen[e.inode] {
				return nil
			}
			seen[e.inode] = true
		}
		bytes += e.blocks
		return nil
	})
	return bytes, n, err
}

// snapshot is everything in the tree that is no folder.
func (t *tree) snapshot(entries int) (map[string]entry, error) {
	m := map[string]entry{}
	err := t.walk(entries, func(dir int, rel string, e entry) error {
		if e.kind() == unix.S_IFDIR {
			return nil
		}
		// Nothing that a command leaves may lend its owner's rights to somebody else.
		if e.kind() == unix.S_IFREG && e.mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
			if err := setMode(dir, path.Base(rel), e.mode&0o777); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("take setuid bit from %s: %w", rel, err)
			}
			e.mode &^= unix.S_ISUID | unix.S_ISGID
		}
		m[rel] = e
		return nil
	})
	return m, err
}

// prune removes what is nested too deep to be looked at, and nothing else.
func (t *tree) prune(entries int) error {
	return t.walk(entries, func(dir int, rel string, e entry) error {
		if e.kind() != unix.S_IFDIR || strings.Count(rel, "/") < maxDepth {
			return nil
		}
		fd, err := openFolder(dir, ".")
		if err != nil {
			return fmt.Errorf("prune %s: %w", path.Dir(rel), err)
		}
		parent := os.NewFile(uintptr(fd), path.Dir(rel))
		defer parent.Close()
		return removeTree(parent, path.Base(rel))
	})
}
