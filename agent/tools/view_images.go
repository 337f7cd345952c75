package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"sightline/agent"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

// maxViews is how many pictures one call may select.
const maxViews = 4

// ViewImages selects the pictures of the following inferences, by ID only.
// It authorizes, fetches and decodes each, so that its receipt is true, and
// keeps none: the next inference does all of that anew.
type ViewImages struct {
	Looker *agent.Looker
}

var _ agent.Tool = (*ViewImages)(nil)

// Spec is what the model is told.
func (*ViewImages) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: "view_images",
		Description: "Shows 1 to 4 pictures of this conversation in the next step, in place of those shown now. " +
			"Names pictures by attachment id only (att_...), as markers and list_documents give them. A page of a PDF is named by its id and page. " +
			"For small text ask for a region: a part of the picture at its native resolution, in pixels of the whole picture.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"ids":{"type":"array","maxItems":4,"items":{"type":"string"},"description":"ids of pictures to show whole"},` +
			`"regions":{"type":"array","maxItems":4,"items":{"type":"object","properties":{` +
			`"id":{"type":"string"},"x":{"type":"integer","minimum":0},"y":{"type":"integer","minimum":0},` +
			`"width":{"type":"integer","minimum":1},"height":{"type":"integer","minimum":1},` +
			`"page":{"type":"integer","minimum":1}},` +
			`"required":["id","x","y","width","height"],"additionalProperties":false},"description":"parts of pictures, or of PDF pages, to show at native resolution"},` +
			`"pages":{"type":"array","maxItems":4,"items":{"type":"object","properties":{` +
			`"id":{"type":"string"},"page":{"type":"integer","minimum":1}},` +
			`"required":["id","page"],"additionalProperties":false},"description":"pages of PDFs to show whole"}},` +
			`"additionalProperties":false}`),
	}
}

// Needs a model that sees.
func (*ViewImages) Needs() agent.Needs { return agent.Needs{Vision: true} }

type region struct {
	ID     string `json:"id"`
	X      *int   `json:"x"`
	Y      *int   `json:"y"`
	Width  *int   `json:"width"`
	Height *int   `json:"height"`
	Page   int    `json:"page"`
}

type page struct {
	ID   string `json:"id"`
	Page *int   `json:"page"`
}

type selection struct {
	ID     chat.AttachmentID `json:"id"`
	Name   string            `json:"name,omitempty"`
	Type   string            `json:"type,omitempty"`
	Width  int               `json:"width,omitempty"`
	Height int               `json:"height,omitempty"`
	SHA256 string            `json:"sha256,omitempty"`
	Page   int               `json:"page,omitempty"`
	Region *[4]int           `json:"region,omitempty"`
	Notes  []string          `json:"notes,omitempty"`
	Reason string            `json:"reason,omitempty"`
}

type selections struct {
	Selected []selection `json:"selected"`
	Refused  []selection `json:"refused,omitempty"`
	Note     string      `json:"note"`
}

// Run checks every picture of the selection.
func (t *ViewImages) Run(ctx context.Context, c agent.Call) (agent.Outcome, error) {
	if c.Model.Capability.Vision != agent.VisionYes { // the third door
		return agent.Refused("this model can't see pictures", "third door: no vision"), nil
	}
	wanted, person := wish(c)
	if person != "" {
		return agent.Refused(person, person), nil
	}
	var largest int64
	for _, w := range wanted {
		largest = max(largest, t.Looker.Largest(w))
	}
	held, err := t.Looker.Memory.Hold(ctx, largest) // one at a time is in memory
	if err != nil {
		return agent.Outcome{}, err
	}
	defer held.Free()
	var ans selections
	out := agent.Outcome{Verdict: chat.VerdictDone}
	for _, w := range wanted {
		v, err := t.Looker.Look(ctx, c.Request, w, c.Model, c.Model.Limits.Target(len(wanted)), "view")
		if err != nil {
			return agent.Outcome{}, err
		}
		s := selection{
			ID: v.Selected.Attachment, Name: v.Name, Type: v.Selected.Type, Width: v.Selected.Width, Height: v.Selected.Height,
			SHA256: v.Selected.Digest, Page: v.Selected.Page, Region: v.Selected.Region, Notes: v.Notes, Reason: v.Person,
		}
		if v.Shown() {
			ans.Selected = append(ans.Selected, s)
		} else {
			out.Reason = v.Operator
			ans.Refused = append(ans.Refused, s)
		}
		out.Selected = append(out.Selected, v.Selected)
	}
	ans.Note = "The selected pictures are shown in the next step."
	if len(ans.Selected) == 0 {
		ans.Selected = []selection{}
		ans.Note = "No picture was selected; what was shown before stays. Nothing can be said of what these show."
		out.Verdict = chat.VerdictRefused
	}
	out.Answer = encode(ans)
	return out, nil
}

// wish turns arguments into wanted pictures, or into one sentence of refusal.
func wish(c agent.Call) ([]agent.Wanted, string) {
	var args struct {
		IDs     []string `json:"ids"`
		Regions []region `json:"regions"`
		Pages   []page   `json:"pages"`
	}
	if err := decode(c.Arguments, &args); err != nil {
		return nil, err.Error()
	}
	n := len(args.IDs) + len(args.Regions) + len(args.Pages)
	if n == 0 {
		return nil, "name 1 to 4 pictures by id"
	}
	if n > maxViews {
		return nil, fmt.Sprintf("at most %d pictures can be shown at once, and %d were asked for: choose", maxViews, n)
	}
	var out []agent.Wanted
	add := func(s string, r *visual.Region, page int) string {
		id, err := chat.ParseAttachmentID(s)
		if err != nil {
			return byIDOnly
		}
		out = append(out, agent.Wanted{Attachment: id, Region: r, Page: page, Digest: digest(c.Earlier, id)})
		return ""
	}
	for _, s := range args.IDs {
		if why := add(s, nil, 0); why != "" {
			return nil, why
		}
	}
	for _, r := range args.Regions {
		if r.X == nil || r.Y == nil || r.Width == nil || r.Height == nil {
			return nil, "a region needs id, x, y, width and height"
		}
		if why := add(r.ID, &visual.Region{X: *r.X, Y: *r.Y, Width: *r.Width, Height: *r.Height}, max(r.Page, 0)); why != "" {
			return nil, why
		}
	}
	for _, p := range args.Pages {
		if p.Page == nil || *p.Page < 1 {
			return nil, "a page needs id and page, counted from 1"
		}
		if why := add(p.ID, nil, *p.Page); why != "" {
			return nil, why
		}
	}
	return out, ""
}

func digest(seen []chat.Selected, id chat.AttachmentID) string {
	for _, s := range seen {
		if s.Attachment == id && s.Digest != "" {
			return s.Digest
		}
	}
	return ""
}
