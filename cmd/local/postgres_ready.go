package local

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func pgURL(sock, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(pgRole), Path: "/" + database,
		RawQuery: url.Values{"host": {sock}, "port": {pgPort}}.Encode(),
	}
	return u.String()
}

// notOursError says that a server answered, on other data.
type notOursError struct{ data, want string }

func (e *notOursError) Error() string {
	return fmt.Sprintf("the server there runs on %s, not on %s", e.data, e.want)
}

// pgReady reports whether the server at sock answers, runs on data, and has our database, which it creates.
func pgReady(ctx context.Context, sock, data string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, pgURL(sock, "postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var at string
	var exists bool
	err = conn.QueryRow(ctx, `SELECT current_setting('data_directory'), EXISTS (SELECT FROM pg_database WHERE datname = $1)`, pgName).Scan(&at, &exists)
	if err != nil {
		return fmt.Errorf("ask for data directory: %w", err)
	}
	if !sameFile(at, data) {
		return &notOursError{data: at, want: data}
	}
	if exists {
		return nil
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{pgName}.Sanitize())
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P04" { // made meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	return nil
}

func sameFile(a, b string) bool {
	ai, err1 := os.Stat(a)
	bi, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(ai, bi)
}

// readPostmaster reads the file that a running server keeps: process ID, data folder, start time, port, socket folder
// and so on, a line each, of which the later ones appear as it gets there.
func readPostmaster(file string) (pid int, sock string, ok bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, "", false
	}
	lines := strings.Split(string(b), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return 0, "", false
	}
	if len(lines) > 4 && filepath.IsAbs(strings.TrimSpace(lines[4])) {
		sock = strings.TrimSpace(lines[4])
	}
	return pid, sock, true
}
