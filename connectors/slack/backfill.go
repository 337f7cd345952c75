package slack

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sightline/connectors/chat"
)

// before is a little before a ts: what was taken already is known.
func (b *Bot) before(ts string) string { return unstamp(stamp(ts).Add(-b.readDelay)) }

// passed: it may be read, or delivered, the next time. A token that is refused
// is put right by people, and what is no answer of Slack's says nothing about
// the channel; that a scope is missing is about what was asked.
func passed(err error) bool {
	if errors.Is(err, chat.ErrUnfit) {
		return false // it was tried again already
	}
	var e *apiError
	if !errors.As(err, &e) || e.passing() || strings.HasPrefix(e.Code, "http_") {
		return true
	}
	return e.Code != "missing_scope" && slices.Contains(refusals, e.Code)
}

// closed drops from the store what was read.
func (b *Bot) closed(ctx context.Context) {
	b.gaps.finish()
	if err := b.gaps.keep(ctx); err != nil && ctx.Err() == nil {
		b.log.Info("what was read after a gap may be read once more", "error", err)
	}
}

// backfill reads the gaps, and waits until what was found is delivered. rest:
// there are more of them than are read at once.
func (b *Bot) backfill(ctx context.Context) (rest bool) {
	owed, others := b.gaps.take()
	defer b.closed(ctx)
	if others != "" {
		if !b.unmarked(ctx, owed, others) {
			b.gaps.oweOthers(others)
		}
		b.gaps.found(owed)
	}
	channels, threads := map[string]string{}, map[string]string{}
	for key, from := range owed {
		if _, thread := parts(key); thread != "" {
			threads[key] = from
		} else {
			channels[key] = from
		}
	}
	var delivered sync.WaitGroup
	read, left := b.newest(channels, maxChannels, func(channel string) string { return channels[channel] })
	for _, channel := range read {
		list, alive, err := b.since(ctx, channel, b.before(channels[channel]))
		for _, ts := range alive {
			lower(threads, channel+"/"+ts, channels[channel])
		}
		b.takeMissed(ctx, channel, channels[channel], list, err, &delivered)
	}
	for _, t := range b.threads.mine(maxThreads) {
		if from, ok := channels[t.channel]; ok {
			if t.last != "" {
				from = min(from, t.last)
			}
			lower(threads, t.channel+"/"+t.thread, from)
		}
	}
	read, more := b.newest(threads, maxThreads, func(key string) string { _, ts := parts(key); return ts })
	for _, key := range read {
		channel, ts := parts(key)
		list, err := b.replies(ctx, channel, ts, b.before(threads[key]), false, missedPages)
		b.takeMissed(ctx, key, threads[key], list, err, &delivered)
	}
	delivered.Wait()
	return left || more
}

// parts are those of a gap's key: a channel, or a thread of one.
func parts(key string) (channel, thread string) {
	channel, thread, _ = strings.Cut(key, "/")
	return channel, thread
}

// newest are as many as are read at once; the others are left to be read later.
func (b *Bot) newest(owed map[string]string, most int, of func(key string) string) (keys []string, rest bool) {
	keys = slices.SortedFunc(maps.Keys(owed), func(x, y string) int { return cmp.Compare(of(y), of(x)) })
	if len(keys) <= most {
		return keys, false
	}
	b.log.Info("there are more channels or threads than are read again at once; the rest is read later", "there are", len(keys), "read", most)
	for _, key := range keys[most:] {
		b.gaps.owe(key, owed[key])
		delete(owed, key)
	}
	return keys[:most], true
}

// takeMissed delivers what was read of a channel or a thread. What could not be
// read or delivered is owed again.
func (b *Bot) takeMissed(ctx context.Context, key, from string, list []message, err error, delivered *sync.WaitGroup) {
	channel, _ := parts(key)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		b.gaps.owe(key, from)
	case codeOf(err) == "thread_not_found": // its first message was deleted
	default:
		b.log.Warn("messages may have been missed: a channel can't be read", "channel", channel, "error", err, "tried again", passed(err))
		if passed(err) {
			b.gaps.owe(key, from)
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
				if passed(err) {
					b.gaps.owe(key, ts)
				}
				if errors.Is(err, chat.ErrUnfit) {
					b.log.Error("a missed message is lost: the store refuses it", "channel", channel, "ts", ts, "error", err)
				} else if !errors.Is(err, context.Canceled) {
					b.log.Warn("a missed message could not be delivered", "channel", channel, "error", err, "tried again", passed(err))
				}
			})
		}
	}
}

// since reads a channel back to a ts. Replies are not in its history, but the
// first messages of their threads say when the newest one came: alive are
// those threads that had one since, as far back as one page of messages goes.
func (b *Bot) since(ctx context.Context, channel, from string) (list []message, alive []string, err error) {
	in := url.Values{"channel": {b.facts.present(channel)}, "limit": {strconv.Itoa(pageSize)}}
	whole, err := b.api.pages(ctx, "conversations.history", in, missedPages, func(p page) (enough bool) {
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
	err := b.recognize(ctx) // else a known one would be another
	var list []channelInfo
	if err == nil {
		list, err = b.conversations(ctx)
	}
	if err != nil && ctx.Err() == nil {
		b.log.Warn("messages may have been missed: the agent's channels can't be listed", "error", err)
	}
	for _, c := range list {
		id := b.facts.canonical(c.ID)
		if _, known := owed[id]; !known && id != "" {
			owed[id] = since
		}
	}
	return err == nil || !passed(err)
}
