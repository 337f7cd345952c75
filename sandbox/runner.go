package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Config says where and how commands run. Root is required.
type Config struct {
	Root   string // absolute folder of the workspaces, made if missing; nothing else belongs in it
	Driver Kind   // "": bubblewrap. Docker and landlock run only when they are named here
	Limits Limits
	MaxAge time.Duration // how long a workspace stays that nobody uses; 0: a day

	// UID and GID are whom commands run as when the service runs as root; 0: DefaultUID. They must own nothing else. An
	// ordinary user's commands run as that user, in namespaces of their own.
	UID, GID int

	Bubblewrap string // the bwrap program; "": found on PATH
	Docker     DockerConfig
	Log        *slog.Logger // nil: nothing is logged
}

// DefaultUID is in the range that systemd leaves unused and distributions don't give to anybody.
const DefaultUID = 60800

// A Runner runs commands in workspaces, with the one driver that it was made with.
type Runner struct {
	cfg      Config
	limits   Limits
	uid, gid int // owner of the files; -1: the service's own user
	root     *os.Root
	drv      driver
	queues   queues
	checks   []Check
	log      *slog.Logger
}

// New finds the driver and proves it with canaries. The error is an *Unavailable if the sandbox can't be had on this
// machine, and another one if the configuration is at fault.
func New(ctx context.Context, cfg Config) (*Runner, error) {
	r, err := newRunner(cfg)
	if err != nil {
		return nil, err
	}
	if r.drv, err = r.driver(ctx); err != nil {
		r.root.Close()
		return nil, err
	}
	r.checks, err = r.prove(ctx)
	if err != nil {
		r.root.Close()
		return nil, err
	}
	return r, nil
}

func newRunner(cfg Config) (*Runner, error) {
	r := &Runner{cfg: cfg, limits: cfg.Limits.filled(), uid: -1, gid: -1, log: cfg.Log}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	fill(&r.cfg.MaxAge, 24*time.Hour)
	if r.cfg.Driver == "" {
		r.cfg.Driver = Bubblewrap
	}
	if !slices.Contains([]Kind{Docker, Bubblewrap, Landlock}, r.cfg.Driver) {
		return nil, fmt.Errorf("check sandbox: there is no driver %q", r.cfg.Driver)
	}
	if err := r.limits.validate(); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(cfg.Root) {
		return nil, errors.New("check sandbox: the root of the workspaces must be an absolute path")
	}
	if cfg.UID < 0 || cfg.GID < 0 {
		return nil, errors.New("check sandbox: a uid or gid is negative")
	}
	if os.Geteuid() == 0 {
		r.uid, r.gid = cfg.UID, cfg.GID
		fill(&r.uid, DefaultUID)
		fill(&r.gid, r.uid)
	}
	// Under root, the folders of workspaces can be entered by whom commands run as, and listed by nobody.
	if err := os.MkdirAll(cfg.Root, r.folderMode()); err != nil {
		return nil, fmt.Errorf("make root of workspaces: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("open root of workspaces: %w", err)
	}
	r.cfg.Root = resolved
	if r.root, err = os.OpenRoot(resolved); err != nil {
		return nil, fmt.Errorf("open root of workspaces: %w", err)
	}
	// A root that others may write in could be swapped under us.
	if st, err := r.root.Stat("."); err != nil || st.Mode().Perm()&0o022 != 0 {
		r.root.Close()
		return nil, fmt.Errorf("check root of workspaces: it can be written by others: %w", errors.Join(err, fs.ErrPermission))
	}
	return r, nil
}

func (r *Runner) driver(ctx context.Context) (driver, error) {
	switch r.cfg.Driver {
	case Docker:
		return newDocker(ctx, r)
	case Landlock:
		return newLandlock(r)
	}
	return newBubblewrap(r)
}

// Close releases the root; the workspaces stay.
func (r *Runner) Close() error { return r.root.Close() }

// Driver says which driver runs commands.
func (r *Runner) Driver() Kind { return r.drv.kind() }

// Limits are what applies to every command, defaults filled in.
func (r *Runner) Limits() Limits { return r.limits }

// Checks are the canaries' results at start-up; all passed, or there would be no Runner.
func (r *Runner) Checks() []Check { return slices.Clone(r.checks) }

// Notes are limits that this machine enforces less than fully, one sentence each, for an operator.
func (r *Runner) Notes() []string { return slices.Clone(r.drv.notes()) }

// Seen is the path of a workspace as its commands see it: Inside, except under the landlock driver. Import, View and the
// other methods take paths below Inside whatever it is.
func (r *Runner) Seen(id ID) string {
	return r.drv.seen(filepath.Join(r.cfg.Root, id.folder(), "files"))
}
