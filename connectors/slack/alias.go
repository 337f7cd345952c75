package slack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
)

// learnAliases reads which IDs channels have had, as often as facts are asked
// again: the event that tells of a new one comes to one process, and others
// name the same places, and ask Slack about them.
func (b *Bot) learnAliases(ctx context.Context) error {
	if b.c.Aliases == nil {
		return nil
	}
	b.aliasMu.Lock()
	defer b.aliasMu.Unlock()
	now := b.c.Now()
	if !b.aliased.IsZero() && now.Sub(b.aliased) < factsAge {
		return nil
	}
	list, err := b.c.Aliases.Aliases(ctx, b.c.Agent)
	if err != nil {
		return fmt.Errorf("slack: learn the IDs that channels had: %w", err)
	}
	for _, a := range list {
		if !b.facts.knows(a) {
			b.facts.alias(a.First, a.ID)
		}
	}
	b.aliased = now
	return nil
}

// named has a job's channel be named by its first ID, also where the event of
// its new one was missed: under another name its messages would be of another
// conversation, and what becomes of them would be told of messages that are in
// no row.
func (b *Bot) named(ctx context.Context, j *job) error {
	if b.seen.hasMark(j.channel) {
		return nil
	}
	if err := b.recognize(ctx); err != nil {
		return fmt.Errorf("slack: learn whether the channel is a known one with a new ID: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.channel = b.facts.canonical(j.channel)
	j.m.Channel = j.channel
	return nil
}

// recognize asks, once after events may have been missed, about the channels
// that are not among the agent's under the ID that is known: Slack answers to
// an old ID with the new one. Where it does not list them, all are asked about.
func (b *Bot) recognize(ctx context.Context) error {
	b.recognizing.Lock()
	defer b.recognizing.Unlock()
	generation, marks := b.seen.now(), b.seen.marked()
	if b.recognized == generation || len(marks) == 0 {
		return nil
	}
	list, err := b.conversations(ctx)
	for _, c := range list {
		delete(marks, b.facts.canonical(c.ID))
	}
	if err != nil && passed(err) && (ctx.Err() != nil || len(marks) > maxChannels) {
		return err
	}
	gone := slices.SortedFunc(maps.Keys(marks), func(x, y string) int { return cmp.Compare(marks[y], marks[x]) })
	for _, channel := range gone[:min(len(gone), maxChannels)] {
		if _, err := b.facts.get(ctx, channel, factsAge); err != nil && passed(err) {
			return err
		}
	}
	b.recognized = generation
	return nil
}

// conversations are those that the agent is in, archives left out.
func (b *Bot) conversations(ctx context.Context) (list []channelInfo, err error) {
	in := url.Values{"types": {"public_channel,private_channel,mpim,im"}, "exclude_archived": {"true"}, "limit": {strconv.Itoa(pageSize)}}
	_, err = b.api.pages(ctx, "users.conversations", in, maxPages, func(p page) bool {
		list = append(list, p.Channels...)
		return false
	})
	return list, err
}
