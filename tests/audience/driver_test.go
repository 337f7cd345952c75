package audience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"sightline/agent"
	"sightline/agent/tools"
	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/checkpoints"
	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
	"sightline/workflows"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

const self chat.AgentID = "main"

// eachSeed runs a world for each of the usual seeds, or for the one that
// SIGHTLINE_TEST_SEED names. run answers how often which things happened: worlds
// in which nothing may be seen, or all of it, would show nothing.
func eachSeed(t *testing.T, run func(t *testing.T, seed uint64) map[string]int) {
	seeds := []uint64{1, 2, 3}
	if s, err := strconv.ParseUint(os.Getenv("SIGHTLINE_TEST_SEED"), 10, 64); err == nil {
		seeds = []uint64{s}
	}
	var mu sync.Mutex
	happened := map[string]int{}
	t.Cleanup(func() { // after all of the worlds
		for what, n := range happened {
			if n == 0 && len(seeds) > 1 && !t.Failed() {
				t.Errorf("%s: it never happened: %v", what, happened)
			}
		}
	})
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			counts := run(t, seed)
			t.Log(counts)
			mu.Lock()
			defer mu.Unlock()
			for what, n := range counts {
				happened[what] += n
			}
		})
	}
}

// happened is what every world counts.
func (d *driver) happened() map[string]int {
	s := d.seen
	return map[string]int{"fetched": s.fetched, "shown": s.shown, "listed": s.listed, "retold": s.retold, "posted": s.posted, "refused": s.refused}
}

// stage is a platform with its people: how it changes, and the oracle's
// reading of it at this moment, for the question that is being answered.
type stage interface {
	change()
	may(*picture) bool        // its bytes may be fetched and shown
	retellable(*picture) bool // what was seen in it may be said again
	nameable(*picture) bool   // that it is or was there may be said
	plain(*picture) bool      // nothing stands against it, and the product has a rule for it
	said() []string           // all that the agent posted where the answer goes
	Served() int64            // bytes that left the platform
}

// picture is a file of one message that the agent recorded.
type picture struct {
	id            chat.AttachmentID
	at            string // the channel or thread, as its world names it
	message, file string // as the platform names them
	gone          bool
}

// question is the one that is being answered.
type question struct {
	event chat.Event
	at    string
	asker string
	look  []chat.AttachmentID
}

// driver is what worlds have in common: a real store, a real authorizer, a
// model that says again what it is told, the activities of a turn one by one,
// and a list of what was done.
type driver struct {
	*testing.T
	on       stage
	rnd      *rand.Rand
	db       *checkpoints.DB
	trail    *pgx.Conn
	auth     *attachments.Authorizer
	acts     *workflows.Activities
	env      *testsuite.TestActivityEnvironment
	sink     *sink
	mouth    *mouth
	pictures []*picture
	byID     map[chat.AttachmentID]*picture
	clock    struct {
		sync.Mutex
		ahead time.Duration
	}

	arrive  func() connector
	present present
	leave   func()     // ends the present one
	drain   func()     // takes what was delivered; nil: all that comes is awaited
	note    func(told) // is told of what was awaited; nil: nobody is
	asking  *question
	seen    struct{ fetched, shown, listed, retold, summed, quoted, posted, refused int }
	lastUse int64
	served  int64
	log     *lines   // what the agent's operator reads
	history []string // what was done, for whoever reads a failure
}

// sink writes down what it is told and hands it to the test.
type sink struct {
	db     *checkpoints.DB
	got    chan told
	before func(chat.Event) // nil: nobody wants to know
}

type told struct {
	event chat.Event
	rows  checkpoints.Recorded
}

func (s *sink) Deliver(ctx context.Context, e chat.Event) error {
	if s.before != nil {
		s.before(e)
	}
	r, err := s.db.Record(ctx, e)
	if err == nil {
		s.got <- told{e, r}
	}
	return err
}

func (*sink) Stop(context.Context, chat.ConversationID) error { return nil }

// mouth can lose its way to the platform once, after a reply was intended.
type mouth struct {
	workflows.Replier
	away bool
}

var errAway = errors.New("the platform can't be reached")

func (m *mouth) Post(ctx context.Context, r chat.Reply) (chat.Posted, error) {
	if m.away {
		m.away = false
		return chat.Posted{}, errAway
	}
	return m.Replier.Post(ctx, r)
}

// lines are the last ones of a log.
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list[max(0, len(l.list)-40):], string(p))
	return len(p), nil
}

func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.list, "")
}

type quarantines struct{}

func (quarantines) Reason(context.Context, string, string) (string, error) { return "", nil }
func (quarantines) Put(context.Context, string, string, string) error      { return nil }

