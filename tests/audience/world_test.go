package audience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"sightline/agent"
	"sightline/agent/agenttest"
	"sightline/agent/tools"
	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/checkpoints"
	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
	"sightline/connectors/discord"
	"sightline/tests/fakediscord"
	"sightline/workflows"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

const self chat.AgentID = "main"

// picture is a file somebody posted. It is there until its message is deleted
// or edited without it.
type picture struct {
	id   chat.AttachmentID
	size int64
	at   *room
	post fakediscord.Message
	gone bool
}

// world is a platform, the agent on it, and the oracle beside both.
type world struct {
	*testing.T
	*fakediscord.Server
	people
	rnd       *rand.Rand
	db        *checkpoints.DB
	trail     *pgx.Conn
	acts      *workflows.Activities
	env       *testsuite.TestActivityEnvironment
	bot       *discord.Bot
	sink      *sink
	mouth     *mouth
	guild     string
	blindRole string
	rooms     []*room // three channels, then the threads of the first
	marker    string
	pictures  []*picture
	byID      map[chat.AttachmentID]*picture
	clock     struct {
		sync.Mutex
		ahead time.Duration
	}

	asking  *question
	seen    struct{ fetched, shown, listed, retold, summed, quoted, posted, refused int }
	lastUse int64
	served  int64
	history []string // what was done, for whoever reads a failure
}

// question is the one that is being answered.
type question struct {
	event chat.Event
	at    *room
	asker string
	look  []chat.AttachmentID
}

// sink writes down what it is told and hands it to the test.
type sink struct {
	db  *checkpoints.DB
	got chan told
}

type told struct {
	event chat.Event
	rows  checkpoints.Recorded
}

func (s *sink) Deliver(ctx context.Context, e chat.Event) error {
	r, err := s.db.Record(ctx, e)
	if err == nil {
		s.got <- told{e, r}
	}
	return err
}

func (*sink) Stop(context.Context, chat.ConversationID) error { return nil }

// mouth can lose its way to the platform once, after a reply was intended.
type mouth struct {
	*discord.Bot
	away bool
}

var errAway = errors.New("the platform can't be reached")

func (m *mouth) Post(ctx context.Context, r chat.Reply) (chat.Posted, error) {
	if m.away {
		m.away = false
		return chat.Posted{}, errAway
	}
	return m.Bot.Post(ctx, r)
}

type quarantines struct{}

func (quarantines) Reason(context.Context, string, string) (string, error) { return "", nil }
func (quarantines) Put(context.Context, string, string, string) error      { return nil }

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, Server: fakediscord.New(t), rnd: rand.New(rand.NewPCG(seed, 7)), byID: map[chat.AttachmentID]*picture{}}
	var names []string
	for _, n := range []string{"ann", "bob", "dora"} {
		names = append(names, w.AddUser(n))
	}
	w.people = people{bot: w.Bot.ID, owner: w.Owner, all: names, absent: map[string]bool{}, blind: names[2]}
	w.guild = w.AddGuild(names...)
	w.blindRole = w.AddRole(w.guild, 0, w.blind)
	for range 3 {
		w.rooms = append(w.rooms, &room{id: w.AddChannel(w.guild)})
	}
	a := w.rooms[0]
	w.rooms = append(w.rooms, &room{id: w.AddThread(a.id, fakediscord.PublicThread, w.me()), parent: a},
		&room{id: w.AddThread(a.id, fakediscord.PrivateThread, w.me(), names[0]), parent: a, inside: []string{w.me(), names[0]}})
	w.marker = w.AddChannel(w.guild)
	w.join(t)
	return w
}

// me is the agent's user, which the server and the connection beside it hide.
func (w *world) me() string { return w.people.bot }

// join puts the agent on the platform.
func (w *world) join(t *testing.T) {
	url := testenv.Postgres(t)
	log := slog.New(slog.DiscardHandler)
	var err error
	if w.db, err = checkpoints.Open(t.Context(), url, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.db.Close)
	if w.trail, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.trail.Close(context.Background()) })
	w.sink = &sink{db: w.db, got: make(chan told, 1000)}
	now := func() time.Time {
		w.clock.Lock()
		defer w.clock.Unlock()
		return time.Now().Add(w.clock.ahead)
	}
	if w.bot, err = discord.New(discord.Config{Agent: self, Token: w.Token, APIURL: w.URL, Sink: w.sink, Messages: w.db, Log: log, Now: now, MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	w.mouth = &mouth{Bot: w.bot}
	auth, err := attachments.New(attachments.Config{
		Inventory: w.db, Visibility: map[chat.Platform]attachments.Visibility{discord.Platform: w.bot}, MaxBytes: 1 << 20, Guesses: 1 << 20,
		Sources: map[chat.AgentID]map[chat.Platform]attachments.Source{self: {discord.Platform: w.bot}},
	})
	if err != nil {
		t.Fatal(err)
	}
	looker := &agent.Looker{Authorizer: auth, Decoder: visual.NewDecoder(visual.DefaultLimits()), Quarantines: quarantines{}}
	registry, err := agent.NewRegistry(&tools.ListDocuments{Authorizer: auth}, &tools.ViewImages{Looker: looker})
	if err != nil {
		t.Fatal(err)
	}
	w.acts = &workflows.Activities{DB: w.db, Log: log, Agents: map[chat.AgentID]*workflows.Agent{self: {
		ID: self, Name: "agent", Authorizer: auth, Repliers: map[chat.Platform]workflows.Replier{discord.Platform: w.mouth},
		Inference: &agent.Inference{Model: parrot{w}, Tools: registry, Looker: looker, MaxShown: 4},
	}}}
	var suite testsuite.WorkflowTestSuite
	w.env = suite.NewTestActivityEnvironment()
	w.env.SetTestTimeout(time.Minute)
	w.env.RegisterActivity(w.acts)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.bot.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-w.bot.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the agent never came")
	}
	w.sync()
}

