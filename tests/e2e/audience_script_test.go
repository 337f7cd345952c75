package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sightline/tests/fakemodel"
)

// script is the model of the audience's cases. It does what the newest
// question says: `look att_...` calls view_images, `list` calls
// list_documents, and anything else is answered at once. Its answer names the
// question, so that it is known on the platform.
type script struct {
	voice string // whose answers these are, where there are several
	mu    sync.Mutex
	holds map[string]hold
}

// hold keeps one step of one question waiting, so that the world can change
// while the model thinks.
type hold struct{ arrived, release chan struct{} }

var (
	questionForm = regexp.MustCompile(`#(q[0-9]+)#`)
	lookForm     = regexp.MustCompile(`look((?: att_[0-9a-z]{26})+)`)
	idForm       = regexp.MustCompile(`att_[0-9a-z]{26}`)
	listForm     = regexp.MustCompile(`\blist\b`)
)

// keep holds the step (0: before any tool ran) of a question.
func (s *script) keep(question string, step int) hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := hold{make(chan struct{}), make(chan struct{})}
	s.holds[fmt.Sprint(question, "/", step)] = h
	return h
}

func (s *script) answer(r fakemodel.Request) fakemodel.Reply {
	at, question, text := -1, "", ""
	for i, m := range r.Messages {
		// The first one of a message: what it forwards comes after its own words.
		if f := questionForm.FindStringSubmatch(m.Text); m.Role == "user" && f != nil {
			at, question, text = i, f[1], m.Text
		}
	}
	step := 0
	for _, m := range r.Messages[at+1:] {
		if len(m.Calls) > 0 {
			step++
		}
	}
	reply := fakemodel.Reply{Text: answerTo(question) + s.voice}
	if question != "" && step == 0 {
		if l := lookForm.FindStringSubmatch(text); l != nil {
			n := 0
			for ids := range slices.Chunk(idForm.FindAllString(l[1], -1), 4) {
				args, _ := json.Marshal(map[string]any{"ids": ids})
				reply.Calls = append(reply.Calls, fakemodel.Call{ID: fmt.Sprintf("call_%s_%d", question, n), Name: "view_images", Arguments: string(args)})
				n++
			}
		} else if listForm.MatchString(text) {
			reply.Calls = []fakemodel.Call{{ID: "call_" + question, Name: "list_documents", Arguments: `{}`}}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprint(question, "/", step)
	if h, ok := s.holds[key]; ok {
		delete(s.holds, key) // a repeated request is not held again
		close(h.arrived)
		reply.Wait = h.release
		reply.Text += heldBack
	}
	if len(reply.Calls) > 0 {
		reply.Text = ""
	}
	return reply
}

// heldBack marks what was thought of before the world changed.
const heldBack = " As it was before."

func answerTo(question string) string {
	if question == "" {
		return "seen."
	}
	return "answer to " + question + "."
}

// toolAnswers are what the tools of the newest question answered.
func toolAnswers(r fakemodel.Request) (out []string) {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		switch m := r.Messages[i]; {
		case m.Role == "tool":
			out = append([]string{m.Text}, out...)
		case m.Role == "user" && questionForm.MatchString(m.Text):
			return out
		}
	}
	return out
}

// uniform is what view_images says of an ID that names nothing, that is
// elsewhere, or that may not be shown here: to the letter.
func uniform(id string) string {
	return `{"selected":[],"refused":[{"id":"` + id + `","reason":"no attachment with that ID is available in this conversation"}],` +
		`"note":"No picture was selected; what was shown before stays. Nothing can be said of what these show."}`
}

// line is the line of the prompt that names an attachment.
func line(r fakemodel.Request, id string) string {
	for _, l := range strings.Split(r.System, "\n") {
		if strings.Contains(l, id) {
			return l
		}
	}
	return ""
}
