package slack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"sightline/attachments"
	"sightline/connectors/chat"
)

// liveAge is how long a message counts as there without being read again,
// while no event can have been missed: deletions are told. Every fetch reads
// it again whatever this says.
const liveAge = 10 * time.Minute

// Gone reports whether a deletion was heard of. It may be under way to the
// store still.
func (b *Bot) Gone(source chat.Place, m chat.Message) bool {
	r, ok := b.seen.get(source.Channel, m.NativeID)
	return ok && r.gone
}

// Decide knows two rules. S1: the threads of a channel have the channel's
// readers. S2: an answer shown to one reader, verified now, of the channel.
// Direct messages are only for themselves; what is public elsewhere (S4) is
// not looked at.
func (b *Bot) Decide(ctx context.Context, q attachments.Question) (d attachments.Decision, err error) {
	for range decideTries {
		// A change while it is looked up is no doubt that lasts: it is asked again.
		if d, err = b.decide(ctx, q); !errors.Is(err, errChanging) {
			break
		}
	}
	return d, err
}

const decideTries = 3

func (b *Bot) decide(ctx context.Context, q attachments.Question) (attachments.Decision, error) {
	self, err := b.me(ctx)
	if err != nil {
		return attachments.Decision{}, err
	}
	src, dst := q.Source, q.Destination
	switch {
	case q.Agent == "" || q.Agent != b.c.Agent:
		return attachments.Refuse("agent", "this connector serves another agent"), nil
	case src.Platform != Platform || dst.Platform != Platform:
		return attachments.Refuse("platform", "source or destination is not on Slack"), nil
	case !b.ours(self, src) || !b.ours(self, dst):
		return attachments.Refuse("place", "source or destination is no place of this workspace and agent"), nil
	}
	if src.Kind == chat.Ephemeral {
		return attachments.Refuse("S2", "the source was shown to one person only"), nil
	}
	channel := b.facts.canonical(src.Channel)
	if channel != b.facts.canonical(dst.Channel) {
		return attachments.Refuse("S1", "the destination is in another channel than the source"), nil
	}
	i, err := b.facts.get(ctx, channel, factsAge)
	switch codeOf(err) {
	case "channel_not_found", "not_in_channel", "is_archived":
		return attachments.Refuse("member", "the agent can't open the channel any more"), nil
	}
	if err != nil {
		return attachments.Decision{}, fmt.Errorf("slack: the channel could not be looked up: %w", err)
	}
	epoch := b.facts.epoch(channel)
	if !i.IsIM && !i.IsMember {
		return attachments.Refuse("member", "the agent is not in the channel"), nil
	}
	if why, err := b.askerReads(ctx, self, channel, i, q.Actor); err != nil {
		return attachments.Decision{}, err
	} else if why != "" {
		return attachments.RefuseAsker("member", why), nil
	}
	if q.Message != "" { // else the place as a whole
		there, err := b.lives(ctx, src, q.Message)
		if err != nil {
			return attachments.Decision{}, err
		}
		if !there {
			return attachments.Refuse("message", "the source message is not known, or not there any more"), nil
		}
	}
	rule := "S1"
	if dst.Kind == chat.Ephemeral {
		rule = "S2"
		ok, err := b.readers.member(ctx, b, channel, q.Actor)
		if errors.Is(err, errTooMany) {
			ok, err = false, nil
		}
		if err != nil {
			return attachments.Decision{}, err
		}
		if !ok {
			return attachments.Refuse("S2", "the one who would read the answer is not in the channel"), nil
		}
	}
	if src.Thread == "" && dst.Thread != "" {
		rule = "S2"
	}
	// A change while this was looked up counts, also one of who is a member,
	// which the channel's own facts don't show.
	if j, err := b.facts.get(ctx, channel, factsAge); err != nil || j != i || b.facts.epoch(channel) != epoch {
		return attachments.Decision{}, errChanging
	}
	return attachments.Allow(rule, epoch, epoch), nil
}

// lives: the message was delivered in that very place, and is there now.
func (b *Bot) lives(ctx context.Context, p chat.Place, id chat.MessageID) (bool, error) {
	now := reading{b.c.Now(), b.seen.now()} // before the questions
	r, ok := b.seen.byID(id)
	var native string
	switch {
	case ok && r.gone:
		return false, nil
	case ok:
		e, in := r.in(p.ID)
		if !in || e.Message.ID != id {
			return false, nil
		}
		if b.seen.current(r.generation) && b.c.Now().Sub(r.live) < liveAge {
			return true, nil
		}
		native = r.ts
	case b.c.Messages == nil:
		return false, nil
	}
	if b.c.Messages != nil {
		// Another process may have been told that it is deleted.
		m, err := b.c.Messages.Message(ctx, p.ID, id)
		if errors.Is(err, chat.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("slack: look up source message: %w", err)
		}
		if m.Deleted || chat.MessageOf(p.ID, m.NativeID) != id {
			return false, nil
		}
		native = m.NativeID
		if b.readers.read(id, now) {
			return true, nil
		}
	}
	m, err := b.read(ctx, p.Channel, native, p.Thread)
	if err != nil {
		return false, fmt.Errorf("slack: the source message could not be read: %w", err)
	}
	if m == nil {
		return false, nil
	}
	if ok {
		r.live = now.at
		b.seen.reread(r, now.generation)
	}
	b.readers.note(id, now)
	return true, nil
}

// membersPage is the longest list of members that Slack gives at once.
const membersPage = 999

// errTooMany will not pass: it refuses, rather than being asked again.
var errTooMany = errors.New("slack: the channel has more members than are listed")

// isMember counts only whoever the complete list of members names.
func (b *Bot) isMember(ctx context.Context, channel string, a chat.Actor) (bool, error) {
	if a.Platform != Platform || a.User == "" {
		return false, nil
	}
	in := url.Values{"channel": {b.facts.present(channel)}, "limit": {strconv.Itoa(membersPage)}}
	found := false
	whole, err := b.api.pages(ctx, "conversations.members", in, maxPages, func(p page) bool {
		found = slices.Contains(p.Members, a.User)
		return found
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("slack: the channel's members could not be listed: %w", err)
	case whole:
		return found, nil
	}
	return false, errTooMany
}
