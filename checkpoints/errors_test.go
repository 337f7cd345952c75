package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sightline/cmd/local/testenv"
)

func TestOpenErrorsAreOneLineWithoutPassword(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3tpw"
	var wg sync.WaitGroup
	for name, url := range map[string]string{
		"nothing there":  "postgres://me:" + secret + "@127.0.0.1:1/x?sslmode=disable",
		"no socket":      "postgres://me:" + secret + "@/x?host=/nonexistent",
		"no host":        "postgres://me:" + secret + "@no-such-host.invalid/x",
		"slash":          "postgres://me:" + secret + "/x@localhost:5432/x",
		"slash and pw":   "postgres://me:a/" + secret + "@localhost:5432/x",
		"percent":        "postgres://me:%zz" + secret + "@localhost:5432/x",
		"port":           "postgres://me:" + secret + "@localhost:" + secret + "/x",
		"keywords":       "host=localhost password=" + secret + " port=abc",
		"spaced keyword": "host = localhost password = '" + secret + " port=1",
		"sslmode":        "postgres://me:" + secret + "@localhost/x?sslmode=" + secret,
		"ca file":        "postgres://me:" + secret + "@localhost/x?sslmode=verify-full&sslrootcert=/nonexistent/ca",
		"garbage":        secret,
	} {
		wg.Go(func() {
			db, err := Open(t.Context(), url, nil)
			if err == nil {
				db.Close()
				t.Errorf("%s: no error", name)
				return
			}
			if s := err.Error(); strings.Contains(s, secret) || strings.Contains(s, "\n") || !strings.HasPrefix(s, "checkpoints: open: ") {
				t.Errorf("%s: %s", name, s)
			}
			if name == "nothing there" && (!errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), `database "x" at 127.0.0.1:1`)) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
}

func TestOpenRefusedDoesNotWait(t *testing.T) {
	t.Parallel()
	p := newProxy(t, testenv.Postgres(t))
	start := time.Now()
	_, err := Open(t.Context(), strings.Replace(p.url, "/"+p.database, "/absent", 1), nil)
	if err == nil || !strings.Contains(err.Error(), "does not exist") || time.Since(start) > startWait {
		t.Errorf("a missing database after %v: %v", time.Since(start), err)
	}
}

func TestOpenWaitsForAStartingServer(t *testing.T) {
	t.Parallel()
	p := newProxy(t, testenv.Postgres(t))
	p.stop()
	go func() {
		time.Sleep(time.Second)
		p.start(t)
	}()
	db, err := Open(t.Context(), p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}

func TestServerGoneMidQuery(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	p := newProxy(t, url)
	direct, db := openAt(t, url), openAt(t, p.url)
	must[Recorded](t)(db.Record(t.Context(), posted(room, "1", "t")))
	for name, cut := range map[string]func(){
		"connection cut": p.cut,
		"terminated": func() {
			_, err := direct.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`)
			if err != nil {
				t.Error(err)
			}
		},
	} {
		tx, err := direct.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT FROM conversation FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			_, err := db.Record(t.Context(), posted(room, "2", "t"))
			failed <- err
		}()
		awaitLock(t, direct)
		cut()
		err = <-failed
		if !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := db.Record(t.Context(), posted(room, "after "+name, "t")); err != nil || !r.New {
			t.Errorf("after %s: %+v, %v", name, r, err)
		}
	}
	p.stop()
	p.cut()
	if err := db.Ping(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("ping without a server: %v", err)
	}
}

func awaitLock(t *testing.T, db *DB) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var n int
		err := db.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nothing waits")
}

func TestContextErrorsPass(t *testing.T) {
	t.Parallel()
	db := open(t)
	must[Recorded](t)(db.Record(t.Context(), posted(room, "1", "t")))
	tx, err := db.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT FROM conversation FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := db.Record(ctx, posted(room, "2", "t"))
		failed <- err
	}()
	awaitLock(t, db)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
		t.Errorf("cancelled: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := db.Record(short, posted(room, "2", "t")); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
		t.Errorf("deadline: %v", err)
	}
	// The server's own timeout is not the caller's.
	if _, err := tx.Exec(t.Context(), `SET LOCAL statement_timeout = 20`); err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), `SELECT pg_sleep(5)`)
	if err := translate(t.Context(), "x", err); !errors.Is(err, ErrUnavailable) {
		t.Errorf("statement timeout: %v", err)
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	db := open(t)
	db.Close()
	if _, err := db.Turn(t.Context(), "trn_x"); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("%v", err)
	}
}

func TestErrorsQuoteNoValues(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	const secret = "VALUE-OF-A-ROW"
	turn := begun(t, db, "1")
	for name, f := range map[string]func() error{
		"check": func() error { _, err := db.pool.Exec(ctx, `UPDATE turn SET state = $1`, secret); return err },
		"unique": func() error {
			_, err := db.pool.Exec(ctx, `INSERT INTO post VALUES ($1, $2, 'answer', '', NULL, now()), ($1, $2, 'answer', '', NULL, now())`, secret, turn.ID)
			return err
		},
		"key": func() error {
			_, err := db.pool.Exec(ctx, `UPDATE message SET place = 'plc_00000000000000000000000000'`)
			return err
		},
		"syntax":  func() error { _, err := db.pool.Exec(ctx, `SELECT ('`+secret+`')::int`); return err },
		"json":    func() error { _, err := db.pool.Exec(ctx, `SELECT ($1::text)::json`, `{"a":`+secret); return err },
		"length":  func() error { _, err := db.pool.Exec(ctx, `SELECT ($1::text)::numeric`, secret); return err },
		"trigger": func() error { _, err := db.pool.Exec(ctx, `UPDATE step SET kind = $1`, secret); return err },
	} {
		err := f()
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		err = translate(ctx, "try "+name, err)
		if s := err.Error(); strings.Contains(s, secret) || !strings.HasPrefix(s, "checkpoints: try "+name+": ") {
			t.Errorf("%s: %s", name, s)
		}
		if want := map[string]error{"unique": ErrConflict}[name]; want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		} else if want == nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoGoroutineIsLeft(t *testing.T) { // not parallel: it looks at all of them
	url := testenv.Postgres(t)
	db, err := Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	race(t, 20, func(i int) (Recorded, error) {
		return db.Record(t.Context(), posted(room, fmt.Sprint(i), "t", png("a")))
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.Turn(ctx, "trn_x"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	db.Close()
	var stacks string
	for range 100 {
		b := make([]byte, 1<<20)
		stacks = string(b[:runtime.Stack(b, true)])
		if !strings.Contains(stacks, "pgx") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left after Close:\n%s", stacks)
}

// proxy is a server that can go away.
type proxy struct {
	url, database string
	network, addr string

	mu    sync.Mutex
	l     net.Listener
	conns []net.Conn
	port  string
}

func newProxy(t *testing.T, url string) *proxy {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{database: c.ConnConfig.Database, port: "127.0.0.1:0"}
	p.network, p.addr = pgconn.NetworkAddress(c.ConnConfig.Host, c.ConnConfig.Port)
	p.start(t)
	p.url = fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", c.ConnConfig.User, c.ConnConfig.Password, p.port, p.database)
	t.Cleanup(func() { p.stop(); p.cut() })
	return p
}

func (p *proxy) start(t *testing.T) {
	l, err := net.Listen("tcp", p.port)
	if err != nil {
		t.Error(err)
		return
	}
	p.mu.Lock()
	p.l, p.port = l, l.Addr().String()
	p.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial(p.network, p.addr)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			pipe := func(a, b net.Conn) { io.Copy(a, b); a.Close(); b.Close() }
			go pipe(in, out)
			go pipe(out, in)
		}
	}()
}

func (p *proxy) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.l.Close()
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func TestTranslateSortsErrors(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	pg := func(code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Message: "m\nn"})
	}
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want error
	}{
		{t.Context(), nil, nil},
		{t.Context(), pg("23505"), ErrConflict},
		{t.Context(), pg("23514"), ErrInvalid},
		{t.Context(), pg("23503"), ErrInvalid},
		{t.Context(), pg("54001"), ErrInvalid},
		{t.Context(), pg("22P02"), ErrInvalid},
		{t.Context(), pg("42P01"), ErrInvalid},
		{t.Context(), pg("42P01"), ErrStatement},
		{t.Context(), pg("57P01"), ErrUnavailable},
		{t.Context(), pg("40P01"), ErrUnavailable},
		{t.Context(), pg("53300"), ErrUnavailable},
		{t.Context(), pg("55P03"), ErrUnavailable},
		{t.Context(), pg("25006"), ErrUnavailable},
		{t.Context(), pg("0A000"), ErrUnavailable}, // a prepared statement from before a migration
		{t.Context(), pg(queryCanceled), ErrUnavailable},
		{cancelled, pg(queryCanceled), context.Canceled}, // our own cancellation, as the server tells it
		{cancelled, pg("23514"), ErrInvalid},             // the answer came first
		{cancelled, io.ErrUnexpectedEOF, context.Canceled},
		{t.Context(), io.ErrUnexpectedEOF, ErrUnavailable},
		{t.Context(), context.DeadlineExceeded, ErrUnavailable}, // a connect timeout, not the caller's
		{t.Context(), pgx.ErrNoRows, ErrNotFound},
		{t.Context(), pgx.ScanArgError{FieldName: "f", Err: io.EOF}, ErrInvalid},
	} {
		got := translate(tt.ctx, "op", tt.err)
		if errors.Is(got, ErrStatement) && tt.err.Error() != pg("42P01").Error() {
			t.Errorf("%v: the row is to blame, not the statement", tt.err)
		}
		if !errors.Is(got, tt.want) || (tt.err == nil) != (got == nil) || got != nil && strings.Contains(got.Error(), "\n") {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}
