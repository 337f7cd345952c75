package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
	"sightline/tests/fakeslack"
)

// platform is what one conversation on a platform looks like from outside.
type platform struct {
	name string
	env  []string
	// say posts as a person, to the agent, in the conversation or in another
	// one; it answers what deletes the message.
	say    func(where int, text string, files ...file) (remove func())
	said   func(where int) []string // the agent's own words
	served func() int64             // bytes of files that left the platform
	faults func() []string          // what the platform would complain of
}

func discordPlatform(t *testing.T) platform {
	s := fakediscord.New(t)
	ann := s.AddUser("ann")
	guild := s.AddGuild(ann)
	places := []string{s.AddChannel(guild), s.AddChannel(guild)}
	return platform{
		name: "discord",
		env:  []string{"DISCORD_TOKEN=" + s.Token, "DISCORD_API_URL=" + s.URL, "SIGHTLINE_OWNERS=discord:" + ann},
		say: func(where int, text string, files ...file) func() {
			d := fakediscord.Draft{Text: "<@" + s.Bot.ID + "> " + text}
			for _, f := range files {
				d.Files = append(d.Files, fakediscord.File{Name: f.name, Type: "image/png", Data: f.data})
			}
			m := s.Post(places[where], ann, d)
			return func() { s.Delete(m) }
		},
		said: func(where int) (out []string) {
			for _, m := range s.Said(places[where]) {
				out = append(out, m.Content)
			}
			return out
		},
		served: s.Served, faults: s.Violations,
	}
}

func slackPlatform(t *testing.T) platform {
	s, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.AddUser(fakeslack.User{ID: "U1", Team: fakeslack.Team, Name: "ann"})
	// A direct conversation each: a mention in a channel opens a thread.
	places := []string{"D1", "D2"}
	for _, p := range places {
		s.AddChannel(fakeslack.Channel{ID: p, IsIM: true, User: "U1", Members: []string{"U1", fakeslack.BotUser}})
	}
	return platform{
		name: "slack",
		env:  []string{"SLACK_BOT_TOKEN=" + fakeslack.BotToken, "SLACK_APP_TOKEN=" + fakeslack.AppToken, "SLACK_API_URL=" + s.URL(), "SIGHTLINE_OWNERS=slack:" + fakeslack.Team + "/U1"},
		say: func(where int, text string, files ...file) func() {
			m := fakeslack.Message{Channel: places[where], User: "U1", Text: text}
			for _, f := range files {
				m.Files = append(m.Files, s.Upload(f.name, "image/png", f.data))
			}
			m, err := s.Post(m)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = s.Delete(m.Channel, m.TS) }
		},
		said: func(where int) (out []string) {
			for _, m := range s.Messages(places[where], "") {
				if m.User == fakeslack.BotUser || m.BotID == fakeslack.BotID {
					out = append(out, m.Text)
				}
			}
			return out
		},
		served: s.Served, faults: func() []string { return nil },
	}
}

// answered waits for the agent to have said exactly that, once.
func (p platform) answered(t *testing.T, where int, text string) {
	t.Helper()
	wait(t, fmt.Sprintf("%s: the answer %q among %q", p.name, text, p.said(where)), func() bool {
		return slices.ContainsFunc(p.said(where), func(s string) bool { return strings.Contains(s, text) })
	})
	n := 0
	for _, s := range p.said(where) {
		if strings.Contains(s, text) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%s: said %q %d times", p.name, text, n)
	}
}

// The main job on the platforms that it is for, through the real program and
// the platforms' real protocols.
func TestPlatforms(t *testing.T) {
	for _, make := range []func(*testing.T) platform{discordPlatform, slackPlatform} {
		pf := make(t)
		t.Run(pf.name, func(t *testing.T) { mainJob(t, pf) })
	}
}

func mainJob(t *testing.T, pf platform) {
	m, env := fake(t, says("a picture of noise"))
	dir := home(t)
	env = append(env, pf.env...)
	p := start(t, dir, env...)
	shot, shotPix := noise(t, 120, 90, 71)
	remove := pf.say(0, "what is this?", file{"shot.png", shot})
	pf.answered(t, 0, "a picture of noise")
	r := m.Requests()
	if len(r) != 1 || len(r[0].Pictures) != 1 || !samePixels(r[0].Pictures[0].Image, shotPix) {
		t.Fatalf("%d requests, the first with %d pictures\n%s", len(r), len(r[0].Pictures), r[0].System)
	}
	id := attachmentID(r[0], "shot.png")

	m.Answer(says("fine"))
	pf.say(0, "how are you?")
	pf.answered(t, 0, "fine")

	// Turns later, and the process is killed once the tool has settled.
	m.Answer(func(r fakemodel.Request) fakemodel.Reply {
		switch {
		case strings.Contains(r.Last("tool"), `"selected"`):
			return fakemodel.Reply{Text: "seen again"}
		case strings.Contains(r.Last("tool"), `"total"`):
			return views("shot.png")(r)
		}
		return calls("list_documents", `{}`)(r)
	})
	p.Stop()
	p = start(t, dir, append(env, crashVar+"=tool.settled#2")...)
	n := len(m.Requests())
	pf.say(0, "look at the first one again")
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatal("the process was never killed")
	}
	p = start(t, dir, env...)
	pf.answered(t, 0, "seen again")
	last := m.Requests()[len(m.Requests())-1]
	if len(last.Pictures) != 1 || !samePixels(last.Pictures[0].Image, shotPix) {
		t.Errorf("after the kill the request has %d pictures, or others", len(last.Pictures))
	}
	if got := len(m.Requests()) - n; got < 3 {
		t.Errorf("%d requests for that turn", got)
	}

	// Another conversation can't have it, and no byte of it moves.
	before := pf.served()
	m.Answer(steps(calls("view_images", fmt.Sprintf(`{"ids":[%q]}`, id)), says("not here")))
	pf.say(1, "show me "+id)
	pf.answered(t, 1, "not here")
	last = m.Requests()[len(m.Requests())-1]
	if !strings.Contains(last.Last("tool"), "no attachment with that ID") || len(last.Pictures) != 0 || pf.served() != before {
		t.Errorf("elsewhere: %s, %d bytes", last.Last("tool"), pf.served()-before)
	}

	// Deleted on the platform: refused, and no byte of it moves.
	remove()
	m.Answer(steps(calls("view_images", fmt.Sprintf(`{"ids":[%q]}`, id)), says("it is gone")))
	pf.say(0, "and once more")
	pf.answered(t, 0, "it is gone")
	last = m.Requests()[len(m.Requests())-1]
	if len(last.Pictures) != 0 || pf.served() != before || !strings.Contains(last.Last("tool"), `"selected":[]`) {
		t.Errorf("deleted: %s, %d pictures, %d bytes", last.Last("tool"), len(last.Pictures), pf.served()-before)
	}
	if f := pf.faults(); len(f) > 0 {
		t.Errorf("the platform complains: %v", f)
	}
	_ = p
}
