package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sightline/connectors/chat"
)

const (
	idleFor     = 10 * time.Minute // then the workflow ends; the next message starts it again
	maxSeen     = 200              // messages remembered to drop what a platform sends twice
	turnsPerRun = 200              // then continue as new
)

// conversation is the state of one run.
type conversation struct {
	in      ConversationInput
	seen    map[chat.MessageID]bool
	running chat.TurnID // empty: none
	cancel  workflow.CancelFunc
	steered []chat.MessageID // handed to the running turn, not yet known to be joined
	turns   int
	told    int             // attachments, as the search attribute has them
	quiet   time.Time       // since when nothing has come
	timer   workflow.Future // runs out when nothing came for long, perhaps; nil: none runs
}

// Conversation orders the turns of one agent in one place.
func Conversation(ctx workflow.Context, in ConversationInput) error {
	c := &conversation{in: in, seen: map[chat.MessageID]bool{}}
	for _, m := range in.Seen {
		c.seen[m] = true
	}
	c.open(ctx)
	messages := workflow.GetSignalChannel(ctx, SignalMessage)
	stops := workflow.GetSignalChannel(ctx, SignalStop)
	done := workflow.NewBufferedChannel(ctx, 1)

	for {
		if c.running == "" && c.turns > 0 && (c.turns >= turnsPerRun || workflow.GetInfo(ctx).GetContinueAsNewSuggested()) {
			// What has arrived goes along in the queue. A stop between two
			// turns has nothing to stop.
			c.drain(messages)
			return workflow.NewContinueAsNewError(ctx, ConversationType, c.in)
		}
		if c.running == "" && len(c.in.Queue) > 0 {
			c.start(ctx, done)
		}
		idle := false
		sel := workflow.NewSelector(ctx)
		sel.AddReceive(messages, func(ch workflow.ReceiveChannel, _ bool) {
			var s MessageSignal
			ch.Receive(ctx, &s)
			c.count(s)
			c.message(ctx, s.Message)
		})
		sel.AddReceive(stops, func(ch workflow.ReceiveChannel, _ bool) {
			ch.Receive(ctx, nil)
			if c.cancel != nil {
				c.cancel()
			}
		})
		sel.AddReceive(done, func(ch workflow.ReceiveChannel, _ bool) {
			var r TurnResult
			ch.Receive(ctx, &r)
			c.finished(r)
		})
		after := c.rest(ctx, sel, &idle)
		c.show(ctx)
		sel.Select(ctx)
		after()
		if idle && c.running == "" {
			c.drain(messages)
			if len(c.in.Queue) == 0 {
				return nil
			}
		}
		if err := ctx.Err(); err != nil && c.running == "" {
			return err
		}
	}
}

// rest makes the wait end when nothing came for long. One timer runs through
// many turns: one for each wait, started and cancelled, would be two events of
// each turn, and a task of the server's.
func (c *conversation) rest(ctx workflow.Context, sel workflow.Selector, idle *bool) (after func()) {
	waits := c.running == "" && len(c.in.Queue) == 0
	if !c.in.OneTimer {
		timer, cancel := workflow.WithCancel(ctx)
		if waits {
			sel.AddFuture(workflow.NewTimer(timer, idleFor), func(f workflow.Future) { *idle = f.Get(timer, nil) == nil })
		}
		return cancel
	}
	if c.quiet.IsZero() {
		c.quiet = workflow.Now(ctx)
	}
	if waits && c.timer == nil {
		c.timer = workflow.NewTimer(ctx, idleFor-workflow.Now(ctx).Sub(c.quiet))
	}
	ran := false
	if c.timer != nil {
		sel.AddFuture(c.timer, func(f workflow.Future) {
			c.timer, ran = nil, true
			*idle = f.Get(ctx, nil) == nil && workflow.Now(ctx).Sub(c.quiet) >= idleFor
		})
	}
	return func() {
		if !ran {
			c.quiet = workflow.Now(ctx)
		}
	}
}

// drain takes what has arrived without waiting.
func (c *conversation) drain(messages workflow.ReceiveChannel) {
	for {
		var s MessageSignal
		if !messages.ReceiveAsync(&s) {
			return
		}
		c.count(s)
		if c.remember(s.Message) {
			c.in.Queue = append(c.in.Queue, s.Message)
		}
	}
}

// remember reports whether the message is new, and keeps the ring bounded.
func (c *conversation) remember(m chat.MessageID) bool {
	if m == "" || c.seen[m] {
		return false
	}
	c.seen[m] = true
	c.in.Seen = append(c.in.Seen, m)
	if len(c.in.Seen) > maxSeen {
		delete(c.seen, c.in.Seen[0])
		c.in.Seen = c.in.Seen[1:]
	}
	return true
}

func (c *conversation) message(ctx workflow.Context, m chat.MessageID) {
	if !c.remember(m) {
		return
	}
	if c.running == "" {
		c.in.Queue = append(c.in.Queue, m)
		return
	}
	// Whether the turn takes it shows in its result; a turn that has ended
	// meanwhile can't be signalled, which shows there as well.
	c.steered = append(c.steered, m)
	workflow.SignalExternalWorkflow(ctx, string(c.running), "", SignalSteer, SteerSignal{Message: m, Attachments: c.counted(m)})
}

// start runs the next turn as a child. Its ID comes from the message, and a
// second one of that ID is refused by the server.
func (c *conversation) start(ctx workflow.Context, done workflow.Channel) {
	m := c.in.Queue[0]
	c.in.Queue = c.in.Queue[1:]
	turn := chat.TurnOf(m)
	c.running = turn
	c.turns++
	var cctx workflow.Context
	cctx, c.cancel = workflow.WithCancel(ctx)
	cctx = workflow.WithChildOptions(cctx, workflow.ChildWorkflowOptions{
		WorkflowID:            string(turn),
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		// A stopped turn still has to say so.
		WaitForCancellation: true,
	})
	cctx, in := c.child(cctx, TurnInput{
		Agent: c.in.Agent, Conversation: c.in.Conversation, Place: c.in.Place, Turn: turn, Message: m, Brief: true,
	})
	child := workflow.ExecuteChildWorkflow(cctx, TurnType, in)
	workflow.Go(ctx, func(ctx workflow.Context) {
		var r TurnResult
		if err := child.Get(ctx, &r); err != nil {
			var dup *temporal.ChildWorkflowExecutionAlreadyStartedError
			if !errors.As(err, &dup) {
				workflow.GetLogger(ctx).Error("turn ended with an error", "turn", string(turn), "error", err)
			}
		}
		done.Send(ctx, r)
	})
}

// finished queues what the turn did not take, in order, before anything newer.
func (c *conversation) finished(r TurnResult) {
	joined := map[chat.MessageID]bool{}
	for _, m := range r.Joined {
		joined[m] = true
	}
	var left []chat.MessageID
	for _, m := range c.steered {
		if !joined[m] {
			left = append(left, m)
		}
	}
	c.settled(r.Joined...)
	c.in.Queue = append(left, c.in.Queue...)
	c.running, c.cancel, c.steered = "", nil, nil
}
