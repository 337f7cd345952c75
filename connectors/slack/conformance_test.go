package slack

import (
	"encoding/json"
	"html"
	"strings"
	"testing"

	"sightline/connectors/chat"
	"sightline/connectors/connectortest"
	"sightline/tests/fakeslack"
)

func TestConnectorRules(t *testing.T) {
	connectortest.Run(t, func(t *testing.T) connectortest.Harness {
		s := open(t, nil).run()
		// A thread for each place: what is sent into one is in one conversation.
		var roots [2]fakeslack.Message
		for n, c := range []string{"C1", "C2"} {
			roots[n] = s.post(fakeslack.Message{Channel: c, User: "U1", Text: mention("hello")})
			s.event()
		}
		return connectortest.Harness{
			Agent: agent, Source: s.Bot, Visibility: s.Bot, Post: s.Post, Drafts: s.Bot,
			Send: func(place int, text string, files ...connectortest.Upload) chat.Event {
				t.Helper()
				m := fakeslack.Message{Channel: roots[place].Channel, ThreadTS: roots[place].TS, User: "U1", Text: text}
				for _, f := range files {
					m.Files = append(m.Files, s.fake.Upload(f.Name, "application/octet-stream", f.Data))
				}
				s.post(m)
				return s.event()
			},
			Delete: func(e chat.Event) {
				t.Helper()
				s.must(s.fake.Delete(e.Place.Channel, e.Message.NativeID))
				if d := s.event(); d.Kind != chat.MessageDeleted {
					t.Fatalf("not a deletion: %+v", d)
				}
			},
			Said: func(p chat.Place) []string { return s.said(p) },
			Shown: func(p chat.Place) (files []connectortest.Upload) {
				for _, m := range s.fake.Messages(p.Channel, p.Thread) {
					for _, f := range m.Files {
						if m.User == fakeslack.BotUser {
							files = append(files, connectortest.Upload{Name: f.Title, Data: f.Data})
						}
					}
				}
				return files
			},
			Forget: func() { s.posts, s.streams = newPosts(100), newStreams(100) },
		}
	})
}

// said is what a reader reads: Slack shows markdown blocks with their escapes
// undone, and a joiner has no width.
func (s *setup) said(p chat.Place) (out []string) {
	s.t.Helper()
	for _, m := range s.fake.Messages(p.Channel, p.Thread) {
		if m.User != fakeslack.BotUser || len(m.Files) > 0 {
			continue
		}
		var blocks []struct{ Type, Text string }
		if len(m.Blocks) == 0 { // a stream's text is markdown by itself
			out = append(out, html.UnescapeString(strings.ReplaceAll(m.Text, joiner, "")))
			continue
		}
		if err := json.Unmarshal(m.Blocks, &blocks); err != nil || len(blocks) != 1 || blocks[0].Type != "markdown" {
			s.t.Fatalf("not one markdown block: %s", m.Blocks)
		}
		out = append(out, html.UnescapeString(strings.ReplaceAll(blocks[0].Text, joiner, "")))
	}
	return out
}
