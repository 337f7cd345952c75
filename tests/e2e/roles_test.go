package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/cmd/local"
	"sightline/connectors/web"
	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
	"sightline/tests/fakeslack"
	"sightline/workflows"
)

// fleet is several processes on one Postgres and one Temporal, each with a
// state directory of its own, and a folder that they share.
type fleet struct {
	t        testing.TB
	env      []string
	database string
}

func newFleet(t testing.TB, env ...string) *fleet {
	t.Helper()
	dir := home(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pg, err := local.StartPostgres(ctx, local.PostgresConfig{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Stop(context.Background()) })
	tp, err := local.StartTemporal(ctx, local.TemporalConfig{Dir: filepath.Join(dir, "temporal"), UIAddr: "off", SearchAttributes: workflows.SearchAttributes()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tp.Stop(context.Background()) })
	shared := filepath.Join(dir, "shared")
	return &fleet{t: t, database: pg.URL(), env: append(env, "DATABASE_URL="+pg.URL(), "TEMPORAL_ADDRESS="+tp.Address(),
		"TEMPORAL_NAMESPACE="+tp.Namespace(), "SIGHTLINE_SHARED="+shared)}
}

// member is one process of a fleet.
type member struct {
	*process
	home, boundaries string
}

// add starts a process with these roles and waits until it is ready.
func (f *fleet) add(roles string, env ...string) *member {
	f.t.Helper()
	m := &member{home: home(f.t)}
	m.boundaries = filepath.Join(m.home, "boundaries")
	env = slices.Concat(f.env, []string{"SIGHTLINE_ROLES=" + roles, boundaryVar + "=" + m.boundaries}, env)
	m.process = launch(f.t, m.home, env...)
	select {
	case <-m.exited:
		f.t.Fatalf("%s ended while starting:\n%s", roles, m.stderr)
	case r, ok := <-m.ready():
		if !ok {
			f.t.Fatalf("%s never became ready:\n%s", roles, m.stderr)
		}
		m.Ready = r
	}
	return m
}

// passed counts how often the process passed a boundary.
func (m *member) passed(boundary string) int {
	b, err := os.ReadFile(m.boundaries)
	if err != nil {
		return 0
	}
	return strings.Count("\n"+string(b), "\n"+boundary+" ")
}

// square is all that is said in the test: each message in a conversation of
// its own, on Discord, on Slack and in the page in turn.
type square struct {
	t       *testing.T
	discord *fakediscord.Server
	slack   *fakeslack.Server
	page    string // the state directory of the page's process
	ann     string
	guild   string
	pic     []byte

	mu    sync.Mutex
	n     int
	heard map[int]func() []string // what was answered to each message
}

func newSquare(t *testing.T) (*square, []string) {
	s := &square{t: t, discord: fakediscord.New(t), heard: map[int]func() []string{}}
	var err error
	if s.slack, err = fakeslack.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.slack.Close)
	s.slack.RetryEvery(time.Second)
	s.slack.AddUser(fakeslack.User{ID: "U1", Team: fakeslack.Team, Name: "ann"})
	s.slack.AddChannel(fakeslack.Channel{ID: "C1", IsChannel: true, Members: []string{"U1", fakeslack.BotUser}})
	s.ann = s.discord.AddUser("ann")
	s.guild = s.discord.AddGuild(s.ann)
	s.pic, _ = noise(t, 40, 30, 3)
	return s, []string{
		"DISCORD_TOKEN=" + s.discord.Token, "DISCORD_API_URL=" + s.discord.URL,
		"SLACK_BOT_TOKEN=" + fakeslack.BotToken, "SLACK_APP_TOKEN=" + fakeslack.AppToken, "SLACK_API_URL=" + s.slack.URL(),
	}
}

// say posts one message with a picture, where it is the turn.
func (s *square) say(ctx context.Context) {
	s.mu.Lock()
	turn := s.n
	s.mu.Unlock()
	s.sayOn(ctx, turn)
}

