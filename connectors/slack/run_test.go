package slack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

func timeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func TestWrongTokensEndRun(t *testing.T) {
	for token, change := range map[string]func(*Config){
		"bot": func(c *Config) { c.BotToken = "xoxb-wrong" }, "app": func(c *Config) { c.AppToken = "xapp-wrong" },
	} {
		s := open(t, change)
		ctx, cancel := timeout(t, patience)
		defer cancel()
		var a *AuthError
		if err := s.Run(ctx); !errors.As(err, &a) || a.Token != token || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", token, err)
		}
	}
	// slack-go takes this one for a passing failure.
	s := open(t, func(c *Config) { c.AppToken = fakeslack.BotToken })
	ctx, cancel := timeout(t, patience)
	defer cancel()
	var a *AuthError
	if err := s.Run(ctx); !errors.As(err, &a) || a.Token != "app" || a.Code != "not_allowed_token_type" {
		t.Errorf("a bot token for the app's: %v", err)
	}
}

// Case 2.
func TestMissingScopesAreSaidAtStart(t *testing.T) {
	told := make(chan string, 10)
	s := open(t, func(c *Config) { c.Missing = func(what, fix string) { told <- what + " -> " + fix } },
		func(f *fakeslack.Server) { f.SetScopes(fakeslack.Without("files:read")...) }).run()
	if l := s.log.String(); !strings.Contains(l, "scope=files:read") || strings.Contains(l, "scope=chat:write") {
		t.Errorf("log: %s", l)
	}
	if len(told) != 1 {
		t.Errorf("%d things are said to whoever started it", len(told))
	} else if got := <-told; !strings.Contains(got, "files:read") || !strings.Contains(got, "-> Add files:read under") {
		t.Errorf("whoever started it is told %q", got)
	}
	var found bool
	for _, f := range s.Check(t.Context()) {
		found = found || f.Name == "scope files:read" && !f.OK && f.Fix != ""
		if f.OK == (f.Fix != "") {
			t.Errorf("%+v", f)
		}
	}
	if !found {
		t.Error("the missing scope is not found")
	}
}

// What doctor says is so now, whatever the bot learned when it began.
func TestCheckAsksAnew(t *testing.T) {
	s := open(t, nil).run()
	wrong := func() (out string) {
		for _, f := range s.Check(t.Context()) {
			if !f.OK {
				out += f.Name + ": " + f.Text + " " + f.Fix + "\n"
			}
		}
		return out
	}
	if got := wrong(); got != "" {
		t.Errorf("nothing is wrong: %s", got)
	}
	s.fake.SetScopes(fakeslack.Without("files:write")...)
	if got := wrong(); !strings.HasPrefix(got, "scope files:write") {
		t.Errorf("a scope was taken away: %q", got)
	}
	s.fake.SetScopes(fakeslack.Scopes()...)
	s.fake.Fail("auth.test", fakeslack.Failure{Code: "token_revoked", Times: 1})
	if got := wrong(); !strings.Contains(got, "token_revoked") {
		t.Errorf("a token that was revoked: %q", got)
	}
	s = open(t, func(c *Config) { c.Owners, c.Now = nil, func() time.Time { return time.Now().Add(-90 * time.Minute) } }) // Slack's is known to the second
	if got := wrong(); !strings.Contains(got, "as slack:"+fakeslack.Team+"/USER") || !strings.Contains(got, "clock: 1h30m0s") && !strings.Contains(got, "clock: 1h29m59s") {
		t.Errorf("no owner and a slow clock: %q", got)
	}
	s = open(t, nil)
	s.fake.Fail("apps.connections.open", fakeslack.Failure{Status: 503, Times: maxTries})
	if got := wrong(); !strings.Contains(got, "reaches Slack") || strings.Contains(got, "Switch Socket Mode on") {
		t.Errorf("slack is away: %q", got)
	}
	s = open(t, func(c *Config) { c.BotToken, c.AppToken = fakeslack.AppToken, fakeslack.BotToken })
	if got := wrong(); !strings.Contains(got, "it is an app-level token") {
		t.Errorf("exchanged tokens: %q", got)
	}
}

