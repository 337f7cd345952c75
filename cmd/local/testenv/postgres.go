package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/cmd/local"
)

var postgres = shared[*local.Postgres]{start: func(ctx context.Context, dir string) (*local.Postgres, error) {
	return local.StartPostgres(ctx, local.PostgresConfig{
		Dir: dir, BinDir: os.Getenv("SIGHTLINE_POSTGRES_BIN"), Ephemeral: true, Progress: say,
	})
}}

// Postgres answers the URL of a new, empty database, dropped when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	server := os.Getenv("SIGHTLINE_TEST_DATABASE_URL")
	if server == "" {
		p, err := postgres.get()
		give(t, "Postgres", err)
		server = p.URL()
	}
	name := "test_" + strings.ToLower(rand.Text())
	quoted := pgx.Identifier{name}.Sanitize()
	if err := execute(server, "CREATE DATABASE "+quoted); err != nil {
		t.Fatalf("testenv: create database: %v", err)
	}
	t.Cleanup(func() {
		if err := execute(server, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil {
			t.Errorf("testenv: drop database: %v", err)
		}
	})
	mine, err := onDatabase(server, name)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return mine
}

func execute(server, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// onDatabase is the server's URL with another database.
func onDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return "", fmt.Errorf("SIGHTLINE_TEST_DATABASE_URL must be a URL (postgres://...)")
	}
	u.Path = "/" + name
	return u.String(), nil
}
