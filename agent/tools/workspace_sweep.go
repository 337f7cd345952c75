package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sightline/connectors/chat"
	"sightline/sandbox"
)

// Holds are the workspaces that are in use in this process, whichever agent's
// they are.
type Holds struct {
	mu    sync.Mutex
	busy  map[string]int
	alone map[string]chan struct{} // closed at its end
}

// hold keeps a workspace from being swept while it is in use. It waits for a
// sweep that is in it.
func (h *Holds) hold(ctx context.Context, id string) (done func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ended := h.alone[id]; ended != nil; ended = h.alone[id] {
		h.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		h.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if h.busy == nil {
		h.busy = map[string]int{}
	}
	h.busy[id]++
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.busy[id]--; h.busy[id] == 0 {
			delete(h.busy, id)
		}
	}), nil
}

// claim is hold for one who has to be alone and does not wait.
func (h *Holds) claim(id string) (done func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[id] > 0 || h.alone[id] != nil {
		return nil, false
	}
	if h.alone == nil {
		h.alone = map[string]chan struct{}{}
	}
	ended := make(chan struct{})
	h.alone[id] = ended
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.alone, id)
		close(ended)
	}), true
}

func (h *Holds) held(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.busy[id] > 0 || h.alone[id] != nil
}

// Sweep removes the workspaces that nobody used for TTL, and what crashes
// left. It belongs at the start and on a timer.
func (w *Workspaces) Sweep(ctx context.Context, now time.Time) error {
	runner := w.Runner()
	if runner == nil {
		return nil
	}
	live, err := w.Store.LiveWorkspaces(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	var errs []error
	for _, row := range live {
		if w.Holds.held(row.ID) || now.Sub(row.UsedAt) < w.TTL {
			known[row.ID] = true
			continue
		}
		retired, err := w.Store.RetireWorkspace(ctx, row.ID, row.UsedAt)
		if err != nil {
			return err
		}
		if !retired {
			known[row.ID] = true
			continue
		}
		ws, err := runner.Find(ctx, sandboxID(row))
		if err == nil {
			err = ws.Remove(ctx)
		}
		if err != nil && !errors.Is(err, sandbox.ErrGone) {
			errs = append(errs, err)
		}
	}
	s, err := runner.Sweep(ctx, sandbox.Sweep{MaxAge: 24 * 365 * time.Hour, Live: func(id sandbox.ID) bool { return known[id.Run] }})
	if n := len(s.Removed) + s.Leavings; n > 0 && w.Log != nil {
		w.Log.Info("workspaces swept", "removed", len(s.Removed), "leavings", s.Leavings, "busy", s.Busy)
	}
	return errors.Join(append(errs, err)...)
}

// SweepDeleted takes what may have been made of deleted sources out of the
// workspaces that nobody uses just now. Nobody asks here, so only what the
// store knows to be deleted counts: whoever may see what is left is asked when
// a workspace is opened. It belongs on a short timer: where nothing was
// deleted it is one query.
func (w *Workspaces) SweepDeleted(ctx context.Context) error {
	runner := w.Runner()
	if runner == nil {
		return nil
	}
	gone, err := w.Store.GoneSources(ctx, everything)
	if err != nil || len(gone) == 0 {
		return err
	}
	live, err := w.Store.LiveWorkspaces(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, row := range live {
		if lost := gone[row.ID]; len(lost) > 0 {
			errs = append(errs, w.follow(ctx, runner, row, lost))
		}
	}
	return errors.Join(errs...)
}

// followWithin bounds the wait for a workspace that another process uses.
const followWithin = time.Minute

func (w *Workspaces) follow(ctx context.Context, runner *sandbox.Runner, row chat.Workspace, lost []chat.AttachmentID) error {
	done, ok := w.Holds.claim(row.ID)
	if !ok {
		return nil // the next sweep, or its next opening
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, followWithin)
	defer cancel()
	ws, err := runner.Find(ctx, sandboxID(row))
	if errors.Is(err, sandbox.ErrGone) {
		return nil // on another machine, where the rows are still needed
	}
	o := &opened{Workspace: ws, id: row.ID, files: map[string]chat.WorkspaceFile{}}
	if err == nil {
		err = w.load(ctx, o)
	}
	before := len(o.untold)
	// What another process took out meanwhile is not put back to be taken out.
	lost = slices.DeleteFunc(lost, func(id chat.AttachmentID) bool { return !slices.Contains(o.ever, id) })
	if err == nil && len(lost) > 0 {
		err = w.purge(ctx, o, lost)
	}
	if n := len(o.untold) - before; n > 0 && w.Log != nil {
		w.Log.Info("copies of deleted files were removed", "workspace", row.ID, "files", n)
	}
	if err != nil && !errors.Is(err, sandbox.ErrGone) {
		return fmt.Errorf("follow deletions into workspace %s: %w", row.ID, err)
	}
	return nil
}
