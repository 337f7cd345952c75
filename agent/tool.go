package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sightline/attachments"
	"sightline/connectors/chat"
)

// Tool is one thing the model may ask for. Run must itself refuse an actor
// that it does not serve (the third door).
type Tool interface {
	Spec() ToolSpec
	Needs() Needs
	Run(ctx context.Context, c Call) (Outcome, error)
}

// Needs says to whom and to which models a tool is offered.
type Needs struct {
	Role   chat.Role // at least; Stranger: anybody whose message starts a turn
	Vision bool
}

// Call is one checked tool call.
type Call struct {
	Request   attachments.Request
	ID        string
	Arguments string
	Model     ModelInfo
	// Earlier are the pictures named by this turn's inferences so far, with
	// the digests they had.
	Earlier []chat.Selected
}

// Outcome is the tool's answer to the model and the trusted facts of its
// receipt. An error beside it means that nothing could be established, and
// the call is tried again.
type Outcome struct {
	Verdict  chat.Verdict
	Reason   string // for operators, when not done
	Answer   string // JSON, for the model
	Selected []chat.Selected
}

// Refused is an outcome with one sentence for the model.
func Refused(person, operator string) Outcome {
	b, _ := json.Marshal(map[string]string{"error": person})
	return Outcome{Verdict: chat.VerdictRefused, Reason: operator, Answer: string(b)}
}

// Registry holds the tools of one agent.
type Registry struct {
	tools []Tool
	by    map[string]Tool
}

// NewRegistry refuses two tools of one name.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{by: map[string]Tool{}}
	for _, t := range tools {
		n := t.Spec().Name
		if n == "" || r.by[n] != nil {
			return nil, fmt.Errorf("agent: tool name %q is empty or taken", n)
		}
		r.by[n] = t
		r.tools = append(r.tools, t)
	}
	return r, nil
}

// Offer is the first door: the tools that this actor and model get to know.
func (r *Registry) Offer(actor chat.Actor, m ModelInfo) []ToolSpec {
	var out []ToolSpec
	for _, t := range r.tools {
		if admits(t.Needs(), actor, m) == nil {
			out = append(out, t.Spec())
		}
	}
	return out
}

var (
	errRole   = errors.New("only an owner of this agent may use this tool")
	errVision = errors.New("this model can't see pictures, so this tool is not available")
)

func admits(n Needs, actor chat.Actor, m ModelInfo) error {
	if actor.Role < n.Role {
		return errRole
	}
	if n.Vision && m.Capability.Vision != VisionYes {
		return errVision
	}
	return nil
}

// maxAnswer bounds what one tool answer adds to the transcript.
const maxAnswer = 64 << 10

// Dispatch is the second door. The answer is JSON whatever happened.
func (r *Registry) Dispatch(ctx context.Context, name string, c Call) (Outcome, error) {
	t := r.by[name]
	if t == nil {
		return Refused(fmt.Sprintf("there is no tool named %q", InertName(name)), "unknown tool"), nil
	}
	if err := admits(t.Needs(), c.Request.Actor, c.Model); err != nil {
		return Refused(err.Error(), "second door: "+err.Error()), nil
	}
	out, err := t.Run(ctx, c)
	if err != nil {
		return Outcome{}, fmt.Errorf("tool %s: %w", name, err)
	}
	if len(out.Answer) > maxAnswer {
		return Refused("the answer of the tool was too long to show; ask for a smaller part", "answer over the limit"), nil
	}
	return out, nil
}