func TestMissedMessagesAreReadFromHistory(t *testing.T) {
	s := open(t, nil).run()
	s.eventually("both sockets are open", func() bool { return s.fake.Hellos() == 2 })
	root := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("one")})
	e := s.event()
	epoch := s.facts.epoch("C1")
	s.fake.Lose(true)
	missed := map[string]bool{
		s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("two"), Files: []fakeslack.File{s.fake.Upload("x", "", []byte("x"))}}).TS: true,
		s.post(fakeslack.Message{Channel: "C1", User: "U2", Text: "three", ThreadTS: root.TS}).TS:                                                   true,
	}
	s.fake.Lose(false)
	s.drop()
	for range 2 {
		e := s.event()
		if !missed[e.Message.NativeID] {
			t.Errorf("%+v", e)
		}
		delete(missed, e.Message.NativeID)
	}
	s.quiet()
	if s.facts.epoch("C1") <= epoch || s.seen.current(0) {
		t.Error("what was known before the gap still holds")
	}
	// Deleted during the gap: it is read again before it is allowed.
	_, err := s.fake.Remove("C1", root.TS)
	s.must(err)
	if d, err := s.ask(e, e); d.Allowed() {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestMarksOfAnEarlierProcess(t *testing.T) {
	var mark Mark
	s := open(t, func(c *Config) { c.Marks = func(context.Context) ([]Mark, error) { return []Mark{mark}, nil } })
	old := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("taken")})
	s.readDelay = 0
	mark = Mark{Channel: "C1", Thread: old.TS, TS: old.TS}
	m := s.fake.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("while it was down")})
	s.run()
	got := map[string]bool{}
	for range 2 { // the last one taken comes again: the store knows it
		got[s.event().Message.NativeID] = true
	}
	if !got[m.TS] || !got[old.TS] {
		t.Errorf("got %v", got)
	}
}

func TestDisconnectLosesNothing(t *testing.T) {
	s := open(t, nil).run()
	s.fake.RetryEvery(100 * time.Millisecond)
	for n := range 10 {
		if n%3 == 0 {
			s.fake.Disconnect([]string{"refresh_requested", "warning"}[n%2])
		}
		m := s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "x"})
		if e := s.event(); e.Message.NativeID != m.TS {
			t.Errorf("%+v", e)
		}
	}
	s.quiet()
}

type commander chan chat.Command

func (c commander) Command(_ context.Context, cmd chat.Command) (string, error) {
	c <- cmd
	return "all is **well** <!here>", nil
}

func TestCommands(t *testing.T) {
	for _, mode := range []string{"sockets", "requests"} {
		t.Run(mode, func(t *testing.T) {
			c := make(commander, 1)
			s := open(t, func(cfg *Config) {
				cfg.Commander = c
				if mode == "requests" {
					l, err := net.Listen("tcp", "127.0.0.1:0")
					if err != nil {
						t.Fatal(err)
					}
					cfg.EventsListener, cfg.SigningSecret = l, fakeslack.SigningSecret
				}
			}).run()
			if l := s.c.EventsListener; l != nil {
				s.fake.EventsTo("http://" + l.Addr().String() + "/")
			}
			s.must(s.fake.Slash(fakeslack.Team, "U1", "C1", "Trail att_x  more"))
			s.eventually("an answer", func() bool { return len(s.fake.Responses()) == 1 })
			cmd := <-c
			if cmd.Name != "trail" || strings.Join(cmd.Args, ",") != "att_x,more" || cmd.Actor.Role != chat.Owner || cmd.Place.Channel != "C1" || cmd.Agent != agent {
				t.Errorf("%+v", cmd)
			}
			r := s.fake.Responses()[0]
			if r["response_type"] != "ephemeral" || r["authorization"] != "" || !strings.Contains(r["text"].(string), "all is") {
				t.Errorf("%v", r)
			}
			for n, l := range [][2]string{
				{"<https://acme.slack.com/archives/C1/p1700000000123456?thread_ts=1700000000.000100&cid=C1>", "1700000000.123456"},
				{"https://acme.slack.com/archives/C2/p1700000000123456", "https://acme.slack.com/archives/C2/p1700000000123456"}, // another channel's
				{"1700000000.123456", "1700000000.123456"},
			} {
				s.must(s.fake.Slash(fakeslack.Team, "U1", "C1", "forget "+l[0]))
				if cmd := <-c; len(cmd.Args) != 1 || cmd.Args[0] != l[1] {
					t.Errorf("forget %s: %q", l[0], cmd.Args)
				}
				s.eventually("an answer", func() bool { return len(s.fake.Responses()) == n+2 })
			}
			if strings.Contains(fmt.Sprint(s.fake.Responses()), notHere) {
				t.Error("it is there")
			}
			// The same from the message's own menu; nothing else there is a command.
			s.must(s.fake.Choose(fakeslack.Team, "U1", "C1", "1700000000.123456", "another"))
			s.must(s.fake.Choose(fakeslack.Team, "U1", "C1", "not a ts", forgetMenu))
			s.must(s.fake.Choose(fakeslack.Team, "U1", "C1", "1700000000.123456", forgetMenu))
			if cmd := <-c; cmd.Name != "forget" || strings.Join(cmd.Args, ",") != "1700000000.123456" || cmd.Actor.Role != chat.Owner || cmd.Place.Channel != "C1" {
				t.Errorf("forget from the menu: %+v", cmd)
			}
			s.eventually("an answer", func() bool { return len(s.fake.Responses()) == 5 })
			s.must(s.fake.Choose(fakeslack.Team, "U2", "C1", "1700000000.123456", forgetMenu))
			s.eventually("a refusal", func() bool { return len(s.fake.Responses()) == 6 })
			answers := len(s.fake.Responses())
			// The owner's id in another team is somebody else.
			for n, who := range [][2]string{{fakeslack.Team, "U2"}, {"T9", "U1"}} {
				s.must(s.fake.Slash(who[0], who[1], "C1", "status"))
				s.eventually("a refusal", func() bool { return len(s.fake.Responses()) == n+answers+1 })
			}
			if len(c) > 0 || strings.Count(s.log.String(), "no owner") != 3 {
				t.Errorf("log: %s", s.log)
			}
		})
	}
}

