package checkpoints

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// TurnPictures are the pictures of a turn's requests after a step, shown or
// not, in the order of the requests.
func (db *DB) TurnPictures(ctx context.Context, id chat.TurnID, after int) ([]chat.Selected, error) {
	rows, err := db.pool.Query(ctx, `SELECT pictures FROM audit WHERE turn = $1 AND seq > $2 ORDER BY seq, attempt`, id, after)
	if err != nil {
		return nil, translate(ctx, "pictures of turn", err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
	if err != nil {
		return nil, translate(ctx, "pictures of turn", err)
	}
	var out []chat.Selected
	for _, b := range bodies {
		var list []chat.Selected
		if err := json.Unmarshal(b, &list); err != nil {
			return nil, fmt.Errorf("checkpoints: pictures of turn: %w", ErrInvalid)
		}
		out = append(out, list...)
	}
	return out, nil
}

// TurnOfMessage finds the turn that took a message up: the one it began, or
// the one it joined. The newest, if there are several.
func (db *DB) TurnOfMessage(ctx context.Context, m chat.MessageID) (Turn, error) {
	var id chat.TurnID
	err := db.pool.QueryRow(ctx, `SELECT t.id FROM step s JOIN turn t ON t.id = s.turn
		WHERE s.message = $1 AND s.kind = 'user' ORDER BY t.started_at DESC LIMIT 1`, m).Scan(&id)
	if err != nil {
		return Turn{}, translate(ctx, "turn of message", err)
	}
	return db.Turn(ctx, id)
}
