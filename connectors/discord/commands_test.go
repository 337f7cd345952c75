package discord

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

type commander struct {
	mu   sync.Mutex
	got  []chat.Command
	say  string
	fail error
	hold chan struct{} // it takes until this is closed
}

func (c *commander) Command(_ context.Context, cmd chat.Command) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold != nil {
		<-c.hold
	}
	c.got = append(c.got, cmd)
	return c.say, c.fail
}

func (w *world) answered(i *fakediscord.Interaction) {
	w.t.Helper()
	select {
	case <-i.Done:
	case <-time.After(patience):
		w.t.Fatalf("not answered\n%s", w.log)
	}
}

func TestCommands(t *testing.T) {
	w := newWorld(t)
	c := &commander{say: "all is well"}
	w.change = func(k *Config) { k.Commander = c }
	dm := w.AddDM(w.Owner)
	w.run()
	want := []string{"status", "stop", "attachments", "trail", "workspace", "model", "forget", "doctor"}
	w.until("registered", func() bool { return slices.Equal(w.Commands()["sightline"], want) })
	for _, x := range []struct {
		sub     string
		options []string
		args    []string
	}{
		{"status", nil, nil}, {"stop", nil, nil}, {"trail", []string{"id", " att_x "}, []string{"att_x"}},
		{"workspace", []string{"state", "on"}, []string{"on"}}, {"model", nil, nil}, {"forget", []string{"target", "1"}, []string{"1"}},
		{"forget", []string{"target", "https://discord.com/channels/5/1/2"}, []string{"2"}}, // a thread's, which the store knows to be around or not
		{"forget", []string{"target", "<https://ptb.discord.com/channels/@me/1/2>"}, []string{"2"}},
		{"forget", []string{"target", "https://discord.example/channels/@me/1/2"}, []string{"https://discord.example/channels/@me/1/2"}},
	} {
		for _, channel := range []string{w.channel, dm} {
			i := w.Interact(channel, w.Owner, x.sub, x.options...)
			w.answered(i)
			got := c.got[len(c.got)-1]
			if !i.Ephemeral || !i.Deferred || i.Content != "all is well" || got.Name != x.sub || !slices.Equal(got.Args, x.args) ||
				got.Actor.Role != chat.Owner || got.Actor.User != w.Owner || got.Agent != agent || got.Place.Channel != channel {
				t.Errorf("%s: %+v, %+v", x.sub, got, i)
			}
		}
	}
	ran := len(c.got)
	guest := w.Interact(w.channel, w.alice, "status")
	w.answered(guest)
	if !guest.Ephemeral || !guest.Quiet || strings.Contains(guest.Content, "\n") || !strings.Contains(guest.Content, "owner") || len(c.got) != ran {
		t.Errorf("a guest: %+v", guest)
	}
	if !strings.Contains(w.log.String(), "refused") || !strings.Contains(w.log.String(), w.alice) {
		t.Error("a guest's command was not logged")
	}
	c.mu.Lock()
	hold := make(chan struct{})
	c.fail, c.hold = errors.New("secret detail"), hold
	c.mu.Unlock()
	i := w.Interact(w.channel, w.Owner, "doctor")
	w.until("it is acknowledged while it runs", func() bool { return w.Acknowledged(i) })
	close(hold)
	w.answered(i)
	if strings.Contains(i.Content, "secret") {
		t.Errorf("a failure: %+v", i)
	}
	c.mu.Lock()
	c.fail, c.hold, c.say = nil, nil, strings.Repeat("a long line\n", 400)
	c.mu.Unlock()
	i = w.Interact(w.channel, w.Owner, "attachments")
	w.answered(i)
	// An interaction's token that has expired says nothing about the bot's.
	err := w.bot.rest.do(t.Context(), "PATCH", "/webhooks/1/expired/messages/@original", map[string]any{"content": "x"}, nil)
	if _, dead := w.bot.rest.ahead(""); dead != nil || !hasStatus(err, 401) {
		t.Errorf("an expired interaction: %v, then %v", err, dead)
	}
	w.until("the rest", func() bool { return len(w.Answered(i)) == 3 })
	parts := w.Answered(i)
	if got := strings.Join(parts, "\n") + "\n"; len(parts) != 3 || got != c.say {
		t.Errorf("a long answer: %d messages, %q", len(parts), got)
	}
	c.mu.Lock()
	c.say = strings.Repeat("a long line\n", 4000)
	c.mu.Unlock()
	i = w.Interact(w.channel, w.Owner, "attachments")
	w.answered(i)
	w.until("all that is told", func() bool { return len(w.Answered(i)) == maxAnswers })
	if parts := w.Answered(i); !strings.HasSuffix(parts[maxAnswers-1], "\n…") {
		t.Errorf("a longer answer ends %q", parts[maxAnswers-1])
	}
	i = w.Interact(w.channel, w.Owner, "forget", "target", "https://discord.com/channels/"+w.guild+"/"+w.channel+"/77")
	w.answered(i)
	if got := c.got[len(c.got)-1]; !slices.Equal(got.Args, []string{"77"}) {
		t.Errorf("a link to a message: %v", got.Args)
	}
	if f := w.Violations(); len(f) > 0 {
		t.Errorf("the platform complains: %v", f)
	}
}

