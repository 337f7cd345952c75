package discord

import (
	"context"
	"errors"
	"fmt"

	"sightline/attachments"
	"sightline/connectors/chat"
)

var (
	_ attachments.Source     = (*Bot)(nil)
	_ attachments.Visibility = (*Bot)(nil)
	_ attachments.Witness    = (*Bot)(nil)
)

// Gone reports whether a deletion was heard of. It may be under way to the
// store still.
func (b *Bot) Gone(source chat.Place, m chat.Message) bool {
	native, ok := b.native(source)
	return ok && b.deleted.has(native+"/"+m.NativeID)
}

// Decide asks whether everyone who could read the destination can open the
// source. It knows three structural rules and refuses everything else.
func (b *Bot) Decide(ctx context.Context, q attachments.Question) (attachments.Decision, error) {
	at := func(d attachments.Decision) (attachments.Decision, error) {
		d.SourceEpoch, d.DestEpoch = q.Source.Epoch, q.Destination.Epoch
		return d, nil
	}
	refuse := func(rule, reason string) (attachments.Decision, error) { return at(attachments.Refuse(rule, reason)) }
	if q.Agent != b.c.Agent {
		return refuse("agent", "this connection serves another agent")
	}
	src, ok1 := b.native(q.Source)
	dst, ok2 := b.native(q.Destination)
	if !ok1 || !ok2 {
		return refuse("place", "source or destination is no place of this agent on discord")
	}
	if reason, err := b.sourceLives(ctx, q, src); err != nil || reason != "" {
		if err != nil {
			return attachments.Decision{}, err
		}
		return refuse("message", reason)
	}
	if q.Source.Workspace != q.Destination.Workspace {
		return refuse("S1", "source and destination are in different servers")
	}
	if q.Source.Workspace == directWorkspace {
		return b.decideDirect(ctx, q, refuse)
	}
	rule, reason := structural(q)
	if rule == "" {
		return refuse("structure", reason)
	}
	for range decideTries {
		epoch := b.facts.epochOf(q.Source.Workspace)
		reason, err := b.established(ctx, q, src, dst)
		if err != nil {
			return attachments.Decision{}, err
		}
		if reason != "" {
			return refuse(rule, reason)
		}
		if reason, err = b.askerReads(ctx, q); err != nil {
			return attachments.Decision{}, err
		} else if reason != "" {
			return at(attachments.RefuseAsker(rule, reason))
		}
		// Each fact is of one moment, and a yes needs all of them to be of the
		// same: a change between two of them is asked about again.
		if b.facts.epochOf(q.Source.Workspace) == epoch {
			return attachments.Allow(rule, q.Source.Epoch+epoch, q.Destination.Epoch+epoch), nil
		}
	}
	return attachments.Decision{}, errChanging
}

const decideTries = 3

var errChanging = errors.New("discord: what is known of the server changed while it was asked for")

// structural names the rule that the two places could fall under.
func structural(q attachments.Question) (rule, reason string) {
	s, d := q.Source, q.Destination
	switch {
	case s.Kind == chat.Ephemeral:
		return "", "the source was shown to one person only"
	case s.Channel != d.Channel:
		return "", "the destination is another channel than the source"
	case s.Thread == d.Thread:
		return "S1", ""
	case s.Thread == "" && d.Kind == chat.PrivateThread:
		return "S2", ""
	case s.Thread == "" && d.Kind == chat.PublicThread, s.Kind == chat.PublicThread && d.Thread == "":
		return "S3", ""
	case s.Kind == chat.PrivateThread:
		return "", "the source is a private thread and the destination is read by others"
	}
	return "", "the destination is another thread than the source"
}

