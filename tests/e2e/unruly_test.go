package e2e

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sightline/tests/fakediscord"
	"sightline/tests/fakeslack"
)

func unrulyDiscord(t *testing.T) unruly {
	s := fakediscord.New(t)
	s.IdentifyWindow = 4900 * time.Millisecond // Discord's own, less what a message takes
	s.Heartbeat = 300 * time.Millisecond       // discordgo gives a connection up after five without an answer
	var refuse atomic.Int64                    // requests for the gateway and connections that are still refused
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/gateway") || refuse.Add(-1) < 0 {
			return false
		}
		if refuse.Load()%2 == 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"message":"You are being rate limited.","retry_after":1,"global":false}`))
			return true
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	ann := s.AddUser("ann")
	guild := s.AddGuild(ann)
	places := []string{s.AddChannel(guild), s.AddChannel(guild), s.AddDM(ann), s.AddDM(s.AddUser("bob"))}
	closing := func(code int) fault { return fault{"close", func() { s.Close(code, "") }} }
	return unruly{
		name: "discord", places: len(places), ordered: true,
		env: []string{"DISCORD_TOKEN=" + s.Token, "DISCORD_API_URL=" + s.URL},
		post: func(place int, text string, late bool, files ...file) posted {
			d := fakediscord.Draft{Text: "<@" + s.Bot.ID + "> " + text, Quiet: late}
			for _, f := range files {
				d.Files = append(d.Files, fakediscord.File{Name: f.name, Type: "image/png", Data: f.data})
			}
			m := s.Post(places[place], ann, d)
			return posted{
				native: m.ID,
				edit:   func(text string) { s.Edit(m, "<@"+s.Bot.ID+"> "+text, -1) },
				remove: func() { s.Delete(m) },
				again:  func() { s.Repeat(m) },
			}
		},
		lose: func() { s.Lose(true) },
		anew: func() { s.Forget(); s.Lose(false) },
		faults: []fault{
			{"drop", s.Drop}, {"op 7", s.Reconnect}, {"forgotten", s.Forget},
			{"op 9, resumable", func() { s.Invalidate(true) }}, {"op 9", func() { s.Invalidate(false) }},
			closing(4000), closing(4007), closing(4009), closing(1001),
			{"refused", func() { refuse.Store(3); s.Drop() }}, {"refused, anew", func() { refuse.Store(4); s.Forget() }},
			{"heartbeats unanswered", func() { s.Deaf(true); time.Sleep(2 * time.Second); s.Deaf(false) }},
		},
		calm: func() { refuse.Store(0); s.Deaf(false) },
		said: func() (out []string) {
			for _, p := range places {
				for _, m := range s.Said(p) {
					out = append(out, m.Content)
				}
			}
			return out
		},
		served: s.Served, complaints: s.Violations,
	}
}

func unrulySlack(t *testing.T) unruly {
	s, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	places := []string{"C1", "C2", "D1", "D2"}
	for _, p := range places {
		c := fakeslack.Channel{ID: p, IsChannel: p[0] == 'C', IsIM: p[0] == 'D', Members: []string{"U1", fakeslack.BotUser}}
		if c.IsIM {
			c.User = "U1"
		}
		s.AddChannel(c)
	}
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	refused := func(f fakeslack.Failure) fault {
		return fault{"refused", func() { s.Fail("apps.connections.open", f); s.DropSockets() }}
	}
	return unruly{
		name: "slack", places: len(places),
		env: []string{"SLACK_BOT_TOKEN=" + fakeslack.BotToken, "SLACK_APP_TOKEN=" + fakeslack.AppToken, "SLACK_API_URL=" + s.URL()},
		post: func(place int, text string, late bool, files ...file) posted {
			m := fakeslack.Message{Channel: places[place], User: "U1", Text: "<@" + fakeslack.BotUser + "> " + text}
			for _, f := range files {
				m.Files = append(m.Files, s.Upload(f.name, "image/png", f.data))
			}
			m = s.Store(m)
			events := s.EventsOf(m)
			again := func() {
				for n := range events { // the mention first, this time
					must(s.Emit(events[len(events)-1-n]))
				}
			}
			if !late {
				for _, e := range events {
					must(s.Emit(e))
				}
			}
			return posted{
				native: m.TS, again: again,
				edit: func(text string) {
					must(s.Edit(m.Channel, m.TS, func(m *fakeslack.Message) { m.Text = "<@" + fakeslack.BotUser + "> " + text }))
				},
				remove: func() { must(s.Delete(m.Channel, m.TS)) },
			}
		},
		lose: func() { s.Lose(true) },
		anew: func() { s.Lose(false); s.DropSockets() },
		faults: []fault{
			{"drop", s.DropSockets}, {"refresh", func() { s.Disconnect("refresh_requested") }}, {"warning", func() { s.Disconnect("warning") }},
			{"cut before the ack", func() { s.CutAfterNext(2) }}, {"no link", func() { s.RefuseLinks(3); s.DropSockets() }},
			refused(fakeslack.Failure{Status: 503, Times: 3}), refused(fakeslack.Failure{Status: 429, RetryAfter: 1, Times: 2}),
			refused(fakeslack.Failure{Code: "internal_error", Times: 2}),
			{"every event twice", func() { s.Double(true); time.Sleep(time.Second); s.Double(false) }},
			{"no pings", func() { s.Mute(true); time.Sleep(2 * time.Second); s.Mute(false) }},
		},
		calm: func() {
			s.Fail("apps.connections.open", fakeslack.Failure{})
			s.RefuseLinks(0)
			s.CutAfterNext(0)
			s.Mute(false)
		},
		said: func() (out []string) {
			for _, p := range places {
				for _, m := range s.Messages(p, "") {
					if m.User == fakeslack.BotUser {
						out = append(out, m.Text)
					}
				}
			}
			return out
		},
		served: s.Served, complaints: func() []string { return nil },
	}
}
