package discord

import (
	"testing"

	"sightline/connectors/chat"
	"sightline/connectors/connectortest"
	"sightline/tests/fakediscord"
)

func TestConnectorRules(t *testing.T) {
	connectortest.Run(t, func(t *testing.T) connectortest.Harness {
		w := newWorld(t)
		places := [2]string{w.channel, w.AddChannel(w.guild)}
		w.run()
		return connectortest.Harness{
			Agent: agent, Source: w.bot, Visibility: w.bot, Post: w.bot.Post, Drafts: w.bot,
			Send: func(place int, text string, files ...connectortest.Upload) chat.Event {
				t.Helper()
				d := fakediscord.Draft{Text: w.at() + " " + text}
				for _, f := range files {
					d.Files = append(d.Files, fakediscord.File{Name: f.Name, Type: "application/octet-stream", Data: f.Data})
				}
				w.Post(places[place], w.alice, d)
				return w.next()
			},
			Delete: func(e chat.Event) {
				t.Helper()
				w.Delete(fakediscord.Message{ID: e.Message.NativeID, ChannelID: e.Place.Channel})
				w.next()
			},
			Said: func(p chat.Place) (texts []string) {
				for _, m := range w.Said(p.Channel) {
					texts = append(texts, m.Content)
				}
				return texts
			},
			Shown: func(p chat.Place) (files []connectortest.Upload) {
				for _, m := range w.Said(p.Channel) {
					for _, a := range m.Attachments {
						files = append(files, connectortest.Upload{Name: a.Filename, Data: w.Data(a)})
					}
				}
				return files
			},
			Forget: func() { w.bot.posts = posts{} },
		}
	})
}
