package checkpoints

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// IntendPost writes down a reply before the platform is called. When the key
// is taken the stored reply comes back with existed = true: it, and not the
// one given here, is what is posted. A key of another turn is ErrConflict.
func (db *DB) IntendPost(ctx context.Context, p Post) (stored Post, existed bool, err error) {
	const op = "intend post"
	key := clean(p.Key)
	stored, err = one(ctx, db.pool, scanPost, `INSERT INTO post AS o (key, turn, kind, text, at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (key) DO NOTHING RETURNING `+postColumns, key, p.Turn, p.Kind, bounded(p.Text), stamp(p.At))
	if !errors.Is(err, pgx.ErrNoRows) {
		return stored, false, translate(ctx, op, err)
	}
	stored, err = one(ctx, db.pool, scanPost, `SELECT `+postColumns+` FROM post o WHERE o.key = $1`, key)
	if err == nil && stored.Turn != p.Turn {
		return Post{}, false, failure(op, ErrConflict, "the key belongs to another turn")
	}
	return stored, err == nil, translate(ctx, op, err)
}

// RecallPost turns an answer that is not known to be out into a failure that
// says this instead. What is settled stands.
func (db *DB) RecallPost(ctx context.Context, key, text string) error {
	_, err := db.pool.Exec(ctx, `UPDATE post SET kind = 'failure', text = $2 WHERE key = $1 AND kind = 'answer' AND native_id IS NULL`, clean(key), bounded(text))
	return translate(ctx, "recall post", err)
}

// SettlePost keeps where a reply was posted. The same place again changes
// nothing; another is ErrConflict, for then it was posted twice.
func (db *DB) SettlePost(ctx context.Context, key, native string) error {
	const op = "settle post"
	if native == "" {
		return failure(op, ErrInvalid, "the platform's identifier is needed")
	}
	key, native = clean(key), clean(native)
	tag, err := db.pool.Exec(ctx, `UPDATE post SET native_id = $2, posted_at = now() WHERE key = $1 AND native_id IS NULL`, key, native)
	if err != nil || tag.RowsAffected() == 1 {
		return translate(ctx, op, err)
	}
	stored, err := one(ctx, db.pool, scanPost, `SELECT `+postColumns+` FROM post o WHERE o.key = $1`, key)
	if err == nil && stored.NativeID != native {
		err = fmt.Errorf("%w: it is posted elsewhere already", ErrConflict)
	}
	return translate(ctx, op, err)
}

// Posts are a turn's replies, oldest first.
func (db *DB) Posts(ctx context.Context, turn chat.TurnID) ([]Post, error) {
	p, err := many(ctx, db.pool, scanPost, `SELECT `+postColumns+` FROM post o WHERE o.turn = $1 ORDER BY o.at, o.key`, clean(string(turn)))
	return p, translate(ctx, "posts", err)
}