// sourceLives refuses a message that is unknown or known to be gone. The
// fetch reads it again on the platform.
func (b *Bot) sourceLives(ctx context.Context, q attachments.Question, native string) (reason string, err error) {
	if q.Message == "" {
		return "", nil // the place as a whole
	}
	if b.c.Messages == nil {
		return "no store says whether the source message exists", nil
	}
	m, err := b.c.Messages.Message(ctx, q.Source.ID, q.Message)
	switch {
	case errors.Is(err, chat.ErrNotFound):
		return "the source message is not known", nil
	case err != nil:
		return "", fmt.Errorf("discord: look up source message: %w", err)
	case m.ID != q.Message || m.ID != chat.MessageOf(q.Source.ID, m.NativeID):
		return "the source message is of another place", nil
	case m.Deleted || b.deleted.has(native+"/"+m.NativeID):
		return "the source message was deleted", nil
	}
	return "", nil
}

func (b *Bot) decideDirect(ctx context.Context, q attachments.Question, refuse func(string, string) (attachments.Decision, error)) (attachments.Decision, error) {
	if q.Source.ID != q.Destination.ID {
		return refuse("S1", "a direct conversation serves itself alone")
	}
	epoch := b.facts.epochOf("")
	c, reason, err := b.liveChannel(ctx, "", q.Source.Channel)
	switch {
	case err != nil:
		return attachments.Decision{}, err
	case reason != "":
		return refuse("S1", reason)
	case c.Type != channelDirect || c.GuildID != "":
		return refuse("S1", "the place is no direct conversation with one person")
	case len(c.Recipients) != 1 || c.Recipients[0].ID == "":
		return refuse("S1", "it could not be established whose direct conversation this is")
	case q.Actor.User != c.Recipients[0].ID:
		return attachments.RefuseAsker("S1", "the one who asks does not take part in the direct conversation"), nil
	}
	return attachments.Allow("S1", q.Source.Epoch+epoch, q.Destination.Epoch+epoch), nil
}

// established checks a structural rule against the platform as it is now.
func (b *Bot) established(ctx context.Context, q attachments.Question, src, dst string) (reason string, err error) {
	guildID, parentID := q.Source.Workspace, q.Source.Channel
	b.warm(ctx, q, src, dst)
	for _, id := range []string{src, dst} {
		p := q.Source
		if id == dst {
			p = q.Destination
		}
		if p.Thread == "" {
			continue
		}
		c, why, err := b.liveChannel(ctx, guildID, id)
		switch {
		case err != nil || why != "":
			return why, err
		case c.GuildID != guildID || c.ParentID != parentID || !c.thread():
			return "the thread is not under that channel any more", nil
		case (c.Type == threadPrivate) != (p.Kind == chat.PrivateThread):
			return "the thread's privacy is not what it was", nil
		}
	}
	parent, why, err := b.liveChannel(ctx, guildID, parentID)
	switch {
	case err != nil || why != "":
		return why, err
	case parent.GuildID != guildID || parent.thread():
		return "the channel is not of that server", nil
	case parent.Overwrites == nil:
		return "the channel's overwrites could not be established", nil
	}
	// Whoever sees the answer in a channel but not its history could not open
	// a source posted before. The message being answered is on their screens.
	if q.Message != "" && q.Message == q.Trigger && q.Source.ID == q.Destination.ID {
		return "", nil
	}
	g, why, err := b.liveGuild(ctx, guildID)
	if err != nil || why != "" {
		return why, err
	}
	universal, err := historyIsUniversal(g, parent.Overwrites)
	if err != nil {
		return "", fmt.Errorf("discord: permissions of the channel: %w", err)
	}
	if !universal {
		return "some who see the channel can't read its history", nil
	}
	return "", nil
}

// liveChannel is a channel as it is now; a reason says that the agent has lost it.
func (b *Bot) liveChannel(ctx context.Context, guildID, id string) (channel, string, error) {
	if b.facts.busy(guildID) {
		if c, reason, ok, err := b.amongAll(ctx, guildID, id); ok || err != nil {
			return c, reason, err
		}
	}
	c, err := ask[channel](ctx, b.facts, guildID, "/channels/"+id)
	switch {
	case hasStatus(err, 403, 404):
		return channel{}, "the agent can't see the place any more", nil
	case err != nil:
		return channel{}, "", fmt.Errorf("discord: ask for the place: %w", err)
	case c.ID != id:
		return channel{}, "the place could not be established", nil
	}
	return c, "", nil
}
