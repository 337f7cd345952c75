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
	for _, id := range append(places, q.Source.Channel) {
		go func() { _, _ = ask[channel](ctx, b.facts, g, "/channels/"+id) }()
	}
	go func() { _, _ = ask[guild](ctx, b.facts, g, "/guilds/"+g) }()
	if asks(q) {
		go func() { _, _ = ask[member](ctx, b.facts, g, memberPath(g, q.Actor.User)) }()
	}
}

func memberPath(guildID, user string) string { return "/guilds/" + guildID + "/members/" + user }

// asks reports whether a person asks. A webhook is no member of anything, and
// what another bot may read can't be looked up as a person's can; the place of
// the answer decides for them, as it does for everybody.
func asks(q attachments.Question) bool {
	return !q.Actor.Bot && q.Actor.Platform == Platform && isSnowflake(q.Actor.User)
}

// askerReads refuses whoever has left the server or lost the channel since
// their message: nothing is looked up for them any more.
func (b *Bot) askerReads(ctx context.Context, q attachments.Question, parent channel) (reason string, err error) {
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
	var roles []role
	for _, r := range g.Roles {
		if r.ID == g.ID {
			roles = slices.Insert(roles, 0, r)
		} else if slices.Contains(m.Roles, r.ID) {
			roles = append(roles, r)
		}
	}
	if combined(g.ID, roles, parent.Overwrites, q.Actor.User)&permView == 0 {
		return "the one who asks can't see the channel any more", nil
	}
	return "", nil
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
