package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Content is a file that was read whole.
type Content struct {
	Path   string
	Bytes  []byte
	SHA256 string
}

// View reads a regular file of at most limit bytes; 0 means ImportLimit.
func (w *Workspace) View(ctx context.Context, name string, limit int64) (Content, error) {
	rel, err := inside(name)
	if err != nil {
		return Content{}, err
	}
	if rel == "" {
		return Content{}, refuse(ErrKind, "The path names a folder, not a file.", "refuse path %q: a folder", name)
	}
	fill(&limit, ImportLimit)
	h, err := w.enter(ctx)
	if err != nil {
		return Content{}, err
	}
	defer h.leave()
	f, _, err := h.open(rel)
	if err != nil {
		return Content{}, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(ending{ctx, f}, limit+1))
	if err != nil {
		return Content{}, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(body)) > limit {
		return Content{}, refuse(ErrTooLarge, fmt.Sprintf("The file has more than the %d bytes that may be read.", limit), "refuse path %q: more than %d bytes", name, limit)
	}
	sum := sha256.Sum256(body)
	return Content{Path: path.Join(Inside, rel), Bytes: body, SHA256: hex.EncodeToString(sum[:])}, nil
}

func notFound(rel string) error {
	return refuse(ErrNotFound, "There is no such file in the workspace.", "refuse path %q: not there", path.Join(Inside, rel))
}

// open opens a regular file with one name, and nothing else: opening a device or a FIFO alone can have an effect.
func (h *held) open(rel string) (*os.File, entry, error) {
	dir, err := h.parent(rel)
	if errors.Is(err, unix.ENOENT) {
		return nil, entry{}, notFound(rel)
	}
	if err != nil {
		return nil, entry{}, err
	}
	defer unix.Close(dir)
	return openRegular(dir, path.Base(rel), rel, regular)
}

func openRegular(dir int, name, rel string, check func(string, entry) error) (*os.File, entry, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil, entry{}, notFound(rel)
	}
	if err != nil {
		return nil, entry{}, fmt.Errorf("look at %s: %w", rel, err)
	}
	if err := check(rel, entryOf(&st)); err != nil {
		return nil, entry{}, err
	}
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		if err = setMode(dir, name, 0o600); err == nil {
			fd, err = unix.Openat(dir, name, flags, 0)
		}
	}
	if err != nil {
		return nil, entry{}, fmt.Errorf("open %s: %w", rel, err)
	}
	f := os.NewFile(uintptr(fd), rel)
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, entry{}, fmt.Errorf("look at %s: %w", rel, err)
	}
	e := entryOf(&st)
	if err := check(rel, e); err != nil { // swapped since it was looked at
		f.Close()
		return nil, entry{}, err
	}
	return f, e, nil
}

// A File is one name in a workspace.
type File struct {
	Path     string
	Kind     FileKind
	Size     int64
	Changed  time.Time // when it was last written or renamed; commands can't set it
	SHA256   string    // of a regular file with one name; "" for others and where it was not asked for
	HardLink bool      // the file has other names, too
}

// List lists the whole workspace in the order of its paths, with digests where asked: it is how to inspect what an
// interrupted step did. Digests stop at twice the workspace's quota, which only sparse files can pass.
func (w *Workspace) List(ctx context.Context, digests bool) ([]File, error) {
	h, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer h.leave()
	return h.list(ctx, digests)
}

func (h *held) list(ctx context.Context, digests bool) ([]File, error) {
	var out []File
	budget := 2 * h.r.limits.Workspace
	err := h.files.walk(h.r.limits.Entries, func(dir int, rel string, e entry) error {
		f := File{Path: path.Join(Inside, rel), Kind: e.fileKind(), Size: e.size, Changed: time.Unix(e.changed.Unix()),
			HardLink: e.kind() != unix.S_IFDIR && e.links > 1}
		if digests && f.Kind == Regular && !f.HardLink && e.size <= budget {
			budget -= e.size
			sum, err := hash(ctx, dir, rel)
			if err != nil {
				return err
			}
			f.SHA256 = sum
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list workspace: %w", h.full(err))
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// file is regular without its rule on names: for reading a digest, which tells nothing that was not known.
func file(rel string, e entry) error {
	if e.kind() == unix.S_IFREG {
		e.links = 1
	}
	return regular(rel, e)
}

func hash(ctx context.Context, dir int, rel string) (string, error) {
	f, _, err := openRegular(dir, path.Base(rel), rel, file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, ending{ctx, f}); err != nil {
		return "", fmt.Errorf("read %s: %w", rel, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Delete removes one file; a link is removed itself, not what it leads to. A folder is refused.
func (w *Workspace) Delete(ctx context.Context, name string) error {
	rel, err := inside(name)
	if err != nil {
		return err
	}
	if rel == "" {
		return refuse(ErrKind, "The path names a folder, not a file.", "refuse path %q: a folder", name)
	}
	h, err := w.enter(ctx)
	if err != nil {
		return err
	}
	defer h.leave()
	dir, err := h.parent(rel)
	if errors.Is(err, unix.ENOENT) {
		return notFound(rel)
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = unix.Unlinkat(dir, path.Base(rel), 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return notFound(rel)
	case errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM):
		return refuse(ErrKind, "The path names a folder, not a file.", "refuse path %q: %v", name, err)
	case err != nil:
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// DeleteCopies removes every file with this content, whatever its name became, and returns their paths. It is for a source
// that was deleted; what a command derived from it has another digest and stays under the workspace's label.
func (w *Workspace) DeleteCopies(ctx context.Context, sha string) ([]string, error) {
	h, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer h.leave()
	var out []string
	// A file with several names is removed under each of them, so its names are compared by what they hold.
	err = h.files.walk(h.r.limits.Entries, func(dir int, rel string, e entry) error {
		if e.kind() != unix.S_IFREG || e.size > h.r.limits.File {
			return nil
		}
		sum, err := hash(ctx, dir, rel)
		if err != nil || sum != sha {
			return err
		}
		if err := unix.Unlinkat(dir, path.Base(rel), 0); err != nil {
			return fmt.Errorf("delete %s: %w", rel, err)
		}
		out = append(out, path.Join(Inside, rel))
		return nil
	})
	slices.Sort(out)
	if err != nil {
		return out, fmt.Errorf("delete copies: %w", h.full(err))
	}
	return out, nil
}
