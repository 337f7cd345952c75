package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"sightline/checkpoints"
	"sightline/cmd/local"
	"sightline/cmd/telemetry"
	"sightline/connectors/chat"
	"sightline/connectors/web"
	"sightline/workflows"
)

// DefaultAgent is the one agent of a configuration that names none.
const DefaultAgent chat.AgentID = "sightline"

// Options are what a process gives besides its environment.
type Options struct {
	Env    func(string) string // default os.Getenv
	Stderr io.Writer           // progress and where to go
	// PDFCache is where the compiled PDF engine is kept. Only tests set it.
	PDFCache string
	// At is called at each durable boundary of a turn. Only tests set it.
	At func(boundary string)
	// Ready is called once everything runs. Only tests set it.
	Ready func(Running)
}

// Running tells where a started service is.
type Running struct {
	Config     Config
	SignIn     string
	WebAddr    string
	TemporalUI string
	Models     []string
	Database   string // connection URL
	Temporal   string // address
}

// service is what is open, in order; close undoes it backwards.
type service struct {
	c     Config
	o     Options
	log   *slog.Logger
	say   local.Progress
	tele  *telemetry.Telemetry
	undo  []func(context.Context)
	pulse workflows.Pulse
	ended chan error // an error of something that should not have ended
}

func (s *service) later(f func(context.Context)) { s.undo = append(s.undo, f) }

func (s *service) close() {
	// The way down has its own time: the context that ended is the reason for it.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i](ctx)
	}
}

// Run starts everything, and returns when ctx ends (nil) or something that it
// needs does (an error of one line).
func Run(ctx context.Context, o Options) error {
	if o.Env == nil {
		o.Env = os.Getenv
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	c, err := ReadConfig(o.Env)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	began := time.Now()
	s := &service{c: c, o: o, ended: make(chan error, 4)}
	s.say = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(o.Stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	defer s.close()
	for _, f := range c.doubts(os.Environ()) {
		s.say("%s: %s (%s)", f.name, f.text, f.fix)
	}
	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while starting
		}
		return err
	}
	select {
	case <-ctx.Done():
		s.say("stopping; what is under way goes on at the next start")
		return nil
	case err := <-s.ended:
		return err
	}
}

func (s *service) start(ctx context.Context) error {
	home, err := local.OpenHome(s.c.Home)
	if err != nil {
		return err
	}
	s.later(func(context.Context) { _ = home.Close() })
	var f *os.File
	if s.log, f, err = s.c.logger(home.Dir()); err != nil {
		return err
	}
	s.later(func(context.Context) { _ = f.Close() })
	if s.tele, err = telemetry.New(ctx, s.o.Env, s.log); err != nil {
		return err
	}
	s.later(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := s.tele.Close(ctx); err != nil {
			s.log.Warn("telemetry", "error", err)
		}
	})

	// Bound before the slow part: a taken port is said at once.
	var listener net.Listener
	if !s.c.WebOff {
		if listener, err = web.Listen(s.c.WebAddr, s.c.WebRemote); err != nil {
			return err
		}
		s.later(func(context.Context) { _ = listener.Close() })
	}
	box := s.prove(ctx)
	place, err := s.stores(ctx)
	if err != nil {
		return err
	}
	db, err := checkpoints.Open(ctx, place.database, s.log)
	if err != nil {
		if s.c.DatabaseURL != "" {
			err = Away(err)
		}
		return err
	}
	s.later(func(context.Context) { db.Close() })
	if err := db.Migrate(ctx, "web", web.Migrations); err != nil {
		return err
	}
	tc, err := s.dial(ctx, place)
	if err != nil {
		return err
	}
	s.later(func(context.Context) { tc.Close() })
	if err := s.c.codec.readable(ctx, tc, s.namespace()); err != nil {
		return err
	}

	members, owners, err := s.members(ctx, db, tc, listener, place.ui)
	if err != nil {
		return err
	}
	activities, err := s.activities(db, members, box)
	if err != nil {
		return err
	}
	owners.agents, owners.elsewhere = activities.Agents, !s.c.Roles["workers"]
	owners.doctor = func(ctx context.Context, a chat.AgentID) []finding {
		on := s.c.Roles["workers"] && slices.ContainsFunc(s.c.Agents, func(c AgentConfig) bool { return c.ID == a && s.c.workspaceOn(c) })
		return append(s.inside(ctx, db, tc, members, a), box.finding(on))
	}
	if err := s.workers(tc, activities); err != nil {
		return err
	}
	run := Running{Config: s.c, Database: place.database, Temporal: place.temporal.HostPort, TemporalUI: place.ui}
	for _, m := range members {
		name := ""
		if len(members) > 1 {
			name = string(m.c.ID) + ": "
		}
		run.Models = append(run.Models, name+describe(m.model.Info(ctx)))
	}
	if s.c.OpsAddr != "" {
		if err := s.ops(db, tc); err != nil {
			return err
		}
	}
	for _, m := range members {
		if m.page == nil || listener == nil {
			continue
		}
		if err := s.serve(ctx, m.page); err != nil {
			return err
		}
		run.SignIn, run.WebAddr = m.page.SignInLink(), listener.Addr().String()
	}
	if s.c.Roles["connectors"] {
		holder := s.holder()
		for _, m := range members {
			s.runBots(m, db, holder)
		}
		if err := s.connected(ctx, members); err != nil {
			return err
		}
	}
	s.announce(run)
	if s.o.Ready != nil {
		s.o.Ready(run)
	}
	return nil
}

