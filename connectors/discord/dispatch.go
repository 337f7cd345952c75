package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// dispatch takes an event off the gateway. It runs on the gateway's reader,
// in the platform's order, and only sorts: whatever waits goes to a lane.
func (b *Bot) dispatch(ctx context.Context, sh shard, kind string, raw json.RawMessage) {
	if err := b.sort(ctx, sh, kind, raw); err != nil {
		// Whatever it said may have been about who can read what.
		b.facts.drop("")
		b.log.Warn("an event of discord can't be read; what was known of its places is asked again", "event", kind, "error", err)
	}
}

func (b *Bot) sort(ctx context.Context, sh shard, kind string, raw json.RawMessage) error {
	switch kind {
	case "READY":
		b.facts.drop("")
		if sh.has("") {
			// Nobody lists direct conversations: what was said in one that is new to
			// us, and fell into a gap, is found with the next word in it.
			if _, ok := b.marks.get(guildKey("")); !ok {
				b.mark(ctx, Mark{Channel: guildKey(""), Message: snowflakeAt(b.c.Now())})
			}
			for _, c := range b.marks.direct() {
				b.backfill(ctx, c)
			}
		}
		b.running.Go(func() { b.compare(ctx, sh.has) })
		b.heard(sh)
	case "RESUMED":
		b.facts.drop("")
	case "GUILD_CREATE":
		return b.guildCame(ctx, raw)
	case "MESSAGE_CREATE", "MESSAGE_UPDATE":
		m, err := decode[message](raw)
		if err == nil && (!isSnowflake(m.ID) || !isSnowflake(m.ChannelID)) {
			err = fmt.Errorf("a message without its ids")
		}
		if err != nil {
			return b.unread(ctx, raw, err)
		}
		b.sortMessage(ctx, kind, m)
	case "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		return b.sortDeletion(ctx, raw)
	case "INTERACTION_CREATE":
		i, err := decode[interaction](raw)
		if err != nil {
			return err
		}
		b.running.Go(func() { b.interact(ctx, i) })
	default:
		return b.sortFacts(ctx, kind, raw)
	}
	return nil
}

func decode[T any](raw json.RawMessage) (T, error) {
	var v T
	err := json.Unmarshal(raw, &v)
	return v, err
}

// unread reads a message that its event could not bring from its channel.
func (b *Bot) unread(ctx context.Context, raw json.RawMessage, cause error) error {
	// Before its lane may hand the message on: whoever takes it decides by the facts.
	b.facts.drop("")
	var ids struct {
		ID        string `json:"id"`
		ChannelID string `json:"channel_id"`
	}
	if json.Unmarshal(raw, &ids) == nil && isSnowflake(ids.ID) && isSnowflake(ids.ChannelID) {
		b.enqueue(ctx, job{"message that can't be read", ids.ChannelID, func(ctx context.Context) error {
			return b.reread(ctx, ids.ChannelID, ids.ID)
		}})
	}
	return cause
}

func (b *Bot) sortMessage(ctx context.Context, kind string, m message) {
	if kind == "MESSAGE_CREATE" {
		b.enqueue(ctx, job{"message", m.ChannelID, func(ctx context.Context) error {
			if err := b.before(ctx, m); err != nil {
				return err
			}
			return b.posted(ctx, m)
		}})
		return
	}
	switch {
	case m.EditedTimestamp == nil: // a preview or a pin: nothing was edited
	case m.Author == nil || m.Attachments == nil:
		b.enqueue(ctx, job{"edit", m.ChannelID, func(ctx context.Context) error { return b.reread(ctx, m.ChannelID, m.ID) }})
	default:
		b.enqueue(ctx, job{"edit", m.ChannelID, func(ctx context.Context) error { return b.edited(ctx, m) }})
	}
}

