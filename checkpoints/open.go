package checkpoints

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	startWait  = 5 * time.Second // for a server that is just starting
	minVersion = 140000
)

// DB is the store. It is safe for concurrent use.
type DB struct {
	pool *pgxpool.Pool
	log  *slog.Logger
}

// Open connects, waits a few seconds for a server that is still starting, and
// brings the schema up to date. Its errors are one line for an operator and
// never contain the password.
func Open(ctx context.Context, url string, log *slog.Logger) (*DB, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	config, err := poolConfig(url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, translate(ctx, "open", err)
	}
	db := &DB{pool: pool, log: log}
	if err := db.prepare(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return db, nil
}

func (db *DB) prepare(ctx context.Context) error {
	if err := db.await(ctx); err != nil {
		return err
	}
	var version int
	var encoding string
	err := db.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_encoding')`).Scan(&version, &encoding)
	if err != nil {
		return translate(ctx, "open", err)
	}
	if version < minVersion {
		return fmt.Errorf("checkpoints: open: the server is Postgres %d; 14 or later is needed", version/10000)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("checkpoints: open: the database's encoding is %s; UTF8 is needed", encoding)
	}
	own, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("checkpoints: open: %w", err)
	}
	return db.Migrate(ctx, "sightline", own)
}

// Close waits for running queries and closes the pool.
func (db *DB) Close() { db.pool.Close() }

// Ping asks the server for a sign of life.
func (db *DB) Ping(ctx context.Context) error {
	return translate(ctx, "ping", db.pool.Ping(ctx))
}

// Pool is for a store that keeps its own tables here, under its own set of
// migrations. It must not touch the tables of this package.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

func poolConfig(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The driver's text tries to mask the password and may fail to, so
		// nothing of it is repeated but the path of a file it could not read.
		var path *fs.PathError
		if errors.As(err, &path) {
			return nil, fmt.Errorf("checkpoints: open: the database URL names a file that can't be read: %s", path.Path)
		}
		return nil, errors.New("checkpoints: open: the database URL can't be parsed; it should look like " +
			"postgres://user:password@host:5432/name?sslmode=require, special characters in the password percent-encoded")
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = 10
	}
	params := config.ConnConfig.RuntimeParams
	for name, value := range map[string]string{
		"application_name":                    "sightline",
		"statement_timeout":                   "30s",
		"lock_timeout":                        "10s",
		"idle_in_transaction_session_timeout": "60s",
	} {
		if _, set := params[name]; !set {
			params[name] = value
		}
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	return config, nil
}

// await returns when the server answers, or why it doesn't.
func (db *DB) await(ctx context.Context) error {
	deadline := time.Now().Add(startWait)
	for said := false; ; said = true {
		err := db.pool.Ping(ctx)
		if err == nil {
			return nil
		}
		if cerr := ctx.Err(); cerr != nil {
			return fmt.Errorf("checkpoints: open: %w while waiting for %s", cerr, where(db.pool.Config().ConnConfig))
		}
		if !mayStart(err) || time.Now().After(deadline) {
			return db.unreachable(err)
		}
		if !said {
			db.log.InfoContext(ctx, "waiting for the database", "at", where(db.pool.Config().ConnConfig))
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// mayStart: refused logins and missing databases do not get better by waiting.
func mayStart(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == cannotConnectNow || strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "53")
	}
	var dns *net.DNSError
	return !errors.As(err, &dns)
}

func (db *DB) unreachable(err error) error {
	at := where(db.pool.Config().ConnConfig)
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Errorf("checkpoints: open: %w: %s refuses: %s", ErrUnavailable, at, serverCause(pg))
	}
	return fmt.Errorf("checkpoints: open: %w: %s: %s", ErrUnavailable, at, networkCause(err))
}

func where(c *pgx.ConnConfig) string {
	at := c.Host
	if !strings.HasPrefix(at, "/") {
		at = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	}
	return fmt.Sprintf("database %q at %s", c.Database, at)
}
