package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sightline/agent"
	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// Tool runs one call of an assistant step, or finds it run. All tools so far
// only read: a call that died half-way is simply made again.
func (a *Activities) Tool(ctx context.Context, in ToolInput) error {
	defer beat(ctx)()
	a.at("tool.started")
	return settle(ctx, a.tool(ctx, in))
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
		r.Progress(ctx, chat.Progress{Turn: in.Turn, Place: l.place, Step: in.Seq, Text: "using " + agent.InertName(call.Name)})
	}
	inf := l.agent.Inference
	out, err := inf.Tools.Dispatch(ctx, call.Name, agent.Call{
		Request: l.request, ID: call.ID, Arguments: call.Arguments, Model: inf.Model.Info(ctx), Earlier: l.seen,
	})
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
			Verdict: out.Verdict, Reason: bounded(out.Reason), Selected: out.Selected, At: time.Now(),
		})
	if err == nil {
		a.at("tool.settled")
	}
	return err
}
