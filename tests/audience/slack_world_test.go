package audience

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"sightline/agent/agenttest"
	"sightline/checkpoints"
	"sightline/connectors/chat"
	"sightline/connectors/slack"
	"sightline/tests/fakeslack"
)

const otherTeam = "T0002"

// workspace is a workspace of Slack's, the agent in it, and the oracle beside
// both.
type workspace struct {
	*driver
	*fakeslack.Server
	office
	home    *channel // where most things happen
	threads map[*channel][]string
	places  []chat.Place // where something was delivered
	late    []map[string]any
	away    bool // events are lost
	failing bool // calls are
	flakyOf []string
	// rejoined are channels of which the agent has to look what it missed.
	rejoined map[*channel]bool
	serial   int
	ear      func(told) // nil: nobody listens
	tally    struct{ probed, granted, denied, moved, away, restarted, failed int }
}

func newWorkspace(t *testing.T, seed uint64) *workspace {
	fake, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	fake.RetryEvery(300 * time.Millisecond)
	w := &workspace{Server: fake, threads: map[*channel][]string{}, rejoined: map[*channel]bool{}}
	w.driver = newDriver(t, seed, w)
	w.office = office{bot: fakeslack.BotUser, messages: map[string]*words{}, lost: map[string]bool{}}
	for _, p := range []*person{{id: "UANN"}, {id: "UBOB"}, {id: "UCAT"}, {id: "UGUEST", guest: true}, {id: "USINGLE", guest: true}, {id: "USTRANGE", stranger: true}} {
		w.people = append(w.people, p)
		w.AddUser(w.user(p))
	}
	everybody := []string{"UANN", "UBOB", "UCAT", "UGUEST", "USINGLE", "USTRANGE", w.bot}
	w.home = w.open(channel{id: "C0HOME"}, everybody[:4]...)
	w.open(channel{id: "C0SECOND"}, "UANN", "UBOB", "USINGLE")
	w.open(channel{id: "C0PRIVATE", private: true}, "UANN", "UGUEST")
	w.open(channel{id: "C0SHARED", shared: true}, "UANN", "UCAT", "USTRANGE")
	w.open(channel{id: "D0ANN", private: true, direct: true}, "UANN")
	w.open(channel{id: "G0THREE", private: true, group: true}, "UANN", "UBOB")
	w.driver.drain = w.drain
	w.clock.ahead = time.Minute // whatever was posted is old enough to be in the history
	w.sink.before = func(e chat.Event) {
		if e.Kind != chat.MessagePosted {
			w.tell(e.Message.NativeID)
		}
	}
	w.join(slack.Platform, func() connector {
		bot, err := slack.New(slack.Config{
			Agent: self, BotToken: fakeslack.BotToken, AppToken: fakeslack.AppToken, APIURL: fake.URL(), Sink: w.sink, Messages: w.db,
			Marks: w.marks, Recent: w.recent, Gaps: slackGaps{w.db}, Aliases: slackAliases{w.db},
			MaxBytes: 1 << 20, Log: slog.New(slog.NewTextHandler(w.log, nil)), Now: w.driver.now,
		})
		if err != nil {
			t.Fatal(err)
		}
		return bot
	})
	w.eventually("both sockets are open", func() bool { return w.Hellos() >= 2 })
	w.greet()
	for _, c := range w.channels {
		w.beside(c, w.speaker(c))
	}
	return w
}

func (w *workspace) user(p *person) fakeslack.User {
	u := fakeslack.User{ID: p.id, Team: fakeslack.Team, Name: "name-" + p.id, Deleted: p.gone, Restricted: p.guest, UltraRestricted: p.guest && p.id == "USINGLE"}
	if p.stranger {
		u.Team, u.Stranger = otherTeam, true
	}
	return u
}

func (w *workspace) open(c channel, members ...string) *channel {
	c.now, c.in = c.id, map[string]bool{w.bot: true}
	for _, u := range members {
		c.in[u] = true
	}
	w.channels = append(w.channels, &c)
	f := fakeslack.Channel{ID: c.id, IsChannel: !c.direct && !c.group, IsIM: c.direct, IsMPIM: c.group}
	if c.direct {
		f.User = members[0]
	}
	w.AddChannel(f)
	w.show(&c)
	return &c
}

// show has the platform be as the oracle has it.
func (w *workspace) show(c *channel) {
	w.ChangeChannel(c.now, func(f *fakeslack.Channel) {
		f.IsPrivate, f.IsExtShared, f.IsArchived, f.Members = c.private && !c.direct, c.shared, c.archived, nil
		for _, u := range append(w.ids(), w.bot) {
			if c.in[u] {
				f.Members = append(f.Members, u)
			}
		}
	})
}

func (w *workspace) ids() (out []string) {
	for _, p := range w.people {
		out = append(out, p.id)
	}
	return out
}

func (w *workspace) eventually(what string, f func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		w.drain()
		if f() {
			w.drain()
			return
		}
	}
	w.Fatalf("never: %s, after %q", what, w.history[max(0, len(w.history)-24):])
}

// drain takes what was delivered.
func (w *workspace) drain() {
	for {
		select {
		case e := <-w.sink.got:
			w.took(e)
		default:
			return
		}
	}
}

func (w *workspace) took(e told) {
	c := w.channel(e.event.Place.Channel)
	if c == nil {
		w.wrong("something was delivered in %s", e.event.Place.Channel)
		return
	}
	w.keep(c.id, e)
	if w.ear != nil {
		w.ear(e)
	}
	if m := w.messages[e.event.Message.NativeID]; m != nil {
		m.recorded = m.recorded || len(e.rows.Attachments) > 0
		if e.event.Kind != chat.MessagePosted {
			w.settle(m)
		}
	}
	if !slices.ContainsFunc(w.places, func(p chat.Place) bool { return p.ID == e.event.Place.ID }) {
		w.places = append(w.places, e.event.Place)
	}
}

