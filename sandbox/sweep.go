package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Info describes a workspace that is on the disk.
type Info struct {
	ID   ID
	Used time.Time // when it was last used
}

// Workspaces lists what is on the disk, the last used first.
func (r *Runner) Workspaces() ([]Info, error) {
	names, err := r.folders()
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, name := range names {
		if info, err := r.info(name); err == nil {
			out = append(out, info)
		}
	}
	slices.SortFunc(out, func(a, b Info) int { return b.Used.Compare(a.Used) })
	return out, nil
}

func (r *Runner) folders() ([]string, error) {
	dir, err := r.root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	return names, nil
}

// info reads whose a folder is, and refuses one that says it is somebody else's.
func (r *Runner) info(name string) (Info, error) {
	var info Info
	if !strings.HasPrefix(name, "w-") {
		return info, errors.New("no workspace")
	}
	st, err := r.root.Lstat(name)
	if err != nil {
		return info, err
	}
	info.Used = st.ModTime()
	body, err := r.root.ReadFile(name + "/id")
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(body, &info.ID); err != nil {
		return info, err
	}
	if info.ID.folder() != name {
		return info, errors.New("its id names another folder")
	}
	return info, nil
}

// Sweep says what to clean up.
type Sweep struct {
	// MaxAge removes workspaces that nobody used for so long; 0: Config.MaxAge.
	MaxAge time.Duration
	// Live, if set, removes also those of which it says false: their run has ended. A turn survives a crash of the
	// service, so what is found at start is not a leftover for that alone.
	Live func(ID) bool
}

// Swept says what was cleaned up.
type Swept struct {
	Removed  []ID // whole workspaces
	Leavings int  // interrupted removals and imports, folders that are no workspace
	Busy     int  // left alone because somebody uses them
}

// Sweep cleans up what crashes left (running commands, control groups, interrupted removals and imports) and the
// workspaces that are over. It belongs at the start of the service and on a timer; it disturbs nobody at work.
func (r *Runner) Sweep(ctx context.Context, s Sweep) (Swept, error) {
	var done Swept
	fill(&s.MaxAge, r.cfg.MaxAge)
	errs := []error{r.drv.sweep(ctx)}
	names, err := r.folders()
	if err != nil {
		return done, err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return done, errors.Join(append(errs, err)...)
		}
		switch {
		case strings.HasPrefix(name, "t-"):
			done.Leavings++
			errs = append(errs, r.empty(name))
		case strings.HasPrefix(name, "w-"):
			errs = append(errs, r.sweepOne(name, s, &done))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return done, fmt.Errorf("sweep workspaces: %w", err)
	}
	return done, nil
}

// halfMade is how long a folder without an id may be somebody's who is just making it.
const halfMade = time.Minute

func (r *Runner) sweepOne(name string, s Sweep, done *Swept) error {
	// An ended context makes lock try once and never wait.
	once, cancel := context.WithCancel(context.Background())
	cancel()
	dir, err := r.lock(once, name)
	if errors.Is(err, context.Canceled) {
		done.Busy++
		return nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, broken := r.info(name)
	over := time.Since(info.Used) > s.MaxAge || broken == nil && s.Live != nil && !s.Live(info.ID)
	if broken != nil && time.Since(info.Used) > halfMade {
		over = true
	}
	if over {
		trash, err := r.discard(name)
		dir.Close()
		if err != nil {
			return err
		}
		if broken == nil {
			done.Removed = append(done.Removed, info.ID)
		} else {
			done.Leavings++
		}
		return r.empty(trash)
	}
	defer dir.Close()
	if broken != nil {
		return nil
	}
	stage, err := openTree(dir, "stage")
	if err != nil {
		return err
	}
	defer stage.close()
	left, err := stage.top.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range left {
		done.Leavings++
		if err := unix.Unlinkat(int(stage.top.Fd()), n, 0); err != nil {
			return err
		}
	}
	return nil
}

// discard takes a workspace out of reach at once; emptying it may take time and be interrupted.
func (r *Runner) discard(name string) (string, error) {
	trash := "t-" + rand.Text()
	return trash, r.root.Rename(name, trash)
}

func (r *Runner) empty(name string) error {
	dir, err := r.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return removeTree(dir, name)
}
