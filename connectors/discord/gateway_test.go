package discord

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestFatalCloseCodes(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(*world)
		code  int
	}{
		"a token that REST refuses": {func(w *world) { w.change = func(c *Config) { c.Token = "wrong" } }, 401},
		"no MESSAGE_CONTENT":        {func(w *world) { w.PortalIntents = 0 }, 4014},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			c.spoil(w)
			w.start()
			select {
			case err := <-w.ended:
				var f *FatalError
				if !errors.As(err, &f) || f.Code != c.code || f.Fix == "" {
					t.Errorf("%v", err)
				}
				w.ended <- nil
			case <-time.After(patience):
				t.Errorf("it goes on trying\n%s", w.log)
			}
		})
	}
	for code := range fatalCodes {
		if f := fatal(fmt.Errorf("websocket: close %d: x", code)); f == nil || f.Code != code {
			t.Errorf("%d: %v", code, f)
		}
	}
	if fatal(errors.New("websocket: close 1006 (abnormal closure)")) != nil {
		t.Error("1006 is not fatal")
	}
}

// The intent is taken away while the bot runs: the session ends, and what is
// wrong shows at the next identification.
func TestFatalLater(t *testing.T) {
	w := newWorld(t).run()
	w.Grant(0)
	w.Forget()
	select {
	case err := <-w.ended:
		var f *FatalError
		if !errors.As(err, &f) || f.Code != 4014 {
			t.Errorf("%v", err)
		}
		w.ended <- nil
	case <-time.After(patience):
		t.Errorf("it goes on trying\n%s", w.log)
	}
}

// Whatever happens to the connection, every message comes, once.
func TestNothingIsLostAcrossConnections(t *testing.T) {
	w := newWorld(t)
	dm := w.AddDM(w.alice)
	w.run()
	say := func(channel, text string, quiet bool) string {
		return w.Post(channel, w.alice, draft{Text: w.at() + " " + text, Quiet: quiet}).ID
	}
	expect := func(what string, ids ...string) {
		t.Helper()
		left := map[string]bool{}
		for _, id := range ids {
			left[id] = true
		}
		for range ids {
			e := w.next()
			if !left[e.Message.NativeID] {
				t.Fatalf("%s: unexpected %+v", what, e)
			}
			delete(left, e.Message.NativeID)
		}
	}
	connects := func() int { n, _, _ := w.Connections(); return n }
	expect("before", say(w.channel, "1", false), say(dm, "1", false))
	for what, cut := range map[string]func(){
		"a drop": w.Drop, "op 7": w.Reconnect, "a forgotten session": w.Forget,
		"a close code": func() { w.Close(4000, "unknown error") },
	} {
		n := connects()
		cut()
		// Said while nobody listens.
		a, b := say(w.channel, what, false), say(dm, what, false)
		expect(what, a, b)
		w.until("connected again", func() bool { return connects() > n })
		expect(what+", after", say(w.channel, "after", false))
	}
	// Missed entirely: history alone knows it.
	c := say(w.channel, "quiet", true)
	late := w.AddChannel(w.guild)
	d := say(late, "in a channel that came meanwhile", true)
	w.Forget()
	expect("missed", c, d)
	w.nothing(w.channel)
}

func TestMissedWhileDown(t *testing.T) {
	w := newWorld(t)
	before := w.Post(w.channel, w.alice, draft{Text: w.at() + " before the bot came"})
	w.run()
	w.nothing(w.channel) // what was said before is not its business
	w.stop()
	var ids []string
	for range 230 {
		ids = append(ids, w.Post(w.channel, w.alice, draft{Text: w.at() + " while down"}).ID)
	}
	w.run()
	for _, id := range ids {
		if e := w.next(); e.Message.NativeID != id {
			t.Fatalf("%s, want %s (before: %s)", e.Message.NativeID, id, before.ID)
		}
	}
	w.nothing(w.channel)
}

// discordgo waits for its own lock when it is told to reconnect while it
// opens. The Session is replaced.
func TestStuckSessionIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.openTimeout = 300 * time.Millisecond
	w.ReconnectAtHello(2)
	stuckSessions += 2 * 2 // the goroutine and its connection's
	w.run()
	w.nothing(w.channel)
}

func TestStopWhileOpening(t *testing.T) {
	w := newWorld(t)
	b := w.make()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err != nil {
		t.Errorf("%v", err)
	}
}

func TestConfig(t *testing.T) {
	good := Config{Agent: agent, Token: "t"}
	for what, change := range map[string]func(*Config){
		"no agent": func(c *Config) { c.Agent = "" }, "no token": func(c *Config) { c.Token = " " },
		"two tokens": func(c *Config) { c.Token = "a b" }, "a name as owner": func(c *Config) { c.Owners = []string{"alice"} },
		"plain HTTP": func(c *Config) { c.APIURL = "http://example.com/api" }, "no URL": func(c *Config) { c.APIURL = "discord" },
		"a query": func(c *Config) { c.APIURL = "https://discord.com/api?x" },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	for _, u := range []string{"", "https://discord.com/api/", "http://127.0.0.1:9/api", "http://[::1]:9/api", "http://localhost/api"} {
		c := good
		c.APIURL = u
		if _, err := New(c); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
	b, err := New(good)
	if err != nil || b.Run(t.Context()) == nil {
		t.Error("runs without a sink")
	}
}
