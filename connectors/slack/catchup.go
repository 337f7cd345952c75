package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sightline/connectors/chat"
)

// What is read after a gap. Slack allows about 50 calls a minute of each of
// the two methods; a call that it holds back is waited for.
const (
	maxChannels = 50 // whose new messages are read in one round, each within missedPages
	maxThreads  = 50
	maxCompared = 20 // channels, and threads, whose recorded messages are compared, each within maxPages
	maxConfirms = 20 // messages of one of them that are looked for alone
)

// shownLate: a message that is younger may not be in the history yet.
const shownLate = 10 * time.Second

// resume learns from the store how far an earlier process came.
func (b *Bot) resume(ctx context.Context) error {
	self, err := b.me(ctx)
	if err != nil {
		return err
	}
	b.newSince = unstamp(self.at)
	if b.c.Marks == nil {
		return nil
	}
	list, err := b.c.Marks(ctx)
	if err != nil {
		return fmt.Errorf("slack: learn how far events were taken: %w", err)
	}
	if err := b.gaps.load(ctx); err != nil {
		return err
	}
	last := ""
	for _, m := range list {
		if m.Channel == "" || m.TS == "" {
			continue
		}
		b.seen.mark(m.Channel, m.TS)
		last = max(last, m.TS)
		if m.Answered {
			b.threads.update(m.Channel, m.Thread, func(s *threadState) {
				if m.Thread != "" {
					s.known, s.part = true, true
				}
				s.last = max(s.last, m.TS)
			})
		}
	}
	if last != "" {
		b.newSince = last
	}
	if since := b.gaps.left(); since != "" {
		// Which channels there are was not known yet: one of which a first
		// message came meanwhile has a mark, and a gap that was not noted.
		b.newSince = min(b.newSince, since)
		for channel, ts := range b.seen.marked() {
			b.gaps.owe(channel, min(ts, since))
		}
	}
	return nil
}

// catchUp reads what was said since the last message that was taken, and then
// what became of those that were.
func (b *Bot) catchUp(ctx context.Context) {
	if b.waiting.Swap(true) {
		return // one that has not begun yet reads what this one would
	}
	b.filling.Lock()
	b.waiting.Store(false)
	rest := b.backfill(ctx)
	if err := b.compare(ctx, ""); err != nil && ctx.Err() == nil {
		b.log.Warn("edits and deletions may have been missed", "error", err)
	}
	b.filling.Unlock()
	b.fillRest(ctx, rest)
}

// again: while the agent was not in a channel nobody told it what became of the
// messages there, or of its ID.
func (b *Bot) again(ctx context.Context, channel string) {
	b.facts.drop("") // under its old ID, too
	b.seen.missed()
	b.running.Go(func() {
		b.filling.Lock()
		defer b.filling.Unlock()
		err := b.recognize(ctx)
		if cerr := b.compare(ctx, b.facts.canonical(channel)); cerr != nil {
			err = cerr
		}
		if err != nil && ctx.Err() == nil {
			b.log.Warn("edits and deletions may have been missed", "channel", channel, "error", err)
		}
	})
}

// compare looks at the newest messages that the store has, of all channels or
// of one, as Slack has them now: events of edits and deletions do not come
// again. Channels are read as a whole, and threads one by one; each in its
// channel's lane, so that what is read is not older than what was delivered
// before.
func (b *Bot) compare(ctx context.Context, only string) error {
	if b.c.Recent == nil {
		return nil
	}
	list, err := b.c.Recent(ctx)
	if err != nil {
		return fmt.Errorf("slack: learn which messages were recorded: %w", err)
	}
	type where struct{ channel, thread string }
	groups := map[where][]Recorded{}
	var order []where // the newest first
	for _, r := range list {
		w := where{b.facts.canonical(r.Channel), r.Thread}
		if only != "" && w.channel != only {
			continue
		}
		if r.Thread == r.TS {
			w.thread = "" // it is in its channel's history
		}
		if groups[w] == nil {
			order = append(order, w)
		}
		groups[w] = append(groups[w], r)
	}
	channels, threads := 0, 0
	for _, w := range order {
		n := &channels
		if w.thread != "" {
			n = &threads
		}
		if *n++; *n > maxCompared {
			continue
		}
		b.queue.push(ctx, &job{channel: w.channel, run: func(ctx context.Context, _ *job) error {
			return b.compareIn(ctx, w.channel, w.thread, groups[w])
		}}, func(err error) {
			if err != nil && !errors.Is(err, context.Canceled) {
				b.log.Warn("edits and deletions may have been missed", "channel", w.channel, "error", err)
			}
		})
	}
	return nil
}

