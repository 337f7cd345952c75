package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
	"sightline/tests/fakeslack"
)

var listed = regexp.MustCompile(`att_[0-9a-z]{26}`)

// A picture that was posted to other people, one message before the agent is
// called in the same channel, is found and seen. On Slack the answer is in the
// thread below the mention, and the picture in the channel above it.
func TestPictureBesideTheAgent(t *testing.T) {
	shot, pix := noise(t, 90, 60, 5)
	for name, make := range map[string]func(*testing.T) (env []string, post func(text string, files ...file), said func() []string){
		"discord": func(t *testing.T) ([]string, func(string, ...file), func() []string) {
			s := fakediscord.New(t)
			ann := s.AddUser("ann")
			channel := s.AddChannel(s.AddGuild(ann))
			return []string{"DISCORD_TOKEN=" + s.Token, "DISCORD_API_URL=" + s.URL}, func(text string, files ...file) {
					d := fakediscord.Draft{Text: strings.ReplaceAll(text, "@agent", "<@"+s.Bot.ID+">")}
					for _, f := range files {
						d.Files = append(d.Files, fakediscord.File{Name: f.name, Type: "image/png", Data: f.data})
					}
					s.Post(channel, ann, d)
				}, func() (out []string) {
					for _, m := range s.Said(channel) {
						out = append(out, m.Content)
					}
					return out
				}
		},
		"slack": func(t *testing.T) ([]string, func(string, ...file), func() []string) {
			s, err := fakeslack.Start()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			s.AddChannel(fakeslack.Channel{ID: "C1", IsChannel: true, Members: []string{"U1", fakeslack.BotUser}})
			return []string{"SLACK_BOT_TOKEN=" + fakeslack.BotToken, "SLACK_APP_TOKEN=" + fakeslack.AppToken, "SLACK_API_URL=" + s.URL()},
				func(text string, files ...file) {
					m := fakeslack.Message{Channel: "C1", User: "U1", Text: strings.ReplaceAll(text, "@agent", "<@"+fakeslack.BotUser+">")}
					for _, f := range files {
						m.Files = append(m.Files, s.Upload(f.name, "image/png", f.data))
					}
					if _, err := s.Post(m); err != nil {
						t.Fatal(err)
					}
				}, func() (out []string) {
					for _, m := range s.Messages("C1", "") {
						if m.User == fakeslack.BotUser {
							out = append(out, m.Text)
						}
					}
					return out
				}
		},
	} {
		t.Run(name, func(t *testing.T) {
			env, post, said := make(t)
			m, modelEnv := fake(t, func(r fakemodel.Request) fakemodel.Reply {
				switch {
				case strings.Contains(r.Last("tool"), `"selected"`):
					return fakemodel.Reply{Text: "seen"}
				case strings.Contains(r.Last("tool"), `"total"`):
					return calls("view_images", fmt.Sprintf(`{"ids":[%q]}`, listed.FindString(r.Last("tool"))))(r)
				}
				return calls("list_documents", `{}`)(r)
			})
			start(t, home(t), append(modelEnv, env...)...)
			post("look, everybody", file{"beside.png", shot})
			post("@agent what did I just post?")
			wait(t, "an answer", func() bool { return slices.Contains(said(), "seen") })
			r := m.Requests()
			if last := r[len(r)-1]; len(last.Pictures) != 1 || !samePixels(last.Pictures[0].Image, pix) {
				t.Errorf("%d pictures, or another one: %s", len(last.Pictures), last.Last("tool"))
			}
			if len(said()) != 1 {
				t.Errorf("said %q", said())
			}
		})
	}
}
