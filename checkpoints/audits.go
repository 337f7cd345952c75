package checkpoints

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// OpenAudit stores what is about to be sent to the model and numbers the
// attempt. It is written before the call, so that no call goes unseen.
func (db *DB) OpenAudit(ctx context.Context, a Audit) (attempt int, err error) {
	const op = "open audit"
	text, err := body(a.Body)
	if err != nil {
		return 0, translate(ctx, op, err)
	}
	pictures, err := selectedJSON(a.Pictures)
	if err != nil {
		return 0, translate(ctx, op, err)
	}
	err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		// Two attempts at once (one of them given up for dead) take turns.
		if err := tx.QueryRow(ctx, `SELECT FROM turn WHERE id = $1 FOR NO KEY UPDATE`, a.Turn).Scan(); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `INSERT INTO audit (turn, seq, attempt, model, body, pictures, input_tokens, output_tokens, outcome, took_ns, at)
			VALUES ($1::text, $2, (SELECT coalesce(max(attempt), 0) + 1 FROM audit WHERE turn = $1::text AND seq = $2), $3, $4, $5, 0, 0, '', 0, $6)
			RETURNING attempt`,
			a.Turn, a.Seq, label(a.Model), text, pictures, stamp(a.At)).Scan(&attempt)
	})
	return attempt, translate(ctx, op, err)
}

// CloseAudit says what came of a request. It can be said once; saying the same
// again changes nothing.
func (db *DB) CloseAudit(ctx context.Context, turn chat.TurnID, seq, attempt int, outcome string, in, out int64, took time.Duration) error {
	const op = "close audit"
	outcome = clip(outcome, maxReason)
	if outcome == "" {
		return failure(op, ErrInvalid, "an outcome is needed")
	}
	tag, err := db.pool.Exec(ctx, `UPDATE audit SET outcome = $4, input_tokens = $5, output_tokens = $6, took_ns = $7
		WHERE turn = $1 AND seq = $2 AND attempt = $3 AND outcome = ''`, turn, seq, attempt, outcome, in, out, took.Nanoseconds())
	if err != nil || tag.RowsAffected() == 1 {
		return translate(ctx, op, err)
	}
	var stored string
	err = db.pool.QueryRow(ctx, `SELECT outcome FROM audit WHERE turn = $1 AND seq = $2 AND attempt = $3`, turn, seq, attempt).Scan(&stored)
	if err == nil && stored != outcome {
		err = fmt.Errorf("%w: it was closed with another outcome", ErrConflict)
	}
	return translate(ctx, op, err)
}

// Audits are the requests of a turn, in order.
func (db *DB) Audits(ctx context.Context, turn chat.TurnID) ([]Audit, error) {
	a, err := many(ctx, db.pool, scanAudit, `SELECT a.turn, a.seq, a.attempt, a.model, a.body::text, a.pictures, a.input_tokens, a.output_tokens,
			a.outcome, a.took_ns, a.at
		FROM audit a WHERE a.turn = $1 ORDER BY a.seq, a.attempt`, clean(string(turn)))
	return a, translate(ctx, "audits", err)
}

func scanAudit(r pgx.CollectableRow) (a Audit, err error) {
	var text string
	var took int64
	err = r.Scan(&a.Turn, &a.Seq, &a.Attempt, &a.Model, &text, &a.Pictures, &a.InputTokens, &a.OutputTokens, &a.Outcome, &took, &a.At)
	a.Body, a.Took, a.At = []byte(text), time.Duration(took), a.At.UTC()
	return a, err
}
