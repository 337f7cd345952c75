package discord

import (
	"context"
	"fmt"
	"slices"
)

const (
	pageSize  = 100
	pageLimit = 100 // of one channel at one time: 10,000 messages
)

// backfill reads what was said in a channel after its mark.
func (b *Bot) backfill(ctx context.Context, channelID string) {
	b.enqueue(ctx, job{"missed messages", channelID, func(ctx context.Context) error {
		return b.missed(ctx, channelID)
	}})
}

func (b *Bot) missed(ctx context.Context, channelID string) error {
	s, err := b.shapeOf(ctx, channelID)
	if err != nil {
		return err
	}
	for range pageLimit {
		after, ok := b.marks.get(channelID)
		if !ok {
			// A channel that came while we were away: everything in it is
			// younger than the day we first saw its guild.
			if after, ok = b.marks.get(guildKey(s.guild)); !ok {
				return nil
			}
		}
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
	b.log.Warn("more messages were missed than are read at one time; the rest waits for the next connection", "channel", channelID, "read", pageSize*pageLimit)
	return nil
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
	if m.EditedTimestamp == nil {
		return b.posted(ctx, m)
	}
	return b.edited(ctx, m)
}