func (b *Bot) sortDeletion(ctx context.Context, raw json.RawMessage) error {
	var d struct {
		ID        string   `json:"id"`
		IDs       []string `json:"ids"`
		ChannelID string   `json:"channel_id"`
		GuildID   string   `json:"guild_id"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	if d.ID != "" {
		d.IDs = append(d.IDs, d.ID)
	}
	for _, id := range d.IDs {
		if !isSnowflake(id) {
			return fmt.Errorf("a deletion without an id")
		}
		// At once, not when its turn comes: from now on it is refused.
		b.deleted.add(d.ChannelID + "/" + id)
	}
	b.enqueue(ctx, job{"deletion", d.ChannelID, func(ctx context.Context) error { return b.removed(ctx, d.ChannelID, d.IDs) }})
	return nil
}

// sortFacts drops what an event may have changed: permissions, roles,
// members, channels and threads all decide who can read what.
func (b *Bot) sortFacts(ctx context.Context, kind string, raw json.RawMessage) error {
	group, what, _ := strings.Cut(kind, "_")
	if group != "GUILD" && group != "CHANNEL" && group != "THREAD" || kind == "CHANNEL_PINS_UPDATE" {
		return nil
	}
	var ids struct {
		ID      string `json:"id"`
		GuildID string `json:"guild_id"`
		Added   []struct {
			UserID string `json:"user_id"`
		} `json:"added_members"`
		Removed []string `json:"removed_member_ids"`
		User    struct {
			ID string `json:"id"`
		} `json:"user"`
	}
	if err := json.Unmarshal(raw, &ids); err != nil {
		return err
	}
	guildID := ids.GuildID
	if guildID == "" && (kind == "GUILD_UPDATE" || kind == "GUILD_DELETE") {
		guildID = ids.ID
	}
	b.facts.drop(guildID) // empty: everything
	self := b.identity.id()
	if isSnowflake(guildID) && (kind == "CHANNEL_UPDATE" || kind == "GUILD_ROLE_UPDATE" || kind == "GUILD_ROLE_DELETE" || kind == "GUILD_MEMBER_UPDATE" && ids.User.ID == self) {
		b.reopen(ctx, guildID)
	}
	switch {
	case kind == "THREAD_MEMBERS_UPDATE":
		for _, a := range ids.Added {
			if a.UserID == self {
				b.channels.join(ids.ID, true)
				b.back(ctx, guildID, ids.ID)
			}
		}
		for _, r := range ids.Removed {
			if r == self {
				b.channels.join(ids.ID, false)
				b.shut.set(ids.ID, true) // as a private one is now
			}
		}
	case group == "GUILD":
	case what == "CREATE" || what == "UPDATE":
		c, err := decode[channel](raw)
		if err != nil {
			b.channels.forget(ids.ID)
			return err
		}
		// A thread that comes out of its archive does not say whether the bot is
		// in it: that is asked with its first word.
		if _, known := b.channels.get(c.ID); known || !c.thread() || c.joined() || c.OwnerID == self {
			b.channels.put(c, self)
		}
		if kind == "THREAD_CREATE" { // told, too, when it is let into a private one
			b.back(ctx, guildID, ids.ID)
		}
	case what == "DELETE":
		b.channels.forget(ids.ID)
	}
	return nil
}

// guildCame is told at every identification, with the last message of every
// channel: what lies between it and our mark was missed.
func (b *Bot) guildCame(ctx context.Context, raw json.RawMessage) error {
	var g struct {
		ID          string    `json:"id"`
		Unavailable bool      `json:"unavailable"`
		JoinedAt    time.Time `json:"joined_at"`
		Channels    []channel `json:"channels"`
		Threads     []channel `json:"threads"`
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		return err
	}
	b.facts.drop(g.ID)
	b.roles.note(g.ID, b.identity.id(), raw)
	if g.Unavailable || !isSnowflake(g.ID) {
		return nil
	}
	since, known := b.marks.get(guildKey(g.ID))
	// Taken out and let in again: what was said between is not its business.
	joined := snowflakeAt(g.JoinedAt)
	again := known && newer(joined, since)
	self := b.identity.id()
	closed := closedTo(self, g.ID, g.Channels, raw)
	listed := map[string]bool{}
	for _, c := range append(g.Channels, g.Threads...) {
		c.GuildID = g.ID
		listed[c.ID] = true
		_, err := b.placeOf(b.channels.put(c, self))
		silent := err != nil // a category, a forum: it has no messages
		last := c.LastMessageID
		if !isSnowflake(last) {
			last = "0"
		}
		mark, ok := b.marks.get(c.ID)
		if again && newer(joined, mark) {
			b.mark(ctx, Mark{Guild: g.ID, Channel: c.ID, Message: joined})
			mark, ok = joined, true
		}
		switch {
		case !known && !ok:
			// What was said before the bot came is not its business.
			b.mark(ctx, Mark{Guild: g.ID, Channel: c.ID, Message: last})
		case silent:
		case closed(c):
			// Nor is what is said while it may not read there: once it may, days
			// later, nobody waits for an answer.
			if newer(last, mark) {
				b.mark(ctx, Mark{Guild: g.ID, Channel: c.ID, Message: last})
			}
		case newer(last, mark) || !ok:
			b.backfill(ctx, c.ID)
		}
	}
	if known && !again {
		b.archived(ctx, g.ID, listed)
	}
	if again {
		b.mark(ctx, Mark{Guild: g.ID, Channel: guildKey(g.ID), Message: joined})
		b.running.Go(func() { b.compare(ctx, func(guildID string) bool { return guildID == g.ID }) })
	}
	if !known {
		b.mark(ctx, Mark{Guild: g.ID, Channel: guildKey(g.ID), Message: snowflakeAt(b.c.Now())})
	}
	return nil
}

// closedTo finds, in a guild's own event, the channels whose messages the bot
// may not read. All of a guild's channels are told with their last message, and
// a request that is forbidden counts: ten thousand in ten minutes, and Discord
// bans the address. Where it can't be told, the channel is asked.
func closedTo(self, guildID string, list []channel, raw json.RawMessage) func(channel) bool {
	var g struct {
		guild
		Members []member `json:"members"`
	}
	if json.Unmarshal(raw, &g) != nil || g.OwnerID == self {
		return func(channel) bool { return false }
	}
	me := slices.IndexFunc(g.Members, func(m member) bool { return m.User != nil && m.User.ID == self })
	parents := map[string]channel{}
	for _, c := range list {
		parents[c.ID] = c
	}
	return func(c channel) bool {
		if c.thread() {
			c = parents[c.ParentID]
		}
		if me < 0 || c.Overwrites == nil {
			return false
		}
		const needed = permView | permReadHistory
		return combined(guildID, g.Members[me].in(g.guild), c.Overwrites, self)&needed != needed
	}
}

func (b *Bot) mark(ctx context.Context, m Mark) {
	b.enqueue(ctx, job{"mark", m.Channel, func(ctx context.Context) error { return b.marks.move(ctx, m, true) }})
}

func snowflakeAt(t time.Time) string {
	return fmt.Sprint(max(0, t.UnixMilli()-discordEpoch) << 22)
}
