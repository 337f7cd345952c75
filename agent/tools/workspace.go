package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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
	// DropWorkspaceSources takes sources out of one row, as it is by then.
	DropWorkspaceSources(ctx context.Context, id, name string, lost []chat.AttachmentID) error
	// GoneSources are the sources in the rows of this name that were deleted,
	// by the ID of the live workspace.
	GoneSources(ctx context.Context, name string) (map[string][]chat.AttachmentID, error)
}

// Workspaces are the conversations' workspaces under their labels. A file that
// was imported is made of its attachment, one that a command wrote may be made
// of all that was there, and one of which nothing is known of all that ever
// was. Every opening authorizes those anew, and takes what may not be used any
// more out of the workspace before anything else is done there. What is deleted
// for good goes without one, too (SweepDeleted).
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

// Rows that are no file's: those have absolute names.
const (
	everything = "*" // all sources that a workspace ever had
	removedRow = "-" // and a path: a file that was taken out, of which the model was not told yet
)

// maxSources bounds what one label holds.
const maxSources = 200

// opened is a workspace that was checked for one request.
type opened struct {
	*sandbox.Workspace
	id      string
	files   map[string]chat.WorkspaceFile
	ever    []chat.AttachmentID
	removed []string // taken out, and not told of yet
	untold  []string // their rows
	seen    string   // where commands see it
	done    func()
}

// open is ended with done.
func (w *Workspaces) open(ctx context.Context, r attachments.Request) (*opened, error) {
	row, err := w.Store.UseWorkspace(ctx, r.Agent, r.Conversation, chat.NewWorkspaceID())
	if err != nil {
		return nil, err
	}
	done, err := w.Holds.hold(ctx, row.ID)
	if err != nil {
		return nil, fmt.Errorf("wait for the workspace: %w", err)
	}
	o := &opened{id: row.ID, files: map[string]chat.WorkspaceFile{}, done: done}
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
	if err := w.load(ctx, o); err != nil {
		return err
	}
	// A label that another process wrote while this one took its sources out
	// names what the row of everything has no more.
	asked := slices.Clone(o.ever)
	for _, f := range o.files {
		asked = append(asked, f.Sources...)
	}
	slices.Sort(asked)
	var lost []chat.AttachmentID
	for _, id := range slices.Compact(asked) {
		_, _, err := w.Authorizer.Authorize(ctx, r, id, "workspace")
		var state *attachments.StateError
		switch {
		case err == nil:
		case errors.As(err, &state):
			lost = append(lost, id)
		case errors.Is(err, attachments.ErrDoubt), errors.Is(err, attachments.ErrLimited):
			return undecided(err)
		case errors.Is(err, attachments.ErrAsker): // they are still others' files
			return &sandbox.Refused{Kind: err, Person: "whoever asks may not use the files of this workspace; nothing was changed", Operator: "workspace: the one who asks may not read what its files were made of"}
		case errors.Is(err, attachments.ErrNotAvailable):
			lost = append(lost, id)
		default:
			return err
		}
	}
	if len(lost) == 0 {
		return nil
	}
	if err := w.purge(ctx, o, lost); err != nil {
		return err
	}
	o.Workspace, err = runner.Workspace(ctx, sandboxID(row)) // all of it may be gone
	return err
}

// load reads what is known of the workspace.
func (w *Workspaces) load(ctx context.Context, o *opened) error {
	files, err := w.Store.WorkspaceFiles(ctx, o.id)
	if err != nil {
		return err
	}
	for _, f := range files {
		switch path, removed := strings.CutPrefix(f.Name, removedRow); {
		case f.Name == everything:
			o.ever = f.Sources
		case removed:
			o.removed, o.untold = append(o.removed, path), append(o.untold, f.Name)
		default:
			o.files[f.Name] = f
		}
	}
	return nil
}

// undecided refuses for now, and nothing is removed: what can't be established
// at this moment may well hold in the next.
func undecided(err error) error {
	return &sandbox.Refused{Kind: err, Person: "it can't be established just now whether the files of the workspace may be used here; nothing was changed, try again later", Operator: "workspace: " + err.Error()}
}