func newDriver(t *testing.T, seed uint64, on stage) *driver {
	d := &driver{T: t, on: on, log: &lines{}, rnd: rand.New(rand.NewPCG(seed, 7)), byID: map[chat.AttachmentID]*picture{}}
	url := testenv.Postgres(t)
	var err error
	if d.db, err = checkpoints.Open(t.Context(), url, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.db.Close)
	if d.trail, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.trail.Close(context.Background()) })
	d.sink = &sink{db: d.db, got: make(chan told, 1000)}
	return d
}

// now is the agent's clock.
func (d *driver) now() time.Time {
	d.clock.Lock()
	defer d.clock.Unlock()
	return time.Now().Add(d.clock.ahead)
}

// later makes every fact that is known as old as facts may be.
func (d *driver) later() {
	d.clock.Lock()
	defer d.clock.Unlock()
	d.clock.ahead += 30 * time.Second
}

// connector is a Bot.
type connector interface {
	attachments.Visibility
	attachments.Witness
	attachments.Source
	workflows.Replier
	Run(context.Context) error
	Ready() <-chan struct{}
}

// present is the one of this moment.
type present struct{ connector }

// join puts the agent on the platform.
func (d *driver) join(platform chat.Platform, bot func() connector) {
	d.Helper()
	log := slog.New(slog.DiscardHandler)
	d.arrive = bot
	d.mouth = &mouth{Replier: &d.present}
	var err error
	d.auth, err = attachments.New(attachments.Config{
		Inventory: d.db, Visibility: map[chat.Platform]attachments.Visibility{platform: &d.present}, MaxBytes: 1 << 20, Guesses: 1 << 20,
		Sources: map[chat.AgentID]map[chat.Platform]attachments.Source{self: {platform: &d.present}},
	})
	if err != nil {
		d.Fatal(err)
	}
	looker := &agent.Looker{Authorizer: d.auth, Decoder: visual.NewDecoder(visual.DefaultLimits()), Quarantines: quarantines{}}
	registry, err := agent.NewRegistry(&tools.ListDocuments{Authorizer: d.auth}, &tools.ViewImages{Looker: looker})
	if err != nil {
		d.Fatal(err)
	}
	d.acts = &workflows.Activities{DB: d.db, Log: log, Agents: map[chat.AgentID]*workflows.Agent{self: {
		ID: self, Name: "agent", Authorizer: d.auth, Repliers: map[chat.Platform]workflows.Replier{platform: d.mouth},
		Inference: &agent.Inference{Model: parrot{d}, Tools: registry, Looker: looker, MaxShown: 4},
	}}}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(tlog.NewStructuredLogger(slog.New(slog.DiscardHandler))) // what fails is in the history
	d.env = suite.NewTestActivityEnvironment()
	d.env.SetTestTimeout(time.Minute)
	d.env.RegisterActivity(d.acts)

	d.Cleanup(func() { d.leave() })
	d.enter()
}

// enter starts a process of the agent's, which has nothing but the store.
func (d *driver) enter() {
	d.Helper()
	d.present.connector = d.arrive()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.present.Run(ctx) }()
	d.leave = func() { cancel(); <-ended }
	select {
	case <-d.present.Ready():
	case <-time.After(time.Minute):
		d.Fatal("the agent never came")
	}
}

func (d *driver) did(format string, args ...any) {
	d.history = append(d.history, fmt.Sprintf(format, args...))
}

// wrong says what the oracle would not have.
func (d *driver) wrong(format string, args ...any) {
	d.Helper()
	d.Errorf(format+"\nafter %q", append(args, d.history[max(0, len(d.history)-16):])...)
}

// why is what the trail says of the last decision about a picture.
func (d *driver) why(id chat.AttachmentID) (why string) {
	if err := d.trail.QueryRow(context.Background(), `SELECT rule || ': ' || reason FROM use WHERE attachment = $1 ORDER BY seq DESC LIMIT 1`, string(id)).Scan(&why); err != nil {
		return err.Error()
	}
	return why
}

// until takes events until one is the awaited one.
func (d *driver) until(is func(told) bool) told {
	d.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case e := <-d.sink.got:
			if d.note != nil {
				d.note(e)
			}
			if is(e) {
				return e
			}
		case <-limit:
			d.Fatalf("an event never came, after %q; the agent said:\n%s", d.history[max(0, len(d.history)-24):], d.log.tail())
		}
	}
}

// keep notes the pictures of a message.
func (d *driver) keep(at string, e told) {
	for _, a := range e.rows.Attachments {
		if d.byID[a.ID] == nil {
			p := &picture{id: a.ID, at: at, message: e.event.Message.NativeID, file: a.NativeFile}
			d.pictures, d.byID[a.ID] = append(d.pictures, p), p
		}
	}
}

// picture finds one. It may have been recorded a moment ago.
func (d *driver) picture(id chat.AttachmentID) *picture {
	for end := time.Now().Add(20 * time.Second); d.byID[id] == nil && d.drain != nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		d.drain()
	}
	return d.byID[id]
}

func one[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func (d *driver) chance(percent int) bool { return d.rnd.IntN(100) < percent }
