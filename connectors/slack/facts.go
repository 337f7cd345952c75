package slack

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"sightline/connectors/chat"
)

const (
	factsAge = 30 * time.Second // for decisions
	kindAge  = 10 * time.Minute // for naming the place of an event; decides nothing
)

// channelInfo is what conversations.info says. Privacy is read from these
// flags: an ID's first letter says nothing.
type channelInfo struct {
	ID          string `json:"id"`
	IsIM        bool   `json:"is_im"`
	IsMPIM      bool   `json:"is_mpim"`
	IsPrivate   bool   `json:"is_private"`
	IsMember    bool   `json:"is_member"`
	IsExtShared bool   `json:"is_ext_shared"`
	User        string `json:"user"` // of a direct message
}

func (b *Bot) channelInfo(ctx context.Context, channel string) (channelInfo, error) {
	var a struct {
		Channel channelInfo `json:"channel"`
	}
	if _, err := b.api.call(ctx, "conversations.info", url.Values{"channel": {channel}}, &a); err != nil {
		return channelInfo{}, err
	}
	if a.Channel.ID == "" {
		return channelInfo{}, errors.New("slack: conversations.info names no channel")
	}
	return a.Channel, nil
}

func (i channelInfo) kind(thread string) chat.PlaceKind {
	switch {
	case i.IsIM:
		return chat.Direct
	case i.IsMPIM:
		return chat.GroupDirect
	case thread == "":
		return chat.Channel
	case i.IsPrivate:
		return chat.PrivateThread
	}
	return chat.PublicThread
}

// factsCache holds what is known of channels for a short time, asks once for
// whoever waits, and forgets on the first sign of a change. It also knows the
// other names of a channel: sharing one changes its ID, and the place keeps
// the ID under which it was first met.
type factsCache struct {
	now   func() time.Time
	fetch func(context.Context, string) (channelInfo, error)
	save  func(ctx context.Context, first, id string) error // of a new alias

	mu     sync.Mutex
	m      map[string]*fact
	newer  map[string]string // first ID -> present ID
	first  map[string]string // any later ID -> first ID
	epochs map[string]int64
	all    int64 // epoch of everything
	last   int64 // the newest epoch: each one is later than all before
}

type fact struct {
	done chan struct{}
	at   time.Time // when it was asked
	info channelInfo
	err  error
}

func newFactsCache(now func() time.Time, fetch func(context.Context, string) (channelInfo, error)) *factsCache {
	// What happened while nobody listened is not known, so a start is a bump.
	start := now().UnixMilli()
	return &factsCache{
		now: now, fetch: fetch, save: func(context.Context, string, string) error { return nil }, m: map[string]*fact{}, newer: map[string]string{}, first: map[string]string{},
		epochs: map[string]int64{}, all: start, last: start,
	}
}

var errChanging = errors.New("slack: what is known of the channel changed while it was asked for")

// get answers for a channel by its first ID, from facts that are no older
// than age.
func (f *factsCache) get(ctx context.Context, channel string, age time.Duration) (channelInfo, error) {
	for range 3 {
		f.mu.Lock()
		e := f.m[channel]
		if e == nil || e.ended() && (e.err != nil || f.now().Sub(e.at) > age) {
			e = &fact{done: make(chan struct{}), at: f.now()}
			f.m[channel] = e
			go f.ask(e, channel, f.presentLocked(channel))
		}
		f.mu.Unlock()
		select {
		case <-e.done:
		case <-ctx.Done():
			return channelInfo{}, ctx.Err()
		}
		f.mu.Lock()
		still := f.m[channel] == e
		f.mu.Unlock()
		if still {
			return e.info, e.err
		}
	}
	return channelInfo{}, errChanging
}

func (e *fact) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// ask is on nobody's context: several wait for it.
func (f *factsCache) ask(e *fact, first, present string) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	e.info, e.err = f.fetch(ctx, present)
	if e.err == nil && e.info.ID != present {
		// Kept before it counts: the place would be another one after a restart.
		if e.err = f.save(ctx, first, e.info.ID); e.err == nil {
			f.alias(first, e.info.ID)
		}
	}
	close(e.done)
}

// alias notes that a channel has a new ID, and answers its first one.
func (f *factsCache) alias(old, id string) (first string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o, ok := f.first[old]; ok {
		old = o
	}
	if old == id {
		return old
	}
	f.newer[old], f.first[id] = id, old
	f.epochs[old] = f.bumpLocked()
	return old
}

// knows reports whether it was noted already that a channel has had this ID.
func (f *factsCache) knows(a Alias) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.first[a.ID]
	return ok || a.First == a.ID
}

// canonical is the ID that places are named by, present the one to ask Slack
// with.
func (f *factsCache) canonical(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o, ok := f.first[id]; ok {
		return o
	}
	return id
}

func (f *factsCache) present(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.presentLocked(id)
}

func (f *factsCache) presentLocked(id string) string {
	if n, ok := f.newer[id]; ok {
		return n
	}
	return id
}

// drop forgets one channel, or with "" all of them.
func (f *factsCache) drop(channel string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if channel == "" {
		clear(f.m)
		f.all = f.bumpLocked()
		return
	}
	if o, ok := f.first[channel]; ok {
		channel = o
	}
	delete(f.m, channel)
	f.epochs[channel] = f.bumpLocked()
}

func (f *factsCache) bumpLocked() int64 {
	f.last = max(f.now().UnixMilli(), f.last+1)
	return f.last
}

func (f *factsCache) epoch(channel string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.all, f.epochs[channel])
}

// place names a thread of a channel, or the channel itself.
func (b *Bot) place(self identity, channel, thread string, i channelInfo) chat.Place {
	p := chat.NewPlace(b.c.Agent, Platform, self.Team, channel, thread, i.kind(thread))
	if thread != "" {
		p.Parent = chat.NewPlace(b.c.Agent, Platform, self.Team, channel, "", i.kind("")).ID
	}
	p.Epoch = b.facts.epoch(channel)
	return p
}

// ours reports whether a place is one that this connector would name so.
func (b *Bot) ours(self identity, p chat.Place) bool {
	return p.Agent == b.c.Agent && p.Platform == Platform && p.Workspace == self.Team && p.Channel != "" &&
		p.ID == chat.NewPlace(p.Agent, Platform, self.Team, p.Channel, p.Thread, p.Kind).ID
}
