package checkpoints

import (
	"context"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Owed is a recorded message that its conversation was not told of yet.
type Owed struct {
	Message      chat.MessageID
	Agent        chat.AgentID
	Conversation chat.ConversationID
	Place        chat.PlaceID
	Platform     chat.Platform
	Attachments  int
}

// Owe writes down that a conversation has yet to be told of a message.
func (db *DB) Owe(ctx context.Context, o Owed) error {
	_, err := db.pool.Exec(ctx, `INSERT INTO owed (message, agent, conversation, place, platform, attachments) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (message) DO NOTHING`, o.Message, o.Agent, o.Conversation, o.Place, o.Platform, o.Attachments)
	return translate(ctx, "owe", err)
}

// Owing are the oldest of them.
func (db *DB) Owing(ctx context.Context, limit int) ([]Owed, error) {
	out, err := many(ctx, db.pool, func(r pgx.CollectableRow) (o Owed, err error) {
		err = r.Scan(&o.Message, &o.Agent, &o.Conversation, &o.Place, &o.Platform, &o.Attachments)
		return o, err
	}, `SELECT message, agent, conversation, place, platform, attachments FROM owed ORDER BY at LIMIT $1`, max(limit, 0))
	return out, translate(ctx, "owing", err)
}

// Settle drops what is owed no more.
func (db *DB) Settle(ctx context.Context, m chat.MessageID) error {
	_, err := db.pool.Exec(ctx, `DELETE FROM owed WHERE message = $1`, m)
	return translate(ctx, "settle what is owed", err)
}
