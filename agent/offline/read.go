package offline

import (
	"encoding/json"
	"fmt"
	"strings"

	"sightline/agent"
)

const readDocument = "read_document"

// quoteBytes bounds what is repeated of a document.
const quoteBytes = 1500

// text is what read_document answered to this request.
type text struct {
	ID    string   `json:"id"`
	Kind  string   `json:"kind"`
	Unit  string   `json:"unit"`
	Total int      `json:"total"`
	Text  string   `json:"text"`
	End   string   `json:"end"`
	Notes []string `json:"notes"`
	Pages []int    `json:"pages_without_text"`
}

func (t *turn) learnText(c agent.ToolCall, answer string) {
	var got text
	if json.Unmarshal([]byte(answer), &got) != nil || got.ID == "" {
		t.failed = c.Name + " gave an answer that can't be read"
		return
	}
	t.text = &got
}

// read asks for a document's beginning.
func (t *turn) read(id string) step {
	arguments, err := json.Marshal(map[string]string{"attachment_id": id})
	if err != nil {
		panic("offline: arguments don't marshal: " + err.Error()) // a map of strings
	}
	return step{tool: readDocument, arguments: string(arguments)}
}

// readable is the one document that a request is about.
func (t *turn) readable(ids []string) (string, bool) {
	if len(ids) != 1 || !t.offered[readDocument] {
		return "", false
	}
	for _, d := range t.listing.docs {
		if d.ID == ids[0] && !d.image() && d.State == "available" {
			return d.ID, true
		}
	}
	return "", false
}

// quote repeats what a document says, and claims nothing of it.
func (t *turn) quote() string {
	d := t.text
	var b strings.Builder
	fmt.Fprintf(&b, "%s is a document (%s), %s. I have no language model to understand it; it says:\n", t.name(d.ID), d.Kind, counted(d.Total, d.Unit))
	said := strings.TrimSpace(d.Text)
	if len(said) > quoteBytes {
		said = strings.ToValidUTF8(said[:quoteBytes], "") + " [...]"
	}
	if said == "" {
		said = "(no text)"
	}
	for line := range strings.Lines(said) {
		b.WriteString("\n> " + strings.TrimRight(line, "\r\n"))
	}
	b.WriteString("\n\n" + sentence(d.End))
	if len(d.Pages) > 0 {
		fmt.Fprintf(&b, " Pages without text: %s; they can be looked at as pictures.", strings.Trim(fmt.Sprint(d.Pages), "[]"))
	}
	return b.String()
}

func counted(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