// A message is forgotten from its own menu too, by an owner.
func TestForgetFromTheMenu(t *testing.T) {
	w := newWorld(t)
	c := &commander{say: "Forgotten."}
	w.change = func(k *Config) { k.Commander = c }
	w.run()
	w.until("registered", func() bool { return slices.Equal(w.Menu(), []string{forgetMenu}) })
	m := w.Post(w.channel, w.alice, draft{Text: "a secret"})
	for who, want := range map[string]string{w.Owner: "Forgotten.", w.alice: ownersOnly} {
		i := w.InteractOn(m.ID, w.channel, who, forgetMenu)
		w.answered(i)
		if i.Content != want || !i.Ephemeral {
			t.Errorf("%s was answered %q, ephemeral %t", who, i.Content, i.Ephemeral)
		}
	}
	if len(c.got) != 1 || c.got[0].Name != "forget" || !slices.Equal(c.got[0].Args, []string{m.ID}) || c.got[0].Place.Channel != w.channel {
		t.Errorf("commands %+v", c.got)
	}
	w.InteractOn(m.ID, w.channel, w.Owner, "Something else")
	w.InteractOn("../x", w.channel, w.Owner, forgetMenu)
	w.nothing(w.channel)
	if len(c.got) != 1 {
		t.Errorf("commands %+v", c.got)
	}
}

func TestCheck(t *testing.T) {
	w := newWorld(t)
	failing := func() (out []string) {
		b := w.make()
		defer b.rest.http.CloseIdleConnections()
		for _, f := range b.Check(t.Context()) {
			if f.OK != (f.Fix == "") || f.Detail == "" || strings.Contains(f.Fix, "\n") {
				t.Errorf("%+v", f)
			}
			if !f.OK {
				out = append(out, f.What)
			}
		}
		return out
	}
	if got := failing(); got != nil {
		t.Errorf("nothing is wrong: %v", got)
	}
	w.change = func(c *Config) { c.Now = func() time.Time { return time.Now().Add(-time.Minute) } }
	if got := failing(); !slices.Equal(got, []string{"discord clock"}) {
		t.Errorf("%v", got)
	}
	w.change = nil
	w.PortalIntents = 0
	w.SetRole(w.guild, w.guild, fakediscord.ViewChannel)
	if got := failing(); !slices.Equal(got, []string{"discord intents", "discord server guild"}) {
		t.Errorf("%v", got)
	}
	w.change = func(c *Config) { c.Token = "wrong" }
	if got := failing(); !slices.Equal(got, []string{"discord token"}) {
		t.Errorf("%v", got)
	}
	w.change = func(c *Config) { c.APIURL = "http://127.0.0.1:1/api" }
	if got := failing(); !slices.Equal(got, []string{"discord API"}) {
		t.Errorf("%v", got)
	}
}

// A command is acknowledged within its 3 s though Discord is slow to say who
// owns the agent, or says that everything has to wait; and an owner is not told
// that they own nothing because it can't be established.
func TestCommandIsAcknowledgedInTime(t *testing.T) {
	w := newWorld(t)
	c := &commander{say: "all is well"}
	w.change = func(k *Config) { k.Commander = c }
	w.run()
	w.until("registered", func() bool { return len(w.Commands()) > 0 })
	forget := func() {
		w.bot.identity.asking <- struct{}{}
		w.bot.identity.app = ""
		<-w.bot.identity.asking
	}
	var broken atomic.Bool
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if broken.Load() && strings.HasSuffix(r.URL.Path, "/applications/@me") {
			rw.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	forget()
	w.bot.identity.asking <- struct{}{} // somebody asks, and has no answer yet
	owner, guest := w.Interact(w.channel, w.Owner, "status"), w.Interact(w.channel, w.alice, "status")
	acked := func(i *fakediscord.Interaction) bool { return w.Acknowledged(i) }
	w.until("both are acknowledged", func() bool { return acked(owner) && acked(guest) })
	<-w.bot.identity.asking
	w.answered(owner)
	w.answered(guest)
	if owner.Content != "all is well" || guest.Content != ownersOnly || !guest.Ephemeral || !owner.Quiet || !guest.Quiet || len(c.got) != 1 {
		t.Errorf("%+v, %+v, ran %d times", owner, guest, len(c.got))
	}
	broken.Store(true)
	forget()
	doubt := w.Interact(w.channel, w.Owner, "status")
	w.answered(doubt)
	if doubt.Content == ownersOnly || !strings.Contains(doubt.Content, "try again") || len(c.got) != 1 {
		t.Errorf("in doubt: %+v", doubt)
	}
	broken.Store(false)
	if _, err := w.bot.identity.owner(t.Context(), w.Owner); err != nil {
		t.Fatal(err)
	}
	w.bot.rest.hold("", time.Hour)
	i := w.Interact(w.channel, w.Owner, "status")
	w.answered(i)
	if i.Content != "all is well" {
		t.Errorf("while everything waits: %+v", i)
	}
}

// The answer to an acknowledgement is lost: it is tried again, and is there.
func TestLostAnswerOfAnAcknowledgement(t *testing.T) {
	w := newWorld(t)
	c := &commander{say: "all is well"}
	w.change = func(k *Config) { k.Commander = c }
	var lost atomic.Bool
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if lost.Load() || !strings.HasSuffix(r.URL.Path, "/callback") {
			return false
		}
		lost.Store(true)
		w.Answer(httptest.NewRecorder(), r)
		rw.WriteHeader(http.StatusBadGateway)
		return true
	})
	w.run()
	i := w.Interact(w.channel, w.Owner, "status")
	w.answered(i)
	if i.Content != "all is well" || !lost.Load() {
		t.Errorf("%+v", i)
	}
}
