package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// translate is the one place where a driver's error becomes ours. What it says
// never comes from a row: a server's Detail quotes values, and so do the
// Messages of class 22, so neither is repeated.
func translate(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !(ctx.Err() != nil && pg.Code == queryCanceled) {
		return failure(op, sentinelOf(pg.Code), serverCause(pg))
	}
	if cerr := ctx.Err(); cerr != nil {
		return fmt.Errorf("checkpoints: %s: %w", op, cerr)
	}
	for _, ours := range []error{ErrNotFound, ErrConflict, ErrInvalid, ErrUnavailable} {
		if errors.Is(err, ours) {
			return fmt.Errorf("checkpoints: %s: %w", op, err)
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("checkpoints: %s: %w", op, ErrNotFound)
	}
	var scan pgx.ScanArgError
	if errors.As(err, &scan) {
		return failure(op, ErrInvalid, "a stored column can't be read as "+scan.FieldName)
	}
	if strings.Contains(err.Error(), "failed to encode args") {
		return failure(op, ErrInvalid, "an argument can't be sent")
	}
	return failure(op, ErrUnavailable, networkCause(err))
}

func failure(op string, sentinel error, cause string) error {
	return fmt.Errorf("checkpoints: %s: %w: %s", op, sentinel, cause)
}

const (
	queryCanceled    = "57014"
	uniqueViolation  = "23505"
	cannotConnectNow = "57P03"
)

// sentinelOf sorts a server's refusals by what a caller can do about them.
func sentinelOf(code string) error {
	if code == uniqueViolation {
		return ErrConflict
	}
	if len(code) < 2 {
		return ErrUnavailable
	}
	switch code[:2] {
	case "22", "23", "44", "54":
		return ErrInvalid
	case "42":
		return ErrStatement
	}
	// Lost connections, shutdowns, timeouts, deadlocks, full disks, a standby,
	// a statement prepared before a migration: each may pass.
	return ErrUnavailable
}

func serverCause(pg *pgconn.PgError) string {
	if pg.ConstraintName != "" {
		return "constraint " + pg.ConstraintName
	}
	if len(pg.Code) >= 2 {
		switch pg.Code[:2] {
		case "08", "40", "42", "53", "55", "57", "0A", "28", "3D":
			return oneLine(pg.Message) + " (" + pg.Code + ")"
		}
	}
	where := ""
	if pg.ColumnName != "" {
		where = " in column " + pg.ColumnName
	}
	return "sqlstate " + pg.Code + where
}

// networkCause names what went wrong on the way. The driver's own text is not
// used: it may hold the connection string.
func networkCause(err error) string {
	var errno syscall.Errno
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &dns):
		return "the host name is not found"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, pgconn.ErrConnClosed):
		return "the connection was closed"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case strings.Contains(err.Error(), "closed pool"):
		return "the store is closed"
	case strings.Contains(err.Error(), "SSL"), strings.Contains(err.Error(), "tls"):
		return "the server and sslmode do not agree on TLS"
	}
	return "the connection failed"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
