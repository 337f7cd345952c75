package discord

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const pageSize = 100

// backfill reads what was said in a channel after its mark.
func (b *Bot) backfill(ctx context.Context, channelID string) {
	b.enqueue(ctx, job{"missed messages", channelID, func(ctx context.Context) error {
		return b.missed(ctx, channelID)
	}})
}

// missed reads to the end, however much it is: what comes next moves the mark
// past whatever was left.
func (b *Bot) missed(ctx context.Context, channelID string) error {
	s, err := b.shapeOf(ctx, channelID)
	if err != nil {
		return err
	}
	for last := ""; ; {
		after, ok := b.marks.get(channelID)
		if !ok {
			// A channel that came while we were away: everything in it is
			// younger than the day we first saw its guild.
			if after, ok = b.marks.get(guildKey(s.guild)); !ok {
				return nil
			}
		}
		if after == last {
			b.log.Warn("a channel's history does not go on: the rest of what was missed there can't be read", "channel", channelID)
			return nil
		}
		last = after
		page, err := b.history(ctx, channelID, after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, m := range page {
			if err := b.posted(ctx, m); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

// What is looked at of a guild's threads that it does not list any more: those
// that were heard of last, and no longer before than an unused thread stays open.
const (
	archivedThreads = 20
	threadLife      = 8 * 24 * time.Hour
)

// archived reads what was missed in threads that were archived meanwhile: only
// open ones are listed when a session begins anew.
func (b *Bot) archived(ctx context.Context, guildID string, listed map[string]bool) {
	for _, id := range b.marks.newest(guildID, threadLife, listed, archivedThreads) {
		b.enqueue(ctx, job{"an archived thread", id, func(ctx context.Context) error {
			var c channel
			if err := b.rest.do(ctx, "GET", "/channels/"+id, nil, &c); err != nil {
				return err
			}
			b.channels.put(c, b.identity.id())
			if mark, _ := b.marks.get(id); c.thread() && newer(c.LastMessageID, mark) {
				return b.missed(ctx, id)
			}
			return nil
		}})
	}
}

// before reads what was said before the first word that is heard in a direct
// conversation or a thread: one that nobody listed, or that the bot was called
// into.
func (b *Bot) before(ctx context.Context, m message) error {
	if _, ok := b.marks.get(m.ChannelID); ok {
		return nil
	}
	s, err := b.shapeOf(ctx, m.ChannelID)
	if err != nil {
		return err
	}
	if s.guild != "" && !s.thread() {
		return nil
	}
	err = b.missed(ctx, m.ChannelID)
	if hasStatus(err, 400, 403, 404) { // its history is closed to the bot; what is heard is not
		return nil
	}
	return err
}

// history is one page of messages after an id, oldest first.
func (b *Bot) history(ctx context.Context, channelID, after string) ([]message, error) {
	var page []message
	if err := b.rest.do(ctx, "GET", fmt.Sprintf("/channels/%s/messages?limit=%d&after=%s", channelID, pageSize, after), nil, &page); err != nil {
		return nil, err
	}
	slices.SortFunc(page, func(x, y message) int {
		switch {
		case newer(x.ID, y.ID):
			return 1
		case newer(y.ID, x.ID):
			return -1
		}
		return 0
	})
	return page, nil
}

// reread delivers a message as its channel has it now.
func (b *Bot) reread(ctx context.Context, channelID, id string) error {
	var m message
	if err := b.rest.do(ctx, "GET", "/channels/"+channelID+"/messages/"+id, nil, &m); err != nil {
		return err
	}
	// Edited since, it is new to us all the same if it lies behind the mark.
	if mark, ok := b.marks.get(channelID); m.EditedTimestamp == nil || ok && newer(m.ID, mark) {
		return b.posted(ctx, m)
	}
	return b.edited(ctx, m)
}
