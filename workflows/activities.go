package workflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sightline/agent"
	"sightline/attachments"
	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// Replier is a connector's way to say something. Post is idempotent by the
// reply's key; Progress may lose anything and never blocks.
type Replier interface {
	Post(ctx context.Context, r chat.Reply) (chat.Posted, error)
	Progress(ctx context.Context, p chat.Progress)
}

// Agent is one configured agent as its activities need it.
type Agent struct {
	ID           chat.AgentID
	Name         string
	Instructions string
	Inference    *agent.Inference
	Authorizer   *attachments.Authorizer
	Repliers     map[chat.Platform]Replier
	// Workspaces reports whether a sandbox is there, so that an owner may enable
	// one; nil: there is none.
	Workspaces func() bool
	// WorkspaceOn: one is enabled where no owner has said otherwise.
	WorkspaceOn bool
}

// Activities are the steps of a turn.
type Activities struct {
	DB     *checkpoints.DB
	Agents map[chat.AgentID]*Agent
	Log    *slog.Logger
	// Drafts shows answers while they are made, where the place can.
	Drafts bool
	pace   pace
	Pulse  *Pulse // shared with Ingress
	// At is called at each durable boundary; nil outside of tests.
	At func(boundary string)
}

func (a *Activities) at(b string) {
	if a.At != nil {
		a.At(b)
	}
}

// Register puts the workflows and activities on a worker.
func Register(w worker.Registry, a *Activities) {
	w.RegisterWorkflowWithOptions(Conversation, workflow.RegisterOptions{Name: ConversationType})
	w.RegisterWorkflowWithOptions(Turn, workflow.RegisterOptions{Name: TurnType})
	w.RegisterWorkflowWithOptions(Compaction, workflow.RegisterOptions{Name: CompactionType})
	w.RegisterActivity(a)
}

// maxAttempts is how often an inference or a tool is tried. Attempts that only
// found the database away are not held against it: they are bounded by the
// activity's schedule.
const maxAttempts = 6

func spent(ctx context.Context) bool { return activity.GetInfo(ctx).Attempt >= maxAttempts }

// attempts makes an error final once it was tried for often enough.
func attempts(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, checkpoints.ErrUnavailable) || ctx.Err() != nil || !spent(ctx) {
		return err
	}
	return temporal.NewNonRetryableApplicationError(bounded(err.Error()), failInternal, nil)
}

// errBegin marks what went wrong before the turn had a row.
type errBegin struct{ error }

func (e errBegin) Unwrap() error { return e.error }

func beginning(err error) error { return errBegin{err} }

// settle turns an error into what Temporal should do with it: cancellation
// passes, what the database or the request itself refuses is final, anything
// else is retried.
func settle(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	kind := failInternal
	if errors.As(err, new(errBegin)) {
		kind = failBegin
	}
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &app):
		return err
	case errors.Is(err, checkpoints.ErrNotFound), errors.Is(err, checkpoints.ErrConflict), errors.Is(err, checkpoints.ErrInvalid), errors.Is(err, chat.ErrRefused):
		return temporal.NewNonRetryableApplicationError(bounded(err.Error()), kind, nil)
	}
	return temporal.NewApplicationError(bounded(err.Error()), kind)
}

// agent finds the configured agent of a turn.
func (a *Activities) agent(id chat.AgentID) (*Agent, error) {
	ag := a.Agents[id]
	if ag == nil {
		return nil, fmt.Errorf("agent %q is not configured in this process", id)
	}
	return ag, nil
}

// Begin writes the turn's row and its first step.
func (a *Activities) Begin(ctx context.Context, in TurnInput) (BeginResult, error) {
	defer a.Pulse.beat(ctx)()
	a.at("begin.started")
	r, err := a.begin(ctx, in)
	return r, settle(ctx, err)
}

func (a *Activities) begin(ctx context.Context, in TurnInput) (BeginResult, error) {
	if _, err := a.agent(in.Agent); err != nil {
		return BeginResult{}, err
	}
	m, err := a.DB.Message(ctx, in.Place, in.Message)
	if err != nil {
		return BeginResult{}, err
	}
	if m.Deleted {
		return BeginResult{Skip: true}, nil
	}
	info := activity.GetInfo(ctx)
	t, err := a.DB.BeginTurn(ctx, checkpoints.Turn{
		ID: in.Turn, Agent: in.Agent, Conversation: in.Conversation, Place: in.Place, Message: in.Message, Actor: m.Author,
		WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID, State: checkpoints.TurnRunning, StartedAt: time.Now(),
	})
	if err != nil {
		return BeginResult{}, err
	}
	if t.State != checkpoints.TurnRunning {
		return BeginResult{Skip: true, State: string(t.State)}, nil
	}
	a.at("begin.turn_written")
	if _, _, err := a.DB.AppendStep(ctx, checkpoints.Step{Turn: in.Turn, Seq: 0, Kind: checkpoints.StepUser, Message: in.Message}); err != nil {
		return BeginResult{}, err
	}
	a.at("begin.step_written")
	return BeginResult{}, nil
}

// Join adds a message that arrived meanwhile to the turn.
func (a *Activities) Join(ctx context.Context, in JoinInput) error {
	defer a.Pulse.beat(ctx)()
	a.at("join.started")
	_, _, err := a.DB.AppendStep(ctx, checkpoints.Step{Turn: in.Turn, Seq: in.Seq, Kind: checkpoints.StepUser, Message: in.Message})
	if err == nil {
		a.at("join.written")
	}
	return settle(ctx, err)
}

// Finish closes the turn's row.
func (a *Activities) Finish(ctx context.Context, in FinishInput) error {
	defer a.Pulse.beat(ctx)()
	return settle(ctx, a.finish(ctx, in))
}

func (a *Activities) finish(ctx context.Context, in FinishInput) error {
	a.at("finish.started")
	err := a.DB.FinishTurn(ctx, in.Turn, checkpoints.TurnState(in.State), in.Reason)
	if err == nil {
		a.at("finish.written")
	}
	return err
}
