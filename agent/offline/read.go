package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sightline/agent"
)

const readDocument = "read_document"

// quoteBytes bounds what is repeated of a document.
const quoteBytes = 1500

// excerpt is what read_document answered, or why it did not.
type excerpt struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Unit    string `json:"unit"`
	Total   int    `json:"total"`
	Text    string `json:"text"`
	End     string `json:"end"`
	Pages   []int  `json:"pages_without_text"`
	failure string
}

type readArguments struct {
	ID    string `json:"attachment_id"`
	Pages string `json:"pages,omitempty"`
}

// learnText takes an answer for what was asked, whatever the answer calls itself.
func (t *turn) learnText(c agent.ToolCall, answer, failure string) {
	var args readArguments
	var got excerpt
	if json.Unmarshal([]byte(c.Arguments), &args) != nil || args.ID == "" {
		t.failed = c.Name + " was asked for nothing"
		return
	}
	if failure == "" && (json.Unmarshal([]byte(answer), &got) != nil || got.ID == "") {
		failure = "the answer of " + c.Name + " can't be read"
	}
	got.failure = failure
	t.excerpts[args] = got
}

// window is the part of a document that a target means.
func (g target) window() readArguments {
	a := readArguments{ID: g.id}
	if g.page > 0 {
		a.Pages = strconv.Itoa(g.page)
	}
	return a
}

// says reports whether it has text, of a page where one is named. A page without text is still headed by its number.
func (e excerpt) says(page int) bool {
	return strings.TrimSpace(e.Text) != "" && (page == 0 || !slices.Contains(e.Pages, page))
}

// quote repeats what a document says, and claims nothing of it.
func (t *turn) quote(g target) string {
	d := t.excerpts[g.window()]
	if d.failure != "" {
		return fmt.Sprintf("%s could not be read. %s", t.name(g.id), sentence(d.failure))
	}
	var b strings.Builder
	if g.page > 0 {
		fmt.Fprintf(&b, "The text of %s %d of %s (%s, %s):\n", d.Unit, g.page, t.name(g.id), d.Kind, plural(d.Total, d.Unit))
	} else {
		fmt.Fprintf(&b, "%s is a document (%s), %s. I have no language model to understand it; it says:\n", t.name(g.id), d.Kind, plural(d.Total, d.Unit))
	}
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
	if len(d.Pages) > 0 && g.page == 0 {
		fmt.Fprintf(&b, " Pages without text: %s; they can be looked at as pictures (\"page %d of %s\").", strings.Trim(fmt.Sprint(d.Pages), "[]"), d.Pages[0], t.names[g.id])
	}
	return strings.TrimSpace(b.String())
}