// Slack takes commands where the agent is not: it says so.
func TestCommandsWhereTheAgentIsNot(t *testing.T) {
	c := make(commander, 1)
	s := open(t, func(cfg *Config) { cfg.Commander = c }).run()
	s.fake.AddChannel(fakeslack.Channel{ID: "CPUB", IsChannel: true, Members: []string{"U1"}})
	s.fake.AddChannel(fakeslack.Channel{ID: "CELSE", IsChannel: true, IsPrivate: true, Members: []string{"U1"}})
	for n, at := range []string{"CPUB", "CELSE", "D1"} {
		s.must(s.fake.Slash(fakeslack.Team, "U1", at, "workspace on"))
		<-c
		s.eventually("an answer", func() bool { return len(s.fake.Responses()) == n+1 })
		if said := fmt.Sprint(s.fake.Responses()[n]); strings.Contains(said, notHere) != (at != "D1") || !strings.Contains(said, "all is") {
			t.Errorf("%s: %s", at, said)
		}
	}
}

func TestSignedRequests(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *Config) { c.EventsListener, c.SigningSecret, c.AppToken = l, fakeslack.SigningSecret, "" }).run()
	to := "http://" + l.Addr().String() + "/"
	s.fake.EventsTo(to)
	m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "hi"})
	event := s.fake.EventsOf(m)[0]
	body := s.fake.Payload(event, "Ev1")
	for what, send := range map[string]func() (int, string, error){
		"another secret": func() (int, string, error) {
			return s.fake.Request(to, "application/json", body, "wrong", time.Now())
		},
		"an old request": func() (int, string, error) {
			return s.fake.Request(to, "application/json", body, fakeslack.SigningSecret, time.Now().Add(-time.Hour))
		},
	} {
		if status, _, err := send(); err != nil || status != 401 {
			t.Errorf("%s: %d, %v", what, status, err)
		}
	}
	if status, answer, err := s.fake.Request(to, "application/json", []byte(`{"type":"url_verification","challenge":"abc"}`), fakeslack.SigningSecret, time.Now()); status != 200 || answer != "abc" || err != nil {
		t.Errorf("challenge: %d %q %v", status, answer, err)
	}
	s.sink.failing(1)
	if err := s.fake.Emit(event); err == nil {
		t.Error("acknowledged, and not durable")
	}
	s.must(s.fake.Emit(event))
	if e := s.event(); e.Message.NativeID != m.TS {
		t.Errorf("%+v", e)
	}
	s.must(s.fake.Emit(event))
	s.quiet()
}

// A command that Slack did not sign is nobody's.
func TestUnsignedCommandIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := make(commander, 9)
	s := open(t, func(cfg *Config) {
		cfg.EventsListener, cfg.SigningSecret, cfg.Commander = l, fakeslack.SigningSecret, c
	}).run()
	form := url.Values{"command": {"/sightline"}, "text": {"status"}, "team_id": {fakeslack.Team}, "user_id": {"U1"}, "channel_id": {"C1"}, "response_url": {s.fake.URL()}}
	for what, at := range map[string]struct {
		secret string
		when   time.Time
	}{"another secret": {"wrong", time.Now()}, "an old one": {fakeslack.SigningSecret, time.Now().Add(-6 * time.Minute)}, "one of later": {fakeslack.SigningSecret, time.Now().Add(6 * time.Minute)}} {
		status, _, err := s.fake.Request("http://"+l.Addr().String()+"/", "application/x-www-form-urlencoded", []byte(form.Encode()), at.secret, at.when)
		if err != nil || status != http.StatusUnauthorized {
			t.Errorf("%s: %d, %v", what, status, err)
		}
	}
	s.running.Wait() // a command runs beside its request
	if len(c) > 0 {
		t.Errorf("it was run: %+v", <-c)
	}
}

// An answer goes to Slack's own address or nowhere.
func TestAnswersGoToSlackAlone(t *testing.T) {
	s := open(t, nil)
	other, err := fakeslack.Start()
	s.must(err)
	t.Cleanup(other.Close)
	for _, to := range []string{strings.TrimSuffix(other.URL(), "api/") + "response/r1", "", "https://hooks.slack.com.example.com/x", "http://hooks.slack.com/x"} {
		if err := s.respond(t.Context(), to, "a secret"); err == nil || strings.Contains(err.Error(), "http") {
			t.Errorf("%q: %v", to, err)
		}
	}
	if r := other.Responses(); len(r) > 0 {
		t.Errorf("another host was told %v", r)
	}
	base, _ := url.Parse(defaultAPI)
	if u, _ := url.Parse("https://hooks.slack.com/commands/x"); !newHosts(base).response(u) {
		t.Error("Slack's own address is refused")
	}
}
