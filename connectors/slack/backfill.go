package slack

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
)

// before is a little before a ts: what was taken already is known.
func (b *Bot) before(ts string) string { return unstamp(stamp(ts).Add(-b.readDelay)) }

// passed: it may be read the next time.
func passed(err error) bool {
	var e *apiError
	return !errors.As(err, &e) || e.passing()
}

// closed drops from the store what was read.
func (b *Bot) closed(ctx context.Context) {
	b.gaps.finish()
	if err := b.gaps.keep(ctx); err != nil && ctx.Err() == nil {
		b.log.Info("what was read after a gap may be read once more", "error", err)
	}
}

// backfill reads the gaps, and waits until what was found is delivered. rest:
// there are more channels than are read at once.
func (b *Bot) backfill(ctx context.Context) (rest bool) {
	owed, others := b.gaps.take()
	defer b.closed(ctx)
	if others != "" {
		if !b.unmarked(ctx, owed, others) {
			b.gaps.oweOthers(others)
		}
		b.gaps.found(owed)
	}
	channels := slices.SortedFunc(maps.Keys(owed), func(x, y string) int { return cmp.Compare(owed[y], owed[x]) })
	if rest = len(channels) > maxChannels; rest {
		b.log.Info("there are more channels than are read again at once; the rest is read later", "channels", len(channels), "read", maxChannels)
		for _, channel := range channels[maxChannels:] {
			b.gaps.owe(channel, owed[channel])
			delete(owed, channel)
		}
		channels = channels[:maxChannels]
	}
	var delivered sync.WaitGroup
	take := func(channel string, list []message, err error) {
		switch {
		case err == nil:
		case ctx.Err() != nil:
			b.gaps.owe(channel, owed[channel])
		case codeOf(err) == "thread_not_found": // its first message was deleted
		default:
			b.log.Warn("messages may have been missed: a channel can't be read", "channel", channel, "error", err, "tried again", passed(err))
			if passed(err) {
				b.gaps.owe(channel, owed[channel])
			}
		}
		for n := range list {
			m := &list[n]
			m.Channel = channel
			switch m.Subtype {
			case "", "file_share", "thread_broadcast", "me_message", "bot_message":
				ts := m.TS
				delivered.Add(1)
				b.queue.push(ctx, &job{key: messageKey(channel, ts), channel: channel, m: m, kinds: kindMessage, whole: true, run: b.message}, func(err error) {
					defer delivered.Done()
					if err == nil {
						return
					}
					b.gaps.owe(channel, ts)
					if !errors.Is(err, context.Canceled) {
						b.log.Warn("a missed message could not be delivered; it is tried again", "channel", channel, "error", err)
					}
				})
			}
		}
	}
	type thread struct{ channel, ts string }
	threads := map[thread]string{}
	for _, channel := range channels {
		from := b.before(owed[channel])
		list, alive, err := b.since(ctx, channel, from)
		take(channel, list, err)
		for _, ts := range alive {
			threads[thread{channel, ts}] = from
		}
	}
	for _, t := range b.threads.mine(maxThreads) {
		if from, ok := owed[t.channel]; ok {
			if t.last != "" {
				from = min(from, t.last)
			}
			threads[thread{t.channel, t.thread}] = b.before(from)
		}
	}
	order := slices.SortedFunc(maps.Keys(threads), func(x, y thread) int { return cmp.Compare(y.ts, x.ts) })
	if len(order) > maxThreads {
		b.log.Warn("messages may have been missed: there are more threads than are read again", "threads", len(order), "read", maxThreads)
		order = order[:maxThreads]
	}
	for _, t := range order {
		list, err := b.replies(ctx, t.channel, t.ts, threads[t], false)
		take(t.channel, list, err)
	}
	delivered.Wait()
	return rest
}

// since reads a channel back to a ts. Replies are not in its history, but the
// first messages of their threads say when the newest one came: alive are
// those threads that had one since, as far back as one page of messages goes.
func (b *Bot) since(ctx context.Context, channel, from string) (list []message, alive []string, err error) {
	in := url.Values{"channel": {b.facts.present(channel)}, "limit": {strconv.Itoa(pageSize)}}
	whole, err := b.api.pages(ctx, "conversations.history", in, func(p page) (enough bool) {
		for _, m := range p.Messages {
			if m.LatestReply >= from {
				alive = append(alive, m.TS)
			}
			if enough = enough || m.TS < from; m.TS >= from {
				list = append(list, m)
			}
		}
		return enough
	})
	if err != nil {
		return nil, nil, err
	}
	if !whole {
		b.log.Warn("messages may have been missed: more was said than is read again", "channel", channel)
	}
	slices.SortStableFunc(list, func(x, y message) int { return cmp.Compare(x.TS, y.TS) })
	return slices.CompactFunc(list, func(x, y message) bool { return x.TS == y.TS }), alive, nil
}

// unmarked adds the agent's conversations of which nothing was ever taken: it
// may have been called to them while nobody listened.
func (b *Bot) unmarked(ctx context.Context, owed map[string]string, since string) (ok bool) {
	in := url.Values{"types": {"public_channel,private_channel,mpim,im"}, "exclude_archived": {"true"}, "limit": {strconv.Itoa(pageSize)}}
	_, err := b.api.pages(ctx, "users.conversations", in, func(p page) bool {
		for _, c := range p.Channels {
			id := b.facts.canonical(c.ID)
			if _, known := owed[id]; !known && id != "" {
				owed[id] = since
			}
		}
		return false
	})
	if err != nil {
		if ctx.Err() == nil {
			b.log.Warn("messages may have been missed: the agent's channels can't be listed", "error", err)
		}
		return !passed(err)
	}
	return true
}
