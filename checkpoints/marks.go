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
// own words. Answered: the agent has answered there, and not only taken note.
type Last struct {
	Channel, Thread, Message string
	Answered                 bool
}

// LastMessages says for each place of an agent how far its messages were
// recorded, for a connector whose message IDs ascend as text.
func (db *DB) LastMessages(ctx context.Context, agent chat.AgentID, p chat.Platform) ([]Last, error) {
	out, err := many(ctx, db.pool, func(r pgx.CollectableRow) (l Last, err error) {
		err = r.Scan(&l.Channel, &l.Thread, &l.Message, &l.Answered)
		return l, err
	}, `SELECT p.channel, p.thread, max(m.native_id COLLATE "C"), EXISTS (SELECT 1 FROM turn t WHERE t.place = p.id)
		FROM message m JOIN place p ON p.id = m.place
		WHERE p.agent = $1 AND p.platform = $2 AND m.at > now() - interval '30 days' GROUP BY p.id, p.channel, p.thread ORDER BY 3 DESC`, agent, p)
	return out, translate(ctx, "last messages", err)
}

// Recent is a person's message as it was last recorded. Scope is a guild or a
// workspace.
type Recent struct{ Scope, Channel, Thread, Message, Revision string }

// RecentMessages are those of people that may have changed on the platform
// while nobody listened: of the last week, and of the last month if they have
// files that can still be asked for. The newest come first.
func (db *DB) RecentMessages(ctx context.Context, agent chat.AgentID, p chat.Platform, limit int) ([]Recent, error) {
	out, err := many(ctx, db.pool, func(r pgx.CollectableRow) (m Recent, err error) {
		err = r.Scan(&m.Scope, &m.Channel, &m.Thread, &m.Message, &m.Revision)
		return m, err
	}, `SELECT p.workspace, p.channel, p.thread, m.native_id, m.revision FROM message m JOIN place p ON p.id = m.place
		WHERE p.agent = $1 AND p.platform = $2 AND p.kind <> 'ephemeral' AND NOT m.from_agent AND m.deleted_at IS NULL AND (m.at > now() - interval '7 days'
			OR m.at > now() - interval '30 days' AND EXISTS (SELECT 1 FROM attachment a WHERE a.message = m.id AND a.state = 'available'))
		ORDER BY m.at DESC, m.id LIMIT $3`, agent, p, limit)
	return out, translate(ctx, "recent messages", err)
}

// maxHolders is how many messages one file is looked for in.
const maxHolders = 200

// MessagesWithFile are those that a file of the platform was recorded with and
// that are not known to have lost it, the newest first.
func (db *DB) MessagesWithFile(ctx context.Context, agent chat.AgentID, p chat.Platform, native string) ([]Recent, error) {
	out, err := many(ctx, db.pool, func(r pgx.CollectableRow) (m Recent, err error) {
		err = r.Scan(&m.Scope, &m.Channel, &m.Thread, &m.Message, &m.Revision)
		return m, err
	}, `SELECT p.workspace, p.channel, p.thread, m.native_id, m.revision FROM message m JOIN place p ON p.id = m.place
		WHERE p.platform = $2 AND p.kind <> 'ephemeral' AND m.deleted_at IS NULL
			AND m.id IN (SELECT a.message FROM attachment a WHERE a.agent = $1 AND a.native_file = $3 AND a.state <> 'deleted')
		ORDER BY m.at DESC, m.id LIMIT $4`, agent, p, clean(native), maxHolders)
	return out, translate(ctx, "messages with file", err)
}

// Alias is another ID of a channel, and the one that its places are named by.
type Alias struct{ First, ID string }

// Aliases are those of one agent on one platform.
func (db *DB) Aliases(ctx context.Context, agent chat.AgentID, p chat.Platform) ([]Alias, error) {
	out, err := many(ctx, db.pool, func(r pgx.CollectableRow) (a Alias, err error) {
		err = r.Scan(&a.First, &a.ID)
		return a, err
	}, `SELECT first, id FROM alias WHERE agent = $1 AND platform = $2 ORDER BY seq`, agent, p)
	return out, translate(ctx, "aliases", err)
}

// SetAlias keeps one. The same again changes nothing.
func (db *DB) SetAlias(ctx context.Context, agent chat.AgentID, p chat.Platform, a Alias) error {
	_, err := db.pool.Exec(ctx, `INSERT INTO alias (agent, platform, first, id) VALUES ($1, $2, $3, $4) ON CONFLICT (agent, platform, id) DO NOTHING`,
		agent, p, a.First, a.ID)
	return translate(ctx, "set alias", err)
}
