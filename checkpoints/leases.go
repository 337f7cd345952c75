package checkpoints

import (
	"context"
	"time"
)

// Lease takes or renews the right to be the only one to do something, for a
// while by the database's own clock, so that the clocks of two machines don't
// have to agree. It reports whether holder has it now.
func (db *DB) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	tag, err := db.pool.Exec(ctx, `INSERT INTO lease (name, holder, until) VALUES ($1, $2, now() + $3::interval)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE lease.holder = excluded.holder OR lease.until < now()`, label(name), label(holder), ttl)
	return err == nil && tag.RowsAffected() == 1, translate(ctx, "lease", err)
}

// Release gives a lease back, if holder still has it.
func (db *DB) Release(ctx context.Context, name, holder string) error {
	_, err := db.pool.Exec(ctx, `DELETE FROM lease WHERE name = $1 AND holder = $2`, label(name), label(holder))
	return translate(ctx, "release lease", err)
}
