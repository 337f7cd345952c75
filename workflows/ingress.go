package workflows

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// Ingress makes events durable. When Deliver returns nil the connector may
// acknowledge: the rows are written and the conversation has been signalled.
type Ingress struct {
	DB     *checkpoints.DB
	Client client.Client
	// At is called at each durable boundary; nil outside of tests.
	At func(boundary string)
	// Visible reports whether Temporal has the search attributes; nil: it has not.
	Visible func() bool
	Pulse   *Pulse // shared with Activities
}

func (g *Ingress) at(b string) {
	if g.At != nil {
		g.At(b)
	}
}

// Deliver may be called again with the same event, however far an earlier
// call came: a message is recorded once and answered once.
func (g *Ingress) Deliver(ctx context.Context, e chat.Event) error {
	g.at("event.received")
	rec, err := g.DB.Record(ctx, e)
	if errors.Is(err, checkpoints.ErrInvalid) && !errors.Is(err, checkpoints.ErrStatement) {
		err = errors.Join(chat.ErrUnfit, err)
	}
	if err != nil {
		return fmt.Errorf("record event: %w", err)
	}
	g.at("event.recorded")
	if e.Kind != chat.MessagePosted || e.Silent || rec.Tombstone || !answerable(e) {
		return nil
	}
	// Signalled whether the row is new or not: an earlier delivery may have
	// died between the two. The conversation and the turn's ID drop doubles.
	in := ConversationInput{Agent: e.Place.Agent, Conversation: rec.Conversation, Place: e.Place.ID, Platform: e.Place.Platform, OneTimer: true}
	in.Visible = g.Visible != nil && g.Visible()
	err = g.signal(ctx, in, MessageSignal{Message: rec.Message.ID, Attachments: len(rec.Attachments)})
	var invalid *serviceerror.InvalidArgument
	if in.Visible && errors.As(err, &invalid) {
		// Somebody took the attributes away: they are worth no message.
		in.Visible = false
		err = g.signal(ctx, in, MessageSignal{Message: rec.Message.ID, Attachments: len(rec.Attachments)})
	}
	if err != nil {
		// Temporal is away. What it is owed is a row, so that the connector may
		// acknowledge, and nothing hangs on how long a platform repeats itself.
		if ctx.Err() != nil {
			return fmt.Errorf("signal conversation: %w", err)
		}
		if oerr := g.DB.Owe(ctx, checkpoints.Owed{
			Message: rec.Message.ID, Agent: e.Place.Agent, Conversation: rec.Conversation, Place: e.Place.ID, Platform: e.Place.Platform,
			Attachments: len(rec.Attachments),
		}); oerr != nil {
			return fmt.Errorf("signal conversation: %w", errors.Join(err, oerr))
		}
		g.at("event.owed")
		return nil
	}
	g.at("event.signalled")
	return nil
}

// Settle tells conversations of the messages that they are owed, oldest first.
// It may run in several processes at once: a message is answered once.
func (g *Ingress) Settle(ctx context.Context) error {
	list, err := g.DB.Owing(ctx, 100)
	if err != nil {
		return err
	}
	var errs []error
	for _, o := range list {
		in := ConversationInput{Agent: o.Agent, Conversation: o.Conversation, Place: o.Place, Platform: o.Platform, OneTimer: true}
		if err := g.signal(ctx, in, MessageSignal{Message: o.Message, Attachments: o.Attachments}); err != nil {
			errs = append(errs, fmt.Errorf("signal conversation: %w", err))
			continue
		}
		if err := g.DB.Settle(ctx, o.Message); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func (g *Ingress) signal(ctx context.Context, in ConversationInput, s MessageSignal) error {
	_, err := g.Client.SignalWithStartWorkflow(ctx, string(in.Conversation), SignalMessage, s, startOptions(in), ConversationType, in)
	return err
}

// answerable: the agent's own words never start a turn, and a message needs
// words or files.
func answerable(e chat.Event) bool {
	return !e.Message.FromAgent && (e.Message.Text != "" || len(e.Files) > 0)
}

// Stop ends the running turn of a conversation, if there is one.
func (g *Ingress) Stop(ctx context.Context, c chat.ConversationID) error {
	err := g.Client.SignalWorkflow(ctx, string(c), "", SignalStop, StopSignal{})
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil // no conversation is running, so no turn is
	}
	if err != nil {
		return fmt.Errorf("signal stop: %w", err)
	}
	g.Pulse.hurry()
	return nil
}
