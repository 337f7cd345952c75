package web

import (
	"bytes"
	"testing"

	"sightline/connectors/chat"
	"sightline/connectors/connectortest"
)

func TestConnectorRules(t *testing.T) {
	connectortest.Run(t, func(t *testing.T) connectortest.Harness {
		s := open(t)
		var apis [2]string
		for i, name := range []string{"first", "second"} {
			_, apis[i] = s.conv(name)
		}
		return connectortest.Harness{
			Agent: agent, Source: s.Place, Visibility: s.Place, Post: s.Post,
			Send: func(place int, text string, files ...connectortest.Upload) chat.Event {
				t.Helper()
				var ids []string
				for _, f := range files {
					a := s.do("POST", apis[place]+"/uploads", bytes.NewReader(f.Data), "X-File-Name", f.Name)
					var u uploadJSON
					a.into(t, &u)
					ids = append(ids, u.ID)
				}
				s.sent(apis[place], NewKey(), text, ids...)
				return <-s.sink.got
			},
			Delete: func(e chat.Event) {
				t.Helper()
				if a := s.do("DELETE", "/api/conversations/"+e.Place.Channel+"/messages/"+e.Message.NativeID, nil); a.status != 204 {
					t.Fatalf("delete: %d", a.status)
				}
				<-s.sink.got
			},
			Said: func(p chat.Place) (texts []string) {
				t.Helper()
				list, err := s.db.messages(t.Context(), p.Channel, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range list {
					if m.Kind != kindPerson {
						texts = append(texts, m.Text)
					}
				}
				return texts
			},
			Shown: func(p chat.Place) (files []connectortest.Upload) {
				t.Helper()
				list, err := s.db.messages(t.Context(), p.Channel, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range list {
					for _, u := range m.Uploads {
						if m.Kind != kindPerson {
							// As the conversation's owner gets it.
							files = append(files, connectortest.Upload{Name: u.Name, Data: []byte(s.do("GET", "/uploads/"+u.ID, nil).body)})
						}
					}
				}
				return files
			},
			Forget: func() {}, // it remembers nothing but its rows
		}
	})
}
