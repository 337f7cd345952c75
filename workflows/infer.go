package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"sightline/agent"
	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// maxCalls bounds the tools of one step.
const maxCalls = 16

// maxRequest bounds the text of one request, as its audit row does.
const maxRequest = 1 << 20

const failCalls = "too_many_calls"

// Infer makes assistant step Seq, or finds it made.
func (a *Activities) Infer(ctx context.Context, in InferInput) (InferResult, error) {
	defer a.Pulse.beat(ctx)()
	a.at("infer.started")
	if in.Begin != nil {
		r, err := a.begin(ctx, *in.Begin)
		if err != nil {
			return InferResult{}, settle(ctx, beginning(err))
		}
		if r.State != "" { // an earlier attempt did it all, and died before it could say so
			return InferResult{Posted: &PostResult{Kind: kindOf(r.State)}}, nil
		}
		if r.Skip {
			return InferResult{Skip: true}, nil
		}
	}
	r, err := a.infer(ctx, in)
	if err == nil && in.Post && r.Calls == 0 && r.Failed == "" {
		r.Posted, err = a.postAtOnce(ctx, PostInput{Turn: in.Turn, Kind: chat.ReplyAnswer, Answer: in.Seq, Finish: true, Again: in.Again})
	}
	var me *agent.ModelError
	if errors.As(err, &me) && ctx.Err() == nil {
		if me.Permanent {
			return InferResult{Failed: string(me.Kind), Reason: bounded(me.Operator)}, nil
		}
		return InferResult{}, temporal.NewApplicationErrorWithOptions(bounded(me.Error()), string(me.Kind),
			temporal.ApplicationErrorOptions{NextRetryDelay: me.RetryAfter, NonRetryable: spent(ctx)})
	}
	return r, settle(ctx, attempts(ctx, err))
}

func (a *Activities) infer(ctx context.Context, in InferInput) (InferResult, error) {
	l, err := a.load(ctx, in.Turn)
	if err != nil {
		return InferResult{}, err
	}
	if s, ok := l.step(in.Seq); ok {
		return inferred(s)
	}
	if l.messages[l.turn.Message].Deleted {
		return InferResult{Failed: failDeleted}, nil
	}
	b, err := a.brief(ctx, l, in)
	if err != nil {
		return InferResult{}, err
	}
	replier := l.agent.Repliers[l.place.Platform]
	progress := func(text, draft string) {
		if replier != nil {
			replier.Progress(ctx, chat.Progress{Turn: in.Turn, Place: l.place, Step: in.Step, Text: text, Draft: draft})
		}
	}
	progress(thinking(b), "")
	draft := a.drafting(ctx, l, replier)
	defer draft.end()

	resp, shown, err := a.fitting(ctx, l, b, in, func(text string) {
		progress("", text)
		draft.show(text)
	})
	draft.end() // what is written after this comes after the last edit
	if err != nil {
		return InferResult{}, err
	}
	if len(resp.Message.Calls) > maxCalls {
		return InferResult{Failed: failCalls, Reason: fmt.Sprintf("%d tool calls in one step", len(resp.Message.Calls))}, nil
	}
	body, err := json.Marshal(resp.Message)
	if err != nil {
		return InferResult{}, fmt.Errorf("encode the model's message: %w", err)
	}
	if err := a.DB.PutLabel(ctx, in.Turn, in.Seq, with(l.label(), shown)); err != nil {
		return InferResult{}, err
	}
	s, _, err := a.DB.AppendStep(ctx, checkpoints.Step{Turn: in.Turn, Seq: in.Seq, Kind: checkpoints.StepAssistant, Body: body})
	if err != nil {
		return InferResult{}, err
	}
	a.at("infer.step_written")
	r, err := inferred(s)
	r.Compact = l.compact
	return r, err
}

// fitting asks, and asks again with half of the past where the model says that
// the request is too long: how many tokens it takes only the model knows. What
// is left out is said in the request.
func (a *Activities) fitting(ctx context.Context, l *loaded, b agent.Brief, in InferInput, draft func(string)) (agent.ModelResponse, []chat.Selected, error) {
	for {
		resp, shown, err := l.agent.Inference.Infer(ctx, b, a.auditor(in), draft)
		var me *agent.ModelError
		if !errors.As(err, &me) || me.Kind != agent.ErrTooLong || len(b.History) == 0 && b.Summary == "" {
			return resp, shown, err
		}
		left := len(b.History) / 2
		b.Older += len(b.History) - left
		b.History = b.History[len(b.History)-left:]
		if left == 0 {
			b.Older, b.Summary, b.Summed = b.Older+b.Summed, "", 0
		}
	}
}

// postAtOnce spares an answer its own activity. A failure is not this
// activity's to try again: the answer stands, and the turn posts it.
func (a *Activities) postAtOnce(ctx context.Context, in PostInput) (*PostResult, error) {
	a.at("post.started")
	r, err := a.postAndFinish(ctx, in)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		a.Log.Warn("an answer could not be posted at once", "turn", string(in.Turn), "error", err)
		return nil, nil
	}
	return &r, nil
}

// auditor keeps the pixel-free body of each request, and what came of it.
func (a *Activities) auditor(in InferInput) agent.Auditor {
	return func(ctx context.Context, w agent.Audited) (func(agent.ModelResponse, error) error, error) {
		a.at("infer.pictures_ready")
		if len(w.Body) > maxRequest {
			return nil, &agent.ModelError{Kind: agent.ErrTooLong, Permanent: true, Picture: -1,
				Operator: fmt.Sprintf("the request's text is %d bytes, over %d", len(w.Body), maxRequest)}
		}
		began := time.Now()
		attempt, err := a.DB.OpenAudit(ctx, checkpoints.Audit{
			Turn: in.Turn, Seq: in.Seq, Model: w.Model, Body: w.Body, Pictures: w.Pictures, At: began,
		})
		if err != nil {
			return nil, err
		}
		a.at("infer.audited")
		return func(r agent.ModelResponse, err error) error {
			if err == nil {
				a.at("infer.model_answered")
			}
			// The audit of a cancelled call is closed too, beyond its context.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			cerr := a.DB.CloseAudit(ctx, in.Turn, in.Seq, attempt, outcome(r, err), r.Usage.InputTokens, r.Usage.OutputTokens, time.Since(began))
			a.at("infer.audit_closed")
			return cerr
		}, nil
	}
}

// inferred reads the result from what is stored, so that a first and a
// repeated run can't differ.
func inferred(s checkpoints.Step) (InferResult, error) {
	var m agent.Message
	if err := json.Unmarshal(s.Body, &m); err != nil {
		return InferResult{}, fmt.Errorf("stored step %d: %w", s.Seq, checkpoints.ErrInvalid)
	}
	return InferResult{Calls: len(m.Calls)}, nil
}

func outcome(r agent.ModelResponse, err error) string {
	var me *agent.ModelError
	switch {
	case errors.As(err, &me):
		return string(me.Kind)
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case err != nil:
		return "failed"
	case r.Finish != "":
		return r.Finish
	}
	return "ok"
}

// thinking tells a person what a step is about.
func thinking(b agent.Brief) string {
	switch n := len(b.Wanted); {
	case n == 1:
		return "looking at 1 picture"
	case n > 1:
		return fmt.Sprintf("looking at %d pictures", n)
	}
	return "thinking"
}
