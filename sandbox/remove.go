package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// removeTree removes name in dir with everything below it. It may race a process that swaps folders for links: what it
// unlinks is always a name in a folder that it holds open, reached without following a link. Folders nested deeper than
// it has descriptors for are moved up and removed from there.
func removeTree(dir *os.File, name string) error {
	queue := []string{name}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		lift := func(from int, deep string) error {
			up := "t-" + rand.Text()
			if err := unix.Renameat(from, deep, int(dir.Fd()), up); err != nil {
				return err
			}
			queue = append(queue, up)
			return nil
		}
		if err := removeAt(int(dir.Fd()), next, 0, lift); err != nil {
			return fmt.Errorf("remove %s: %w", next, err)
		}
	}
	return nil
}

func removeAt(dir int, name string, depth int, lift func(from int, deep string) error) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	// Unlinking a folder fails with EISDIR on Linux and with EPERM elsewhere.
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return err
	}
	if depth > maxDepth {
		if err := lift(dir, name); !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	}
	for range 100 { // somebody may be adding to it
		fd, err := openFolder(dir, name)
		switch {
		case errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP): // swapped for something else since
			err := unix.Unlinkat(dir, name, 0)
			if err == nil || errors.Is(err, unix.ENOENT) {
				return nil
			}
			if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
				continue // and back
			}
			return err
		case err != nil:
			return err
		}
		f := os.NewFile(uintptr(fd), name)
		err = emptyFolder(f, depth, lift)
		f.Close()
		if err != nil {
			return err
		}
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	return fmt.Errorf("%s is filled as fast as it is emptied", name)
}

func emptyFolder(f *os.File, depth int, lift func(int, string) error) error {
	// Its owner may have made it read-only; f stays the same folder whatever its name stands for now.
	if err := f.Chmod(0o700); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	for {
		names, _ := f.Readdirnames(256)
		if len(names) == 0 {
			return nil
		}
		for _, n := range names {
			if err := removeAt(int(f.Fd()), n, depth+1, lift); err != nil {
				return err
			}
		}
		// Names that were removed while listing can hide others: start again.
		if _, err := f.Seek(0, 0); err != nil {
			return err
		}
	}
}