func (w *world) did(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// wrong says what the oracle would not have.
func (w *world) wrong(format string, args ...any) {
	w.Helper()
	w.Errorf(format+"\nafter %q", append(args, w.history[max(0, len(w.history)-12):])...)
}

// sync returns once the agent was told of all that happened before: its events
// come in order.
func (w *world) sync() {
	w.Helper()
	m := w.Post(w.marker, w.people.owner, fakediscord.Draft{Text: "<@" + w.me() + "> marker"})
	w.until(func(e told) bool { return e.event.Message.NativeID == m.ID })
}

// until takes events until one is the awaited one.
func (w *world) until(is func(told) bool) told {
	w.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case e := <-w.sink.got:
			if is(e) {
				return e
			}
		case <-limit:
			w.Fatalf("an event never came, after %q", w.history)
		}
	}
}

func one[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func (w *world) chance(percent int) bool { return w.rnd.IntN(100) < percent }

// post has somebody say something with pictures. It answers false where the
// agent hears nothing of it.
func (w *world) post(at *room, user, text string, files int, replyTo string) (told, bool) {
	w.Helper()
	d := fakediscord.Draft{Text: text, ReplyTo: replyTo}
	for range files {
		n := len(w.pictures) + len(d.Files)
		data := agenttest.PNG(w, 8+n, 8, uint8(n))
		d.Files = append(d.Files, fakediscord.File{Name: fmt.Sprintf("shot-%d.png", n), Type: "image/png", Data: data})
	}
	m := w.Post(at.id, user, d)
	if !w.sees(w.me(), at) {
		return told{}, false
	}
	e := w.until(func(e told) bool { return e.event.Message.NativeID == m.ID })
	w.keep(at, m, e.rows.Attachments)
	return e, true
}

func (w *world) keep(at *room, m fakediscord.Message, rows []chat.Attachment) {
	for _, a := range rows {
		if w.byID[a.ID] == nil {
			p := &picture{id: a.ID, size: a.Size, at: at, post: m}
			w.pictures, w.byID[a.ID] = append(w.pictures, p), p
		}
	}
}

// change does one thing to the world, and has the agent hear of it as far as
// the platform tells.
func (w *world) change() {
	w.Helper()
	c := w.rooms[w.rnd.IntN(3)]
	switch w.rnd.IntN(6) {
	case 0, 1:
		c.kind = open
		if w.chance(60) {
			c.kind = layout(w.rnd.IntN(int(layouts)))
		}
		c.some = nil
		for _, u := range w.all {
			if w.chance(60) {
				c.some = append(c.some, u)
			}
		}
		w.SetOverwrites(c.id, c.overwrites(w.guild, w.blindRole, w.me())...)
		w.did("channel %s is %d for %v", c.id, c.kind, c.some)
	case 2:
		w.forgetful = !w.forgetful
		bits := int64(reads)
		if w.forgetful {
			bits &^= fakediscord.ReadMessageHistory
		}
		w.SetRole(w.guild, w.guild, bits)
		w.did("forgetful %v", w.forgetful)
	case 3:
		u := one(w.rnd, w.all[:2]) // the blind one keeps the role
		w.absent[u] = !w.absent[u]
		if w.absent[u] {
			w.Leave(w.guild, u)
		} else {
			w.Join(w.guild, u)
		}
		if w.chance(50) { // told, or found out as late as may be
			w.Dispatch("GUILD_MEMBER_REMOVE", map[string]any{"guild_id": w.guild, "user": map[string]any{"id": u, "username": "x"}})
		} else {
			w.clock.Lock()
			w.clock.ahead += 30 * time.Second
			w.clock.Unlock()
		}
		w.did("%s absent %v", u, w.absent[u])
	case 4:
		w.lose(func(p *picture) { w.Delete(p.post) }, true)
	case 5:
		w.lose(func(p *picture) { w.Edit(p.post, "without it", 0) }, false)
	}
	w.sync()
}

// lose takes a picture that the agent can hear of away, with its whole message.
func (w *world) lose(how func(*picture), deleted bool) {
	var there []*picture
	for _, p := range w.pictures {
		if !p.gone && w.sees(w.me(), p.at) {
			there = append(there, p)
		}
	}
	if len(there) == 0 {
		return
	}
	p := one(w.rnd, there)
	how(p)
	w.until(func(e told) bool { return e.event.Message.NativeID == p.post.ID })
	for _, o := range w.pictures {
		o.gone = o.gone || o.post.ID == p.post.ID
	}
	w.did("%s gone, deleted %v", p.id, deleted)
}
