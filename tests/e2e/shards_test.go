package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sightline/tests/fakediscord"
)

// A bot in more servers than one session may have: the program opens as many
// as Discord recommends, at its pace, and every message is answered once, the
// direct one too; so is what was said while the program was down.
func TestShards(t *testing.T) {
	s := fakediscord.New(t)
	s.Shards, s.IdentifyWindow = 2, 4900*time.Millisecond
	ann := s.AddUser("ann")
	places := []string{s.AddChannel(s.AddGuildOn(0, 2, ann)), s.AddChannel(s.AddGuildOn(1, 2, ann)), s.AddDM(ann)}
	said := func() (out []string) {
		for _, c := range places {
			for _, m := range s.Said(c) {
				out = append(out, m.Content)
			}
		}
		return out
	}
	_, env := fake(t, answersTags(said))
	env = append(env, "DISCORD_TOKEN="+s.Token, "DISCORD_API_URL="+s.URL)
	dir := home(t)
	p := start(t, dir, env...)
	if n := s.Sessions(); n[0] != 1 || n[1] != 1 {
		t.Fatalf("ready with the sessions %v", n)
	}
	round := func(n int) {
		for i, c := range places {
			s.Post(c, ann, fakediscord.Draft{Text: fmt.Sprintf("<@%s> #%d.v1", s.Bot.ID, 10*n+i)})
		}
	}
	want := func(n int) {
		t.Helper()
		for i, c := range places {
			text := fmt.Sprintf("answers #%d.v1 with 0 pictures", 10*n+i)
			said := func() (out []string) {
				for _, m := range s.Said(c) {
					out = append(out, m.Content)
				}
				return out
			}
			wait(t, text, func() bool { return slices.Contains(said(), text) })
			if got := said(); len(got) != n {
				t.Errorf("place %d: %q", i, got)
			}
		}
	}
	round(1)
	want(1)
	p.Stop()
	round(2)
	time.Sleep(s.IdentifyWindow) // a process that starts knows nothing of the one before
	start(t, dir, env...)
	want(2)
	if v := s.Violations(); len(v) > 0 {
		t.Errorf("the platform complains: %v", v)
	}
}
