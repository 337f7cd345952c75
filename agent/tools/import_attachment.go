package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"sightline/agent"
	"sightline/connectors/chat"
	"sightline/sandbox"
)

// ImportAttachment copies an attachment's original bytes into the workspace.
// It takes any type and decodes nothing.
type ImportAttachment struct {
	Workspaces *Workspaces
}

var _ agent.Tool = (*ImportAttachment)(nil)

// Spec is what the model is told.
func (*ImportAttachment) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: "import_attachment",
		Description: "Copies the original bytes of an attachment of this conversation, of any type, into the workspace for workspace_exec. " +
			"Makes parent folders and replaces what is there. Importing is not seeing: use view_images to look and read_document to read.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"attachment_id":{"type":"string","description":"the attachment's id (att_...)"},` +
			`"destination":{"type":"string","description":"absolute path of the file to write, below /workspace"}},` +
			`"required":["attachment_id","destination"],"additionalProperties":false}`),
	}
}

// Needs a workspace; a call that died is not repeated, since what it wrote may
// have been changed since.
func (*ImportAttachment) Needs() agent.Needs { return agent.Needs{Workspace: true, Effect: true} }

type importing struct {
	Path     string   `json:"path"`
	Type     string   `json:"content_type"`
	Bytes    int64    `json:"bytes"`
	SHA256   string   `json:"sha256"`
	Replaced bool     `json:"replaced"`
	Notes    []string `json:"notes,omitempty"`
}

// Run copies one attachment.
func (t *ImportAttachment) Run(ctx context.Context, c agent.Call) (agent.Outcome, error) {
	var args struct {
		ID          string `json:"attachment_id"`
		Destination string `json:"destination"`
	}
	if err := decode(c.Arguments, &args); err != nil {
		return agent.Refused(err.Error(), err.Error()), nil
	}
	if !c.Workspace { // the third door
		return agent.Refused(agent.ErrNoWorkspace.Error(), "third door: no workspace"), nil
	}
	id, err := chat.ParseAttachmentID(args.ID)
	if err != nil {
		return agent.Refused(byIDOnly, "not an attachment id"), nil
	}
	w := t.Workspaces
	held, err := w.Memory.Hold(ctx, sandbox.ImportLimit)
	if err != nil {
		return agent.Outcome{}, err
	}
	defer held.Free()
	g, row, content, out, err := fetch(ctx, w.Authorizer, c, id, "import", sandbox.ImportLimit)
	if err != nil || out.Verdict != "" {
		return out, err
	}
	o, err := w.open(ctx, c.Request)
	if out, ok := refused(err); ok {
		return out, nil
	}
	if err != nil {
		return agent.Outcome{}, err
	}
	defer o.done()
	if len(o.ever) >= maxSources && !slices.Contains(o.ever, id) {
		return agent.Refused(fmt.Sprintf("this workspace holds files of %d attachments, which is as many as it takes", maxSources), "too many sources"), nil
	}
	// The label goes first: a file without one would be made of nothing known.
	if err := w.remember(ctx, o, id); err != nil {
		return agent.Outcome{}, err
	}
	in, err := o.Import(ctx, args.Destination, bytes.NewReader(content.Bytes()), sandbox.ImportLimit)
	if out, ok := refused(err); ok {
		return out, nil
	}
	if err != nil {
		return agent.Outcome{}, err
	}
	if err := w.Store.PutWorkspaceFiles(ctx, o.id, []chat.WorkspaceFile{{Name: in.Path, Imported: true, Digest: in.SHA256, Sources: []chat.AttachmentID{id}}}); err != nil {
		return agent.Outcome{}, err
	}
	facts := chat.Facts{SniffedType: row.SniffedType, Width: row.Width, Height: row.Height, Size: in.Bytes, Digest: content.Digest()}
	if err := w.Authorizer.Learn(ctx, g, c.Request, id, facts); err != nil {
		return agent.Outcome{}, err
	}
	answer := importing{Path: in.Path, Type: row.SniffedType, Bytes: in.Bytes, SHA256: in.SHA256, Replaced: in.Replaced, Notes: w.notes(ctx, o)}
	if answer.Type == "" {
		answer.Type = row.DeclaredType
	}
	return agent.Outcome{
		Verdict: chat.VerdictDone, Answer: encode(answer),
		Selected: []chat.Selected{{Attachment: id, Message: row.Message, Digest: content.Digest(), Type: answer.Type, File: in.Path}},
	}, nil
}
