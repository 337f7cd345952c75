package e2e

import (
	"strings"

	"sightline/tests/fakemodel"
)

// scripted is a model that looks at its own picture, lists, looks at an older
// one, and answers. What it does follows from the transcript alone.
func scripted(r fakemodel.Request) fakemodel.Reply {
	tools := 0
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "assistant" && len(r.Messages[i].Calls) == 0 {
			break
		}
		if r.Messages[i].Role == "tool" {
			tools++
		}
	}
	q := ""
	for i := len(r.Messages) - 1; i >= 0 && q == ""; i-- {
		if line, _, _ := strings.Cut(r.Messages[i].Text, "\n"); r.Messages[i].Role == "user" && strings.HasPrefix(line, "q ") {
			q = line
		}
	}
	switch {
	case strings.Contains(q, "older"):
		return fakemodel.Reply{Text: "kept"}
	case tools == 0:
		return calls("list_documents", `{}`)(r)
	case tools == 1:
		return views("older.png")(r)
	}
	return fakemodel.Reply{Text: "answer to " + q}
}
