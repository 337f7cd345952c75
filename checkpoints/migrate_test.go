package checkpoints

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"sightline/cmd/local/testenv"
)

func set(files ...string) fs.FS {
	m := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		m[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return m
}

func TestMigrateFromEmptyTwiceAndTogether(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	race(t, 4, func(int) (struct{}, error) {
		db, err := Open(t.Context(), url, nil)
		if err == nil {
			db.Close()
		}
		return struct{}{}, err
	})
	db := openAt(t, url)
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, "schema_migration"); n != len(files) {
		t.Errorf("%d rows for %d migrations", n, len(files))
	}
	// A populated database opens as well, with everything there.
	begun(t, db, "1")
	again := openAt(t, url)
	if n := count(t, again, "turn"); n != 1 {
		t.Errorf("%d turns after opening again", n)
	}
}

func TestMigrateSets(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	const one, two = "CREATE TABLE w (a int); INSERT INTO w VALUES (1);", "ALTER TABLE w ADD b int; UPDATE w SET b = a + 1;"
	for _, s := range []fs.FS{set("0001_a.sql", one), set("0001_a.sql", one, "0002_b.sql", two), set("0001_a.sql", one, "0002_b.sql", two)} {
		if err := db.Migrate(ctx, "web", s); err != nil {
			t.Fatal(err)
		}
	}
	var b int
	if err := db.Pool().QueryRow(ctx, `SELECT b FROM w`).Scan(&b); err != nil || b != 2 {
		t.Errorf("b is %d, %v", b, err)
	}
	for name, tt := range map[string]struct {
		fsys fs.FS
		want string
	}{
		"changed": {set("0001_a.sql", one+" ", "0002_b.sql", two), "0001_a was changed after it was applied"},
		"newer":   {set("0001_a.sql", one), "the database is newer than the program"},
		"gap":     {set("0001_a.sql", one, "0003_b.sql", two), "no gaps"},
		"twins":   {set("0001_a.sql", one, "0001_b.sql", two), "no gaps"},
		"name":    {set("1_a.sql", one), "NNNN_name.sql"},
		"empty":   {set(), "empty"},
	} {
		err := db.Migrate(ctx, "web", tt.fsys)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another set has numbers of its own.
	if err := db.Migrate(ctx, "other", set("0001_x.sql", "CREATE TABLE x (a int)")); err != nil {
		t.Error(err)
	}
}

func TestMigrateFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	bad := set("0001_a.sql", "CREATE TABLE good (a int)", "0002_b.sql", "CREATE TABLE half (a int); SELECT nonsense;")
	err := db.Migrate(ctx, "web", bad)
	if err == nil || !strings.Contains(err.Error(), "web to 0002_b") || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error: %v", err)
	}
	var half, good bool
	if err := db.pool.QueryRow(ctx, `SELECT to_regclass('half') IS NOT NULL, to_regclass('good') IS NOT NULL`).Scan(&half, &good); err != nil || half || !good {
		t.Errorf("half %v, good %v, %v", half, good, err)
	}
	if err := db.Migrate(ctx, "web", set("0001_a.sql", "CREATE TABLE good (a int)", "0002_b.sql", "CREATE TABLE half (a int)")); err != nil {
		t.Errorf("the mended set: %v", err)
	}
}

func TestOpenRefusesNewerAndChanged(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	db := openAt(t, url)
	if _, err := db.pool.Exec(t.Context(), `INSERT INTO schema_migration ("set", number, name, sha256) VALUES ('sightline', 9999, 'future', repeat('0', 64))`); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "newer than the program") {
		t.Errorf("newer: %v", err)
	}
	for _, sql := range []string{`DELETE FROM schema_migration WHERE number = 9999`, `UPDATE schema_migration SET sha256 = repeat('0', 64)`} {
		if _, err := db.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "changed after it was applied") {
		t.Errorf("changed: %v", err)
	}
}

func TestMigrateWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	db := open(t)
	conn := must[interface{ Release() }](t)(acquire(t.Context(), db))
	defer conn.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := db.Migrate(ctx, "web", set("0001_a.sql", "CREATE TABLE a (a int)"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another program migrates: %v", err)
	}
}

// acquire holds the lock as another migrating program would.
func acquire(ctx context.Context, db *DB) (interface{ Release() }, error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock))
	return conn, err
}

// A store of another package may migrate between two of our statements; what
// is prepared goes on working.
func TestPreparedStatementsOutliveMigrations(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn := begun(t, db, "1")
	for range 3 {
		must[Turn](t)(db.Turn(ctx, turn.ID))
	}
	if err := db.Migrate(ctx, "later", set("0001_a.sql", "ALTER TABLE turn ADD COLUMN extra text NOT NULL DEFAULT 'x'; CREATE INDEX later ON turn (extra)")); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		must[Turn](t)(db.Turn(ctx, turn.ID))
		must[Turn](t)(db.BeginTurn(ctx, turn))
	}
}

func TestOpenLogsWhatItDid(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	db, err := Open(t.Context(), testenv.Postgres(t), slog.New(slog.NewTextHandler(&b, nil)))
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	if !strings.Contains(b.String(), "migrated the database") {
		t.Errorf("log: %s", b.String())
	}
}
