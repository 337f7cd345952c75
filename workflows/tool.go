package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sightline/agent"
	"sightline/attachments"
	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// Tool runs one call of an assistant step, or finds it run. A tool that only
// reads is simply run again after a crash. One with an effect writes its intent
// first, and an intent without a receipt is not acted upon a second time.
//
//	intent -> effect -> receipt (with the step)
//	   └── found without a receipt: uncertain
func (a *Activities) Tool(ctx context.Context, in ToolInput) error {
	defer a.Pulse.beat(ctx)()
	a.at("tool.started")
	return settle(ctx, attempts(ctx, a.tool(ctx, in)))
}

func (a *Activities) tool(ctx context.Context, in ToolInput) error {
	l, err := a.load(ctx, in.Turn)
	if err != nil {
		return err
	}
	if _, ok := l.step(in.Seq); ok {
		return nil
	}
	s, ok := l.step(in.Infer)
	if !ok {
		return fmt.Errorf("assistant step %d: %w", in.Infer, checkpoints.ErrNotFound)
	}
	var m agent.Message
	if err := json.Unmarshal(s.Body, &m); err != nil || in.Index >= len(m.Calls) {
		return fmt.Errorf("call %d of step %d: %w", in.Index, in.Infer, errors.Join(err, checkpoints.ErrInvalid))
	}
	call := m.Calls[in.Index]
	if r := l.agent.Repliers[l.place.Platform]; r != nil {
		r.Progress(ctx, chat.Progress{Turn: in.Turn, Place: l.place, Step: in.Seq, Text: "using " + l.agent.Inference.Tools.Spoken(call.Name)})
	}
	out, err := a.dispatch(ctx, l, in, call)
	if err != nil {
		return err
	}
	a.at("tool.ran")
	body, err := json.Marshal(agent.Message{Role: agent.RoleTool, CallID: call.ID, Text: out.Answer})
	if err != nil {
		return fmt.Errorf("encode the tool's answer: %w", err)
	}
	_, _, _, err = a.DB.AppendToolStep(ctx,
		checkpoints.Step{Turn: in.Turn, Seq: in.Seq, Kind: checkpoints.StepTool, Body: body},
		checkpoints.Receipt{
			Turn: in.Turn, Seq: in.Seq, Tool: call.Name, CallID: call.ID,
			Verdict: out.Verdict, Reason: bounded(out.Reason), Selected: out.Selected, Places: out.Places, At: time.Now(),
		})
	if err == nil {
		a.at("tool.settled")
	}
	return err
}

func (a *Activities) dispatch(ctx context.Context, l *loaded, in ToolInput, call agent.ToolCall) (agent.Outcome, error) {
	inf := l.agent.Inference
	tools := inf.Tools
	c := agent.Call{
		Request: l.request, ID: call.ID, Arguments: call.Arguments, Model: inf.Model.Info(ctx), Earlier: l.seen,
		Key: fmt.Sprintf("%s/%d", in.Turn, in.Seq),
	}
	var err error
	if c.Workspace, err = a.workspace(ctx, l); err != nil {
		return agent.Outcome{}, err
	}
	if tools.Needs(call.Name).Effect {
		if c.Uncertain, err = a.uncertain(ctx, l); err != nil {
			return agent.Outcome{}, err
		}
		c.Share = a.share(l, in.Turn, c.Key)
		// Refused before the intent: nothing can have happened.
		if c.Uncertain == "" {
			existed, err := a.DB.Intend(ctx, in.Turn, in.Seq, call.Name, call.ID)
			if err != nil {
				return agent.Outcome{}, err
			}
			if existed {
				return tools.Uncertain(call.Name), nil
			}
			a.at("tool.intended")
		}
	}
	out, err := tools.Dispatch(ctx, call.Name, c)
	if err == nil && tools.Needs(call.Name).Effect {
		a.at("tool.effect")
	}
	return out, err
}

// uncertain names the tool whose effect in this conversation is not known and
// was not looked at since.
func (a *Activities) uncertain(ctx context.Context, l *loaded) (string, error) {
	tools := l.agent.Inference.Tools
	names := tools.Names(func(n agent.Needs) bool { return n.Effect || n.Inspects })
	last, err := a.DB.LastReceipts(ctx, l.turn.Agent, l.turn.Conversation, names, 50)
	if err != nil {
		return "", err
	}
	for _, r := range last {
		switch {
		case r.Verdict == chat.VerdictUncertain:
			return r.Tool, nil
		case tools.Needs(r.Tool).Inspects && r.Verdict == chat.VerdictDone:
			return "", nil
		}
	}
	return "", nil
}

// SettingWorkspace is the name of an owner's decision on workspaces.
const SettingWorkspace = "workspace"

// workspace reports whether an owner enabled one here: in the conversation
// itself, or in the channel of its thread, or for the agent as a whole.
func (a *Activities) workspace(ctx context.Context, l *loaded) (bool, error) {
	if l.agent.Workspaces == nil || !l.agent.Workspaces() {
		return false, nil
	}
	convs := []chat.ConversationID{l.turn.Conversation}
	if l.place.Parent != "" {
		convs = append(convs, chat.ConversationOf(l.turn.Agent, l.place.Parent))
	}
	for _, c := range convs {
		v, err := a.DB.Setting(ctx, l.turn.Agent, c, SettingWorkspace)
		if err != nil {
			return false, err
		}
		if v != "" {
			return v == "on", nil
		}
	}
	return l.agent.WorkspaceOn, nil
}

// share posts a file beside the turn's reply. The disclosure is checked as a
// reply's is, right before.
func (a *Activities) share(l *loaded, turn chat.TurnID, key string) func(context.Context, chat.ReplyFile) error {
	return func(ctx context.Context, f chat.ReplyFile) error {
		now, err := a.load(ctx, turn)
		if err != nil {
			return err
		}
		why := whyStale(now.turn)
		if why == "" {
			why, err = a.disclose(ctx, now, with(now.label(), now.seen), "share")
		}
		if err != nil {
			return err
		}
		if why != "" {
			return fmt.Errorf("%s: %w", why, attachments.ErrNotAvailable)
		}
		r := l.agent.Repliers[l.place.Platform]
		if r == nil {
			return fmt.Errorf("no connector of agent %s posts to %s", l.agent.ID, l.place.Platform)
		}
		_, err = r.Post(ctx, chat.Reply{
			Key: key + "/file", Turn: turn, Place: l.place, ReplyTo: l.messages[l.turn.Message], Kind: chat.ReplyBeside, Text: f.Name, Files: []chat.ReplyFile{f},
		})
		return err
	}
}
