package checkpoints

import (
	"context"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Mark says how far a channel was delivered, in the platform's own words.
type Mark struct {
	Scope   string // a guild or a workspace; empty: direct
	Channel string
	Message string
}

// Marks are those of one agent on one platform.
func (db *DB) Marks(ctx context.Context, agent chat.AgentID, p chat.Platform) ([]Mark, error) {
	out, err := many(ctx, db.pool, func(r pgx.CollectableRow) (m Mark, err error) {
		err = r.Scan(&m.Scope, &m.Channel, &m.Message)
		return m, err
	}, `SELECT scope, channel, message FROM mark WHERE agent = $1 AND platform = $2 ORDER BY scope, channel`, agent, p)
	return out, translate(ctx, "marks", err)
}

// SetMark moves one mark. Which message is later is the connector's to know.
func (db *DB) SetMark(ctx context.Context, agent chat.AgentID, p chat.Platform, m Mark) error {
	_, err := db.pool.Exec(ctx, `INSERT INTO mark (agent, platform, scope, channel, message) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (agent, platform, scope, channel) DO UPDATE SET message = excluded.message, at = now()`,
		agent, p, m.Scope, m.Channel, m.Message)
	return translate(ctx, "set mark", err)
}

// Last is the newest message that was recorded in a place, in the platform's
// own words.
type Last struct{ Channel, Thread, Message string }

// LastMessages says for each place of an agent how far its messages were
// recorded, for a connector whose message IDs ascend as text.
func (db *DB) LastMessages(ctx context.Context, agent chat.AgentID, p chat.Platform) ([]Last, error) {
	out, err := many(ctx, db.pool, func(r pgx.CollectableRow) (l Last, err error) {
		err = r.Scan(&l.Channel, &l.Thread, &l.Message)
		return l, err
	}, `SELECT p.channel, p.thread, max(m.native_id COLLATE "C") FROM message m JOIN place p ON p.id = m.place
		WHERE p.agent = $1 AND p.platform = $2 AND m.at > now() - interval '30 days' GROUP BY p.channel, p.thread ORDER BY 3 DESC`, agent, p)
	return out, translate(ctx, "last messages", err)
}
