package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sightline/cmd/service"
	"sightline/tests/fakemodel"
	"sightline/tests/fakeslack"
)

// TestAudienceOfTwoAgents: two agents of one process in one server and one
// workspace share no rows (cases 20 and 37). The process is started without
// files:read, which is said before the first picture (input 2).
func TestAudienceOfTwoAgents(t *testing.T) {
	d, s := newDiscordSite(t), newSlackSite(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	events := l.Addr().String()
	_ = l.Close()
	other := &script{voice: " Says the second.", holds: map[string]hold{}}
	second := fakemodel.New(other.answer)
	t.Cleanup(second.Close)
	agents := fmt.Sprintf(`agents:
  - id: first
    web: true
    discord: {token_env: TEST_DISCORD, api_url: %[1]q}
    slack: {bot_token_env: TEST_SLACK_BOT, app_token_env: TEST_SLACK_APP, api_url: %[2]q}
  - id: second
    model: {base_url: %[3]q, name: fake-2}
    discord: {token_env: TEST_DISCORD_2, api_url: %[1]q}
    slack: {bot_token_env: TEST_SLACK_BOT_2, signing_secret_env: TEST_SLACK_SIGNING, events_addr: %[4]q, api_url: %[2]q}
`, d.URL, s.URL(), second.BaseURL(), events)

	s.SetScopes(fakeslack.Without("files:read")...)
	a := openAudience(t, d, s, agents)
	t.Run("in 2/slack", func(t *testing.T) {
		defer s.SetScopes(fakeslack.Scopes()...)
		scopeSaid(t, a)
	})
	inquiry := func(t *testing.T, at site, agent string, m *fakemodel.Server, sc *script) *inquiry {
		of := *a
		of.m, of.script = m, sc
		return &inquiry{audienceStage: &of, T: t, site: at, label: "20, 37", agent: agent}
	}
	t.Run("20, 37/discord", func(t *testing.T) {
		sharedServer(inquiry(t, d, "first", a.m, a.script), inquiry(t, d, "second", second, other))
	})
	t.Run("20, 37/slack", func(t *testing.T) {
		sharedWorkspace(inquiry(t, s, "first", a.m, a.script), inquiry(t, s, "second", second, other), "http://"+events)
	})
}

// scopeSaid: at the start, on the terminal and in the log, and by doctor.
func scopeSaid(t *testing.T, a *audienceStage) {
	b, err := os.ReadFile(filepath.Join(a.home, "sightline.log"))
	if err != nil {
		t.Fatal(err)
	}
	if log := string(b); !strings.Contains(log, `lacks a scope`) || !strings.Contains(log, "scope=files:read") || len(a.m.Requests()) != 0 {
		t.Errorf("nothing is said of files:read at the start:\n%s", tail(b, 3000))
	}
	if said := a.p.stderr.String(); !strings.Contains(said, "agent first: slack scope files:read: it is missing") || strings.Contains(said, "chat:write") {
		t.Errorf("whoever started it is not told of files:read, or of more:\n%s", said)
	}
	env := map[string]string{
		"SIGHTLINE_HOME": t.TempDir(), "SIGHTLINE_CONFIG": filepath.Join(a.home, "sightline.yaml"), "DATABASE_URL": a.p.Ready.Database,
		"OPENAI_BASE_URL": a.m.BaseURL(), "OPENAI_API_KEY": "test-key", "SIGHTLINE_MODEL": "fake-1", "SIGHTLINE_MODEL_VISION": "yes",
		"TEST_DISCORD": a.d.Token, "TEST_DISCORD_2": a.d.SecondToken(), "TEST_SLACK_BOT_2": fakeslack.SecondToken, "TEST_SLACK_BOT": fakeslack.BotToken, "TEST_SLACK_APP": fakeslack.AppToken, "TEST_SLACK_SIGNING": fakeslack.SigningSecret,
	}
	doctor := func() (int, string) {
		var out bytes.Buffer
		code := service.Doctor(t.Context(), func(k string) string { return env[k] }, &out)
		return code, out.String()
	}
	code, said := doctor()
	if code != 1 || !strings.Contains(said, "FIX  first slack scope files:read") || !strings.Contains(said, "Add files:read under OAuth & Permissions") {
		t.Errorf("doctor answers %d:\n%s", code, said)
	}
	a.s.SetScopes(fakeslack.Scopes()...)
	if _, said = doctor(); strings.Contains(said, "files:read") {
		t.Errorf("doctor goes on about the scope:\n%s", said)
	}
}

// only is how a turn of one of them ended: shown the picture, or told the same
// as of an ID that names nothing.
func (q *inquiry) only(a answered, p picture, shown bool) {
	q.Helper()
	if a.state != "answered" || len(a.requests) != 2 {
		q.Fatalf("%s: the turn is %s (%s) after %d requests", q.agent, a.state, a.reason, len(a.requests))
	}
	said, pictures := toolAnswers(a.last())[0], a.last().Pictures
	if shown {
		if len(pictures) != 1 || !samePixels(pictures[0].Image, p.pix) {
			q.Errorf("%s: %d pictures; the tool said %q, the trail %+v", q.agent, len(pictures), said, q.trail(a.turn, p.id))
		}
		return
	}
	if len(pictures) != 0 || said != uniform(p.id) {
		q.Errorf("%s: %d pictures; the tool said %q", q.agent, len(pictures), said)
	}
	q.trailed(a, p.id, "unknown", "no such attachment")
	for _, u := range q.trail(a.turn, p.id) {
		if u.Bytes != 0 {
			q.Errorf("%s: the trail says %+v", q.agent, u)
		}
	}
}

// sharedServer: both hear every message, and each has a row of its own.
func sharedServer(one, two *inquiry) {
	at := one.channel(false)
	p := one.picture()
	ask := func(text string, files ...file) (answered, answered) {
		n := len(two.m.Requests())
		a := one.begin(at, "ann", text, files...)
		first := one.end(a)
		a.requests = n
		second := two.end(a)
		first.bytes = second.bytes // of both
		return first, second
	}
	ask("keep this", p.file)
	mine, theirs := one.rowed(p), two.rowed(p)
	if mine.id == theirs.id || one.rows(p.file.name) != 2 {
		one.Errorf("%d rows, %s and %s", one.rows(p.file.name), mine.id, theirs.id)
	}
	for _, of := range []picture{mine, theirs} {
		first, second := ask("look " + of.id)
		one.only(first, of, of.id == mine.id)
		two.only(second, of, of.id == theirs.id)
		if want := 2 * int64(len(p.file.data)); first.bytes != want {
			one.Errorf("%d bytes were fetched by both, want %d by one of them", first.bytes, want)
		}
		one.Logf("%s: allowed for its agent alone, %d bytes", of.id, first.bytes)
	}
}

// sharedWorkspace: the second hears what is sent to it, in a thread that the
// first takes part in.
func sharedWorkspace(one, two *inquiry, events string) {
	mine := one.plant(one.channel(false), "ann")
	at := mine.u.at
	ask := func(text string) answered {
		a := two.prepare(at)
		m := two.s.Store(two.s.draft(at, "ann", text+" #"+a.name+"#", true))
		a.u = uttered(m)
		for i, e := range two.s.EventsOf(m) {
			status, _, err := two.s.Request(events, "application/json", two.s.Payload(e, fmt.Sprintf("Ev%s-%d", m.TS, i)), fakeslack.SigningSecret, time.Now())
			if err != nil || status != 200 {
				two.Fatalf("the event was answered %d, %v", status, err)
			}
		}
		return two.end(a)
	}
	a := ask("look " + mine.id)
	two.only(a, mine, false)
	if a.bytes != 0 {
		two.Errorf("%d bytes were fetched", a.bytes)
	}
	theirs := two.rowed(mine) // of the thread's earlier messages
	a = ask("look " + theirs.id)
	two.only(a, theirs, true)
	if want := 2 * int64(len(mine.file.data)); a.bytes != want {
		two.Errorf("%d bytes were fetched, want %d", a.bytes, want)
	}
	b := one.ask(at, "ann", "look "+theirs.id)
	one.only(b, theirs, false)
	if b.bytes != 0 {
		one.Errorf("%d bytes were fetched", b.bytes)
	}
	one.allowed(one.ask(at, "ann", "look "+mine.id), "S1", mine)
}
