package tools

import (
	"context"
	"encoding/json"

	"sightline/agent"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

// WorkspaceView selects a picture of the workspace for the following
// inferences, as ViewImages does with attachments.
type WorkspaceView struct {
	Looker *agent.Looker
}

var _ agent.Tool = (*WorkspaceView)(nil)

// Spec is what the model is told.
func (*WorkspaceView) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: "workspace_view",
		Description: "Shows a picture file of the workspace (PNG, JPEG, WebP, GIF), or a page of a PDF there, in the next step, in place of the pictures shown now. " +
			"For small text ask for a region at native resolution.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"absolute path below /workspace"},` +
			`"page":{"type":"integer","minimum":1,"description":"of a PDF"},` +
			`"region":{"type":"object","properties":{"x":{"type":"integer","minimum":0},"y":{"type":"integer","minimum":0},` +
			`"width":{"type":"integer","minimum":1},"height":{"type":"integer","minimum":1}},"required":["x","y","width","height"],"additionalProperties":false}},` +
			`"required":["path"],"additionalProperties":false}`),
	}
}

// Needs a workspace, and a model that sees.
func (*WorkspaceView) Needs() agent.Needs { return agent.Needs{Workspace: true, Vision: true} }

// Run checks the picture.
func (t *WorkspaceView) Run(ctx context.Context, c agent.Call) (agent.Outcome, error) {
	var args struct {
		Path   string  `json:"path"`
		Page   int     `json:"page"`
		Region *region `json:"region"`
	}
	if err := decode(c.Arguments, &args); err != nil {
		return agent.Refused(err.Error(), err.Error()), nil
	}
	switch { // the third door
	case !c.Workspace:
		return agent.Refused(agent.ErrNoWorkspace.Error(), "third door: no workspace"), nil
	case c.Model.Capability.Vision != agent.VisionYes:
		return agent.Refused("this model can't see pictures", "third door: no vision"), nil
	case args.Path == "":
		return agent.Refused("name a file below /workspace", "no path"), nil
	}
	w := agent.Wanted{File: args.Path, Page: max(args.Page, 0)}
	if r := args.Region; r != nil {
		if r.X == nil || r.Y == nil || r.Width == nil || r.Height == nil {
			return agent.Refused("a region needs x, y, width and height", "half a region"), nil
		}
		w.Region = &visual.Region{X: *r.X, Y: *r.Y, Width: *r.Width, Height: *r.Height}
	}
	held, err := t.Looker.Memory.Hold(ctx, t.Looker.Largest(w))
	if err != nil {
		return agent.Outcome{}, err
	}
	defer held.Free()
	v, err := t.Looker.Look(ctx, c.Request, w, c.Model, c.Model.Limits.Target(1), "view")
	if err != nil {
		return agent.Outcome{}, err
	}
	out := agent.Outcome{Verdict: chat.VerdictDone, Selected: []chat.Selected{v.Selected}}
	s := selection{
		Name: agent.InertName(args.Path), Type: v.Selected.Type, Width: v.Selected.Width, Height: v.Selected.Height, SHA256: v.Selected.Digest,
		Page: v.Selected.Page, Region: v.Selected.Region, Notes: v.Notes, Reason: v.Person,
	}
	ans := selections{Selected: []selection{}, Note: "The picture is shown in the next step."}
	if v.Shown() {
		ans.Selected = append(ans.Selected, s)
	} else {
		ans.Refused, ans.Note = []selection{s}, "It is not shown; what was shown before stays. Nothing can be said of what it shows."
		out.Verdict, out.Reason = chat.VerdictRefused, v.Operator
	}
	out.Answer = encode(ans)
	return out, nil
}
