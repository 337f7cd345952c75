package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
	"sightline/tests/fakeslack"
)

// stage is a conversation in which answers are shown while they are made.
type stage struct {
	name string
	env  []string
	// say posts as a person, to the agent; it answers what deletes the message.
	say func(text string, files ...file) (remove func())
	// stop is what an owner does to end an answer.
	stop     func()
	said     func() []string // the agent's own words, as they are now
	versions func() []string // all that they ever were
	faults   func() []string
}

func discordStage(t *testing.T) stage {
	s := fakediscord.New(t)
	ann := s.AddUser("ann")
	channel := s.AddChannel(s.AddGuild(ann))
	return stage{
		name: "discord",
		env:  []string{"DISCORD_TOKEN=" + s.Token, "DISCORD_API_URL=" + s.URL, "SIGHTLINE_OWNERS=discord:" + ann},
		say: func(text string, files ...file) func() {
			d := fakediscord.Draft{Text: "<@" + s.Bot.ID + "> " + text}
			for _, f := range files {
				d.Files = append(d.Files, fakediscord.File{Name: f.name, Type: "image/png", Data: f.data})
			}
			m := s.Post(channel, ann, d)
			return func() { s.Delete(m) }
		},
		stop: func() { s.Interact(channel, ann, "stop") },
		said: func() (out []string) {
			for _, m := range s.Said(channel) {
				out = append(out, m.Content)
			}
			return out
		},
		versions: func() []string { return s.Versions(channel) },
		faults:   s.Violations,
	}
}

// slackStage is a thread, where Slack streams, or a direct message, where the
// draft is edited.
func slackStage(t *testing.T, stream bool) stage {
	s, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	members := []string{"U1", fakeslack.BotUser}
	s.AddChannel(fakeslack.Channel{ID: "C1", IsChannel: true, Members: members})
	s.AddChannel(fakeslack.Channel{ID: "D1", IsIM: true, User: "U1", Members: members})
	channel, thread, call := "D1", "", ""
	if stream {
		root := s.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: "an old thread"})
		channel, thread, call = "C1", root.TS, "<@"+fakeslack.BotUser+"> "
	}
	post := func(text string, files ...file) func() {
		m := fakeslack.Message{Channel: channel, ThreadTS: thread, User: "U1", Text: call + text}
		for _, f := range files {
			m.Files = append(m.Files, s.Upload(f.name, "image/png", f.data))
		}
		m, err := s.Post(m)
		if err != nil {
			t.Fatal(err)
		}
		return func() { _ = s.Delete(m.Channel, m.TS) }
	}
	return stage{
		name: map[bool]string{true: "slack stream", false: "slack edits"}[stream],
		env: []string{"SLACK_BOT_TOKEN=" + fakeslack.BotToken, "SLACK_APP_TOKEN=" + fakeslack.AppToken, "SLACK_API_URL=" + s.URL(),
			"SIGHTLINE_OWNERS=slack:" + fakeslack.Team + "/U1"},
		say:  post,
		stop: func() { post("stop") },
		said: func() (out []string) {
			for _, m := range s.Messages(channel, thread) {
				if m.User == fakeslack.BotUser {
					out = append(out, m.Text)
				}
			}
			return out
		},
		versions: func() []string { return s.Versions(channel) },
		faults: func() (out []string) {
			if n := len(s.Calls("chat.startStream")); (n > 0) != stream {
				out = append(out, fmt.Sprintf("%d streams were started", n))
			}
			return out
		},
	}
}

var stages = map[string]func(*testing.T) stage{
	"discord":      discordStage,
	"slack stream": func(t *testing.T) stage { return slackStage(t, true) },
	"slack edits":  func(t *testing.T) stage { return slackStage(t, false) },
}

const slowAnswer = "one two three four five six seven eight nine ten eleven twelve"

// slowly is a model that takes about five seconds for its words.
func slowly(text string) func(fakemodel.Request) fakemodel.Reply {
	return func(fakemodel.Request) fakemodel.Reply {
		return fakemodel.Reply{Text: text, Pace: 5 * time.Second / time.Duration(strings.Count(text, " ")+1)}
	}
}

