package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

// Platform is what places of this connector carry.
const Platform chat.Platform = "web"

const (
	workspace = "local"
	localUser = "local" // the one person who signs in
)

// Sink takes what people did. Deliver returns nil only once the event is
// durable; it is called again for the same event after a crash or an error.
type Sink interface {
	Deliver(ctx context.Context, e chat.Event) error
	Stop(ctx context.Context, c chat.ConversationID) error
}

// TurnView is where the turn of a message is.
type TurnView struct {
	Turn   chat.TurnID
	State  string // running, answered, failed, stopped
	Reason string // of a failure, for the person
}

// Turns tells which turn took a message up: the one it began, or the one it
// joined while that was running. ok is false while none has.
type Turns interface {
	TurnFor(ctx context.Context, c chat.ConversationID, m chat.MessageID) (v TurnView, ok bool, err error)
}

// Config is what a Place needs. Agent, Pool and Dir are required; Listener,
// Home and Sink too, to serve. A process that only answers for files and
// posts replies leaves those three empty.
type Config struct {
	Agent    chat.AgentID
	Pool     *pgxpool.Pool
	Dir      string // of the uploaded files
	Listener net.Listener
	Home     string // where the session secret and service.json are
	Sink     Sink
	Turns    Turns // optional; without it a message that joined a running turn is not followed

	MaxBytes int64 // of one file; default 8 MiB
	MaxPDF   int64 // default 10 MiB
	Quota    int64 // of one conversation's files; default 512 MiB

	Hosts      []string // further host names under which the page may be asked for
	Model      string   // shown in the header
	TemporalUI string   // its address, linked from the header; empty: no link
	Console    Console  // optional; without it there are no such pages
	Log        *slog.Logger
	Now        func() time.Time // default time.Now
}

const (
	maxText    = 64 << 10
	maxFiles   = 20 // of one message
	unsentLife = 24 * time.Hour
)

// Place is the web place of one agent.
type Place struct {
	c        Config
	db       store
	files    files
	hub      *hub
	links    *links
	sessions sessions
	token    string // of the API, for whoever can read Home
	self     string // names this process to the others
	teller   teller
	person   chat.Actor
	limits   visual.Limits
	ready    chan struct{}

	mu    sync.Mutex
	turns map[string]chan struct{} // conversation -> its lock for writing
}

// New validates the configuration and prepares the folder of the files.
func New(c Config) (*Place, error) {
	switch {
	case c.Agent == "":
		return nil, errors.New("web: no agent")
	case c.Pool == nil:
		return nil, errors.New("web: no database")
	case c.Dir == "":
		return nil, errors.New("web: no folder for files")
	case c.Listener != nil && c.Sink == nil:
		return nil, errors.New("web: no sink for what people send")
	case c.Listener != nil && c.Home == "":
		return nil, errors.New("web: no state directory")
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 8 << 20
	}
	if c.MaxPDF <= 0 {
		c.MaxPDF = 10 << 20
	}
	if c.Quota <= 0 {
		c.Quota = 512 << 20
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Place{
		c: c, db: store{pool: c.Pool, agent: c.Agent}, hub: newHub(), links: newLinks(c.Now),
		token: randomSecret(), self: randomSecret(), turns: map[string]chan struct{}{},
		person: chat.Actor{Platform: Platform, Workspace: workspace, User: localUser, Name: personName(), Role: chat.Owner},
		ready:  make(chan struct{}),
		limits: visual.DefaultLimits(),
	}
	p.limits.MaxBytes = c.MaxBytes
	var err error
	if p.files, err = openFiles(filepath.Join(c.Dir, "uploads")); err != nil {
		return nil, err
	}
	if c.Listener != nil {
		secret, err := loadSecret(filepath.Join(c.Home, "web.secret"))
		if err != nil {
			return nil, err
		}
		p.sessions = sessions{secret: secret, now: c.Now}
	}
	return p, nil
}

// personName is how the one local person is called in transcripts.
func personName() string {
	if u, err := user.Current(); err == nil {
		for _, n := range []string{u.Name, u.Username} {
			n, _, _ = strings.Cut(n, ",") // the GECOS field goes on with room and telephone
			if n = oneLine(n, maxName); n != "" {
				return n
			}
		}
	}
	return "you"
}

// loadSecret keeps sessions valid across restarts. A secret that others could
// have read is no secret.
func loadSecret(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		b = []byte(randomSecret())
		if err := writeFile(path, b); err != nil {
			return nil, fmt.Errorf("write session secret: %w", err)
		}
		return b, nil
	case err != nil:
		return nil, fmt.Errorf("read session secret: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read session secret: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("session secret %s can be read by others (mode %04o): delete it, and everybody signs in again", path, info.Mode().Perm())
	}
	if len(b) < 26 {
		return nil, fmt.Errorf("session secret %s is too short: delete it, and everybody signs in again", path)
	}
	return b, nil
}
