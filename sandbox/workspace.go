package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// An ID says whose a workspace is. All three parts are opaque here and become a digest: no part of them is a path.
type ID struct {
	Agent        string `json:"agent"`
	Conversation string `json:"conversation"`
	Run          string `json:"run"`
}

func (id ID) validate() error {
	if id.Agent == "" || id.Conversation == "" || id.Run == "" {
		return errors.New("check workspace id: agent, conversation and run must be named")
	}
	return nil
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

func (id ID) folder() string { return "w-" + digest(id.Agent, id.Conversation, id.Run) }

// queue is the same for all runs of a conversation: one at a time, the others wait in order.
func (id ID) queue() string { return digest(id.Agent, id.Conversation) }

// A Workspace is the files of one (agent, conversation, run). Its methods may be called by anybody at any time; one at a
// time is let in per conversation, in the order of calling, and ctx ends the waiting.
//
// On the disk, below Config.Root:
//
//	w-DIGEST/files   what commands see as /workspace
//	w-DIGEST/stage   imports before they are complete; commands don't see it
//	w-DIGEST/id      whose it is
type Workspace struct {
	r  *Runner
	id ID
}

// ID says whose it is.
func (w *Workspace) ID() ID { return w.id }

// Workspace opens the workspace of id and makes it if there is none.
func (r *Runner) Workspace(ctx context.Context, id ID) (*Workspace, error) {
	if err := id.validate(); err != nil {
		return nil, err
	}
	leave, err := r.queues.enter(ctx, id.queue())
	if err != nil {
		return nil, fmt.Errorf("wait for workspace: %w", err)
	}
	defer leave()
	for {
		if err := r.root.Mkdir(id.folder(), r.folderMode()); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make workspace: %w", err)
		}
		held, err := r.lock(ctx, id.folder())
		if errors.Is(err, fs.ErrNotExist) {
			continue // swept at this very moment
		}
		if err == nil {
			err = r.make(id)
			held.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("make workspace: %w", err)
		}
		return &Workspace{r: r, id: id}, nil
	}
}

// Find opens the workspace of id if there is one; without one the error is ErrGone.
func (r *Runner) Find(ctx context.Context, id ID) (*Workspace, error) {
	w := &Workspace{r: r, id: id}
	if err := id.validate(); err != nil {
		return nil, err
	}
	h, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	h.leave()
	return w, nil
}

// make fills a folder that the caller locked. It completes what a crash left half made.
func (r *Runner) make(id ID) error {
	body, err := json.Marshal(id)
	if err != nil {
		return err
	}
	name := id.folder()
	now := time.Now()
	if err := r.root.Chtimes(name, now, now); err != nil { // it is in use again, whatever its age
		return err
	}
	dir, err := r.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, sub := range []string{"files", "stage"} {
		if err := dir.Mkdir(sub, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if r.uid >= 0 {
		if err := dir.Lchown("files", r.uid, r.gid); err != nil {
			return err
		}
	}
	if had, err := dir.ReadFile("id"); err == nil && string(had) == string(body) {
		return nil
	}
	if err := dir.WriteFile("id.new", body, 0o600); err != nil {
		return err
	}
	return dir.Rename("id.new", "id")
}

// folderMode lets the user that commands run as reach their files, where it is not ours.
func (r *Runner) folderMode() fs.FileMode {
	if r.uid >= 0 {
		return 0o711
	}
	return 0o700
}

// held is a workspace that nobody else uses, in this process or another.
type held struct {
	*Workspace
	dir   *os.File
	files *tree
	leave func()
}

func gone(id ID) error {
	return refuse(ErrGone, "The workspace of this run does not exist any more.", "workspace %s of %+v does not exist", id.folder(), id)
}

func (w *Workspace) enter(ctx context.Context) (*held, error) {
	leave, err := w.r.queues.enter(ctx, w.id.queue())
	if err != nil {
		return nil, fmt.Errorf("wait for workspace: %w", err)
	}
	h, err := w.hold(ctx)
	if err != nil {
		leave()
		return nil, err
	}
	h.leave = func() {
		// The time of last use is what Sweep goes by.
		now := time.Now()
		if err := w.r.root.Chtimes(w.id.folder(), now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.r.log.Warn("workspace: note its use", "error", err)
		}
		h.files.close()
		h.dir.Close()
		leave()
	}
	return h, nil
}

func (w *Workspace) hold(ctx context.Context) (*held, error) {
	dir, err := w.r.lock(ctx, w.id.folder())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone(w.id)
	}
	if err != nil {
		return nil, fmt.Errorf("hold workspace: %w", err)
	}
	files, err := openTree(dir, "files")
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("hold workspace: %w", err)
	}
	return &held{Workspace: w, dir: dir, files: files}, nil
}

// lock opens a folder of the root and keeps other processes of the service out of it until it is closed.
func (r *Runner) lock(ctx context.Context, name string) (*os.File, error) {
	for {
		dir, err := r.root.OpenFile(name, folderFlags, 0)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			// It may have been removed, or removed and made anew, while we waited.
			mine, errMine := dir.Stat()
			now, errNow := r.root.Lstat(name)
			if errMine == nil && errNow == nil && os.SameFile(mine, now) {
				return dir, nil
			}
			dir.Close()
			if errors.Is(errNow, fs.ErrNotExist) {
				return nil, errNow
			}
			if err := errors.Join(errMine, errNow); err != nil {
				return nil, err
			}
			continue
		}
		dir.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Remove ends the workspace when its turn comes; a command that runs in it ends first. Removing what is gone is no error.
func (w *Workspace) Remove(ctx context.Context) error {
	h, err := w.enter(ctx)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	trash, err := w.r.discard(w.id.folder())
	h.leave()
	if err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	return w.r.empty(trash)
}

// filesPath is the host's path of the files.
func (h *held) filesPath() string { return filepath.Join(h.r.cfg.Root, h.id.folder(), "files") }
