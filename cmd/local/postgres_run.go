package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A pgLauncher brings a server up on one place.
type pgLauncher struct {
	config  PostgresConfig
	place   pgPlace
	log     string
	logFrom int64
}

// How long a predecessor may take to end or to finish its own start, and what holds on to its files to let go.
const pgPatience = 60 * time.Second

// adoptOrStart answers a server that takes connections, and its socket's folder.
func (l *pgLauncher) adoptOrStart(ctx context.Context) (*proc, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // recovery after a crash replays the log, which may take
	defer cancel()
	major, err := dataMajor(l.place.data())
	if err != nil {
		return nil, "", err
	}
	if major > 0 {
		p, sock, err := l.adopt(ctx)
		if p != nil || err != nil {
			return p, sock, err
		}
	}
	bin, err := findPostgres(ctx, l.config, l.place.cred, major)
	if err != nil {
		return nil, "", err
	}
	if major == 0 {
		if err := l.initData(ctx, bin); err != nil {
			return nil, "", err
		}
	}
	sock, err := l.place.socketDir()
	if err != nil {
		return nil, "", err
	}
	for until := time.Now().Add(pgPatience); ; {
		p, err := l.start(ctx, bin, sock)
		if err == nil {
			return p, sock, nil
		}
		// Children of a server that was killed hold its memory for a moment, and then go.
		if !strings.Contains(err.Error(), "shared memory") && !strings.Contains(err.Error(), "lock file") || time.Now().After(until) {
			return nil, "", err
		}
		select {
		case <-ctx.Done():
			return nil, "", err
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// start runs the server and waits until it answers.
func (l *pgLauncher) start(ctx context.Context, bin pgBin, sock string) (*proc, error) {
	log, from, err := openLog(l.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	l.logFrom = from
	cmd := exec.Command(bin.tool("postgres"), l.args(sock)...)
	cmd.Dir, cmd.Env = l.place.base, pgEnv()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: l.place.cred}
	var dieWith syscall.Signal
	if l.config.Ephemeral {
		dieWith = syscall.SIGQUIT
	}
	p, err := startProc(cmd, dieWith, nil)
	if err != nil {
		return nil, err
	}
	if err := l.waitReady(ctx, p, sock); err != nil {
		p.end(ctx, []stopStep{{syscall.SIGQUIT, 10 * time.Second}, {syscall.SIGKILL, 10 * time.Second}})
		return nil, fmt.Errorf("%w: %s (log: %s)", err, tail(l.log, l.logFrom), l.log)
	}
	return p, nil
}

func (l *pgLauncher) waitReady(ctx context.Context, p *proc, sock string) error {
	said := time.Now()
	for {
		err := pgReady(ctx, sock, l.place.data())
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("postgres does not start: %w", p.exitErr())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-time.After(25 * time.Millisecond):
		}
		var other *notOursError
		if errors.As(err, &other) {
			return err
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			l.config.Progress.say("waiting for the local database: %v", firstLine(err))
		}
	}
}

// args are all of the server's settings: given with each start, they are always this program's and never an old file's.
func (l *pgLauncher) args(sock string) []string {
	set := []string{
		"unix_socket_directories=\"" + strings.ReplaceAll(sock, `"`, `""`) + `"`,
		"unix_socket_permissions=0700", "listen_addresses=", "port=" + pgPort,
		"max_connections=50", "shared_buffers=32MB", "work_mem=8MB", "maintenance_work_mem=64MB",
		"max_wal_size=256MB", "min_wal_size=32MB", "wal_level=minimal", "max_wal_senders=0",
		"jit=off", "timezone=UTC", "log_timezone=UTC", "lc_messages=C",
		"logging_collector=off", "log_destination=stderr",
		"log_parameter_max_length_on_error=0", // what people wrote stays out of the log
	}
	if l.config.Ephemeral {
		set = append(set, "fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=100", "shared_buffers=64MB")
	}
	args := []string{"-D", l.place.data()}
	for _, s := range set {
		args = append(args, "-c", s)
	}
	return args
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// adopt answers the server that runs on the data already, nil if none does.
func (l *pgLauncher) adopt(ctx context.Context) (*proc, string, error) {
	file := filepath.Join(l.place.data(), "postmaster.pid")
	start := time.Now()
	for {
		pid, sock, ok := readPostmaster(file)
		if !ok || !alive(pid) {
			return nil, "", nil // Postgres itself clears what a dead server left
		}
		if !mayServe(pid, l.place.data()) {
			// The number was given to another program after a reboot or a crash, and Postgres would wait for that one.
			if err := os.Remove(file); err != nil {
				return nil, "", fmt.Errorf("clear stale %s: %w", file, err)
			}
			return nil, "", nil
		}
		var err error
		if sock != "" {
			if err = pgReady(ctx, sock, l.place.data()); err == nil {
				l.config.Progress.say("using the local database that is still running (process %d)", pid)
				return adoptProc(pid), sock, nil
			}
		}
		var other *notOursError
		if time.Since(start) > pgPatience || errors.As(err, &other) {
			return nil, "", fmt.Errorf("postgres (process %d) runs on %s but does not answer: %v: stop it", pid, l.place.data(), err)
		}
		select { // it starts, or it ends
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
