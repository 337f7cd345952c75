package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
	Role      chat.Role // at least; Stranger: anybody whose message starts a turn
	Vision    bool
	Workspace bool // one that an owner enabled for the conversation
	// Effect: the tool changes something that lasts. Its intent is written
	// first; one that died before its receipt is uncertain, never repeated.
	Effect bool
	// Inspects: the tool shows what became of an uncertain effect.
	Inspects bool
}

// Here is for whom, and where, tools are offered.
type Here struct {
	Actor     chat.Actor
	Model     ModelInfo
	Workspace bool // an owner enabled one for the conversation
}

// Call is one checked tool call.
type Call struct {
	Request   attachments.Request
	ID        string
	Arguments string
	Model     ModelInfo
	Workspace bool // as in Here
	// Uncertain names the tool of an earlier call whose effect is not known and
	// was not looked at since.
	Uncertain string
	// Key is the call's own, the same however often it is tried.
	Key string
	// Share posts a file beside the reply, once for each key; nil where nothing
	// can be posted.
	Share func(ctx context.Context, f chat.ReplyFile) error
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
	// Places are those whose contents the answer tells of, besides the selected
	// attachments: whoever reads the reply has to be a reader of each.
	Places []chat.PlaceID
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
func (r *Registry) Offer(h Here) []ToolSpec {
	var out []ToolSpec
	for _, t := range r.tools {
		if admits(t.Needs(), h) == nil {
			out = append(out, t.Spec())
		}
	}
	return out
}

var (
	errRole   = errors.New("only an owner of this agent may use this tool")
	errVision = errors.New("this model can't see pictures, so this tool is not available")
	// ErrNoWorkspace: no owner enabled one here.
	ErrNoWorkspace = errors.New("there is no workspace in this conversation; an owner of the agent can switch it on with the command: workspace on")
)

func admits(n Needs, h Here) error {
	if h.Actor.Role < n.Role {
		return errRole
	}
	if n.Vision && h.Model.Capability.Vision != VisionYes {
		return errVision
	}
	if n.Workspace && !h.Workspace {
		return ErrNoWorkspace
	}
	return nil
}

// Needs are those of a tool; the zero value for one that does not exist.
func (r *Registry) Needs(name string) Needs {
	if t := r.by[name]; t != nil {
		return t.Needs()
	}
	return Needs{}
}

// Spoken is how people hear of a call. A name is said only if a tool has it: any
// other is the model's own words, which may tell of what not everybody may know.
func (r *Registry) Spoken(name string) string {
	if r.by[name] == nil {
		return "a tool"
	}
	return name
}

// Names are the tools for which want holds.
func (r *Registry) Names(want func(Needs) bool) []string {
	var out []string
	for _, t := range r.tools {
		if want(t.Needs()) {
			out = append(out, t.Spec().Name)
		}
	}
	return out
}

// Uncertain is the outcome of a call whose effect is not known: it died
// between its intent and its receipt.
func (r *Registry) Uncertain(name string) Outcome {
	out := Refused(fmt.Sprintf("It is not known whether this call of %s took effect: the process ended before it could be written down. "+
		"It was not repeated. %s", name, r.inspect()), "intent without a receipt")
	out.Verdict = chat.VerdictUncertain
	return out
}

func (r *Registry) inspect() string {
	names := r.Names(func(n Needs) bool { return n.Inspects })
	if len(names) == 0 {
		return "Tell the person, and let them decide."
	}
	return "Look with " + strings.Join(names, " or ") + " at what is there before you change anything again."
}

// maxAnswer bounds what one tool answer adds to the transcript.
const maxAnswer = 64 << 10

// Dispatch is the second door. The answer is JSON whatever happened.
func (r *Registry) Dispatch(ctx context.Context, name string, c Call) (Outcome, error) {
	t := r.by[name]
	if t == nil {
		return Refused(fmt.Sprintf("there is no tool named %q", InertName(name)), "unknown tool"), nil
	}
	needs := t.Needs()
	if err := admits(needs, Here{Actor: c.Request.Actor, Model: c.Model, Workspace: c.Workspace}); err != nil {
		return Refused(err.Error(), "second door: "+err.Error()), nil
	}
	if needs.Effect && c.Uncertain != "" {
		return Refused(fmt.Sprintf("It is not known what an earlier call of %s did. %s", c.Uncertain, r.inspect()), "an uncertain effect was not looked at"), nil
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
