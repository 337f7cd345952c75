package discord

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sightline/connectors/chat"
)

// marks says how far each channel was delivered.
type marks struct {
	store Marks
	agent chat.AgentID

	mu sync.Mutex
	m  map[string]Mark // by channel
	// kept is what the store has.
	kept map[string]string
}

// guildKey is where a guild's own mark is kept: the oldest servers have a
// channel with their id, and no id begins with 0.
func guildKey(id string) string { return "0" + id }

func newMarks(store Marks, agent chat.AgentID) *marks {
	return &marks{store: store, agent: agent, m: map[string]Mark{}, kept: map[string]string{}}
}

func (k *marks) load(ctx context.Context) error {
	if k.store == nil {
		return nil
	}
	list, err := k.store.Marks(ctx, k.agent)
	if err != nil {
		return fmt.Errorf("load marks: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range list {
		if isSnowflake(m.Channel) && newer(m.Message, k.m[m.Channel].Message) {
			k.m[m.Channel], k.kept[m.Channel] = m, m.Message
		}
	}
	return nil
}

func (k *marks) get(channel string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.m[channel]
	return m.Message, ok
}

// direct are the channels that no guild lists.
func (k *marks) direct() (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c, m := range k.m {
		if m.Guild == "" && c != guildKey("") {
			out = append(out, c)
		}
	}
	return out
}

// newest are a guild's channels but for these, the last ones first: those that
// were heard of within some time of when the bot last heard anything there.
func (k *marks) newest(guildID string, within time.Duration, but map[string]bool, most int) (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	heard := "0"
	for _, m := range k.m {
		if m.Guild == guildID && newer(m.Message, heard) {
			heard = m.Message
		}
	}
	since := snowflakeAt(snowflakeTime(heard).Add(-within))
	for c, m := range k.m {
		if m.Guild == guildID && !but[c] && c != guildKey(guildID) && newer(m.Message, since) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(x, y string) int { return older(k.m[y].Message, k.m[x].Message) })
	return out[:min(len(out), most)]
}

// keepEvery bounds how much of what was passed over is read again after a
// crash.
const keepEvery = 5 * time.Minute

// move advances a channel's mark. What was delivered is worth a write; what
// was passed over is so now and then.
func (k *marks) move(ctx context.Context, m Mark, keep bool) error {
	k.mu.Lock()
	old, ok := k.m[m.Channel]
	if ok && !newer(m.Message, old.Message) {
		k.mu.Unlock()
		return nil
	}
	keep = keep || snowflakeTime(m.Message).Sub(snowflakeTime(k.kept[m.Channel])) > keepEvery
	k.mu.Unlock()
	if keep && k.store != nil {
		if err := k.store.SetMark(ctx, k.agent, m); err != nil {
			return fmt.Errorf("save mark: %w", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.m[m.Channel] = m
	if keep {
		k.kept[m.Channel] = m.Message
	}
	return nil
}
