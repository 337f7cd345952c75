package checkpoints

import (
	"context"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// RecordUses appends to the operators' trail, all or nothing.
func (db *DB) RecordUses(ctx context.Context, uses []chat.Use) error {
	if len(uses) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, u := range uses {
		b.Queue(`INSERT INTO use (turn, agent, conversation, actor, attachment, destination, action, allowed, rule, reason,
				source_epoch, dest_epoch, digest, bytes_fetched, at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
			label(string(u.Turn)), label(string(u.Agent)), label(string(u.Conversation)), actorJSON(u.Actor), label(string(u.Attachment)),
			label(string(u.Destination)), label(u.Action), u.Allowed, label(u.Rule), label(u.Reason),
			u.SourceEpoch, u.DestEpoch, null(u.Digest), max(u.BytesFetched, 0), stamp(u.At))
	}
	// Sent as one batch, the statements are one transaction.
	return translate(ctx, "record uses", db.pool.SendBatch(ctx, b).Close())
}

// Uses is the trail of one attachment, oldest first.
func (db *DB) Uses(ctx context.Context, agent chat.AgentID, id chat.AttachmentID) ([]chat.Use, error) {
	u, err := many(ctx, db.pool, scanUse, `SELECT u.turn, u.agent, u.conversation, u.actor, u.attachment, u.destination, u.action, u.allowed,
			u.rule, u.reason, u.source_epoch, u.dest_epoch, coalesce(u.digest, ''), u.bytes_fetched, u.at
		FROM use u WHERE u.agent = $1 AND u.attachment = $2 ORDER BY u.at, u.seq`, clean(string(agent)), label(string(id)))
	return u, translate(ctx, "uses", err)
}

func scanUse(r pgx.CollectableRow) (u chat.Use, err error) {
	err = r.Scan(&u.Turn, &u.Agent, &u.Conversation, &u.Actor, &u.Attachment, &u.Destination, &u.Action, &u.Allowed,
		&u.Rule, &u.Reason, &u.SourceEpoch, &u.DestEpoch, &u.Digest, &u.BytesFetched, &u.At)
	u.At = u.At.UTC()
	return u, err
}
