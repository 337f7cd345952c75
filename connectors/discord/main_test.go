package discord

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for range 100 {
		// Everything has to end but what a stuck Session of discordgo holds.
		http.DefaultClient.CloseIdleConnections()
		if runtime.NumGoroutine() <= before+2+stuckSessions {
			os.Exit(code)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if code == 0 {
		buf := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "goroutines are left over:\n%s\n", buf[:runtime.Stack(buf, true)])
		code = 1
	}
	os.Exit(code)
}

// stuckSessions counts the Sessions that a test drove into their deadlock.
var stuckSessions int

const agent chat.AgentID = "main"

// patience is how long anything may take here: shared machines are slow.
const patience = time.Minute

// sink is a store that believes what it is told.
type sink struct {
	stops  []chat.ConversationID
	mu     sync.Mutex
	events []chat.Event
	rows   map[chat.MessageID]chat.Message
	fail   func(chat.Event) error
	got    chan chat.Event
}

func newSink() *sink {
	return &sink{rows: map[chat.MessageID]chat.Message{}, got: make(chan chat.Event, 1000)}
}

func (s *sink) Deliver(_ context.Context, e chat.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(e); err != nil {
			return err
		}
	}
	s.events = append(s.events, e)
	s.rows[e.Message.ID] = e.Message
	s.got <- e
	return nil
}

func (s *sink) Stop(_ context.Context, c chat.ConversationID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops = append(s.stops, c)
	return nil
}

// stopped counts the stops of a conversation since it was last asked for one.
func (s *sink) stopped(c chat.ConversationID) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.stops {
		if o == c {
			n++
		}
	}
	if n > 0 {
		s.stops = nil
	}
	return n
}

func (s *sink) Message(_ context.Context, p chat.PlaceID, id chat.MessageID) (chat.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.rows[id]
	if !ok || m.Place != p {
		return chat.Message{}, chat.ErrNotFound
	}
	return m, nil
}

func (s *sink) failing(f func(chat.Event) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// memory keeps marks as a database would.
type memory struct {
	mu sync.Mutex
	m  map[string]Mark
}

func (k *memory) Marks(context.Context, chat.AgentID) (out []Mark, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.m {
		out = append(out, m)
	}
	return out, nil
}

func (k *memory) SetMark(_ context.Context, _ chat.AgentID, m Mark) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = map[string]Mark{}
	}
	k.m[m.Channel] = m
	return nil
}

// world is a platform with one guild, a channel and two people.
type world struct {
	*fakediscord.Server
	t              testing.TB
	guild, channel string
	alice, bob     string
	sink           *sink
	marks          *memory
	log            *lockedBuffer
	bot            *Bot
	stop           func()
	ended          chan error
	change         func(*Config)
	openTimeout    time.Duration
	identifyEvery  time.Duration
	bulk           bool // channels are asked for together from the first one on
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newWorld connects nothing yet. A test has one, and runs beside others:
// discordgo takes a second to close.
func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{Server: fakediscord.New(t), t: t, sink: newSink(), marks: &memory{}, log: &lockedBuffer{}}
	w.alice, w.bob = w.AddUser("alice"), w.AddUser("bob")
	w.guild = w.AddGuild(w.alice, w.bob)
	w.channel = w.AddChannel(w.guild)
	t.Cleanup(func() {
		if w.stop != nil {
			w.stop()
		}
		if v := w.Violations(); len(v) > 0 {
			t.Errorf("violations: %v", v)
		}
		for _, secret := range []string{w.Token, "http://", "ws://"} {
			if strings.Contains(w.log.String(), secret) {
				t.Errorf("the log quotes %q:\n%s", secret, w.log)
			}
		}
	})
	return w
}

// start makes a bot and runs it until stop.
func (w *world) start() *world {
	w.t.Helper()
	w.make()
	return w.rerun()
}

// rerun runs the bot that is there.
func (w *world) rerun() *world {
	ctx, cancel := context.WithCancel(context.Background())
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.bot.Run(ctx) }()
	bot, ended := w.bot, w.ended
	w.stop = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			w.t.Error("the bot did not stop")
		}
		bot.cdn.CloseIdleConnections()
		bot.rest.http.CloseIdleConnections()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		w.stop = nil
	}
	return w
}

func (w *world) make() *Bot {
	w.t.Helper()
	c := Config{
		Agent: agent, Token: w.Token, APIURL: w.URL, Sink: w.sink, Messages: w.sink, Marks: w.marks,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if w.change != nil {
		w.change(&c)
	}
	b, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	b.backoffMin, b.backoffMax, b.identifyEvery = 10*time.Millisecond, 100*time.Millisecond, 10*time.Millisecond
	b.lookPause = 50 * time.Millisecond
	if w.identifyEvery > 0 {
		b.identifyEvery = w.identifyEvery
	}
	if w.openTimeout > 0 {
		b.openTimeout = w.openTimeout
	}
	if w.bulk {
		b.facts.many = 0
	}
	w.bot = b
	return b
}

// run starts and waits until events flow and the beginning is marked.
func (w *world) run() *world {
	w.t.Helper()
	w.start()
	select {
	case <-w.bot.Ready():
	case err := <-w.ended:
		w.t.Fatalf("ended: %v\n%s", err, w.log)
	case <-time.After(patience):
		w.t.Fatalf("not ready\n%s", w.log)
	}
	w.until("the guild is marked", func() bool { _, ok := w.bot.marks.get(guildKey(w.guild)); return ok })
	return w
}

func (w *world) until(what string, f func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if f() {
			return
		}
	}
	w.t.Fatalf("never: %s\n%s", what, w.log)
}

func (w *world) next() chat.Event {
	w.t.Helper()
	select {
	case e := <-w.sink.got:
		return e
	case <-time.After(patience):
		w.t.Fatalf("no event came\n%s", w.log)
		return chat.Event{}
	}
}

// nothing asserts that nothing more comes: a marker message is the next event
// of its channel's lane.
func (w *world) nothing(channel string) {
	w.t.Helper()
	m := w.Post(channel, w.alice, fakediscord.Draft{Text: w.at() + " marker"})
	if e := w.next(); e.Message.NativeID != m.ID {
		w.t.Fatalf("an event too many: %+v", e)
	}
}

func (w *world) at() string { return "<@" + w.Bot.ID + ">" }

// clock is time that a test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) later(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func png(name string) fakediscord.File {
	return fakediscord.File{Name: name, Type: "image/png", Data: []byte("png bytes of " + name)}
}
