package discord

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// shut are the channels that the agent may not read, and threads that it was
// taken out of. Nobody tells it what is edited and deleted there.
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
	// In no lane: messages would wait there for what can't be asked at present.
	b.running.Go(func() {
		b.work(ctx, job{"permissions", guildID, func(ctx context.Context) error { return b.look(ctx, guildID) }})
		_ = sleep(ctx, b.lookPause)
		// However it ended: a process that has the connection again begins anew.
		if b.shut.end(guildID) && ctx.Err() == nil {
			b.reopen(ctx, guildID)
		}
	})
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
		top := cmp.Or(groups[id][0].Parent, id)
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

// back compares one thread that the agent was out of.
func (b *Bot) back(ctx context.Context, guildID, threadID string) {
	if b.c.Recent == nil || !b.shut.set(threadID, false) {
		return
	}
	b.running.Go(func() {
		b.work(ctx, job{"permissions", threadID, func(ctx context.Context) error {
			_, groups, err := b.recordedIn(ctx, func(id string) bool { return id == guildID })
			if list := groups[threadID]; len(list) > 0 {
				b.compareChannel(ctx, threadID, list)
			}
			return err
		}})
	})
}
