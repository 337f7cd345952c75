package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sightline/agent"
	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/sandbox"
)

// WorkspaceStore keeps which workspace a conversation has and what its files
// may have been made of.
type WorkspaceStore interface {
	UseWorkspace(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, fresh string) (chat.Workspace, error)
	LiveWorkspaces(ctx context.Context) ([]chat.Workspace, error)
	RetireWorkspace(ctx context.Context, id string, usedAt time.Time) (bool, error)
	WorkspaceFiles(ctx context.Context, id string) ([]chat.WorkspaceFile, error)
	PutWorkspaceFiles(ctx context.Context, id string, files []chat.WorkspaceFile) error
	DropWorkspaceFiles(ctx context.Context, id string, names []string) error
}

// Workspaces are the conversations' workspaces under their labels. A file that
// was imported is made of its attachment, one that a command wrote may be made
// of all that was there, and one of which nothing is known of all that ever
// was. Every opening authorizes those anew, and takes what may not be used any
// more out of the workspace before anything else is done there.
type Workspaces struct {
	// Runner is the sandbox, once it is proved; nil until then, and where there
	// is none.
	Runner     func() *sandbox.Runner
	Store      WorkspaceStore
	Authorizer *attachments.Authorizer
	TTL        time.Duration // how long one stays that nobody uses
	Holds      *Holds        // shared by the agents of a process
	Memory     *agent.Memory // nil: unbounded
	Log        *slog.Logger
}

// Holds are the workspaces that are in use in this process, whichever agent's
// they are.
type Holds struct {
	mu   sync.Mutex
	busy map[string]int
}

// everything is the row of all sources that a workspace ever had. It can't be
// the name of a file: those are absolute.
const everything = "*"

// maxSources bounds what one label holds.
const maxSources = 200

// opened is a workspace that was checked for one request.
type opened struct {
	*sandbox.Workspace
	id      string
	files   map[string]chat.WorkspaceFile
	ever    []chat.AttachmentID
	removed []string // taken out just now
	seen    string   // where commands see it
	done    func()
}

// open is ended with done.
func (w *Workspaces) open(ctx context.Context, r attachments.Request) (*opened, error) {
	row, err := w.Store.UseWorkspace(ctx, r.Agent, r.Conversation, chat.NewWorkspaceID())
	if err != nil {
		return nil, err
	}
	o := &opened{id: row.ID, files: map[string]chat.WorkspaceFile{}, done: w.Holds.hold(row.ID)}
	if err := w.check(ctx, r, row, o); err != nil {
		o.done()
		return nil, err
	}
	return o, nil
}

