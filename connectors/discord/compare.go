package discord

import (
	"context"
	"fmt"
	"slices"

	"sightline/connectors/chat"
)

// What is read of recorded messages at each identification: 50 channels, three
// pages each, and one message. Discord allows five reads in five seconds for
// one channel, 50 in a second for all.
const (
	comparedChannels = 50
	comparedPages    = 3
)

// compare looks at the newest messages that the store has of these guilds, as
// Discord has them now: only a resumed session is told of edits and deletions
// that it missed, and nobody who was not in the guild. Each channel is read in
// its lane, so that what is read is not older than what was delivered before.
func (b *Bot) compare(ctx context.Context, of func(guildID string) bool) {
	if b.c.Recent == nil {
		return
	}
	order, groups, err := b.recordedIn(ctx, of)
	if err != nil {
		if ctx.Err() == nil {
			b.log.Warn("edits and deletions may have been missed", "error", err)
		}
		return
	}
	for _, c := range order {
		b.compareChannel(ctx, c, groups[c])
	}
}

// recordedIn lists what the store has of these guilds, by channel, those with
// the newest first.
func (b *Bot) recordedIn(ctx context.Context, of func(guildID string) bool) (order []string, groups map[string][]Recorded, err error) {
	list, err := b.c.Recent(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list recorded messages: %w", err)
	}
	groups = map[string][]Recorded{}
	for _, r := range list {
		if r.Workspace == directWorkspace {
			r.Workspace = ""
		}
		if !isSnowflake(r.Channel) || !isSnowflake(r.Message) || !of(r.Workspace) {
			continue
		}
		if groups[r.Channel] == nil {
			order = append(order, r.Channel)
		}
		groups[r.Channel] = append(groups[r.Channel], r)
	}
	return order[:min(len(order), comparedChannels)], groups, nil
}

func (b *Bot) compareChannel(ctx context.Context, channelID string, list []Recorded) {
	b.enqueue(ctx, job{"messages recorded before", channelID, func(ctx context.Context) error {
		err := b.compareIn(ctx, channelID, list)
		if hasStatus(err, 403) {
			b.shut.set(channelID, true)
		}
		return err
	}})
}

// compareIn reads a channel back to the oldest of these messages, within
// bounds, and delivers what changed. What lies further back is refused at the
// next fetch.
func (b *Bot) compareIn(ctx context.Context, channelID string, list []Recorded) error {
	oldest := slices.MinFunc(list, func(x, y Recorded) int { return older(x.Message, y.Message) }).Message
	now := map[string]message{}
	from := "" // what is younger was read
	for range comparedPages {
		path := fmt.Sprintf("/channels/%s/messages?limit=%d", channelID, pageSize)
		if from != "" {
			path += "&before=" + from
		}
		var page []message
		if err := b.rest.do(ctx, "GET", path, nil, &page); err != nil {
			return err
		}
		for _, m := range page {
			now[m.ID] = m
			if from == "" || newer(from, m.ID) {
				from = m.ID
			}
		}
		if len(page) < pageSize {
			from = "0"
		}
		if !newer(from, oldest) {
			break
		}
	}
	var gone []string
	for _, r := range list {
		m, ok := now[r.Message]
		switch {
		case ok && m.revision() != r.Revision:
			if err := b.amend(ctx, m); err != nil {
				return err
			}
		case !ok && newer(r.Message, from):
			gone = append(gone, r.Message)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	// A channel whose history may not be read looks empty. One message tells
	// the difference: it is forbidden, not unknown.
	err := b.rest.do(ctx, "GET", "/channels/"+channelID+"/messages/"+gone[0], nil, nil)
	switch {
	case err == nil:
		return nil // it is there after all: the listing is not to be trusted
	case !hasStatus(err, 404):
		return err
	}
	for _, id := range gone {
		b.deleted.add(channelID + "/" + id)
	}
	return b.removed(ctx, channelID, gone)
}

// amend delivers a recorded message as it is now, whatever would be made of it
// if it were new.
func (b *Bot) amend(ctx context.Context, m message) error {
	s, err := b.shapeOf(ctx, m.ChannelID)
	if err != nil {
		return err
	}
	self, err := b.identity.self(ctx)
	if err != nil {
		return err
	}
	if m.Author == nil || m.Author.ID == self.ID || b.deleted.has(m.ChannelID+"/"+m.ID) {
		return nil
	}
	return b.deliver(ctx, chat.MessageEdited, s, m, silent, self)
}

func older(x, y string) int {
	switch {
	case newer(y, x):
		return -1
	case newer(x, y):
		return 1
	}
	return 0
}
