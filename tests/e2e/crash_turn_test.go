package e2e

import (
	"fmt"
	"image"
	"regexp"
	"strings"
	"sync"
	"time"

	"sightline/tests/fakemodel"
)

// A crashTurn is one shape of turn, and what happens to it from outside while
// it runs.
type crashTurn struct {
	name    string
	disturb func(c *crasher, d dialog, question string, older func())
	// places are those that have its boundaries; empty: all.
	places string
}

// Every boundary is passed by one of these, or the list in
// tests/rules says where it is killed at instead.
var crashTurns = []crashTurn{
	// It looks at its own picture, lists, looks at an older one, runs a command
	// that appends to a file, posts that file, and answers slowly enough to be
	// drafted.
	{name: "whole"},
	// A second message joins it.
	{name: "joined", disturb: func(c *crasher, d dialog, question string, _ func()) {
		h := c.script.kept(question)
		<-h.arrived
		d.say("and " + question)
		c.await("the second message", func() bool {
			return c.count(`SELECT count(*) FROM message WHERE text LIKE '%and ' || $1`, question) > 0
		})
		c.await("the signal to the turn", func() bool { return steered(c.ready().Temporal, c.turn(question)) })
		close(h.release)
	}},
	// What it draws on is deleted while its answer is shown.
	{name: "widened", places: "discord slack", disturb: func(c *crasher, d dialog, question string, older func()) {
		c.await("a draft", func() bool {
			for _, s := range d.said() {
				if strings.HasPrefix(s, "drawn ") {
					return true
				}
			}
			return false
		})
		older()
	}},
	// The same with an answer that was never shown before.
	{name: "discarded", disturb: func(c *crasher, _ dialog, question string, older func()) {
		h := c.script.kept(question)
		<-h.arrived
		older()
		c.await("the deletion", func() bool {
			return c.count(`SELECT count(*) FROM attachment a JOIN message m ON m.id = a.message JOIN turn t ON t.message = m.id
				JOIN turn q ON q.conversation = t.conversation JOIN message n ON n.id = q.message
				WHERE a.name = 'older.png' AND m.deleted_at IS NOT NULL AND n.text LIKE '%' || $1`, question) > 0
		})
		close(h.release)
	}},
}

const drawn = "drawn from the older picture, which shows more than words can say of it here"

// crashScript is the model of all of them. What it does follows from the
// transcript, so that a request made twice is answered the same; only a hold
// is for once.
type crashScript struct {
	mu    sync.Mutex
	holds map[string]*hold
}

// kept is the hold of a question.
func (s *crashScript) kept(question string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds == nil {
		s.holds = map[string]*hold{}
	}
	if s.holds[question] == nil {
		s.holds[question] = &hold{make(chan struct{}), make(chan struct{})}
	}
	return s.holds[question]
}

// keep holds the reply until the question's hold is let go.
func (s *crashScript) keep(question string, r fakemodel.Reply) fakemodel.Reply {
	h := s.kept(question)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-h.arrived:
	default:
		close(h.arrived)
	}
	r.Wait = h.release
	return r
}

// crashQuestion is the first line with a question in it, of the newest message
// that has one.
func crashQuestion(r fakemodel.Request) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if f := crashForm.FindString(r.Messages[i].Text); r.Messages[i].Role == "user" && f != "" {
			return f
		}
	}
	return ""
}

var crashForm = regexp.MustCompile(`q [a-z]+ [a-z_.#0-9]+`)

// since are the tool answers after the first message of the newest question,
// by the tool's name in order.
func since(r fakemodel.Request, q string) (names, answers []string) {
	from := len(r.Messages)
	for i, m := range r.Messages {
		if m.Role == "user" && strings.Contains(m.Text, q) {
			from = i
			break
		}
	}
	by := map[string]string{}
	for _, m := range r.Messages[from:] {
		for _, c := range m.Calls {
			by[c.ID] = c.Name
		}
		if m.Role == "tool" {
			names, answers = append(names, by[m.CallID]), append(answers, m.Text)
		}
	}
	return names, answers
}

func (s *crashScript) answer(r fakemodel.Request) fakemodel.Reply {
	q := crashQuestion(r)
	kind, _, _ := strings.Cut(strings.TrimPrefix(q, "q "), " ")
	final := fakemodel.Reply{Text: "answer to " + q}
	if kind == "older" {
		return fakemodel.Reply{Text: "kept"}
	}
	names, answers := since(r, q)
	last, said := "", ""
	if n := len(names); n > 0 {
		last, said = names[n-1], answers[n-1]
	}
	switch {
	case last == "":
		a := calls("list_documents", `{}`)(r)
		if kind == "joined" {
			a = s.keep(q, a)
		}
		return a
	case last == "list_documents":
		return calls("view_images", fmt.Sprintf(`{"ids":[%q]}`, listedAs("older.png", said)))(r)
	case kind == "joined":
		return final
	case kind != "whole":
		// What it called for was deleted since: it answers without it.
		if last != "view_images" || !strings.Contains(said, `"selected":[{`) {
			return final
		}
		if kind == "widened" {
			return fakemodel.Reply{Text: drawn, Pace: 350 * time.Millisecond}
		}
		return s.keep(q, fakemodel.Reply{Text: drawn})
	}
	run := calls("workspace_exec", fmt.Sprintf(`{"command":"echo '%s' >> /workspace/log.txt"}`, q))
	share := calls("share_file", `{"path":"/workspace/log.txt"}`)
	switch {
	case last == "view_images":
		return run(r)
	case strings.Contains(said, "not known whether"):
		return calls("workspace_list", `{}`)(r) // it looks first
	case last == "workspace_exec":
		return share(r)
	case last == "workspace_list" && names[len(names)-2] == "workspace_exec":
		if strings.Contains(said, "log.txt") {
			return share(r)
		}
		return run(r)
	}
	final.Text += " and that is all there is to be said of it"
	final.Pace = 250 * time.Millisecond
	return final
}

// listedAs is the ID that a listing gives a name.
func listedAs(name, listing string) string {
	at := strings.Index(listing, `"name":"`+name)
	if at < 0 {
		return "att_none"
	}
	all := idForm.FindAllString(listing[:at], -1)
	if len(all) == 0 {
		return "att_none"
	}
	return all[len(all)-1]
}

// pixels checks every request of the turn, repeated ones too: before the tool
// has selected it shows its own picture, from then on the older one, and once
// that is gone neither a pixel of it nor a word made of it.
func (c *crasher) pixels(q string, gone bool) string {
	n := 0
	for _, r := range c.model.Requests() {
		if crashQuestion(r) != q {
			continue
		}
		n++
		var want image.Image = c.newerP
		names, answers := since(r, q)
		withheld := false
		for i, name := range names {
			if name == "view_images" {
				want, withheld = c.olderP, !strings.Contains(answers[i], `"selected":[{`)
			}
		}
		switch {
		case withheld && gone:
			for _, p := range r.Pictures {
				if samePixels(p.Image, c.olderP) {
					return fmt.Sprintf("request %d shows a picture that was deleted", n)
				}
			}
			for _, m := range r.Messages {
				if m.Role != "user" && strings.Contains(m.Text, "drawn from") {
					return fmt.Sprintf("request %d retells the answer that was discarded", n)
				}
			}
		case len(r.Pictures) != 1 || !samePixels(r.Pictures[0].Image, want):
			return fmt.Sprintf("request %d has %d pictures, or others than it should", n, len(r.Pictures))
		}
	}
	if n < 3 {
		return fmt.Sprintf("only %d requests", n)
	}
	return ""
}
