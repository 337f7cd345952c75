package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sightline/connectors/chat"
)

// What operators see of a workflow without opening its payloads: search
// attributes, a memo, a summary, details as they are now, and a query. All of
// it is IDs, counters and states; none has room for a name or a text.

// Search attributes, as they are called in Temporal's Web UI.
var (
	attrAgent        = temporal.NewSearchAttributeKeyKeyword("SightlineAgent")
	attrPlatform     = temporal.NewSearchAttributeKeyKeyword("SightlinePlatform")
	attrConversation = temporal.NewSearchAttributeKeyKeyword("SightlineConversation")
	attrState        = temporal.NewSearchAttributeKeyKeyword("SightlineState")
	attrAttachments  = temporal.NewSearchAttributeKeyInt64("SightlineAttachments")
)

// SearchAttributes are what a namespace needs before workflows may carry
// them, with their types.
func SearchAttributes() map[string]string {
	out := map[string]string{}
	for _, k := range []temporal.SearchAttributeKey{attrAgent, attrPlatform, attrConversation, attrState, attrAttachments} {
		out[k.GetName()] = k.GetValueType().String()
	}
	return out
}

// QueryState asks either workflow where it is.
const QueryState = "state"

// Names of the metrics that the workflows themselves count, once each however
// often they are replayed.
const (
	MetricTurns    = "sightline_turns"
	MetricTurnTime = "sightline_turn"
)

// States of a conversation; a turn's are those of its row. The attribute of a
// conversation says stateOpen for as long as it runs: to write each change
// would cost every turn two records, and a turn that is running tells as much.
const (
	stateOpen    = "open"
	stateWaiting = "waiting"
	stateRunning = "running"
)

// ConversationState answers QueryState of a conversation.
type ConversationState struct {
	State       string           `json:"state"`
	Running     chat.TurnID      `json:"running,omitempty"`
	Queue       []chat.MessageID `json:"queue,omitempty"`
	Steered     []chat.MessageID `json:"steered,omitempty"` // handed to the running turn
	Seen        int              `json:"seen"`
	Turns       int              `json:"turns"` // of this run
	Attachments int              `json:"attachments"`
}

// TurnProgress answers QueryState of a turn.
type TurnProgress struct {
	State       string           `json:"state"`
	Doing       string           `json:"doing"` // infer, tool, post
	Step        int              `json:"step"`  // inferences begun
	Joined      []chat.MessageID `json:"joined,omitempty"`
	Attachments int              `json:"attachments"`
}

// shown is what was last written to the search attributes: they are a command
// each, so only changes are.
type shown struct {
	state       string
	attachments int
}

// startOptions make a conversation's start say what it is. Without the
// attributes registered a start that names them would be refused.
func startOptions(in ConversationInput) client.StartWorkflowOptions {
	o := client.StartWorkflowOptions{
		ID: string(in.Conversation), TaskQueue: TaskQueue,
		Memo:          memo(in.Agent, in.Platform, in.Conversation),
		StaticSummary: fmt.Sprintf("Conversation of agent %s on %s", in.Agent, in.Platform),
		StaticDetails: fmt.Sprintf("Place `%s`. Each answer is a child workflow `trn_...`.", in.Place),
	}
	if in.Visible {
		o.TypedSearchAttributes = attributes(in.Agent, in.Platform, in.Conversation, shown{state: stateOpen})
	}
	return o
}

func attributes(a chat.AgentID, p chat.Platform, c chat.ConversationID, s shown) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(attrAgent.ValueSet(string(a)), attrPlatform.ValueSet(string(p)),
		attrConversation.ValueSet(string(c)), attrState.ValueSet(s.state), attrAttachments.ValueSet(int64(s.attachments)))
}

func memo(a chat.AgentID, p chat.Platform, c chat.ConversationID) map[string]any {
	return map[string]any{"agent": string(a), "platform": string(p), "conversation": string(c)}
}

// count keeps how many files a message brought, until its turn has begun or
// it has joined one. It is called before the message is remembered.
func (c *conversation) count(s MessageSignal) {
	if s.Message == "" || c.seen[s.Message] || s.Attachments <= 0 {
		return
	}
	c.in.Counts = append(c.in.Counts, s)
	c.in.Attachments += s.Attachments
}

// counted is what a message brought.
func (c *conversation) counted(m chat.MessageID) int {
	for _, s := range c.in.Counts {
		if s.Message == m {
			return s.Attachments
		}
	}
	return 0
}

// settled forgets the counts of messages that wait no longer.
func (c *conversation) settled(ms ...chat.MessageID) {
	kept := c.in.Counts[:0]
	for _, s := range c.in.Counts {
		gone := false
		for _, m := range ms {
			gone = gone || s.Message == m
		}
		if !gone {
			kept = append(kept, s)
		}
	}
	c.in.Counts = kept
}

