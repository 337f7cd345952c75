package tools

import (
	"context"
	"encoding/json"
	"time"

	"sightline/agent"
	"sightline/attachments"
	"sightline/connectors/chat"
)

const (
	listDefault = 50
	listMax     = 100
)

// ListDocuments is the complete inventory of the conversation and of the
// channel and threads around it, a page at a time, as far as the place of the
// answer may know of it.
type ListDocuments struct {
	Authorizer *attachments.Authorizer
}

var _ agent.Tool = (*ListDocuments)(nil)

// Spec is what the model is told.
func (*ListDocuments) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: "list_documents",
		Description: "Lists every file posted in this conversation, oldest first, then those posted in the channel or threads around it (around: true): id, name, type, size in bytes, pixel dimensions, who posted it and when, and its state. " +
			"Use it to find the id of a picture or file from an earlier message. Pages: pass next as after until next is 0.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"after":{"type":"integer","minimum":0,"description":"the next of the page before; 0 or absent for the first page"},` +
			`"limit":{"type":"integer","minimum":1,"maximum":100,"description":"entries a page, 50 when absent"}},` +
			`"additionalProperties":false}`),
	}
}

// Needs admits everybody whose message starts a turn.
func (*ListDocuments) Needs() agent.Needs { return agent.Needs{} }

type entry struct {
	ID       chat.AttachmentID `json:"id"`
	Ordinal  int               `json:"ordinal"`
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Size     int64             `json:"size"`
	Width    int               `json:"width,omitempty"`
	Height   int               `json:"height,omitempty"`
	Around   bool              `json:"around,omitempty"` // posted beside the conversation
	PostedBy string            `json:"posted_by"`
	PostedAt string            `json:"posted_at"`
	State    chat.FileState    `json:"state"`
	Viewable bool              `json:"viewable"`
	Note     string            `json:"note,omitempty"`
}

type documents struct {
	Documents []entry `json:"documents"`
	Total     int     `json:"total"`
	Next      int     `json:"next"`
}

// Run lists one page.
func (t *ListDocuments) Run(ctx context.Context, c agent.Call) (agent.Outcome, error) {
	var args struct {
		After *int `json:"after"`
		Limit *int `json:"limit"`
	}
	if err := decode(c.Arguments, &args); err != nil {
		return agent.Refused(err.Error(), err.Error()), nil
	}
	after, limit := 0, listDefault
	if args.After != nil {
		after = *args.After
	}
	if args.Limit != nil {
		limit = *args.Limit
	}
	if after < 0 || limit < 1 || limit > listMax {
		return agent.Refused("after must be 0 or more and limit from 1 to 100", "after or limit out of range"), nil
	}
	page, err := t.Authorizer.List(ctx, c.Request, after, limit)
	if err != nil {
		return agent.Outcome{}, err
	}
	out := documents{Documents: []entry{}, Total: page.Total, Next: page.Next}
	for _, a := range page.Items {
		d := entry{
			ID: a.ID, Ordinal: a.Ordinal, Around: a.Conversation != c.Request.Conversation, Name: agent.InertName(a.Name), Type: a.SniffedType, Size: a.Size,
			Width: a.Width, Height: a.Height, PostedBy: agent.InertName(a.Author.Name),
			PostedAt: a.PostedAt.UTC().Format(time.RFC3339), State: a.State, Viewable: agent.Viewable(a) && a.StateReason == "",
		}
		if d.Type == "" {
			// Nobody has read the bytes yet: what was declared is only a hint.
			d.Type, d.Note = a.DeclaredType, "type as declared, not yet verified"
		}
		if !d.Viewable {
			d.Note = agent.Guidance(a)
		}
		out.Documents = append(out.Documents, d)
	}
	return agent.Outcome{Verdict: chat.VerdictDone, Answer: encode(out), Places: page.Places}, nil
}