// sayOn posts on Discord (0), on Slack (1) or in the page (2).
func (s *square) sayOn(ctx context.Context, where int) {
	s.mu.Lock()
	n := s.n
	s.n++
	s.mu.Unlock()
	text, name := fmt.Sprintf("q%d", n), fmt.Sprintf("p%d.png", n)
	var heard func() []string
	switch where % 3 {
	case 0:
		c := s.discord.AddChannel(s.guild)
		s.discord.Post(c, s.ann, fakediscord.Draft{Text: "<@" + s.discord.Bot.ID + "> " + text, Files: []fakediscord.File{{Name: name, Type: "image/png", Data: s.pic}}})
		heard = func() (out []string) {
			for _, m := range s.discord.Said(c) {
				out = append(out, m.Content)
			}
			return out
		}
	case 1:
		m, err := s.slack.Post(fakeslack.Message{Channel: "C1", User: "U1", Text: "<@" + fakeslack.BotUser + "> " + text, Files: []fakeslack.File{s.slack.Upload(name, "image/png", s.pic)}})
		if err != nil {
			s.t.Error(err)
		}
		heard = func() (out []string) {
			for _, r := range s.slack.Messages("C1", m.TS) {
				if r.User == fakeslack.BotUser || r.BotID == fakeslack.BotID {
					out = append(out, r.Text)
				}
			}
			return out
		}
	default:
		heard = s.ask(ctx, text, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[n] = heard
}

func (s *square) ask(ctx context.Context, text, name string) func() []string {
	c, err := web.OpenClient(s.page)
	var conv web.Conversation
	var sent web.Sent
	var up web.Upload
	if err == nil {
		conv, err = c.Conversation(ctx, text)
	}
	if err == nil {
		up, err = c.Upload(ctx, conv.ID, name, s.pic)
	}
	if err == nil {
		sent, err = c.Send(ctx, conv.ID, web.Draft{Key: web.NewKey(), Text: text, Uploads: []string{up.ID}})
	}
	if err != nil {
		s.t.Error(err)
		return func() []string { return nil }
	}
	var mu sync.Mutex
	var got []string
	go func() {
		defer c.Close()
		if a, err := c.Wait(ctx, conv.ID, sent, func(string) {}); err == nil {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, a.Text)
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// talk goes on until it is stopped.
func (s *square) talk(ctx context.Context) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(150 * time.Millisecond):
				s.say(ctx)
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}

// wrong is what is not answered exactly once.
func (s *square) wrong() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, heard := range s.heard {
		if said := heard(); len(said) != 1 || said[0] != fmt.Sprintf("saw p%d.png after listing", n) {
			out = append(out, fmt.Sprintf("q%d: %q", n, said))
		}
	}
	return out
}

// thinking is a model that lists first and takes its time, so that a process
// that is killed has turns under way.
func thinking(r fakemodel.Request) fakemodel.Reply {
	wait := make(chan struct{})
	time.AfterFunc(300*time.Millisecond, func() { close(wait) })
	if r.Last("tool") == "" {
		out := calls("list_documents", `{}`)(r)
		out.Wait = wait
		return out
	}
	if len(r.Pictures) != 1 {
		return fakemodel.Reply{Text: fmt.Sprintf("%d pictures", len(r.Pictures))}
	}
	return fakemodel.Reply{Text: "saw " + attachmentLine(r) + " after listing", Wait: wait}
}

// leased is how long the leases that a process has are still good for, at most;
// 0: it has none.
func (f *fleet) leased(m *member) time.Duration {
	f.t.Helper()
	db, err := pgx.Connect(f.t.Context(), f.database)
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close(context.Background())
	var seconds float64
	err = db.QueryRow(f.t.Context(), `SELECT coalesce(max(extract(epoch FROM until - now())), 0) FROM lease WHERE holder LIKE $1`,
		fmt.Sprintf("%%/%d/%%", m.cmd.Process.Pid)).Scan(&seconds)
	if err != nil {
		f.t.Fatal(err)
	}
	return max(0, time.Duration(seconds*float64(time.Second)))
}

// takeover waits until somebody is connected again to both platforms, and says
// how long that took.
func (s *square) takeover(what string, since time.Time, hellos int) {
	s.t.Helper()
	var discord, slack time.Duration
	wait(s.t, "the connections after "+what, func() bool {
		if discord == 0 && s.discord.Sessions()[0] > 0 {
			discord = time.Since(since)
		}
		if slack == 0 && s.slack.Hellos() > hellos {
			slack = time.Since(since)
		}
		return discord > 0 && slack > 0
	})
	s.t.Logf("%s: another process had the connection after %.1f s on Discord, %.1f s on Slack", what, discord.Seconds(), slack.Seconds())
}

// Several processes on one Postgres and one Temporal, people talking all the
// time. The process that has the platforms' connections is killed, the next one
// is stopped, then two have them at once; a worker is killed in the middle of
// turns. Every message is answered exactly once, with its picture.
func TestRolesOverProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute: a killed process keeps its leases for ten seconds")
	}
	s, env := newSquare(t)
	_, model := fake(t, thinking)
	f := newFleet(t, append(model, env...)...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	workers := []*member{f.add("workers"), f.add("workers")}
	if c, _, _ := s.discord.Connections(); c != 0 || s.slack.Hellos() != 0 {
		t.Errorf("workers opened %d and %d connections", c, s.slack.Hellos())
	}
	conns := []*member{f.add("connectors"), f.add("connectors")}
	if n := s.discord.Sessions()[0]; n != 1 {
		t.Fatalf("two processes have %d sessions", n)
	}
	// Ready and this sentence come through two pipes: either may be first.
	wait(t, "the second to say that it stands by", func() bool {
		return strings.Contains(conns[1].stderr.String(), "stands by")
	})
	s.page = f.add("web").home
	stop := s.talk(ctx)
	defer func() { stop() }()
	wait(t, "answers from both workers", func() bool {
		return workers[0].passed("finish.written") > 2 && workers[1].passed("finish.written") > 2
	})

	// What a killed process has runs out soon, and one that is stopped gives it
	// back: how long the next one then takes is the machine's.
	hellos, began := s.slack.Hellos(), time.Now()
	if left := f.leased(conns[0]); left == 0 || left > 10*time.Second {
		t.Errorf("the one that is connected has its leases for %v", left)
	}
	conns[0].Kill()
	wait(t, "the killed one's session to end", func() bool { return s.discord.Sessions()[0] == 0 })
	s.takeover("a kill", began, hellos)

	conns = append(conns, f.add("connectors"))
	hellos, began = s.slack.Hellos(), time.Now()
	conns[1].Stop()
	if left := f.leased(conns[1]); left > 0 {
		t.Errorf("stopped, it keeps its leases for %v", left)
	}
	s.takeover("a clean stop", began, hellos)

	// Leases that overlap, as after a machine that slept: both hear everything.
	stop()
	wait(t, "everything answered", func() bool { return len(s.wrong()) == 0 || ctx.Err() != nil })
	conns = append(conns, f.add("connectors"))
	s.overlap(f, conns[2], conns[3])
	wait(t, "one of the two to let go", func() bool { return s.discord.Sessions()[0] == 1 })
	stop = s.talk(ctx)

	// A worker dies with a request to the model under way.
	wait(t, "turns under way", func() bool {
		return workers[0].passed("infer.audited") > workers[0].passed("infer.model_answered")
	})
	workers[0].Kill()
	if a, b := workers[0].passed("infer.audited"), workers[0].passed("infer.model_answered"); a <= b {
		t.Logf("the worker was killed between two requests: %d, %d", a, b)
	}
	time.Sleep(3 * time.Second) // the talk goes on with one worker
	stop()
	wait(t, "everything answered", func() bool { return len(s.wrong()) == 0 || ctx.Err() != nil })
	time.Sleep(3 * time.Second) // what is doubled would come now
	if wrong := s.wrong(); len(wrong) > 0 {
		t.Errorf("%d of %d are not answered once:\n%s", len(wrong), s.n, strings.Join(wrong[:min(10, len(wrong))], "\n"))
	}
	f.settled(s.n)
	received := 0
	for _, m := range conns {
		received += m.passed("event.received")
	}
	t.Logf("%d messages; the connectors' processes received %d events of the platforms' %d; workers finished %d and %d turns", s.n, received, s.n-s.n/3,
		workers[0].passed("finish.written"), workers[1].passed("finish.written"))
	if v := s.discord.Violations(); len(v) > 0 {
		t.Errorf("the platform complains: %v", v)
	}
}

// overlap takes the lease of Discord away from under its holder until two
// processes are connected, and has something said that both of them deliver.
func (s *square) overlap(f *fleet, both ...*member) {
	s.t.Helper()
	db, err := pgx.Connect(s.t.Context(), f.database)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close(context.WithoutCancel(s.t.Context()))
	// The holder lets go at its next renewal, three seconds at most: on a slow
	// machine it takes a few tries for both to hear a message in that time.
	for try := 1; ; try++ {
		wait(s.t, "two processes with a connection at once", func() bool {
			if s.discord.Sessions()[0] == 2 {
				return true
			}
			_, err := db.Exec(s.t.Context(), `UPDATE lease SET until = now() - interval '1s' WHERE name LIKE 'bot/%/discord'`)
			if err != nil {
				s.t.Fatal(err)
			}
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && s.discord.Sessions()[0] < 2; {
				time.Sleep(10 * time.Millisecond)
			}
			return s.discord.Sessions()[0] == 2
		})
		var before []int
		for _, m := range both {
			before = append(before, m.passed("event.received"))
		}
		s.sayOn(s.t.Context(), 0)
		heard := func() bool {
			for i, m := range both {
				if m.passed("event.received") <= before[i] {
					return false
				}
			}
			return true
		}
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && !heard(); {
			time.Sleep(20 * time.Millisecond)
		}
		if heard() {
			return
		}
		if try == 20 {
			s.t.Fatal("no message was heard by both processes")
		}
	}
}

// settled: so many turns, all answered, each posted once.
func (f *fleet) settled(want int) {
	f.t.Helper()
	db, err := pgx.Connect(f.t.Context(), f.database)
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close(context.Background())
	var answered, turns, posts int
	wait(f.t, "all turns to be closed", func() bool {
		if err := db.QueryRow(f.t.Context(), `SELECT count(*) FILTER (WHERE state = 'answered'), count(*), (SELECT count(*) FROM post) FROM turn`).Scan(&answered, &turns, &posts); err != nil {
			f.t.Fatal(err)
		}
		return answered >= want
	})
	if answered != want || turns != want || posts != want {
		f.t.Errorf("%d turns, %d answered, %d posts, want %d", turns, answered, posts, want)
	}
}

// A process with the workers' role alone has every bot for reading and posting
// and connects none of them, whichever way events come; it listens nowhere.
func TestWorkersOpenNoConnection(t *testing.T) {
	s, env := newSquare(t)
	_, model := fake(t, thinking)
	f := newFleet(t, append(model, env...)...)
	addr := freePort(t)
	w := f.add("workers", "SLACK_APP_TOKEN=", "SLACK_SIGNING_SECRET=secret", "SLACK_EVENTS_ADDR="+addr)
	f.add("workers")
	time.Sleep(2 * time.Second)
	if c, _, _ := s.discord.Connections(); c != 0 || s.slack.Hellos() != 0 || len(s.slack.Calls("apps.connections.open")) != 0 {
		t.Errorf("%d connections to Discord, %d to Slack", c, s.slack.Hellos())
	}
	for _, r := range s.discord.Requests() {
		if strings.Contains(r, "/gateway") {
			t.Errorf("asked for the gateway: %s", r)
		}
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("the workers listen for Slack's events")
	}
	if w.Ready.WebAddr != "" || w.Ready.SignIn != "" {
		t.Errorf("there is a page: %+v", w.Ready)
	}
	// Not so the connectors: of two, one takes Slack's signed events, and the
	// other does not listen before it has to.
	addrs := []string{addr, freePort(t)}
	var conns []*member
	for _, a := range addrs {
		conns = append(conns, f.add("connectors", "SLACK_APP_TOKEN=", "SLACK_SIGNING_SECRET=secret", "SLACK_EVENTS_ADDR="+a))
	}
	if c, _, _ := s.discord.Connections(); c != 1 {
		t.Errorf("%d connections to Discord", c)
	}
	listens := func(addr string) bool {
		status, answer, err := s.slack.Request("http://"+addr, "application/json", []byte(`{"type":"url_verification","challenge":"c1"}`), "secret", time.Now())
		return err == nil && status == 200 && answer == "c1"
	}
	if !listens(addrs[0]) || listens(addrs[1]) {
		t.Error("not the first one listens, or not it alone")
	}
	// Refused at once, so that a proxy in front tries the next one.
	if c, err := net.Dial("tcp", addrs[1]); err == nil {
		_ = c.Close()
		t.Error("the one that stands by takes connections")
	}
	conns[0].Stop()
	wait(t, "the second to listen", func() bool { return listens(addrs[1]) })
}