// compareIn reads one channel or thread back to the oldest of these messages,
// within bounds, and delivers what changed.
func (b *Bot) compareIn(ctx context.Context, channel, thread string, list []Recorded) error {
	self, err := b.me(ctx)
	if err != nil {
		return err
	}
	info, err := b.facts.get(ctx, channel, kindAge)
	if err != nil {
		return b.unreachable(err)
	}
	slices.SortFunc(list, func(x, y Recorded) int { return cmp.Compare(y.TS, x.TS) })
	oldest := list[len(list)-1].TS
	var now []message
	if thread == "" {
		now, err = b.history(ctx, channel, oldest, false)
	} else {
		now, err = b.replies(ctx, channel, thread, oldest, false, maxPages)
	}
	if codeOf(err) == "thread_not_found" {
		err = nil // with everything that was in it
	}
	if err != nil {
		return b.unreachable(err)
	}
	have := map[string]*message{}
	for n := range now {
		now[n].Channel = channel
		have[now[n].TS] = &now[n]
	}
	var missing []Recorded
	fresh := false
	for _, r := range list {
		m := have[r.TS]
		if m == nil || m.Subtype == "tombstone" {
			missing = append(missing, r)
			fresh = fresh || b.c.Now().Sub(stamp(r.TS)) < shownLate
			continue
		}
		if err := b.amend(ctx, self, info, r, m); err != nil {
			return err
		}
	}
	// They are beyond the pages that were read, too new to be shown, or gone:
	// each alone tells.
	if len(missing) > maxConfirms {
		b.log.Warn("edits and deletions may have been missed: there are too many messages to look for", "channel", channel, "messages", len(missing))
		missing = missing[:maxConfirms]
	}
	if fresh {
		if err := sleep(ctx, b.rereads[len(b.rereads)-1]); err != nil {
			return err
		}
	}
	for _, r := range missing {
		if err := b.confirm(ctx, self, info, channel, r); err != nil {
			return err
		}
	}
	return nil
}

// unreachable: what can't be read for good is refused at every fetch, and not
// known to have changed.
func (b *Bot) unreachable(err error) error {
	switch codeOf(err) {
	case "channel_not_found", "not_in_channel", "is_archived", "missing_scope":
		b.log.Info("a channel can't be compared with what was recorded of it", "error", err)
		return nil
	}
	return err
}

// confirm looks for one message, and delivers its deletion if it is not there.
func (b *Bot) confirm(ctx context.Context, self identity, info channelInfo, channel string, r Recorded) error {
	m, err := b.read(ctx, channel, r.TS, r.Thread)
	if err != nil {
		return b.unreachable(err)
	}
	if m != nil {
		return b.amend(ctx, self, info, r, m)
	}
	gone := &message{Channel: channel, TS: r.TS, ThreadTS: r.Thread}
	p := b.place(self, channel, r.Thread, info)
	old, _ := b.seen.get(channel, r.TS)
	if was, ok := old.in(p.ID); ok && was.Kind == chat.MessageDeleted {
		return nil // told since the store was asked
	}
	return b.deliver(ctx, self, p, info, gone, chat.MessageDeleted, false)
}

// amend delivers a message that is not as it was recorded.
func (b *Bot) amend(ctx context.Context, self identity, info channelInfo, r Recorded, m *message) error {
	// A file that is deleted, a forwarded one too, leaves the revision as it is.
	lost := slices.ContainsFunc(slices.Concat(m.Files, m.forwarded()), func(f file) bool { return f.Mode == "tombstone" })
	if m.revision() == r.Revision && !lost || self.wrote(m) {
		return nil
	}
	p := b.place(self, m.Channel, r.Thread, info)
	old, _ := b.seen.get(m.Channel, m.TS)
	if was, ok := old.in(p.ID); ok && old.revision == m.revision() && old.text == m.Text && was.Kind == chat.MessageEdited {
		return nil // told since the store was asked
	}
	return b.deliver(ctx, self, p, info, m, chat.MessageEdited, false)
}
