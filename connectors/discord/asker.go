package discord

import (
	"context"
	"fmt"
	"slices"

	"sightline/attachments"
)

// warm asks for what a decision will need, all at once: each question is asked
// a single time, whoever waits for it.
func (b *Bot) warm(ctx context.Context, q attachments.Question, places ...string) {
	g := q.Source.Workspace
	busy := b.facts.busy(g)
	if busy {
		go func() { _, _ = ask[[]channel](ctx, b.facts, g, channelsPath(g)) }()
		go func() { _, _ = ask[member](ctx, b.facts, g, memberPath(g, b.identity.id())) }()
	}
	for _, id := range append(places, q.Source.Channel) {
		if thread := id != q.Source.Channel; thread || !busy {
			go func() { _, _ = ask[channel](ctx, b.facts, g, "/channels/"+id) }()
		}
	}
	go func() { _, _ = ask[guild](ctx, b.facts, g, "/guilds/"+g) }()
	if asks(q) {
		go func() { _, _ = ask[member](ctx, b.facts, g, memberPath(g, q.Actor.User)) }()
	}
}

func channelsPath(guildID string) string { return "/guilds/" + guildID + "/channels" }

func memberPath(guildID, user string) string { return "/guilds/" + guildID + "/members/" + user }

// asks reports whether a person asks. A webhook is no member of anything, and
// what another bot may read can't be looked up as a person's can; the place of
// the answer decides for them, as it does for everybody.
func asks(q attachments.Question) bool {
	return !q.Actor.Bot && q.Actor.Platform == Platform && isSnowflake(q.Actor.User)
}

// askerReads refuses whoever has left the server or lost the channel since
// their message: nothing is looked up for them any more.
func (b *Bot) askerReads(ctx context.Context, q attachments.Question) (reason string, err error) {
	if q.Actor.Bot {
		return "", nil
	}
	if !asks(q) {
		return "it is not known who asks", nil
	}
	g, why, err := b.liveGuild(ctx, q.Source.Workspace)
	if err != nil || why != "" {
		return why, err
	}
	parent, why, err := b.liveChannel(ctx, g.ID, q.Source.Channel)
	if err != nil || why != "" {
		return why, err
	}
	m, err := ask[member](ctx, b.facts, g.ID, memberPath(g.ID, q.Actor.User))
	switch {
	case hasStatus(err, 403, 404):
		return "the one who asks is not in the server any more", nil
	case err != nil:
		return "", fmt.Errorf("discord: ask for the member: %w", err)
	case m.User == nil || m.User.ID != q.Actor.User:
		return "the one who asks could not be established", nil
	case g.OwnerID == q.Actor.User:
		return "", nil
	}
	if combined(g.ID, m.in(g), parent.Overwrites, q.Actor.User)&permView == 0 {
		return "the one who asks can't see the channel any more", nil
	}
	return "", nil
}

// in are a member's roles, @everyone first.
func (m member) in(g guild) (roles []role) {
	for _, r := range g.Roles {
		if r.ID == g.ID {
			roles = slices.Insert(roles, 0, r)
		} else if slices.Contains(m.Roles, r.ID) {
			roles = append(roles, r)
		}
	}
	return roles
}

// amongAll looks for a channel among all of its server. That list has what the
// bot can't see as well, so its own permissions are asked for, too. A thread is
// not in it, and what can't be established this way is asked for alone.
func (b *Bot) amongAll(ctx context.Context, guildID, id string) (c channel, reason string, ok bool, err error) {
	list, err := ask[[]channel](ctx, b.facts, guildID, channelsPath(guildID))
	if err != nil {
		return channel{}, "", false, ctx.Err()
	}
	n := slices.IndexFunc(list, func(c channel) bool { return c.ID == id })
	if n < 0 || list[n].GuildID != guildID || list[n].Overwrites == nil {
		return channel{}, "", false, nil
	}
	g, reason, err := b.liveGuild(ctx, guildID)
	if err != nil || reason != "" {
		return channel{}, reason, reason != "", err
	}
	self := b.identity.id()
	m, err := ask[member](ctx, b.facts, guildID, memberPath(guildID, self))
	if err != nil || m.User == nil || m.User.ID != self {
		return channel{}, "", false, ctx.Err()
	}
	if g.OwnerID != self && combined(guildID, m.in(g), list[n].Overwrites, self)&permView == 0 {
		return channel{}, "the agent can't see the place any more", true, nil
	}
	return list[n], "", true, nil
}

// liveGuild is a server with its roles as they are now.
func (b *Bot) liveGuild(ctx context.Context, id string) (guild, string, error) {
	g, err := ask[guild](ctx, b.facts, id, "/guilds/"+id)
	switch {
	case hasStatus(err, 403, 404):
		return guild{}, "the agent is not in the server any more", nil
	case err != nil:
		return guild{}, "", fmt.Errorf("discord: ask for the server's roles: %w", err)
	case g.ID != id:
		return guild{}, "the server's roles could not be established", nil
	}
	return g, "", nil
}
