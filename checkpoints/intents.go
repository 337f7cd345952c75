package checkpoints

import (
	"context"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Intend writes down that a call is about to change something. existed says
// that this was written before: what it came to is not known.
func (db *DB) Intend(ctx context.Context, turn chat.TurnID, seq int, tool, callID string) (existed bool, err error) {
	tag, err := db.pool.Exec(ctx, `INSERT INTO intent (turn, seq, tool, call_id) VALUES ($1, $2, $3, $4) ON CONFLICT (turn, seq) DO NOTHING`,
		turn, seq, clean(tool), label(callID))
	if err != nil {
		return false, translate(ctx, "intend", err)
	}
	return tag.RowsAffected() == 0, nil
}

// LastReceipts are the newest receipts of some tools in a conversation, newest
// first, whatever their turn.
func (db *DB) LastReceipts(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, tools []string, limit int) ([]Receipt, error) {
	r, err := many(ctx, db.pool, scanReceipt, `SELECT `+receiptColumns+` FROM receipt r JOIN turn t ON t.id = r.turn
		WHERE t.agent = $1 AND t.conversation = $2 AND r.tool = ANY($3) ORDER BY t.started_at DESC, r.seq DESC LIMIT $4`,
		agent, conv, tools, max(limit, 0))
	return r, translate(ctx, "last receipts", err)
}

// Setting is what an owner decided for a conversation; empty: nothing.
func (db *DB) Setting(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, name string) (string, error) {
	var v string
	err := db.pool.QueryRow(ctx, `SELECT value FROM setting WHERE agent = $1 AND conversation = $2 AND name = $3`, agent, conv, name).Scan(&v)
	if err == pgx.ErrNoRows {
		return "", nil
	}
	return v, translate(ctx, "setting", err)
}

// SetSetting keeps an owner's decision.
func (db *DB) SetSetting(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, name, value string, by chat.Actor) error {
	_, err := db.pool.Exec(ctx, `INSERT INTO setting (agent, conversation, name, value, by) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (agent, conversation, name) DO UPDATE SET value = excluded.value, by = excluded.by, at = now()`,
		agent, conv, clean(name), label(value), actorJSON(cleanActor(by)))
	return translate(ctx, "set setting", err)
}
