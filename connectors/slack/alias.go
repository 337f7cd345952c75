package slack

import (
	"context"
	"fmt"
)

// learnAliases reads which IDs channels have had, as often as facts are asked
// again: the event that tells of a new one comes to one process, and others
// name the same places, and ask Slack about them.
func (b *Bot) learnAliases(ctx context.Context) error {
	if b.c.Aliases == nil {
		return nil
	}
	b.aliasMu.Lock()
	defer b.aliasMu.Unlock()
	now := b.c.Now()
	if !b.aliased.IsZero() && now.Sub(b.aliased) < factsAge {
		return nil
	}
	list, err := b.c.Aliases.Aliases(ctx, b.c.Agent)
	if err != nil {
		return fmt.Errorf("slack: learn the IDs that channels had: %w", err)
	}
	for _, a := range list {
		if !b.facts.knows(a) {
			b.facts.alias(a.First, a.ID)
		}
	}
	b.aliased = now
	return nil
}
