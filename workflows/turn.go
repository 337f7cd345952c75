package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sightline/connectors/chat"
)

// maxSteps bounds the inferences of one turn: a model that keeps calling
// tools is told of in the reply.
const maxSteps = 24

// Kinds of failure that are not a model's.
const (
	failSteps    = "too_many_steps"
	failInternal = "internal"
	failAudience = "audience"
)

// short is for activities that read and write rows or post; slow is for those
// that fetch, decode or ask a model. The heartbeat timeout is what a crash
// costs: a dead worker's activity is tried again after it.
func short(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute,
		HeartbeatTimeout:    10 * time.Second,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	})
}

// posting bounds how long a platform that takes no reply holds up what is
// asked after this turn.
func posting(ctx workflow.Context) workflow.Context {
	return workflow.WithScheduleToCloseTimeout(short(ctx), 15*time.Minute)
}

func slow(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    10 * time.Minute,
		ScheduleToCloseTimeout: 30 * time.Minute,
		HeartbeatTimeout:       10 * time.Second,
		WaitForCancellation:    true,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second, MaximumAttempts: 6},
	})
}

// turn is the state of one run.
type turn struct {
	in     TurnInput
	seq    int // next step row
	joined []chat.MessageID
}

// Turn answers one message.
func Turn(ctx workflow.Context, in TurnInput) (TurnResult, error) {
	t := &turn{in: in, seq: 1}
	var begin BeginResult
	if err := workflow.ExecuteActivity(short(ctx), "Begin", in).Get(ctx, &begin); err != nil {
		// Without its row the turn can't post as turns do; it is told all the
		// same. Telling is the last that can be done: its own failure is logged
		// with the turn's.
		if ctx.Err() == nil {
			_ = workflow.ExecuteActivity(posting(ctx), "Tell", in).Get(ctx, nil)
		}
		return t.result("failed"), err
	}
	if begin.Skip {
		return t.result("skipped"), nil
	}
	post := t.steps(ctx)
	// A stopped turn still posts and finishes, beyond its own cancellation.
	if errors.Is(ctx.Err(), workflow.ErrCanceled) {
		post = PostInput{Kind: chat.ReplyStopped}
		ctx, _ = workflow.NewDisconnectedContext(ctx)
	}
	post.Turn = in.Turn
	fin := FinishInput{Turn: in.Turn}
	var posted PostResult
	err := workflow.ExecuteActivity(posting(ctx), "Post", post).Get(ctx, &posted)
	switch {
	case errors.Is(ctx.Err(), workflow.ErrCanceled):
		// Stopped while posting: whether the reply is out is in its row; the
		// stop came too late to change it.
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		if err = workflow.ExecuteActivity(posting(ctx), "Post", post).Get(ctx, &posted); err != nil {
			fin.State, fin.Reason = "failed", bounded(err.Error())
			break
		}
		fin.State, fin.Reason = stateOf(posted.Kind), posted.Reason
	case err != nil:
		fin.State, fin.Reason = "failed", bounded(err.Error())
	default:
		fin.State, fin.Reason = stateOf(posted.Kind), posted.Reason
	}
	if err := workflow.ExecuteActivity(short(ctx), "Finish", fin).Get(ctx, nil); err != nil {
		return t.result(fin.State), err
	}
	return t.result(fin.State), nil
}

func (t *turn) result(state string) TurnResult { return TurnResult{State: state, Joined: t.joined} }

// steps runs until there is something to post.
func (t *turn) steps(ctx workflow.Context) PostInput {
	steers := workflow.GetSignalChannel(ctx, SignalSteer)
	for step := 1; step <= maxSteps; step++ {
		for {
			var s SteerSignal
			if !steers.ReceiveAsync(&s) {
				break
			}
			if err := workflow.ExecuteActivity(short(ctx), "Join", JoinInput{Turn: t.in.Turn, Seq: t.seq, Message: s.Message}).Get(ctx, nil); err != nil {
				return failure(err)
			}
			t.joined = append(t.joined, s.Message)
			t.seq++
		}
		infer := InferInput{Turn: t.in.Turn, Seq: t.seq, Step: step}
		t.seq++
		var r InferResult
		if err := workflow.ExecuteActivity(slow(ctx), "Infer", infer).Get(ctx, &r); err != nil {
			return failure(err)
		}
		if r.Failed != "" {
			return PostInput{Kind: chat.ReplyFailure, Failed: r.Failed, Reason: r.Reason}
		}
		if r.Calls == 0 {
			return PostInput{Kind: chat.ReplyAnswer, Answer: infer.Seq}
		}
		for i := 0; i < r.Calls; i++ {
			call := ToolInput{Turn: t.in.Turn, Infer: infer.Seq, Index: i, Seq: t.seq}
			t.seq++
			if err := workflow.ExecuteActivity(slow(ctx), "Tool", call).Get(ctx, nil); err != nil {
				return failure(err)
			}
		}
	}
	return PostInput{Kind: chat.ReplyFailure, Failed: failSteps}
}

// failure names the kind that the last attempt of an activity gave up with.
func failure(err error) PostInput {
	p := PostInput{Kind: chat.ReplyFailure, Failed: failInternal, Reason: bounded(err.Error())}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() != "" {
		p.Failed = app.Type()
	}
	return p
}

func stateOf(k chat.ReplyKind) string {
	switch k {
	case chat.ReplyAnswer:
		return "answered"
	case chat.ReplyStopped:
		return "stopped"
	}
	return "failed"
}

// bounded keeps a reason from growing a history.
func bounded(s string) string {
	const max = 500
	if len(s) > max {
		return s[:max] + "…"
	}
	return s
}
