package checkpoints

import (
	"context"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Forget makes a message or one attachment as good as deleted, whatever the
// platform still has: its text goes, its files are never fetched again. It
// says how many rows that were there are gone now. What is around the
// conversation may be named, too: an owner's command in a channel is about its
// threads as well.
func (db *DB) Forget(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, m chat.MessageID, a chat.AttachmentID) (int, error) {
	n := 0
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if m != "" {
			t, err := tx.Exec(ctx, `UPDATE message SET text = '', deleted_at = now()
				WHERE id = $3 AND deleted_at IS NULL AND place IN `+around, agent, conv, m)
			if err != nil {
				return err
			}
			n += int(t.RowsAffected())
		}
		t, err := tx.Exec(ctx, `UPDATE attachment SET state = 'deleted', state_reason = 'an owner had it forgotten'
			WHERE agent = $1 AND place IN `+around+` AND (id = $3 OR message = $4) AND state <> 'deleted'`, agent, conv, a, m)
		n += int(t.RowsAffected())
		if err != nil || n == 0 {
			return err
		}
		// The attachments of a forgotten message go with it.
		rows, err := tx.Query(ctx, `SELECT id FROM attachment WHERE agent = $1 AND (id = $2 OR message = $3)`, agent, a, m)
		if err != nil {
			return err
		}
		gone, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, staleTurns, agent, conv, string(m), gone)
		return err
	})
	if err != nil {
		return 0, translate(ctx, "forget", err)
	}
	return n, nil
}