func (w *Workspaces) check(ctx context.Context, r attachments.Request, row chat.Workspace, o *opened) (err error) {
	runner := w.Runner()
	if runner == nil {
		return errors.New("the sandbox is not there yet")
	}
	if o.Workspace, err = runner.Workspace(ctx, sandboxID(row)); err != nil {
		return err
	}
	o.seen = runner.Seen(sandboxID(row))
	files, err := w.Store.WorkspaceFiles(ctx, row.ID)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Name == everything {
			o.ever = f.Sources
		} else {
			o.files[f.Name] = f
		}
	}
	var lost []chat.AttachmentID
	for _, id := range o.ever {
		_, _, err := w.Authorizer.Authorize(ctx, r, id, "workspace")
		var state *attachments.StateError
		switch {
		case err == nil:
		case errors.As(err, &state):
			lost = append(lost, id)
		case errors.Is(err, attachments.ErrDoubt), errors.Is(err, attachments.ErrLimited):
			return undecided(err)
		case errors.Is(err, attachments.ErrNotAvailable):
			lost = append(lost, id)
		default:
			return err
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return w.purge(ctx, o, lost)
}

// undecided refuses for now, and nothing is removed: what can't be established
// at this moment may well hold in the next.
func undecided(err error) error {
	return &sandbox.Refused{Kind: err, Person: "it can't be established just now whether the files of the workspace may be used here; nothing was changed, try again later", Operator: "workspace: " + err.Error()}
}

// purge takes out every file that may have been made of what is lost, copies
// under other names included.
func (w *Workspaces) purge(ctx context.Context, o *opened, lost []chat.AttachmentID) error {
	list, err := o.List(ctx, true)
	if err != nil {
		return err
	}
	of := func(sources []chat.AttachmentID) bool {
		return slices.ContainsFunc(lost, func(id chat.AttachmentID) bool { return slices.Contains(sources, id) })
	}
	copies := map[string]bool{}
	var gone []string
	for _, f := range o.files {
		if f.Imported && of(f.Sources) && f.Digest != "" {
			copies[f.Digest] = true
		}
	}
	for _, f := range list {
		if f.Kind == sandbox.Folder || !of(o.label(f.Path, f.SHA256)) && !copies[f.SHA256] {
			continue
		}
		if err := o.Delete(ctx, f.Path); err != nil && !errors.Is(err, sandbox.ErrNotFound) {
			return fmt.Errorf("remove %s, whose source is gone: %w", f.Path, err)
		}
		o.removed = append(o.removed, f.Path)
	}
	for name, f := range o.files {
		if of(f.Sources) {
			gone = append(gone, name)
			delete(o.files, name)
		}
	}
	if err := w.Store.DropWorkspaceFiles(ctx, o.id, gone); err != nil {
		return err
	}
	o.ever = slices.DeleteFunc(o.ever, func(id chat.AttachmentID) bool { return slices.Contains(lost, id) })
	return w.Store.PutWorkspaceFiles(ctx, o.id, []chat.WorkspaceFile{{Name: everything, Sources: o.ever}})
}

// label is what a file with these contents may have been made of.
func (o *opened) label(name, digest string) []chat.AttachmentID {
	f, ok := o.files[name]
	if !ok || f.Imported && (digest == "" || f.Digest != digest) {
		return o.ever
	}
	return f.Sources
}

// remember adds a source before anything of it can be in the workspace.
func (w *Workspaces) remember(ctx context.Context, o *opened, id chat.AttachmentID) error {
	if slices.Contains(o.ever, id) {
		return nil
	}
	o.ever = append(slices.Clone(o.ever), id)
	return w.Store.PutWorkspaceFiles(ctx, o.id, []chat.WorkspaceFile{{Name: everything, Sources: o.ever}})
}

// Open is agent.Files.
func (w *Workspaces) Open(ctx context.Context, r attachments.Request, name string) ([]byte, []chat.AttachmentID, error) {
	o, err := w.open(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	defer o.done()
	c, err := o.View(ctx, name, 0)
	var refused *sandbox.Refused
	switch {
	case errors.As(err, &refused) && slices.Contains(o.removed, name):
		return nil, nil, fmt.Errorf("%s was removed: %w", name, attachments.ErrNotAvailable)
	case errors.As(err, &refused):
		return nil, nil, &agent.FileError{Person: refused.Person, Operator: refused.Operator}
	case err != nil:
		return nil, nil, err
	}
	return c.Bytes, o.label(c.Path, c.SHA256), nil
}

func sandboxID(w chat.Workspace) sandbox.ID {
	return sandbox.ID{Agent: string(w.Agent), Conversation: string(w.Conversation), Run: w.ID}
}

// hold keeps a workspace from being removed for its age while it is in use.
func (h *Holds) hold(id string) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
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
	})
}

func (h *Holds) held(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.busy[id] > 0
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

// notes tells the model what a check took out.
func (o *opened) notes() []string {
	var out []string
	if o.seen != sandbox.Inside {
		out = append(out, "commands see the workspace at "+o.seen+" and start there; every other tool calls it "+sandbox.Inside)
	}
	if len(o.removed) == 0 {
		return out
	}
	return append(out, fmt.Sprintf("%d files were removed from the workspace because what they were made of was deleted or may not be used here any more: %s",
		len(o.removed), names(o.removed)))
}

func names(list []string) string {
	const most = 10
	out := ""
	for i, n := range list[:min(len(list), most)] {
		if i > 0 {
			out += ", "
		}
		out += agent.InertName(n)
	}
	if len(list) > most {
		out += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return out
}

// sourcesOf are a label as a receipt keeps it: whoever reads what came of it
// is asked about each.
func sourcesOf(label []chat.AttachmentID) []chat.Selected {
	out := make([]chat.Selected, len(label))
	for i, id := range label {
		out[i] = chat.Selected{Attachment: id}
	}
	return out
}

// refused turns a sandbox's refusal into the tool's.
func refused(err error) (agent.Outcome, bool) {
	var r *sandbox.Refused
	if !errors.As(err, &r) {
		return agent.Outcome{}, false
	}
	return agent.Refused(r.Person, r.Operator), true
}