// endlessly is a model that talks on until nobody listens: however long a draft
// takes to be shown, there are words for the next one.
func endlessly() func(fakemodel.Request) fakemodel.Reply {
	return func(fakemodel.Request) fakemodel.Reply {
		return fakemodel.Reply{Text: strings.Repeat(slowAnswer+" ", 1000), Pace: 400 * time.Millisecond}
	}
}

// reined is slowly, but keeps each of these words, and what is after it, back
// until it is let go: however slow the machine is, what was said before is shown.
func reined(t *testing.T, text string, words ...int) (model func(fakemodel.Request) fakemodel.Reply, release []func()) {
	t.Helper()
	kept := map[int]chan struct{}{}
	for _, w := range words {
		c := make(chan struct{})
		kept[w] = c
		release = append(release, sync.OnceFunc(func() { close(c) }))
		t.Cleanup(release[len(release)-1])
	}
	return func(r fakemodel.Request) fakemodel.Reply {
		a := slowly(text)(r)
		a.Before = func(word int) {
			if c := kept[word]; c != nil {
				<-c
			}
		}
		return a
	}, release
}

// most is how many versions there may be of an answer that took so long: one
// after a second and a half, one every 1.2 s from then on, and the last.
func most(took time.Duration) int {
	return max(6, 2+int((took-1500*time.Millisecond)/(1200*time.Millisecond)))
}

// drafted waits until some of the answer is shown, and not yet all.
func (s stage) drafted(t *testing.T, before int) {
	t.Helper()
	wait(t, s.name+": a draft", func() bool {
		said := s.said()
		return len(said) == before+1 && said[before] != "" && strings.HasPrefix(slowAnswer, said[before]) && said[before] != slowAnswer
	})
}

// settled waits for exactly these words of the agent's, and that they stay.
func (s stage) settled(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) && !slices.Equal(s.said(), want) {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	if said := s.said(); !slices.Equal(said, want) {
		t.Fatalf("%s: said %q, want %q", s.name, said, want)
	}
}

// An answer that takes its time is shown as it grows, in the message that
// becomes it; a quick one is posted once; and an operator can have neither.
func TestDraftsGrowIntoTheReply(t *testing.T) {
	for name, make := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := make(t)
			model, release := reined(t, slowAnswer, 6, 9)
			m, env := fake(t, model)
			dir := home(t)
			env = append(env, s.env...)
			p := start(t, dir, env...)
			s.say("a slow one")
			began := time.Now()
			s.drafted(t, 0)
			release[0]()
			wait(t, s.name+": the draft grows", func() bool { said := s.said(); return len(said) == 1 && strings.Contains(said[0], "eight") })
			release[1]()
			s.settled(t, slowAnswer)
			versions := s.versions()
			if n, took := len(versions), time.Since(began); n < 3 || n > most(took) {
				t.Errorf("%d versions in %v: %q", n, took, versions)
			}
			for i, v := range versions {
				if !strings.HasPrefix(slowAnswer, v) || i > 0 && len(v) < len(versions[i-1]) {
					t.Errorf("version %d is %q", i, v)
				}
			}
			m.Answer(says("quick"))
			s.say("a quick one")
			s.settled(t, slowAnswer, "quick")
			if n := len(s.versions()); n != len(versions)+1 {
				t.Errorf("a quick answer has %d versions", n-len(versions))
			}
			if f := s.faults(); len(f) > 0 {
				t.Errorf("the platform complains: %v", f)
			}
			p.Stop()
			start(t, dir, append(env, "SIGHTLINE_DRAFTS=off")...)
			m.Answer(slowly(slowAnswer))
			n := len(s.versions())
			s.say("another slow one")
			s.settled(t, slowAnswer, "quick", slowAnswer)
			if got := len(s.versions()) - n; got != 1 {
				t.Errorf("with drafts off: %d versions", got)
			}
		})
	}
}

