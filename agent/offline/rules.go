package offline

import (
	"context"
	"encoding/json"
	"strings"
)

// The tools that the rules know.
const (
	listDocuments = "list_documents"
	viewImages    = "view_images"
)

const (
	maxViews = 4  // of one view_images
	maxCalls = 24 // of one request: a tool that never ends its pages must not hold the turn
)

// step is a tool call or an answer.
type step struct {
	tool, arguments string
	text            string
}

type viewArguments struct {
	IDs     []string        `json:"ids,omitempty"`
	Regions []regionRequest `json:"regions,omitempty"`
	Pages   []pageRequest   `json:"pages,omitempty"`
}

type regionRequest struct {
	ID     string `json:"id"`
	X      int    `json:"x"`
	Y      int    `json:"y"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Page   int    `json:"page,omitempty"`
}

type pageRequest struct {
	ID   string `json:"id"`
	Page int    `json:"page"`
}

// next decides what comes next. It depends on nothing but the request.
func (m *Model) next(ctx context.Context, t *turn) (step, error) {
	w := readWish(t.request)
	switch {
	case t.failed != "":
		return say("That did not work. " + sentence(t.failed)), nil
	case w.refused != "":
		return say("I can't " + w.refused + ", or do anything to a file.\n\n" + m.abilities(t)), nil
	case w.list:
		return t.inventory(), nil
	}
	var c choice
	switch {
	case len(t.own) > 0 && (t.ownSuffices(w) || !t.offered[listDocuments] && !w.points()):
		if c = t.ownChoice(w); c.why == "" && !t.offered[readDocument] && len(ofSort(t.attached(), aPicture)) == 0 {
			return say(t.notPictures()), nil
		}
	case !w.files:
		return say(m.abilities(t)), nil
	case len(w.ids) > 0 && len(w.names)+len(w.places) == 0 && (t.allKnown(w.ids) || !t.offered[listDocuments] || !t.offered[readDocument]):
		for _, id := range w.ids {
			c.take(t.byID(nil, id))
		}
	case !t.offered[listDocuments]:
		return say("I can't look for other files here: the list of files is not available to me in this conversation."), nil
	case !t.listing.complete:
		return t.ask(t.askList()), nil
	default:
		c = t.choose(w, t.listing.docs)
		if c.why == "" {
			t.besides(w, &c)
		}
	}
	if c.why != "" && !t.listing.complete {
		return say("No such file came with this message, and the list of the others is not available to me here."), nil
	}
	if c.why != "" {
		return say(c.why + "\n\n" + t.list()), nil
	}
	if w.reasoned {
		c.notes = append([]string{"I can't compare, count, calculate, explain, translate or sum up. I can only tell what is there:"}, c.notes...)
	}
	if w.endPage {
		return say("I find pages by their number only: \"page 3 of " + c.docs[0].Name + "\"."), nil
	}
	return m.carryOut(ctx, t, t.targets(w, c.docs), c.notes, w)
}

// ownChoice picks among the files of this turn; all of them where the request names none.
func (t *turn) ownChoice(w wish) choice {
	if w.points() || len(w.sorts) > 0 || len(w.pages) > 0 || w.endPage {
		return t.choose(w, t.attached())
	}
	return choice{docs: t.attached()}
}

func (t *turn) allKnown(ids []string) bool {
	for _, id := range ids {
		if _, ok := t.known[id]; !ok {
			return false
		}
	}
	return true
}

// ask is a tool call, unless there were too many.
func (t *turn) ask(s step) step {
	if t.calls > maxCalls {
		return say("I gave up: this request needed too many steps.")
	}
	return s
}

func say(text string) step { return step{text: text} }

func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.ContainsAny(s[len(s)-1:], ".!?") {
		s += "."
	}
	return s
}

func call(tool string, arguments any) step {
	b, _ := json.Marshal(arguments) // structs of strings and numbers always marshal
	return step{tool: tool, arguments: string(b)}
}

func (t *turn) askList() step {
	return call(listDocuments, struct {
		After int `json:"after,omitempty"`
		Limit int `json:"limit"`
	}{t.listing.next, 100})
}

// inventory answers "what files are there".
func (t *turn) inventory() step {
	switch {
	case !t.offered[listDocuments]:
		return say("I can't list files here: the list is not available to me in this conversation.")
	case !t.listing.complete:
		return t.askList()
	}
	return say(t.list())
}
