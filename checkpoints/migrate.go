package checkpoints

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// migrationLock is one for all sets: two programs that start together on one
// database take turns.
const migrationLock = 0x5167_4c1e

type migration struct {
	number    int
	name, sql string
	sha256    string
}

var migrationName = regexp.MustCompile(`^([0-9]{4})_([a-z0-9_]+)\.sql$`)

// Migrate applies what is new in the set, in order, each in its transaction.
// It only goes forward: it refuses a database that is newer than the program
// and one whose applied migrations are not this program's.
func (db *DB) Migrate(ctx context.Context, set string, fsys fs.FS) error {
	known, err := readMigrations(fsys)
	if err != nil {
		return fmt.Errorf("checkpoints: migrate %s: %w", set, err)
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return translate(ctx, "migrate "+set, err)
	}
	err = db.migrateOn(ctx, conn, set, known)
	// The session holds the lock and has no timeouts: it is not given back.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = conn.Hijack().Close(closing)
	return err
}

func (db *DB) migrateOn(ctx context.Context, conn *pgxpool.Conn, set string, known []migration) error {
	// Another program's migration may take its time.
	_, err := conn.Exec(ctx, `SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false)`)
	if err != nil {
		return translate(ctx, "migrate "+set, err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock)); err != nil {
		return translate(ctx, "migrate "+set, err)
	}
	_, err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_migration (
		"set"      text        NOT NULL CHECK ("set" <> ''),
		number     integer     NOT NULL CHECK (number > 0),
		name       text        NOT NULL,
		sha256     text        NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
		applied_at timestamptz NOT NULL DEFAULT now(),
		PRIMARY KEY ("set", number))`)
	if err != nil {
		return translate(ctx, "migrate "+set, err)
	}
	applied, err := appliedMigrations(ctx, conn, set)
	if err != nil {
		return translate(ctx, "migrate "+set, err)
	}
	pending, err := pendingMigrations(known, applied)
	if err != nil {
		return fmt.Errorf("checkpoints: migrate %s: %w", set, err)
	}
	for _, m := range pending {
		start := time.Now()
		if err := applyMigration(ctx, conn, set, m); err != nil {
			return translate(ctx, fmt.Sprintf("migrate %s to %04d_%s", set, m.number, m.name), err)
		}
		db.log.InfoContext(ctx, "migrated the database", "set", set, "number", m.number, "name", m.name, "took", time.Since(start))
	}
	return nil
}

func readMigrations(fsys fs.FS) ([]migration, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read the set: %w", err)
	}
	var all []migration
	for _, e := range entries { // in the order of their names, and so of their numbers
		parts := migrationName.FindStringSubmatch(e.Name())
		if parts == nil {
			return nil, fmt.Errorf("%q is not named NNNN_name.sql", e.Name())
		}
		number, err := strconv.Atoi(parts[1])
		if err != nil || number != len(all)+1 {
			return nil, fmt.Errorf("%q is not number %d: numbers have no gaps and no twins", e.Name(), len(all)+1)
		}
		text, err := fs.ReadFile(fsys, e.Name())
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(text)
		all = append(all, migration{number: number, name: parts[2], sql: string(text), sha256: hex.EncodeToString(sum[:])})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the set is empty")
	}
	return all, nil
}

func appliedMigrations(ctx context.Context, conn *pgxpool.Conn, set string) ([]migration, error) {
	rows, err := conn.Query(ctx, `SELECT number, name, sha256 FROM schema_migration WHERE "set" = $1 ORDER BY number`, set)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (m migration, err error) {
		err = r.Scan(&m.number, &m.name, &m.sha256)
		return m, err
	})
}

// pendingMigrations compares what the database says with what the program has.
func pendingMigrations(known, applied []migration) ([]migration, error) {
	if n := len(applied); n > 0 && applied[n-1].number > len(known) {
		return nil, fmt.Errorf("the database is newer than the program: it is at %04d_%s, this program knows %04d; run a newer sightline",
			applied[n-1].number, applied[n-1].name, len(known))
	}
	for i, a := range applied {
		if a.number != i+1 {
			return nil, fmt.Errorf("the database lacks migration %04d but has a later one", i+1)
		}
		if a.sha256 != known[i].sha256 {
			return nil, fmt.Errorf("migration %04d_%s was changed after it was applied here", a.number, a.name)
		}
	}
	return slices.Clone(known[len(applied):]), nil
}

func applyMigration(ctx context.Context, conn *pgxpool.Conn, set string, m migration) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// The simple protocol takes several statements at once.
		if _, err := tx.Conn().PgConn().Exec(ctx, m.sql).ReadAll(); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO schema_migration ("set", number, name, sha256) VALUES ($1, $2, $3, $4)`,
			set, m.number, m.name, m.sha256)
		return err
	})
}