// child completes a turn's input and makes its start say what it is.
func (c *conversation) child(ctx workflow.Context, in TurnInput) (workflow.Context, TurnInput) {
	in.Platform, in.Visible, in.Attachments = c.in.Platform, c.in.Visible, c.counted(in.Message)
	c.settled(in.Message)
	o := workflow.GetChildWorkflowOptions(ctx)
	o.Memo = memo(in.Agent, in.Platform, in.Conversation)
	o.Memo["message"] = string(in.Message)
	o.StaticSummary = fmt.Sprintf("Answer of agent %s to %s", in.Agent, in.Message)
	o.StaticDetails = fmt.Sprintf("Conversation `%s` on %s. `sightline inspect turn %s` tells the rest.", in.Conversation, in.Platform, in.Turn)
	if in.Visible {
		o.TypedSearchAttributes = attributes(in.Agent, in.Platform, in.Conversation, shown{stateRunning, in.Attachments})
	}
	return workflow.WithChildOptions(ctx, o), in
}

func (c *conversation) state() ConversationState {
	s := ConversationState{State: stateWaiting, Running: c.running, Queue: c.in.Queue, Steered: c.steered, Seen: len(c.in.Seen),
		Turns: c.turns, Attachments: c.in.Attachments}
	if c.running != "" {
		s.State = stateRunning
	}
	return s
}

// open lets operators ask.
func (c *conversation) open(ctx workflow.Context) {
	answer(ctx, func() (ConversationState, error) { return c.state(), nil })
}

// show tells where the conversation is before it waits.
func (c *conversation) show(ctx workflow.Context) {
	s := c.state()
	text := "Waiting for a message."
	if c.running != "" {
		text = fmt.Sprintf("Turn `%s` is running.", c.running)
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%s %d queued, %d handed to it, %d messages remembered, %d turns in this run, %d attachments.",
		text, len(s.Queue), len(s.Steered), s.Seen, s.Turns, s.Attachments))
	c.told = upsert(ctx, c.in.Visible, shown{stateOpen, c.told}, shown{stateOpen, s.Attachments}).attachments
}

// open lets operators ask, and says what the turn is about.
func (t *turn) open(ctx workflow.Context) {
	t.now = TurnProgress{State: stateRunning, Doing: "begin", Attachments: t.in.Attachments}
	t.last = shown{stateRunning, t.in.Attachments} // its start said so
	answer(ctx, func() (TurnProgress, error) { return t.progress(), nil })
	t.details(ctx)
}

func (t *turn) progress() TurnProgress {
	p := t.now
	p.Joined = t.joined
	return p
}

// show tells what the turn does next.
func (t *turn) show(ctx workflow.Context, doing string, step int) {
	t.now.Doing, t.now.Step = doing, step
	t.details(ctx)
}

// joins counts what a message that joins the turn brings.
func (t *turn) joins(ctx workflow.Context, s SteerSignal) {
	t.now.Attachments += s.Attachments
	t.last = upsert(ctx, t.in.Visible, t.last, shown{t.now.State, t.now.Attachments})
}

func (t *turn) details(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%s: %s, step %d of at most %d; %d messages joined, %d attachments.",
		t.now.State, t.now.Doing, t.now.Step, maxSteps, len(t.joined), t.now.Attachments))
}

// close says how the turn ended, and counts it.
func (t *turn) close(ctx workflow.Context, began time.Time, state string, err error) {
	if err != nil {
		state = "failed"
	}
	t.now.State, t.now.Doing = state, "ended"
	t.details(ctx)
	t.last = upsert(ctx, t.in.Visible, t.last, shown{state, t.now.Attachments})
	m := workflow.GetMetricsHandler(ctx).WithTags(map[string]string{"state": state, "platform": string(t.in.Platform)})
	m.Counter(MetricTurns).Inc(1)
	m.Timer(MetricTurnTime).Record(workflow.Now(ctx).Sub(began))
}

// upsert writes what changed. Whether it may is part of the input: a history
// whose start had no attributes replays without them, and one that runs where
// none are registered never asks for them.
func upsert(ctx workflow.Context, visible bool, last, now shown) shown {
	if !visible || last == now {
		return last
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, attrState.ValueSet(now.state), attrAttachments.ValueSet(int64(now.attachments))); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes could not be written", "error", err)
		return last
	}
	return now
}

// answer registers the one query. That fails only for a handler of the wrong
// shape, which the tests would show.
func answer(ctx workflow.Context, f any) {
	if err := workflow.SetQueryHandler(ctx, QueryState, f); err != nil {
		workflow.GetLogger(ctx).Error("the state can't be asked for", "error", err)
	}
}
