package slack

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sightline/connectors/chat"
)

const (
	pageSize  = 200
	loopLimit = 5 // answers in a row to other bots, with no person in between
)

// threadState is what is remembered of one thread.
type threadState struct {
	known     bool // whether the agent takes part has been looked up
	part      bool
	from      string // when it first did; empty: not looked up
	inventory bool   // earlier replies were delivered
	last      string
	bots      []string // answered messages of bots since a person last spoke
}

// threads is a bounded memory; what falls out is looked up again.
type threads struct {
	max   int
	mu    sync.Mutex
	m     map[string]threadState
	order []string
}

func newThreads(max int) *threads { return &threads{max: max, m: map[string]threadState{}} }

func (t *threads) get(channel, ts string) threadState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[messageKey(channel, ts)]
}

func (t *threads) update(channel, ts string, f func(*threadState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := messageKey(channel, ts)
	s, ok := t.m[k]
	if !ok {
		t.order = append(t.order, k)
	}
	f(&s)
	t.m[k] = s
	for len(t.order) > t.max {
		delete(t.m, t.order[0])
		t.order = t.order[1:]
	}
}

func (t *threads) join(channel, ts string) {
	t.update(channel, ts, func(s *threadState) { s.known, s.part = true, true })
}

// leaveOpen forgets in which threads the agent takes no part: while another
// process took the events, it may have been called there.
func (t *threads) leaveOpen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, s := range t.m {
		if s.known && !s.part {
			s.known = false
			t.m[k] = s
		}
	}
}

// mine are the threads that the agent takes part in, those with the newest
// replies first.
func (t *threads) mine(limit int) (out []struct{ channel, thread, last string }) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, s := range t.m {
		if !s.part {
			continue
		}
		c, ts, _ := strings.Cut(k, "/")
		out = append(out, struct{ channel, thread, last string }{c, ts, s.last})
	}
	slices.SortFunc(out, func(a, b struct{ channel, thread, last string }) int { return cmp.Compare(b.last, a.last) })
	return out[:min(limit, len(out))]
}

// answersBot counts an answer to another bot, and says whether there may be
// one. Two bots that answer each other would not stop by themselves. With an
// empty thread it counts for the channel: at its top each call begins a thread.
func (t *threads) answersBot(channel, thread, ts string) (ok bool) {
	t.update(channel, thread, func(s *threadState) {
		// One that comes again, at any time, counts once.
		if ok = slices.Contains(s.bots, ts); !ok && len(s.bots) < loopLimit {
			s.bots, ok = append(slices.Clone(s.bots), ts), true
		}
	})
	return ok
}

// person: somebody spoke, in the channel and in one of its threads. What bots
// said after it counts on: it may come late, or again.
func (t *threads) person(channel, thread, said string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ts := range []string{"", thread} {
		k := messageKey(channel, ts)
		if s, ok := t.m[k]; ok {
			s.bots = slices.DeleteFunc(slices.Clone(s.bots), func(ts string) bool { return ts <= said })
			t.m[k] = s
		}
	}
}

// replies reads a thread from oldest on, its first message included. Slack
// answers with the first message whatever the bounds are.
func (b *Bot) replies(ctx context.Context, channel, thread, oldest string, meta bool, most int) ([]message, error) {
	in := url.Values{
		"channel": {b.facts.present(channel)}, "ts": {thread}, "limit": {strconv.Itoa(pageSize)},
	}
	return b.messages(ctx, "conversations.replies", in, oldest, meta, most)
}

func (b *Bot) history(ctx context.Context, channel, oldest string, meta bool) ([]message, error) {
	in := url.Values{"channel": {b.facts.present(channel)}, "limit": {strconv.Itoa(pageSize)}}
	return b.messages(ctx, "conversations.history", in, oldest, meta, maxPages)
}

// messages reads what a method has of them, in the order of time.
func (b *Bot) messages(ctx context.Context, method string, in url.Values, oldest string, meta bool, most int) ([]message, error) {
	if oldest != "" {
		in.Set("oldest", oldest)
		in.Set("inclusive", "true")
	}
	if meta {
		in.Set("include_all_metadata", "true")
	}
	var all []message
	if _, err := b.api.pages(ctx, method, in, most, func(p page) bool {
		all = append(all, p.Messages...)
		return false
	}); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(x, y message) int { return cmp.Compare(x.TS, y.TS) })
	return slices.CompactFunc(all, func(x, y message) bool { return x.TS == y.TS }), nil
}

// takesPart: the agent has spoken in the thread or was called there, before
// the given ts. It is asked of Slack once per thread. What was said before that
// is read again after a gap, and was not said to the agent.
func (b *Bot) takesPart(ctx context.Context, self identity, channel, thread, before string) (bool, error) {
	known := b.threads.get(channel, thread)
	if known.known && (!known.part || known.from != "") {
		return known.part && known.from < before, nil
	}
	list, err := b.replies(ctx, channel, thread, "", false, maxPages)
	switch codeOf(err) {
	case "thread_not_found", "missing_scope", "channel_not_found", "not_in_channel":
		b.log.Warn("a thread can't be read, so it is left alone", "channel", channel, "error", err)
		return known.part, nil
	}
	if err != nil {
		return false, err
	}
	from := ""
	if n := slices.IndexFunc(list, func(m message) bool { return self.wrote(&m) || self.called(&m) }); n >= 0 {
		from = list[n].TS
	}
	part := from != "" && from < before
	b.threads.update(channel, thread, func(s *threadState) { s.known, s.part, s.from = true, s.part || part, from })
	// The one call may not be in the history yet, or beyond what is read.
	return part || known.part && from == "", nil
}

// takeInventory delivers, silently, the files of what was said in a thread
// before the agent was called.
func (b *Bot) takeInventory(ctx context.Context, self identity, p chat.Place, i channelInfo, before string) error {
	if b.threads.get(p.Channel, p.Thread).inventory {
		return nil
	}
	list, err := b.replies(ctx, p.Channel, p.Thread, "", false, maxPages)
	switch code := codeOf(err); {
	case code == "missing_scope", code == "thread_not_found":
		b.log.Warn("the earlier messages of a thread can't be read", "channel", p.Channel, "error", err)
		return nil
	case err != nil:
		return err
	}
	for n := range list {
		m := &list[n]
		m.Channel = p.Channel
		if m.TS >= before || !m.hasFiles() || self.wrote(m) {
			continue
		}
		at := p
		if m.TS == p.Thread {
			at = b.home(self, i, m, self.called(m)) // the first message is its channel's
		}
		if err := b.deliver(ctx, self, at, i, m, chat.MessagePosted, true); err != nil {
			return err
		}
	}
	b.threads.update(p.Channel, p.Thread, func(s *threadState) { s.inventory = true })
	return nil
}

func (s identity) wrote(m *message) bool {
	return m.User != "" && m.User == s.User || m.BotID != "" && m.BotID == s.Bot
}

func (s identity) called(m *message) bool { return strings.Contains(m.Text, "<@"+s.User) }