// Away says what to do about a database of the operator's own that can't be had.
func Away(err error) error {
	if errors.Is(err, checkpoints.ErrUnavailable) {
		return fmt.Errorf("%w; start it, or correct DATABASE_URL, or unset it for a managed one", err)
	}
	return err
}

// places are the two stores, wherever they run.
type places struct {
	database string
	temporal client.Options
	ui       string
}

// stores starts what is managed, both at once.
func (s *service) stores(ctx context.Context) (places, error) {
	out := places{database: s.c.DatabaseURL, ui: s.c.TemporalUIURL}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var pgErr, tErr error
	var pg *local.Postgres
	var tp *local.Temporal
	if s.c.DatabaseURL == "" {
		wg.Go(func() {
			pg, pgErr = local.StartPostgres(ctx, local.PostgresConfig{Dir: filepath.Join(s.c.Home, "postgres"), BinDir: s.c.PostgresBin, Progress: s.say})
			if pgErr != nil {
				cancel()
			}
		})
	}
	if !s.c.TemporalSet {
		wg.Go(func() {
			tp, tErr = local.StartTemporal(ctx, local.TemporalConfig{Dir: filepath.Join(s.c.Home, "temporal"), Namespace: namespace(s.o.Env), SearchAttributes: workflows.SearchAttributes(), Binary: s.c.Devserver, Progress: s.say})
			if tErr != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	if pg != nil {
		s.later(func(ctx context.Context) { _ = pg.Stop(ctx) })
		out.database = pg.URL()
		s.watch("postgres", pg.Done(), pg.Err)
	}
	if tp != nil {
		s.later(func(ctx context.Context) { _ = tp.Stop(ctx) })
		out.temporal = client.Options{HostPort: tp.Address(), Namespace: tp.Namespace()}
		// It is on this machine: packing what goes there costs more than it spares.
		out.temporal.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
		out.ui = tp.UIURL()
		s.watch("temporal", tp.Done(), tp.Err)
	}
	// The first failure is the cause; the other is only its cancellation.
	for _, err := range []error{pgErr, tErr} {
		if err != nil && !errors.Is(err, context.Canceled) {
			return out, err
		}
	}
	return out, errors.Join(pgErr, tErr)
}

// watch ends the service when a managed one ends by itself.
func (s *service) watch(name string, done <-chan struct{}, cause func() error) {
	stop := make(chan struct{})
	s.later(func(context.Context) { close(stop) })
	go func() {
		select {
		case <-stop:
		case <-done:
			select {
			case s.ended <- fmt.Errorf("the managed %s ended by itself: %v", name, cause()):
			default:
			}
		}
	}()
}

func (s *service) fatal(err error) {
	select {
	case s.ended <- err:
	default:
	}
}

// serve runs the web place until the service closes, and returns once it
// takes requests.
func (s *service) serve(ctx context.Context, p *web.Place) error {
	serving, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s.later(func(context.Context) { cancel(); <-done })
	go func() {
		err := p.Serve(serving)
		if err != nil && serving.Err() == nil {
			s.fatal(fmt.Errorf("web place: %w", err))
		}
		done <- err
		close(done)
	}()
	select {
	case <-p.Ready():
		return nil
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *service) announce(r Running) {
	// In one piece: bots may have something to say meanwhile.
	var b strings.Builder
	b.WriteString("ready")
	line := func(name, v string) {
		if v != "" {
			fmt.Fprintf(&b, "\n  %-12s %s", name, v)
		}
	}
	line("Sign in", r.SignIn)
	line("Temporal UI", r.TemporalUI)
	for _, m := range r.Models {
		line("Model", m)
	}
	if len(s.c.Roles) < len(roles) {
		line("Roles", strings.Join(slices.Sorted(maps.Keys(s.c.Roles)), ", "))
	}
	line("State", s.c.Home)
	s.say("%s", b.String())
}
