package checkpoints

import (
	"context"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Gap is a channel, or a thread of one, of which messages may be missing that
// were said since, all in the connector's own words. An empty Channel stands for
// those without a gap of their own.
type Gap struct{ Channel, Since string }

// Gaps are those of one agent on one platform.
func (db *DB) Gaps(ctx context.Context, agent chat.AgentID, p chat.Platform) ([]Gap, error) {
	out, err := many(ctx, db.pool, pgx.RowToStructByPos[Gap],
		`SELECT channel, since FROM gap WHERE agent = $1 AND platform = $2 ORDER BY channel`, agent, p)
	return out, translate(ctx, "gaps", err)
}

// SetGaps notes gaps, in place of what was noted of their channels, and drops
// the closed ones as they were noted: what another process noted since stays.
// All or nothing.
func (db *DB) SetGaps(ctx context.Context, agent chat.AgentID, p chat.Platform, opened, closed []Gap) error {
	b := &pgx.Batch{} // one transaction
	channels, since := columns(closed)
	b.Queue(`DELETE FROM gap g USING unnest($3::text[], $4::text[]) c (channel, since)
		WHERE g.agent = $1 AND g.platform = $2 AND g.channel = c.channel AND g.since = c.since`, agent, p, channels, since)
	channels, since = columns(opened)
	b.Queue(`INSERT INTO gap (agent, platform, channel, since) SELECT $1, $2, * FROM unnest($3::text[], $4::text[])
		ON CONFLICT (agent, platform, channel) DO UPDATE SET since = excluded.since, at = now()`, agent, p, channels, since)
	return translate(ctx, "set gaps", db.pool.SendBatch(ctx, b).Close())
}

func columns(list []Gap) (channels, since []string) {
	channels, since = make([]string, len(list)), make([]string, len(list))
	for n, g := range list {
		channels[n], since[n] = g.Channel, g.Since
	}
	return channels, since
}
