package discord

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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
	wait time.Duration
}

func (c *commander) Command(_ context.Context, cmd chat.Command) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	time.Sleep(c.wait)
	c.got = append(c.got, cmd)
	return c.say, c.fail
}

func (w *world) answered(i *fakediscord.Interaction) {
	w.t.Helper()
	select {
	case <-i.Done:
	case <-time.After(10 * time.Second):
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
		{"forget", []string{"target", "https://discord.com/channels/@me/1/2"}, []string{"https://discord.com/channels/@me/1/2"}}, // another channel's
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
	if !guest.Ephemeral || strings.Contains(guest.Content, "\n") || !strings.Contains(guest.Content, "owner") || len(c.got) != ran {
		t.Errorf("a guest: %+v", guest)
	}
	if !strings.Contains(w.log.String(), "refused") || !strings.Contains(w.log.String(), w.alice) {
		t.Error("a guest's command was not logged")
	}
	c.mu.Lock()
	c.fail, c.wait = errors.New("secret detail"), time.Second
	c.mu.Unlock()
	i := w.Interact(w.channel, w.Owner, "doctor")
	w.answered(i)
	if strings.Contains(i.Content, "secret") || i.Acked.Sub(i.At) > time.Second {
		t.Errorf("a failure: %+v", i)
	}
	c.mu.Lock()
	c.fail, c.wait, c.say = nil, 0, strings.Repeat("a long line\n", 400)
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
