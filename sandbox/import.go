package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Imported is what an import did.
type Imported struct {
	Path     string // absolute, below /workspace
	Bytes    int64
	SHA256   string // hexadecimal
	Replaced bool   // there was a file before
}

// Import writes content to destination, an absolute path below /workspace, making its folders and replacing what is there
// whole or not at all. More than limit bytes are refused; 0 means ImportLimit. The file is on the disk when it returns.
func (w *Workspace) Import(ctx context.Context, destination string, content io.Reader, limit int64) (Imported, error) {
	rel, err := inside(destination)
	if err != nil {
		return Imported{}, err
	}
	if rel == "" || strings.HasSuffix(destination, "/") {
		return Imported{}, refuse(ErrPath, "The destination must name a file, not a folder.", "refuse destination %q: a folder", destination)
	}
	fill(&limit, ImportLimit)
	limit = min(limit, w.r.limits.File)
	h, err := w.enter(ctx)
	if err != nil {
		return Imported{}, err
	}
	defer h.leave()

	// What can be refused is refused before any content is read.
	old, err := h.destination(rel)
	if err != nil {
		return Imported{}, err
	}
	used, n, err := h.files.usage(w.r.limits.Entries)
	if err != nil {
		return Imported{}, h.full(err)
	}
	if deep := 1 + strings.Count(rel, "/"); old.mode == 0 && n+deep > w.r.limits.Entries {
		return Imported{}, h.full(errTooMany)
	}
	got, err := h.stage(ctx, content, limit)
	if err != nil {
		return Imported{}, err
	}
	defer got.discard()
	if free := w.r.limits.Workspace - used + old.blocks; got.n > free {
		return Imported{}, refuse(ErrQuota, fmt.Sprintf("The workspace has room for %d more bytes; this file has %d. Remove files first.", max(free, 0), got.n),
			"refuse import of %d bytes: %d of %d are used", got.n, used, w.r.limits.Workspace)
	}
	parent, err := h.folders(path.Dir(rel))
	if err != nil {
		return Imported{}, err
	}
	defer unix.Close(parent)
	if err := unix.Renameat(int(got.dir.Fd()), got.name, parent, path.Base(rel)); err != nil {
		return Imported{}, fmt.Errorf("replace %s: %w", destination, err)
	}
	got.name = ""
	if err := unix.Fsync(parent); err != nil {
		return Imported{}, fmt.Errorf("write %s: %w", destination, err)
	}
	return Imported{Path: path.Join(Inside, rel), Bytes: got.n, SHA256: got.sum, Replaced: old.mode != 0}, nil
}

// full tells a workspace that is over its bounds from one that can't be read.
func (h *held) full(err error) error {
	if errors.Is(err, errTooMany) || errors.Is(err, errTooDeep) {
		return refuse(ErrQuota, "The workspace has too many files or folders. Remove some first.", "workspace %s: %v", h.id.folder(), err)
	}
	return err
}

func linkRefusal(rel string) error {
	return refuse(ErrLink, "The path leads through a link. Name the file itself.", "refuse path %q: a link", path.Join(Inside, rel))
}

// parent opens the folder that rel is in, one component at a time. Nothing is made.
func (h *held) parent(rel string) (int, error) {
	fd, err := unix.Dup(int(h.files.top.Fd()))
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	at := ""
	for _, name := range strings.Split(path.Dir(rel), "/") {
		if name == "." {
			break
		}
		at = path.Join(at, name)
		next, err := h.child(fd, name, at)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// child opens the folder name in dir and says why it can't.
func (h *held) child(dir int, name, rel string) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, fmt.Errorf("open folder %s: %w", rel, err)
	}
	switch entryOf(&st).kind() {
	case unix.S_IFLNK:
		return -1, linkRefusal(rel)
	case unix.S_IFDIR:
	default:
		return -1, refuse(ErrKind, "A part of the path is no folder.", "refuse path: %q is no folder", rel)
	}
	fd, err := openFolder(dir, name)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return -1, linkRefusal(rel)
	}
	if err != nil {
		return -1, fmt.Errorf("open folder %s: %w", rel, err)
	}
	return fd, nil
}