// sync returns once the agent was told of all that happened before and is not
// held back: an event is acknowledged after it was delivered.
func (w *workspace) sync() {
	w.Helper()
	w.eventually("every event is acknowledged", func() bool { return w.Open() == 0 })
}

// flaky has some of the next calls fail. What they were for has to come out
// all the same, but for what somebody waits for now.
func (w *workspace) flaky() {
	for range 1 + w.rnd.IntN(3) {
		method := one(w.rnd, []string{"conversations.info", "conversations.members", "conversations.history", "conversations.replies",
			"users.info", "files.info", "chat.postMessage"})
		how := one(w.rnd, []fakeslack.Failure{{Status: 500}, {Code: "internal_error"}, {Code: "fatal_error", After: true}, {Status: 503}})
		how.Times = 1 + w.rnd.IntN(2)
		w.did("%s fails %d times: %d %s", method, how.Times, how.Status, how.Code)
		w.Fail(method, how)
		w.flakyOf = append(w.flakyOf, method)
	}
	w.failing = true
	w.tally.failed++
}

func (w *workspace) calm() {
	for _, m := range w.flakyOf {
		w.Fail(m, fakeslack.Failure{})
	}
	w.failing, w.flakyOf = false, nil
}

// greet returns once the agent knows that both of its connections are there.
func (w *workspace) greet() {
	w.Helper()
	for range 2 { // each goes down another
		w.emit(map[string]any{"type": "reaction_added", "user": "UANN", "reaction": "eyes"})
	}
	w.sync()
}

func (w *workspace) emit(e map[string]any) {
	if err := w.Emit(e); err != nil {
		w.Fatal(err)
	}
}

// upload puts a new picture on the host.
func (w *workspace) upload() fakeslack.File {
	w.serial++
	return w.Upload(fmt.Sprintf("shot-%d.png", w.serial), "image/png", agenttest.PNG(w.T, 8+w.serial, 8, uint8(w.serial)))
}

// say has somebody say something. The events are those that Slack sends, now,
// late or never.
func (w *workspace) say(c *channel, user, text, thread string, own []fakeslack.File, forwarded []fakeslack.File, late bool) *words {
	w.Helper()
	m := fakeslack.Message{Channel: c.now, User: user, Text: text, ThreadTS: thread, Files: own}
	if w.person(user).stranger {
		m.Team = otherTeam
	}
	if len(forwarded) > 0 {
		m.Attachments = []fakeslack.Share{{IsShare: true, Text: "look there", Files: forwarded}}
	}
	m = w.Store(m)
	at := &words{at: c, ts: m.TS, thread: thread, author: user}
	for _, f := range append(slices.Clone(own), forwarded...) {
		at.files = append(at.files, f.ID)
	}
	w.mu.Lock()
	w.messages[m.TS] = at
	w.mu.Unlock()
	if !c.in[w.bot] {
		return at // nobody tells the agent
	}
	for _, e := range w.EventsOf(m) {
		if late {
			w.late = append(w.late, e)
		} else {
			w.emit(e)
		}
	}
	return at
}

// What the service makes of the store for the connector.

func (w *workspace) marks(ctx context.Context) (out []slack.Mark, err error) {
	rows, err := w.db.LastMessages(ctx, self, slack.Platform)
	for _, r := range rows {
		out = append(out, slack.Mark{Channel: r.Channel, Thread: r.Thread, TS: r.Message, Answered: r.Answered})
	}
	return out, err
}

func (w *workspace) recent(ctx context.Context) (out []slack.Recorded, err error) {
	rows, err := w.db.RecentMessages(ctx, self, slack.Platform, 2000)
	for _, r := range rows {
		out = append(out, slack.Recorded{Channel: r.Channel, Thread: r.Thread, TS: r.Message, Revision: r.Revision})
	}
	return out, err
}

type slackGaps struct{ db *checkpoints.DB }

func (g slackGaps) Gaps(ctx context.Context, agent chat.AgentID) (out []slack.Gap, err error) {
	rows, err := g.db.Gaps(ctx, agent, slack.Platform)
	for _, r := range rows {
		out = append(out, slack.Gap{Channel: r.Channel, From: r.Since})
	}
	return out, err
}

func (g slackGaps) SetGaps(ctx context.Context, agent chat.AgentID, opened, closed []slack.Gap) error {
	rows := func(list []slack.Gap) (out []checkpoints.Gap) {
		for _, l := range list {
			out = append(out, checkpoints.Gap{Channel: l.Channel, Since: l.From})
		}
		return out
	}
	return g.db.SetGaps(ctx, agent, slack.Platform, rows(opened), rows(closed))
}

type slackAliases struct{ db *checkpoints.DB }

func (a slackAliases) Aliases(ctx context.Context, agent chat.AgentID) (out []slack.Alias, err error) {
	rows, err := a.db.Aliases(ctx, agent, slack.Platform)
	for _, r := range rows {
		out = append(out, slack.Alias{First: r.First, ID: r.ID})
	}
	return out, err
}

func (a slackAliases) SetAlias(ctx context.Context, agent chat.AgentID, l slack.Alias) error {
	return a.db.SetAlias(ctx, agent, slack.Platform, checkpoints.Alias{First: l.First, ID: l.ID})
}
