package discord

import (
	"context"
	"slices"
	"sync"
)

// shut are the channels, with recorded messages, that the agent may not read.
// Nobody tells it what is edited and deleted there.
type shut struct {
	mu      sync.Mutex
	m       map[string]bool
	looking map[string]bool // guilds that are looked at: and once more
}

// set notes how a channel is, and answers how it was.
func (s *shut) set(channelID string, is bool) (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was = s.m[channelID]
	switch {
	case !is:
		delete(s.m, channelID)
	case s.m == nil:
		s.m = map[string]bool{channelID: true}
	default:
		s.m[channelID] = true
	}
	return was
}

// begin reports whether nobody looks at the guild yet; who does looks again.
func (s *shut) begin(guildID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	again, looks := s.looking[guildID]
	if looks && again {
		return false
	}
	if s.looking == nil {
		s.looking = map[string]bool{}
	}
	s.looking[guildID] = looks
	return !looks
}

// end reports whether it has to be looked at again.
func (s *shut) end(guildID string) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again = s.looking[guildID]
	delete(s.looking, guildID)
	return again
}

// reopen looks, at once and then in pauses, which channels of a guild the
// agent may read: something has changed about that. One that it could not read
// before is compared with what was recorded of it. Somebody who moves roles
// about changes them many times in a row.
func (b *Bot) reopen(ctx context.Context, guildID string) {
	if b.c.Recent == nil || !b.shut.begin(guildID) {
		return
	}
	b.enqueue(ctx, job{"permissions", guildID, func(ctx context.Context) error {
		err := b.look(ctx, guildID)
		if err != nil && !hasStatus(err, 403, 404) {
			return err // and tried again
		}
		b.running.Go(func() {
			if sleep(ctx, b.lookPause) == nil && b.shut.end(guildID) {
				b.reopen(ctx, guildID)
			}
		})
		return nil
	}})
}

func (b *Bot) look(ctx context.Context, guildID string) error {
	order, groups, err := b.recordedIn(ctx, func(id string) bool { return id == guildID })
	if err != nil || len(order) == 0 {
		return err
	}
	g, reason, err := b.liveGuild(ctx, guildID)
	if err != nil || reason != "" {
		return err
	}
	self := b.identity.id()
	m, err := ask[member](ctx, b.facts, guildID, memberPath(guildID, self))
	if err != nil {
		return err
	}
	list, err := ask[[]channel](ctx, b.facts, guildID, channelsPath(guildID))
	if err != nil {
		return err
	}
	for _, id := range order {
		top := id
		if s, ok := b.channels.get(id); ok && s.thread() {
			top = s.parent
		}
		n := slices.IndexFunc(list, func(c channel) bool { return c.ID == top })
		if n < 0 || list[n].Overwrites == nil {
			continue
		}
		const needed = permView | permReadHistory
		closed := g.OwnerID != self && combined(guildID, m.in(g), list[n].Overwrites, self)&needed != needed
		if was := b.shut.set(id, closed); was && !closed {
			b.compareChannel(ctx, id, groups[id])
		}
	}
	return nil
}
