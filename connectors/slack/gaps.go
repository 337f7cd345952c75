package slack

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"sightline/connectors/chat"
)

// gaps are the channels, and the threads (channel/ts), of which messages may be
// missing, each with the ts from which on. A gap is noted when it ends, before
// new events move the marks; what can't be read or delivered just now stays
// noted.
//
//	open ──▶ from ──take──▶ reading ──finish──▶ read to the end
//	          ▲                │
//	          └──────owe───────┘
//
// What is in from and in reading is kept in the store before anything is
// delivered, so that a process that is killed leaves it to the next one.
type gaps struct {
	store GapStore // nil: kept in memory
	agent chat.AgentID

	mu       sync.Mutex
	from     map[string]string
	reading  map[string]string
	others   string // from when on also those are meant of which nothing was ever taken; empty: they are not
	retrying bool
	changed  bool // since keep looked

	keeping sync.Mutex
	kept    map[string]string // what the store has
}

// ofOthers is what others is kept under: no channel is called so.
const ofOthers = ""

// load takes over what an earlier process left.
func (g *gaps) load(ctx context.Context) error {
	if g.store == nil {
		return nil
	}
	g.keeping.Lock()
	defer g.keeping.Unlock()
	list, err := g.store.Gaps(ctx, g.agent)
	if err != nil {
		return fmt.Errorf("slack: learn which gaps were not read to the end: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept = map[string]string{}
	for _, gap := range list {
		g.kept[gap.Channel] = gap.From
		if gap.Channel == ofOthers {
			g.oweOthersLocked(gap.From)
		} else {
			g.oweLocked(gap.Channel, gap.From)
		}
	}
	g.changed = true
	return nil
}

// left says from when on an earlier process had not even looked which
// channels there are; empty: it had.
func (g *gaps) left() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.others
}

// open notes a gap in every channel.
func (g *gaps) open(marks map[string]string, others string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for channel, ts := range marks {
		g.oweLocked(channel, ts)
	}
	g.oweOthersLocked(others)
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
	g.changed = lower(g.from, channel, ts) || g.changed
}

// lower has a gap begin no later than this.
func lower(from map[string]string, key, ts string) (changed bool) {
	if old, ok := from[key]; ok && old <= ts {
		return false
	}
	from[key] = ts
	return true
}

func (g *gaps) oweOthers(ts string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.oweOthersLocked(ts)
}

func (g *gaps) oweOthersLocked(ts string) {
	if ts != "" && (g.others == "" || ts < g.others) {
		g.others = ts
		g.changed = true
	}
}

// take hands all over to whoever reads them, until finish.
func (g *gaps) take() (from map[string]string, others string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading = g.wantedLocked()
	from = maps.Clone(g.reading)
	others = g.others
	delete(from, ofOthers)
	g.from, g.others = nil, ""
	return from, others
}

// found adds channels to what is read, in place of the others.
func (g *gaps) found(from map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading = maps.Clone(from)
	g.changed = true
}

// finish: what was taken is read, or owed again.
func (g *gaps) finish() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading = nil
	g.changed = true
}

// wantedLocked is all that is not read to the end.
func (g *gaps) wantedLocked() map[string]string {
	out := maps.Clone(g.reading)
	if out == nil {
		out = map[string]string{}
	}
	for channel, ts := range g.from {
		lower(out, channel, ts)
	}
	if g.others != "" {
		lower(out, ofOthers, g.others)
	}
	return out
}

// keep brings the store up to date. It costs nothing while nothing changes.
func (g *gaps) keep(ctx context.Context) error {
	if g.store == nil {
		return nil
	}
	g.keeping.Lock()
	defer g.keeping.Unlock()
	g.mu.Lock()
	if !g.changed {
		g.mu.Unlock()
		return nil
	}
	g.changed = false
	want := g.wantedLocked()
	g.mu.Unlock()
	var opened, closed []Gap
	for channel, ts := range want {
		if g.kept[channel] != ts {
			opened = append(opened, Gap{Channel: channel, From: ts})
		}
	}
	for channel, ts := range g.kept {
		if _, ok := want[channel]; !ok {
			closed = append(closed, Gap{Channel: channel, From: ts})
		}
	}
	if len(opened) == 0 && len(closed) == 0 {
		return nil
	}
	if err := g.store.SetGaps(ctx, g.agent, opened, closed); err != nil {
		g.mu.Lock()
		g.changed = true
		g.mu.Unlock()
		return fmt.Errorf("slack: keep which gaps are not read to the end: %w", err)
	}
	g.kept = want
	return nil
}

// retry says whether something is left that nobody tries again yet. Whoever is
// told so does, until there is nothing left.
func (g *gaps) retry(mine bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !mine && g.retrying {
		return false
	}
	g.retrying = len(g.from) > 0 || g.others != ""
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
	b.gaps.open(b.seen.marked(), b.newSince)
	b.running.Go(func() {
		if sleep(ctx, b.heldFor) == nil {
			b.facts.drop("")
			b.seen.missed()
			b.catchUp(ctx)
		}
	})
}
