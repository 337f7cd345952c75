package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// PostgresConfig says where a managed Postgres lives and where its programs are.
type PostgresConfig struct {
	// Dir holds the lock, the log, and the server's own folder or, under root, perhaps only a link to it: Postgres never
	// runs as root, so its folder must be where its user can go, which a home directory of root is not. Then it is
	// /var/lib/sightline/<hash of Dir> (or the same under /var/tmp), readable by that user only.
	Dir string
	// BinDir is the folder of postgres and initdb, if they are not to be searched.
	BinDir string
	// Ephemeral trades durability for speed, and ends the server with this process where the kernel can.
	Ephemeral bool
	// NoDownload leaves npm out of the search.
	NoDownload bool
	Progress   Progress
}

// Postgres is a managed server that answers.
type Postgres struct {
	*service
	sock string // the folder of its socket
}

// The one role, the one database and the socket's number. The socket's folder is private, so none of them can clash.
const (
	pgRole = "sightline"
	pgName = "sightline"
	pgPort = "5432"
)

// StartPostgres adopts the server that runs on c.Dir, or starts one, and returns when it answers.
func StartPostgres(ctx context.Context, c PostgresConfig) (_ *Postgres, err error) {
	if c.Dir == "" {
		return nil, errors.New("start postgres: no directory given")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	defer func() {
		if err != nil {
			lock.release()
		}
	}()
	at, err := choosePlace(dir)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	l := pgLauncher{config: c, place: at, log: filepath.Join(dir, "log")}
	p, sock, err := l.adoptOrStart(ctx)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	stop := []stopStep{{syscall.SIGINT, 30 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}, {syscall.SIGKILL, 5 * time.Second}}
	if c.Ephemeral {
		stop = stop[1:]
	}
	s := newService("postgres", p, lock, stop, l.log, l.logFrom)
	if filepath.Dir(sock) != at.base {
		s.after = func() { _ = os.RemoveAll(sock) } // it is remade at need
	}
	return &Postgres{service: s, sock: sock}, nil
}

// URL connects to the server as its owner.
func (p *Postgres) URL() string { return pgURL(p.sock, pgName) }

// lockDir creates a service's folder and takes its lock. The folder may be entered but not listed, for a server that
// runs as another user.
func lockDir(dir string) (*fileLock, error) {
	perm := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		perm = 0o711
	}
	if err := os.MkdirAll(dir, perm); err != nil {
		return nil, fmt.Errorf("create folder: %w", err)
	}
	return tryLock(filepath.Join(dir, "lock"))
}
