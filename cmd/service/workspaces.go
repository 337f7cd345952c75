package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sightline/agent"
	"sightline/agent/tools"
	"sightline/attachments"
	"sightline/attachments/document"
	"sightline/checkpoints"
	"sightline/cmd/local"
	"sightline/sandbox"
)

// SandboxConfig says what commands of the agents run in.
type SandboxConfig struct {
	Driver sandbox.Kind // empty: none
	Image  string       // of the docker driver
	On     bool         // workspaces are on where no owner said otherwise
	TTL    time.Duration
}

func (c *Config) readSandbox(env func(string) string) error {
	c.Sandbox = SandboxConfig{Driver: sandbox.Bubblewrap, Image: env("SIGHTLINE_SANDBOX_IMAGE"), TTL: 24 * time.Hour}
	switch v := env("SIGHTLINE_SANDBOX"); v {
	case "":
	case "off":
		c.Sandbox.Driver = ""
	case string(sandbox.Bubblewrap), string(sandbox.Docker), string(sandbox.Landlock):
		c.Sandbox.Driver = sandbox.Kind(v)
	default:
		return fmt.Errorf("SIGHTLINE_SANDBOX is %q; it is bubblewrap, docker, landlock or off", v)
	}
	if c.Sandbox.Driver == sandbox.Docker && c.Sandbox.Image == "" {
		return errors.New("SIGHTLINE_SANDBOX is docker: SIGHTLINE_SANDBOX_IMAGE has to name an image with a shell")
	}
	switch v := env("SIGHTLINE_WORKSPACES"); v {
	case "", "off":
	case "on":
		c.Sandbox.On = true
	default:
		return fmt.Errorf("SIGHTLINE_WORKSPACES is %q; it is on or off", v)
	}
	if v := env("SIGHTLINE_WORKSPACE_HOURS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 24*365 {
			return fmt.Errorf("SIGHTLINE_WORKSPACE_HOURS is %q; it is a whole number of hours", v)
		}
		c.Sandbox.TTL = time.Duration(n) * time.Hour
	}
	return nil
}

// proving is a sandbox whose canaries run while the rest starts. A nil runner
// has a reason.
type proving struct {
	done   chan struct{}
	runner *sandbox.Runner
	err    error
}

// prove starts the canaries. What they find is known when done is closed.
func (s *service) prove(ctx context.Context) *proving {
	p := &proving{done: make(chan struct{})}
	if s.c.Sandbox.Driver == "" || !s.c.Roles["workers"] {
		p.err = errSwitchedOff
		if s.c.Sandbox.Driver != "" {
			p.err = errors.New("turns run in other processes, which have their own")
		}
		close(p.done)
		return p
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		root, err := local.ReachableDir(s.c.Shared, "workspaces")
		if err != nil {
			p.err = err
			return
		}
		p.runner, p.err = sandbox.New(ctx, s.sandboxConfig(root))
	}()
	s.later(func(context.Context) {
		cancel()
		<-p.done
		if p.runner != nil {
			_ = p.runner.Close()
		}
	})
	return p
}

func (s *service) sandboxConfig(root string) sandbox.Config {
	return sandbox.Config{Root: root, Driver: s.c.Sandbox.Driver, Docker: sandbox.DockerConfig{Image: s.c.Sandbox.Image}, MaxAge: s.c.Sandbox.TTL, Log: s.log}
}

// proved is the sandbox, or nil where there is none, or none yet.
func (p *proving) proved() *sandbox.Runner {
	select {
	case <-p.done:
		return p.runner
	default:
		return nil
	}
}

// finding is what doctor says of it. on: there are workspaces without an owner
// asking for one.
func (p *proving) finding(on bool) finding {
	select {
	case <-p.done:
	default:
		return finding{"sandbox", true, "is being proved", ""}
	}
	return checkSandbox(p.runner, p.err, on)
}

// workspaceOn reports whether an agent has workspaces where no owner said
// otherwise.
func (c Config) workspaceOn(a AgentConfig) bool {
	return a.Workspaces == "on" || a.Workspaces == "" && c.Sandbox.On
}

var errSwitchedOff = errors.New("switched off")