// purge takes out every file that may have been made of what is lost, copies
// under other names included. It may be interrupted anywhere, and another
// process may write labels meanwhile: what lost its row is made of everything,
// and everything forgets what is lost last, and nothing else.
func (w *Workspaces) purge(ctx context.Context, o *opened, lost []chat.AttachmentID) error {
	of := func(sources []chat.AttachmentID) bool {
		return slices.ContainsFunc(lost, func(id chat.AttachmentID) bool { return slices.Contains(sources, id) })
	}
	copies := map[string]bool{}
	var rows []string
	for name, f := range o.files {
		if !of(f.Sources) {
			continue
		}
		if f.Imported && f.Digest != "" {
			copies[f.Digest] = true
		}
		rows = append(rows, name)
	}
	for _, id := range lost {
		if err := w.remember(ctx, o, id); err != nil {
			return err
		}
	}
	if err := w.Store.DropWorkspaceFiles(ctx, o.id, rows); err != nil {
		return err
	}
	gone := map[string]bool{}
	for _, name := range rows {
		gone[name] = true
		delete(o.files, name)
	}
	list, err := o.List(ctx, true)
	stuck := isStuck(err)
	if err != nil && !stuck {
		return err
	}
	var out []string
	var untold []chat.WorkspaceFile
	for _, f := range list {
		if f.Kind == sandbox.Folder || !gone[f.Path] && !of(o.label(f.Path, f.SHA256)) && !copies[f.SHA256] {
			continue
		}
		out = append(out, f.Path)
		untold = append(untold, chat.WorkspaceFile{Name: removedName(f.Path)})
	}
	// The names first: the model is told even if this process ends here.
	if err := w.Store.PutWorkspaceFiles(ctx, o.id, untold); err != nil {
		return err
	}
	for i, name := range out {
		err := o.Delete(ctx, name)
		stuck = stuck || isStuck(err)
		if err != nil && !isStuck(err) && !errors.Is(err, sandbox.ErrNotFound) {
			return fmt.Errorf("remove %s, whose source is gone: %w", name, err)
		}
		o.removed, o.untold = append(o.removed, name), append(o.untold, untold[i].Name)
	}
	if stuck {
		const rest = "everything else"
		if err := w.Store.PutWorkspaceFiles(ctx, o.id, []chat.WorkspaceFile{{Name: removedName(rest)}}); err != nil {
			return err
		}
		if err := o.Remove(ctx); err != nil {
			return err
		}
		o.removed, o.untold = append(o.removed, rest), append(o.untold, removedName(rest))
	}
	o.ever = slices.DeleteFunc(slices.Clone(o.ever), func(id chat.AttachmentID) bool { return slices.Contains(lost, id) })
	return w.Store.DropWorkspaceSources(ctx, o.id, everything, lost)
}

// isStuck says that the sandbox won't ever reach a file, by a name that is no
// text, say. A copy must not stay for that: the workspace goes as a whole.
func isStuck(err error) bool {
	var r *sandbox.Refused
	return errors.As(err, &r) && !errors.Is(err, sandbox.ErrNotFound) && !errors.Is(err, sandbox.ErrGone)
}

// removedName is the row of a removed file, cut where a row's name ends.
func removedName(path string) string {
	const most = 4096
	n := strings.ToValidUTF8(removedRow+path, "\uFFFD")
	if len(n) > most {
		n = strings.ToValidUTF8(n[:most], "")
	}
	return n
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

// notes tells the model what was taken out, once. It belongs where nothing can
// fail any more.
func (w *Workspaces) notes(ctx context.Context, o *opened) []string {
	var out []string
	if o.seen != sandbox.Inside {
		out = append(out, "commands see the workspace at "+o.seen+" and start there; every other tool calls it "+sandbox.Inside)
	}
	if len(o.removed) == 0 {
		return out
	}
	// What happened has happened: to be told twice is better than to fail.
	if err := w.Store.DropWorkspaceFiles(ctx, o.id, o.untold); err != nil && w.Log != nil {
		w.Log.Warn("the model will be told again of removed files", "workspace", o.id, "error", err)
	}
	slices.Sort(o.removed)
	o.removed = slices.Compact(o.removed)
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
