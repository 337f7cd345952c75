package checkpoints

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// PutQuarantine keeps a digest out of later requests to a model, or to all
// models. What put it there first is what stays written.
func (db *DB) PutQuarantine(ctx context.Context, q Quarantine) error {
	_, err := db.pool.Exec(ctx, `INSERT INTO quarantine (digest, model, reason, at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		q.Digest, label(q.Model), label(q.Reason), stamp(q.At))
	return translate(ctx, "put quarantine", err)
}

// Quarantined says which of the digests are kept from the model, and why.
func (db *DB) Quarantined(ctx context.Context, digests []string, model string) (map[string]Quarantine, error) {
	found := map[string]Quarantine{}
	if len(digests) == 0 {
		return found, nil
	}
	// '' sorts first, so that the model's own reason is the one given.
	rows, err := many(ctx, db.pool, scanQuarantine, `SELECT q.digest, q.model, q.reason, q.at FROM quarantine q
		WHERE q.digest = ANY($1) AND q.model IN ('', $2) ORDER BY q.digest, q.model`, texts(digests), label(model))
	for _, q := range rows {
		found[q.Digest] = q
	}
	return found, translate(ctx, "quarantined", err)
}

func scanQuarantine(r pgx.CollectableRow) (q Quarantine, err error) {
	err = r.Scan(&q.Digest, &q.Model, &q.Reason, &q.At)
	q.At = q.At.UTC()
	return q, err
}
