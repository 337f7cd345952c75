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

// gaps are the channels of which messages may be missing, each with the ts
// from which on. It is noted when a gap ends, before new events move the
// marks; what can't be read or delivered just now stays noted.
type gaps struct {
	mu       sync.Mutex
	from     map[string]string
	others   bool // also those of which nothing was ever taken
	retrying bool
}

// open notes a gap in every channel.
func (g *gaps) open(marks map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for channel, ts := range marks {
		g.oweLocked(channel, ts)
	}
	g.others = true
}

func (g *gaps) owe(channel, ts string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.oweLocked(channel, ts)
}

func (g *gaps) oweLocked(channel, ts string) {
	if g.from == nil {
		g.from = map[string]string{}
	}
	if old, ok := g.from[channel]; !ok || ts < old {
		g.from[channel] = ts
	}
}

func (g *gaps) oweOthers() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.others = true
}

// take hands all over to whoever reads them.
func (g *gaps) take() (from map[string]string, others bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	from, others = g.from, g.others
	g.from, g.others = nil, false
	if from == nil {
		from = map[string]string{}
	}
	return from, others
}

// retry says whether something is left that nobody tries again yet. Whoever is
// told so does, until there is nothing left.
func (g *gaps) retry(mine bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !mine && g.retrying {
		return false
	}
	g.retrying = len(g.from) > 0 || g.others
	return g.retrying
}

func (g *gaps) stopRetrying() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retrying = false
}

// fillRest goes on until everything was read and delivered: what is read from
// history is sent by Slack no more.
func (b *Bot) fillRest(ctx context.Context, rest bool) {
	pause := b.redial
	for mine := false; b.gaps.retry(mine); mine = true {
		wait := pause
		if rest {
			wait = max(wait, b.roundPause)
		}
		if sleep(ctx, wait) != nil {
			b.gaps.stopRetrying() // the next Run may have to
			return
		}
		b.filling.Lock()
		rest = b.backfill(ctx)
		b.filling.Unlock()
		pause = min(2*pause, b.roundPause)
	}
}

// heldBack: Slack throws away what happens in a minute in which there was too
// much, and what it could not deliver. It is read when that is over.
func (b *Bot) heldBack(ctx context.Context) {
	b.facts.drop("")
	b.seen.missed()
	b.gaps.open(b.seen.marked())
	b.running.Go(func() {
		if sleep(ctx, b.heldFor) == nil {
			b.facts.drop("")
			b.seen.missed()
			b.catchUp(ctx)
		}
	})
}

// before is a little before a ts: what was taken already is known.
func (b *Bot) before(ts string) string { return unstamp(stamp(ts).Add(-b.readDelay)) }

// passed: it may be read the next time.
func passed(err error) bool {
	var e *apiError
	return !errors.As(err, &e) || e.passing()
}

// backfill reads the gaps, and waits until what was found is delivered. rest:
// there are more channels than are read at once.
func (b *Bot) backfill(ctx context.Context) (rest bool) {
	owed, others := b.gaps.take()
	if others && !b.unmarked(ctx, owed) {
		b.gaps.oweOthers()
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
	for n := 0; ; n++ {
		if n == maxPages {
			b.log.Warn("messages may have been missed: more was said than is read again", "channel", channel)
			break
		}
		var a struct {
			Messages []message `json:"messages"`
			Next     struct {
				Cursor string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		if _, err := b.api.call(ctx, "conversations.history", in, &a); err != nil {
			return nil, nil, err
		}
		over := false
		for _, m := range a.Messages {
			if m.LatestReply >= from {
				alive = append(alive, m.TS)
			}
			if over = over || m.TS < from; m.TS >= from {
				list = append(list, m)
			}
		}
		if over || a.Next.Cursor == "" {
			break
		}
		in.Set("cursor", a.Next.Cursor)
	}
	slices.SortStableFunc(list, func(x, y message) int { return cmp.Compare(x.TS, y.TS) })
	return slices.CompactFunc(list, func(x, y message) bool { return x.TS == y.TS }), alive, nil
}

// unmarked adds the agent's conversations of which nothing was ever taken: it
// may have been called to them while nobody listened.
func (b *Bot) unmarked(ctx context.Context, owed map[string]string) (ok bool) {
	in := url.Values{"types": {"public_channel,private_channel,mpim,im"}, "exclude_archived": {"true"}, "limit": {strconv.Itoa(pageSize)}}
	for range maxPages {
		var a struct {
			Channels []channelInfo `json:"channels"`
			Next     struct {
				Cursor string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		if _, err := b.api.call(ctx, "users.conversations", in, &a); err != nil {
			if ctx.Err() == nil {
				b.log.Warn("messages may have been missed: the agent's channels can't be listed", "error", err)
			}
			return !passed(err)
		}
		for _, c := range a.Channels {
			id := b.facts.canonical(c.ID)
			if _, known := owed[id]; !known && id != "" {
				owed[id] = b.newSince
			}
		}
		if a.Next.Cursor == "" {
			break
		}
		in.Set("cursor", a.Next.Cursor)
	}
	return true
}
