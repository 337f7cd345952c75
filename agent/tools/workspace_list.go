package tools

import (
	"context"
	"encoding/json"
	"path"
	"strings"

	"sightline/agent"
	"sightline/connectors/chat"
)

// WorkspaceList says what is in the workspace. It is how an uncertain effect
// is inspected: by names and digests.
type WorkspaceList struct {
	Workspaces *Workspaces
}

var _ agent.Tool = (*WorkspaceList)(nil)

// Spec is what the model is told.
func (*WorkspaceList) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name:        "workspace_list",
		Description: "Lists the files of the workspace with size and SHA-256. Use it to see what an interrupted call did before you change anything again.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"a folder below /workspace; all of it when absent"}},"additionalProperties":false}`),
	}
}

// Needs a workspace.
func (*WorkspaceList) Needs() agent.Needs { return agent.Needs{Workspace: true, Inspects: true} }

type workspaceEntry struct {
	Path   string `json:"path"`
	Kind   string `json:"kind,omitempty"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
}

// Run lists.
func (t *WorkspaceList) Run(ctx context.Context, c agent.Call) (agent.Outcome, error) {
	var args struct {
		Path string `json:"path"`
	}
	if err := decode(c.Arguments, &args); err != nil {
		return agent.Refused(err.Error(), err.Error()), nil
	}
	if !c.Workspace { // the third door
		return agent.Refused(agent.ErrNoWorkspace.Error(), "third door: no workspace"), nil
	}
	o, err := t.Workspaces.open(ctx, c.Request)
	if out, ok := refused(err); ok {
		return out, nil
	}
	if err != nil {
		return agent.Outcome{}, err
	}
	defer o.done()
	list, err := o.List(ctx, true)
	if out, ok := refused(err); ok {
		return out, nil
	}
	if err != nil {
		return agent.Outcome{}, err
	}
	under := path.Clean("/" + strings.TrimPrefix(args.Path, "/"))
	answer := struct {
		Files []workspaceEntry `json:"files"`
		Total int              `json:"total"`
		Notes []string         `json:"notes,omitempty"`
	}{Files: []workspaceEntry{}, Notes: t.Workspaces.notes(ctx, o)}
	for _, f := range list {
		if args.Path != "" && f.Path != under && !strings.HasPrefix(f.Path, strings.TrimSuffix(under, "/")+"/") {
			continue
		}
		if answer.Total++; len(answer.Files) < 200 {
			answer.Files = append(answer.Files, workspaceEntry{Path: agent.InertName(f.Path), Kind: kindOf(f.Kind), Size: f.Size, SHA256: f.SHA256})
		}
	}
	if answer.Total > len(answer.Files) {
		answer.Notes = append(answer.Notes, "only the first 200 are listed; name a folder")
	}
	return agent.Outcome{Verdict: chat.VerdictDone, Answer: encode(answer), Selected: sourcesOf(o.ever)}, nil
}