func checkSandbox(r *sandbox.Runner, err error, on bool) finding {
	if err != nil {
		// Nothing else needs it: agents without workspaces are whole.
		f := finding{"sandbox", !on, "none, so no workspaces are offered: " + err.Error(), ""}
		if on {
			f.text = "none, and workspaces are on: " + err.Error()
			f.fix = "see what stands in its way, or switch workspaces off"
		}
		var u *sandbox.Unavailable
		switch {
		case errors.As(err, &u) && u.Fix != "":
			f.fix = u.Fix
		case on && errors.Is(err, errSwitchedOff):
			f.fix = "unset SIGHTLINE_SANDBOX, or switch workspaces off"
		}
		return f
	}
	var passed []string
	for _, c := range r.Checks() {
		passed = append(passed, c.Name)
	}
	text := fmt.Sprintf("%s; proved: %s", r.Driver(), strings.Join(passed, ", "))
	for _, n := range r.Notes() {
		text += "; " + n
	}
	return finding{"sandbox", true, text, ""}
}

// tryOut is doctor's look at a sandbox that no service runs.
func (s *service) tryOut(ctx context.Context) finding {
	on := s.c.Roles["workers"] && slices.ContainsFunc(s.c.Agents, s.c.workspaceOn)
	if s.c.Sandbox.Driver == "" {
		return checkSandbox(nil, errSwitchedOff, on)
	}
	root, err := os.MkdirTemp("", "sightline-doctor-")
	if err != nil {
		return checkSandbox(nil, err, on)
	}
	defer os.RemoveAll(root)
	if err := os.Chmod(root, 0o711); err != nil {
		return checkSandbox(nil, err, on)
	}
	r, err := sandbox.New(ctx, s.sandboxConfig(root))
	if r != nil {
		defer r.Close()
	}
	return checkSandbox(r, err, on)
}

// reader is the process's one reader of documents. Its engine starts with the
// first PDF: most processes never need its memory.
func (s *service) reader() *document.Reader {
	r := document.NewReader(document.DefaultLimits(), document.Options{CacheDir: s.pdfCache()})
	s.later(func(context.Context) {
		if err := r.Close(); err != nil {
			s.log.Warn("close the document reader", "error", err)
		}
	})
	return r
}

// pdfCache is where the compiled engine stays, so that it is compiled once a
// machine and not once a state directory. It holds code that is run: it is its
// user's alone.
func (s *service) pdfCache() string {
	dir := s.o.PDFCache
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			base = s.c.Home
		}
		dir = filepath.Join(base, "sightline", "pdf-engine")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.log.Warn("the PDF engine is compiled at each start", "error", err)
		return ""
	}
	return dir
}

// workspaces gives an agent's looker and registry what a sandbox allows, once
// there is one: until then an agent offers none of it.
func (s *service) workspaces(db *checkpoints.DB, auth *attachments.Authorizer, box *proving, holds *tools.Holds, looker *agent.Looker) (*tools.Workspaces, []agent.Tool) {
	w := &tools.Workspaces{Runner: box.proved, Store: db, Authorizer: auth, TTL: s.c.Sandbox.TTL, Holds: holds, Memory: looker.Memory, Log: s.log}
	looker.Files = w
	return w, []agent.Tool{
		&tools.ImportAttachment{Workspaces: w}, &tools.WorkspaceExec{Workspaces: w}, &tools.WorkspaceList{Workspaces: w},
		&tools.WorkspaceView{Looker: looker}, &tools.ShareFile{Workspaces: w},
	}
}

const (
	sweepEvery = 10 * time.Minute
	// followEvery is about how long copies outlive what they were made of.
	followEvery = 10 * time.Second
)

// keepSwept removes what is over, at the start and from then on.
func (s *service) keepSwept(w *tools.Workspaces, box *proving) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.later(func(context.Context) { cancel(); <-done })
	go func() {
		defer close(done)
		select {
		case <-box.done:
		case <-ctx.Done():
			return
		}
		if box.runner == nil {
			s.log.Info("no workspaces are offered", "reason", box.err)
			return
		}
		said := ""
		for next := time.Now(); ; {
			var err error
			if now := time.Now(); !now.Before(next) {
				err, next = w.Sweep(ctx, now), now.Add(sweepEvery)
			}
			err = errors.Join(err, w.SweepDeleted(ctx))
			switch {
			case err == nil:
				said = ""
			case ctx.Err() == nil && err.Error() != said: // once, and not each time again
				said = err.Error()
				s.log.Warn("workspaces could not be swept", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(followEvery):
			}
		}
	}()
}
