package offline

import (
	"context"
	"strings"
	"testing"

	"sightline/agent"
)

// A document is read through its tool, quoted, and nothing is claimed of it.
func TestQuotesDocuments(t *testing.T) {
	m := New(Config{})
	const id = "att_00000000000000000000000001"
	tools := []agent.ToolSpec{{Name: listDocuments}, {Name: viewImages}, {Name: readDocument}}
	ask := func(messages ...agent.Message) agent.Message {
		t.Helper()
		r, err := m.Generate(context.Background(), agent.ModelRequest{Tools: tools, Messages: messages}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Message
	}
	posted := agent.Message{Role: agent.RoleUser, Text: "what does it say?\n\n[PDF #1: offer.pdf (" + id + ")]"}
	call := ask(posted)
	if len(call.Calls) != 1 || call.Calls[0].Name != readDocument || call.Calls[0].Arguments != `{"attachment_id":"`+id+`"}` {
		t.Fatalf("%+v", call)
	}
	answer := func(body string) string {
		return ask(posted, call, agent.Message{Role: agent.RoleTool, CallID: call.Calls[0].ID, Text: body}).Text
	}
	got := answer(`{"id":"` + id + `","kind":"pdf","unit":"page","total":3,"text":"Total: 93.20\nThanks","end":"page 1 of 3; continue with pages=2","pages_without_text":[2]}`)
	contains(t, got, "offer.pdf", "3 pages", "> Total: 93.20\n> Thanks", "continue with pages=2", "Pages without text: 2")
	contains(t, answer(`{"error":"This PDF is protected by a password, so it cannot be read."}`), "protected by a password")
	contains(t, answer(`{"id":"`+id+`","text":"`+strings.Repeat("x", 4000)+`"}`), "[...]")
	contains(t, answer(`[]`), "can't be read")

	// Later, by its name.
	list := agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c", Name: listDocuments, Arguments: `{}`}}}
	page := agent.Message{Role: agent.RoleTool, CallID: "c", Text: `{"documents":[{"id":"` + id + `","ordinal":1,"name":"offer.pdf","type":"application/pdf","state":"available"}],"total":1,"next":0}`}
	later := ask(posted, agent.Message{Role: agent.RoleAssistant, Text: "hm"}, agent.Message{Role: agent.RoleUser, Text: "read offer.pdf again"}, list, page)
	if len(later.Calls) != 1 || later.Calls[0].Name != readDocument {
		t.Errorf("%+v", later)
	}
	tools = tools[:2]
	contains(t, ask(posted).Text, "Nothing of what is attached was shown")
}