// Killed with a draft out, or half out: one message, the whole answer.
func TestDraftsSurviveKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes: each kill costs a heartbeat timeout")
	}
	for name, make := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := make(t)
			m, env := fake(t, says("unused"))
			dir := home(t)
			env = append(env, s.env...)
			var want []string
			for _, kill := range []struct {
				boundary string
				again    func(fakemodel.Request) fakemodel.Reply // what the model does after the restart
			}{
				{"draft.intended", says(slowAnswer)},
				{"draft.shown", slowly(slowAnswer)}, // the next edit finds it
				{"draft.shown", says(slowAnswer)},   // the post finds it
				{"draft.shown#3", says(slowAnswer)},
				{"post.sent", nil},
			} {
				boundary := kill.boundary
				m.Answer(endlessly())
				if boundary == "post.sent" {
					m.Answer(slowly(slowAnswer))
				}
				p := start(t, dir, append(env, crashVar+"="+boundary)...)
				s.say("killed at " + boundary)
				select {
				case <-p.exited:
				case <-time.After(patience):
					t.Fatalf("%s: the process was never killed at %s", s.name, boundary)
				}
				if n := len(s.said()) - len(want); n > 1 || n < 1 && boundary != "draft.intended" {
					t.Errorf("%s: %d messages when killed at %s", s.name, n, boundary)
				}
				m.Answer(kill.again)
				p = start(t, dir, env...)
				want = append(want, slowAnswer)
				s.settled(t, want...)
				p.Stop()
			}
			if f := s.faults(); len(f) > 0 {
				t.Errorf("the platform complains: %v", f)
			}
		})
	}
}

// Law 7 for drafts: what the answer draws on is deleted while it is shown; the
// draft goes at the next word, and the reply tells nothing of it.
// And a stop, and a model that fails, leave no half answer behind.
func TestDraftsEndWithTheirTurn(t *testing.T) {
	for name, make := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := make(t)
			m, env := fake(t, says("seen"))
			dir := home(t)
			p := start(t, dir, append(env, s.env...)...)
			shot, _ := noise(t, 60, 40, 81)
			remove := s.say("look", file{"shot.png", shot})
			s.settled(t, "seen")

			model, release := reined(t, slowAnswer+" "+slowAnswer, 6)
			m.Answer(steps(views("shot.png"), model, says("made without it")))
			s.say("again")
			s.drafted(t, 1)
			remove()
			wait(t, s.name+": the deletion is known", func() bool {
				return query(t, p, `SELECT count(*)::text FROM message WHERE deleted_at IS NOT NULL`) == "1"
			})
			release[0]()
			wait(t, s.name+": the draft is withdrawn", func() bool {
				said := s.said()
				return len(said) < 2 || !strings.HasPrefix(slowAnswer, said[1])
			})
			if shown := s.versions(); slices.ContainsFunc(shown, func(v string) bool { return strings.Contains(v, "twelve one") }) {
				t.Errorf("shown after the deletion: %q", shown)
			}
			// Either nothing is answered, which is said, or the answer is made anew.
			wait(t, s.name+": the reply", func() bool {
				said := s.said()
				return len(said) == 2 && (strings.Contains(said[1], "withheld") || said[1] == "made without it")
			})
			want := s.said()

			model, _ = reined(t, slowAnswer, 6) // and never comes to its end
			m.Answer(model)
			s.say("one to be stopped")
			s.drafted(t, 2)
			s.stop()
			want = append(want, "Stopped.")
			s.settled(t, want...)

			// A wish for too many tools comes after words that are shown.
			model, release = reined(t, slowAnswer, 6)
			m.Answer(func(r fakemodel.Request) fakemodel.Reply {
				a := model(r)
				for i := range 17 {
					a.Calls = append(a.Calls, fakemodel.Call{ID: fmt.Sprint("c", i), Name: "list_documents", Arguments: "{}"})
				}
				return a
			})
			s.say("one that fails")
			s.drafted(t, 3)
			release[0]()
			wait(t, s.name+": the failure", func() bool { said := s.said(); return len(said) == 4 && strings.Contains(said[3], "too many tools") })
			time.Sleep(300 * time.Millisecond)
			if n := len(s.said()); n != 4 {
				t.Errorf("%s: said %q", s.name, s.said())
			}
		})
	}
}