// regular refuses what is no plain file with one name: a second name may be one that its reader doesn't know of.
func regular(rel string, e entry) error {
	switch {
	case e.kind() == unix.S_IFLNK:
		return linkRefusal(rel)
	case e.kind() != unix.S_IFREG:
		return refuse(ErrKind, "The path names a "+string(e.fileKind())+", not a file.", "refuse path %q: a %s", rel, e.fileKind())
	case e.links > 1:
		return refuse(ErrLink, "The file has several names (hard links). Copy it first.", "refuse path %q: %d hard links", rel, e.links)
	}
	return nil
}

// destination looks at what an import would replace; a zero entry means nothing.
func (h *held) destination(rel string) (entry, error) {
	dir, err := h.parent(rel)
	if errors.Is(err, unix.ENOENT) {
		return entry{}, nil
	}
	if err != nil {
		return entry{}, err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	err = unix.Fstatat(dir, path.Base(rel), &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return entry{}, nil
	}
	if err != nil {
		return entry{}, fmt.Errorf("look at %s: %w", rel, err)
	}
	e := entryOf(&st)
	return e, regular(rel, e)
}

// folders opens the folder rel and makes what is missing of it, owned by whom commands run as.
func (h *held) folders(rel string) (int, error) {
	fd, err := unix.Dup(int(h.files.top.Fd()))
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	at := ""
	for _, name := range strings.Split(rel, "/") {
		if name == "." {
			break
		}
		at = path.Join(at, name)
		err := unix.Mkdirat(fd, name, 0o755)
		if err == nil && h.r.uid >= 0 {
			err = unix.Fchownat(fd, name, h.r.uid, h.r.gid, unix.AT_SYMLINK_NOFOLLOW)
		}
		next := -1
		if err == nil || errors.Is(err, unix.EEXIST) {
			next, err = h.child(fd, name, at)
		}
		unix.Close(fd)
		if err != nil {
			return -1, fmt.Errorf("make folder %s: %w", at, err)
		}
		fd = next
	}
	return fd, nil
}

// staged is content that is complete and not yet in its place.
type staged struct {
	dir  *os.File
	name string // "" once it is in its place
	n    int64
	sum  string
}

func (s *staged) discard() {
	if s.name != "" {
		_ = unix.Unlinkat(int(s.dir.Fd()), s.name, 0) // Sweep finds what stays
	}
	s.dir.Close()
}

func (h *held) stage(ctx context.Context, content io.Reader, limit int64) (_ *staged, err error) {
	dir, err := openTree(h.dir, "stage")
	if err != nil {
		return nil, fmt.Errorf("stage import: %w", err)
	}
	s := &staged{dir: dir.top, name: rand.Text()}
	defer func() {
		if err != nil {
			s.discard()
		}
	}()
	fd, err := unix.Openat(int(s.dir.Fd()), s.name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("stage import: %w", err)
	}
	f := os.NewFile(uintptr(fd), s.name)
	defer f.Close()
	sum := sha256.New()
	s.n, err = io.Copy(io.MultiWriter(f, sum), io.LimitReader(ending{ctx, content}, limit+1))
	if err != nil {
		return nil, fmt.Errorf("stage import: %w", err)
	}
	if s.n > limit {
		return nil, refuse(ErrTooLarge, fmt.Sprintf("The file has more than the %d bytes that may be imported.", limit), "refuse import: more than %d bytes", limit)
	}
	s.sum = hex.EncodeToString(sum.Sum(nil))
	// The umask is the service's and no part of what was promised.
	if err := f.Chmod(0o644); err != nil {
		return nil, fmt.Errorf("stage import: %w", err)
	}
	if h.r.uid >= 0 {
		if err := f.Chown(h.r.uid, h.r.gid); err != nil {
			return nil, fmt.Errorf("stage import: %w", err)
		}
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("stage import: %w", err)
	}
	return s, nil
}

// ending is a reader that ends with its context.
type ending struct {
	ctx context.Context
	r   io.Reader
}

func (e ending) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(p)
}
