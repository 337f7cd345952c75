package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
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
	failDeleted  = "message_deleted"
	failBegin    = "begin" // the turn has no row: nothing can be posted as turns do
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
		// How often a model or a tool is asked, the activity counts (attempts):
		// a database that is away for a while costs no attempt.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second},
	})
}

// turn is the state of one run.
type turn struct {
	in     TurnInput
	seq    int // next step row
	joined []chat.MessageID
	// skipped: there was nothing to answer.
	skipped bool
	posted  *PostResult // by the inference that answered
	step    int         // inferences begun
	compact bool
	// discards counts answers that were discarded.
	discards int
	now      TurnProgress
	last     shown
}

// Turn answers one message.
func Turn(ctx workflow.Context, in TurnInput) (TurnResult, error) {
	t := &turn{in: in, seq: 1}
	began := workflow.Now(ctx)
	t.open(ctx)
	r, err := t.run(ctx)
	t.passOver(ctx)
	t.close(ctx, began, r.State, err)
	if t.compact && err == nil && ctx.Err() == nil {
		cctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:        string(in.Turn) + "/compact",
			ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		})
		child := workflow.ExecuteChildWorkflow(cctx, CompactionType, CompactInput{Turn: in.Turn})
		if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("older turns are not summed up", "turn", string(in.Turn), "error", err)
		}
	}
	return r, err
}

// passOver reads what came too late to be joined. The conversation queues what
// the result does not name; unread, it would be a warning in the log.
func (t *turn) passOver(ctx workflow.Context) {
	var s SteerSignal
	for steers := workflow.GetSignalChannel(ctx, SignalSteer); steers.ReceiveAsync(&s); {
	}
}

func (t *turn) run(ctx workflow.Context) (TurnResult, error) {
	in := t.in
	if !in.Brief {
		if done, err := t.begin(ctx); done || err != nil {
			return t.result("skipped"), err
		}
	}
	for t.step = 1; ; {
		r, again, err := t.answer(ctx)
		if !again {
			return r, err
		}
	}
}

// maxAgain is how often an answer is made anew because what it drew on may not
// be shown any more.
const maxAgain = 2

// answer makes an answer and posts it; again says that it was discarded.
func (t *turn) answer(ctx workflow.Context) (r TurnResult, again bool, err error) {
	in := t.in
	post := t.steps(ctx)
	switch {
	case t.again():
		return r, true, nil
	case t.skipped:
		return t.result("skipped"), false, nil
	case t.posted != nil:
		return t.result(stateOf(t.posted.Kind)), false, nil
	}
	t.show(ctx, "post", t.now.Step)
	// A stopped turn still posts and finishes, beyond its own cancellation.
	if errors.Is(ctx.Err(), workflow.ErrCanceled) {
		post = PostInput{Kind: chat.ReplyStopped}
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		if in.Brief {
			// The first inference may have been stopped before it began the turn.
			if done, err := t.begin(ctx); done || err != nil {
				return t.result("skipped"), false, err
			}
		}
	}
	if post.Failed == failBegin {
		return t.result("failed"), false, t.tell(ctx, post.Reason)
	}
	post.Turn, post.Finish, post.Again = in.Turn, in.Brief, in.Brief && t.discards < maxAgain
	fin := FinishInput{Turn: in.Turn}
	var posted PostResult
	err = workflow.ExecuteActivity(posting(ctx), "Post", post).Get(ctx, &posted)
	if err == nil && posted.Again {
		t.posted = &posted
		return r, t.again(), nil
	}
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
	if in.Brief && err == nil {
		return t.result(fin.State), false, nil // the post has finished it
	}
	if err := workflow.ExecuteActivity(short(ctx), "Finish", fin).Get(ctx, nil); err != nil {
		return t.result(fin.State), false, err
	}
	return t.result(fin.State), false, nil
}

// again reports whether what was made last was discarded, and counts it.
func (t *turn) again() bool {
	if t.posted == nil || !t.posted.Again {
		return false
	}
	t.posted = nil
	t.discards++
	t.step++
	return true
}

// begin writes the turn's row; done says that there is nothing to answer.
func (t *turn) begin(ctx workflow.Context) (done bool, err error) {
	var r BeginResult
	if err := workflow.ExecuteActivity(short(ctx), "Begin", t.in).Get(ctx, &r); err != nil {
		// Without its row the turn can't post as turns do; it is told all the
		// same. Telling is the last that can be done: its own failure is logged
		// with the turn's.
		if ctx.Err() == nil {
			_ = workflow.ExecuteActivity(posting(ctx), "Tell", t.in).Get(ctx, nil)
		}
		return false, err
	}
	return r.Skip, nil
}

// tell says that there is no answer, where the turn could not begin.
func (t *turn) tell(ctx workflow.Context, reason string) error {
	_ = workflow.ExecuteActivity(posting(ctx), "Tell", t.in).Get(ctx, nil)
	return temporal.NewApplicationError(reason, failBegin)
}

func (t *turn) result(state string) TurnResult { return TurnResult{State: state, Joined: t.joined} }

// steps runs until there is something to post.
func (t *turn) steps(ctx workflow.Context) PostInput {
	steers := workflow.GetSignalChannel(ctx, SignalSteer)
	for ; t.step <= maxSteps; t.step++ {
		step := t.step
		for {
			var s SteerSignal
			if t.in.Brief && step == 1 || !steers.ReceiveAsync(&s) {
				break // what is not begun can't be joined: the next step is soon
			}
			if err := workflow.ExecuteActivity(short(ctx), "Join", JoinInput{Turn: t.in.Turn, Seq: t.seq, Message: s.Message}).Get(ctx, nil); err != nil {
				return failure(err)
			}
			t.joined = append(t.joined, s.Message)
			t.joins(ctx, s)
			t.seq++
		}
		infer := InferInput{Turn: t.in.Turn, Seq: t.seq, Step: step}
		if t.in.Brief && step == 1 {
			infer.Begin = &t.in
		}
		infer.Post, infer.Again = t.in.Brief, t.in.Brief && t.discards < maxAgain
		t.seq++
		var r InferResult
		t.show(ctx, "infer", step)
		actx := slow(ctx)
		if infer.Begin != nil {
			// A message is not given up because the database is away.
			actx = workflow.WithScheduleToCloseTimeout(actx, 24*time.Hour)
		}
		if err := workflow.ExecuteActivity(actx, "Infer", infer).Get(ctx, &r); err != nil {
			return failure(err)
		}
		if r.Skip {
			t.skipped = true
			return PostInput{}
		}
		t.compact = t.compact || r.Compact && t.in.Brief
		if r.Posted != nil {
			t.posted = r.Posted
			return PostInput{}
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
			t.show(ctx, "tool", step)
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

func kindOf(state string) chat.ReplyKind {
	for _, k := range []chat.ReplyKind{chat.ReplyAnswer, chat.ReplyStopped} {
		if stateOf(k) == state {
			return k
		}
	}
	return chat.ReplyFailure
}

// bounded keeps a reason from growing a history.
func bounded(s string) string {
	const max = 500
	if len(s) > max {
		return s[:max] + "…"
	}
	return s
}
