package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

const agent chat.AgentID = "agent"

// patience is how long anything may take here: shared machines are slow.
const patience = time.Minute

// sink keeps what was delivered, and fails when told to.
type sink struct {
	mu      sync.Mutex
	got     chan chat.Event
	stopped chan chat.ConversationID
	fail    int
	bad     string        // words that it can't keep
	hold    chan struct{} // deliveries wait for it
}

func (s *sink) Deliver(ctx context.Context, e chat.Event) error {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return errors.New("the store is away")
	}
	if s.bad != "" && e.Message.Text == s.bad {
		return fmt.Errorf("record event: %w", chat.ErrUnfit)
	}
	s.got <- e
	return nil
}

func (s *sink) unfit(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = text
}

func (s *sink) Stop(_ context.Context, c chat.ConversationID) error {
	s.stopped <- c
	return nil
}

func (s *sink) failing(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = n
}

// logs keeps what operators read.
type logs struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type setup struct {
	*Bot
	t    *testing.T
	fake *fakeslack.Server
	sink *sink
	log  *logs
}

// open starts a bot in a workspace with two public channels and a direct
// message. change may alter the configuration before.
func open(t *testing.T, change func(*Config), before ...func(*fakeslack.Server)) *setup {
	t.Helper()
	fake, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	members := []string{"U1", "U2", fakeslack.BotUser}
	fake.AddChannel(fakeslack.Channel{ID: "C1", IsChannel: true, Members: members})
	fake.AddChannel(fakeslack.Channel{ID: "C2", IsChannel: true, Members: members})
	fake.AddChannel(fakeslack.Channel{ID: "CPRIV", IsChannel: true, IsPrivate: true, Members: members})
	fake.AddChannel(fakeslack.Channel{ID: "D1", IsIM: true, User: "U1"})
	for _, f := range before {
		f(fake)
	}
	s := &setup{t: t, fake: fake, log: &logs{}, sink: &sink{got: make(chan chat.Event, 1000), stopped: make(chan chat.ConversationID, 10)}}
	c := Config{
		Agent: agent, BotToken: fakeslack.BotToken, AppToken: fakeslack.AppToken, APIURL: fake.URL(), Sink: s.sink,
		Owners: []string{fakeslack.Team + "/U1"}, MaxBytes: 8 << 20,
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&c)
	}
	if s.Bot, err = New(c); err != nil {
		t.Fatal(err)
	}
	s.twinWait = 150 * time.Millisecond
	s.rereads = []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond}
	s.redial, s.api.pause, s.queue.unfitPause = 10*time.Millisecond, time.Millisecond, time.Millisecond
	return s
}

// run runs it until the test ends.
func (s *setup) run() *setup {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				s.t.Errorf("run: %v", err)
			}
		case <-time.After(patience):
			s.t.Error("run does not end")
		}
	})
	select {
	case <-s.Ready():
	case err := <-ended:
		s.t.Fatalf("run: %v", err)
	case <-time.After(patience):
		s.t.Fatalf("not ready: %s", s.log)
	}
	return s
}

// bothOpen: the bot itself knows it, and not only Slack.
func (s *setup) bothOpen() {
	s.t.Helper()
	s.eventually("both sockets are open", func() bool {
		s.seen.mu.Lock()
		defer s.seen.mu.Unlock()
		return s.seen.hearing == sockets
	})
}

// drop closes both, once the bot has heard of both: before that there is no gap.
func (s *setup) drop() {
	s.t.Helper()
	s.bothOpen()
	s.fake.DropSockets()
}

func (s *setup) post(m fakeslack.Message) fakeslack.Message {
	s.t.Helper()
	m, err := s.fake.Post(m)
	s.must(err)
	s.settle() // of two sockets either may be read first
	return m
}

func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n == 0
}

func (s *setup) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *setup) event() chat.Event {
	s.t.Helper()
	select {
	case e := <-s.sink.got:
		return e
	case <-time.After(patience):
		s.t.Fatalf("no event came; log:\n%s", s.log)
	}
	return chat.Event{}
}

// settle waits until every event is acknowledged, which is after it was
// delivered. Where Slack gives up soon, what it sent is still at work.
func (s *setup) settle() {
	s.t.Helper()
	s.eventually("all events are acknowledged", func() bool { return s.fake.Open() == 0 && s.queue.idle() })
}

// quiet: nothing more was delivered.
func (s *setup) quiet() {
	s.t.Helper()
	s.settle()
	if len(s.sink.got) > 0 {
		s.t.Errorf("not expected: %+v", <-s.sink.got)
	}
}

// eventually waits for what has no signal of its own.
func (s *setup) eventually(what string, f func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	s.t.Fatalf("never: %s; log:\n%s", what, s.log)
}

func mention(text string) string { return "<@" + fakeslack.BotUser + "> " + text }
