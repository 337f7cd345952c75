package checkpoints

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// AppendStep appends to a turn's transcript. When the sequence number is taken
// the row that has it comes back with existed = true, so that a retried
// activity finds its own work; a row of another kind is ErrConflict.
//
// A tool's step goes with its receipt: AppendToolStep.
func (db *DB) AppendStep(ctx context.Context, s Step) (stored Step, existed bool, err error) {
	if s.Kind == StepTool {
		return Step{}, false, failure("append step", ErrInvalid, "a tool's step needs its receipt")
	}
	stored, existed, err = appendStep(ctx, db.pool, s)
	if err != nil {
		return Step{}, false, translate(ctx, "append step", err)
	}
	return stored, existed, nil
}

// AppendToolStep appends a tool's answer and its receipt, both or neither.
func (db *DB) AppendToolStep(ctx context.Context, s Step, r Receipt) (Step, Receipt, bool, error) {
	const op = "append tool step"
	if s.Kind != StepTool {
		return Step{}, Receipt{}, false, failure(op, ErrInvalid, "only a tool's step has a receipt")
	}
	var step Step
	var receipt Receipt
	var existed bool
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) (err error) {
		if step, existed, err = appendStep(ctx, tx, s); err != nil {
			return err
		}
		if existed {
			receipt, err = one(ctx, tx, scanReceipt, `SELECT `+receiptColumns+` FROM receipt r WHERE r.turn = $1 AND r.seq = $2`, step.Turn, step.Seq)
			return err
		}
		selected, err := selectedJSON(r.Selected)
		if err != nil {
			return err
		}
		places, err := placesJSON(r.Places)
		if err != nil {
			return err
		}
		receipt, err = one(ctx, tx, scanReceipt, `INSERT INTO receipt AS r (turn, seq, tool, call_id, verdict, reason, selected, places, at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING `+receiptColumns,
			step.Turn, step.Seq, clean(r.Tool), label(r.CallID), r.Verdict, clip(r.Reason, maxReason), selected, places, stamp(r.At))
		return err
	})
	if err != nil {
		return Step{}, Receipt{}, false, translate(ctx, op, err)
	}
	return step, receipt, existed, nil
}

func appendStep(ctx context.Context, q querier, s Step) (stored Step, existed bool, err error) {
	var text, digest *string
	if len(s.Body) > 0 {
		t, err := body(s.Body)
		if err != nil {
			return Step{}, false, err
		}
		sum := sha256.Sum256([]byte(t))
		d := hex.EncodeToString(sum[:])
		text, digest = &t, &d
	}
	stored, err = one(ctx, q, scanStep, `INSERT INTO step AS s (turn, seq, kind, message, body, digest, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (turn, seq) DO NOTHING RETURNING `+stepColumns,
		s.Turn, s.Seq, s.Kind, null(s.Message), text, digest, stamp(s.At))
	if !errors.Is(err, pgx.ErrNoRows) {
		return stored, false, err
	}
	stored, err = one(ctx, q, scanStep, `SELECT `+stepColumns+` FROM step s WHERE s.turn = $1 AND s.seq = $2`, s.Turn, s.Seq)
	if err == nil && (stored.Kind != s.Kind || stored.Message != s.Message) {
		err = fmt.Errorf("%w: step %d is taken by a step of kind %s", ErrConflict, s.Seq, stored.Kind)
	}
	return stored, true, err
}

// Steps is a turn's transcript.
func (db *DB) Steps(ctx context.Context, id chat.TurnID) ([]Step, error) {
	s, err := many(ctx, db.pool, scanStep, `SELECT `+stepColumns+` FROM step s WHERE s.turn = $1 ORDER BY s.seq`, clean(string(id)))
	return s, translate(ctx, "steps", err)
}

// Receipts are a turn's receipts, in the order of their steps.
func (db *DB) Receipts(ctx context.Context, id chat.TurnID) ([]Receipt, error) {
	r, err := many(ctx, db.pool, scanReceipt, `SELECT `+receiptColumns+` FROM receipt r WHERE r.turn = $1 ORDER BY r.seq`, clean(string(id)))
	return r, translate(ctx, "receipts", err)
}
