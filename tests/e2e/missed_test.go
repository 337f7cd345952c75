package e2e

import (
	"net/http"
	"testing"
	"time"

	"sightline/tests/fakeslack"
)

// The agent is called while its connection is lost, and the process is killed
// after a newer call of the same channel was answered and before the channel's
// history could be read: the next process answers the one that was missed.
func TestMissedBeforeAKill(t *testing.T) {
	s, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.AddUser(fakeslack.User{ID: "U1", Team: fakeslack.Team, Name: "ann"})
	s.AddChannel(fakeslack.Channel{ID: "C1", IsChannel: true, Members: []string{"U1", fakeslack.BotUser}})
	call := func(name string) dialog { // each in a thread of its own
		root, err := s.Post(fakeslack.Message{Channel: "C1", User: "U1", Text: "<@" + fakeslack.BotUser + "> question " + name + "."})
		if err != nil {
			t.Fatal(err)
		}
		return dialog{said: func() (out []string) {
			for _, m := range s.Messages("C1", root.TS) {
				if m.User == fakeslack.BotUser {
					out = append(out, m.Text)
				}
			}
			return out
		}}
	}
	_, env := fake(t, (&gate{}).answer)
	env = append(env, "SLACK_BOT_TOKEN="+fakeslack.BotToken, "SLACK_APP_TOKEN="+fakeslack.AppToken, "SLACK_API_URL="+s.URL())
	dir := home(t)
	p := start(t, dir, env...)
	one := call("one")
	expectOne(t, one, "one")

	s.Lose(true)
	two := call("two")
	s.Lose(false)
	s.Pass(10 * time.Minute) // longer than what is read again before a mark
	s.Fail("conversations.history", fakeslack.Failure{Status: http.StatusServiceUnavailable, Times: 1 << 20})
	hellos := s.Hellos()
	s.DropSockets()
	wait(t, "both connections again", func() bool { return s.Hellos() >= hellos+2 })
	three := call("three")
	expectOne(t, three, "three")
	p.Kill()
	if said := two.said(); len(said) > 0 {
		t.Fatalf("it was not missed: %q", said)
	}

	s.Fail("conversations.history", fakeslack.Failure{})
	start(t, dir, env...)
	expectOne(t, two, "two")
	expectOne(t, one, "one")
	expectOne(t, three, "three")
}
