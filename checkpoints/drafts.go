package checkpoints

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

const draftColumns = `d.key, d.turn, d.first, coalesce(d.native_id, ''), d.ended OR EXISTS (SELECT FROM post o WHERE o.key = d.key)`

func scanDraft(r pgx.CollectableRow) (d Draft, err error) {
	err = r.Scan(&d.Key, &d.Turn, &d.First, &d.NativeID, &d.Ended)
	return d, err
}

// Draft is what is known of a reply's draft.
func (db *DB) Draft(ctx context.Context, key string) (Draft, error) {
	d, err := one(ctx, db.pool, scanDraft, `SELECT `+draftColumns+` FROM draft d WHERE d.key = $1`, clean(key))
	return d, translate(ctx, "draft", err)
}

// BeginDraft writes down that a draft is about to be shown. When the key has
// one it comes back with existed = true. Where the reply itself is intended
// already it is ErrConflict: no draft may come after it.
func (db *DB) BeginDraft(ctx context.Context, d Draft) (stored Draft, existed bool, err error) {
	const op = "begin draft"
	key := clean(d.Key)
	stored, err = one(ctx, db.pool, scanDraft, `INSERT INTO draft AS d (key, turn, first) SELECT $1, $2, $3
		WHERE NOT EXISTS (SELECT FROM post WHERE key = $1) ON CONFLICT (key) DO NOTHING RETURNING `+draftColumns, key, d.Turn, bounded(d.First))
	if !errors.Is(err, pgx.ErrNoRows) {
		return stored, false, translate(ctx, op, err)
	}
	stored, err = one(ctx, db.pool, scanDraft, `SELECT `+draftColumns+` FROM draft d WHERE d.key = $1`, key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Draft{}, false, failure(op, ErrConflict, "the reply is on its way")
	case err == nil && stored.Turn != d.Turn:
		return Draft{}, false, failure(op, ErrConflict, "the key belongs to another turn")
	}
	return stored, err == nil, translate(ctx, op, err)
}

// SettleDraft keeps where a draft is. Another place than before is ErrConflict.
func (db *DB) SettleDraft(ctx context.Context, key, native string) error {
	const op = "settle draft"
	if native == "" {
		return failure(op, ErrInvalid, "the platform's identifier is needed")
	}
	tag, err := db.pool.Exec(ctx, `UPDATE draft SET native_id = $2 WHERE key = $1 AND (native_id IS NULL OR native_id = $2)`, clean(key), clean(native))
	if err == nil && tag.RowsAffected() == 0 {
		return failure(op, ErrConflict, "there is no such draft, or it is elsewhere")
	}
	return translate(ctx, op, err)
}

// EndDraft keeps a draft from being shown again.
func (db *DB) EndDraft(ctx context.Context, key string) error {
	_, err := db.pool.Exec(ctx, `UPDATE draft SET ended = true WHERE key = $1`, clean(key))
	return translate(ctx, "end draft", err)
}
