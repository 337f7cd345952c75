package audience

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sightline/agent"
	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/workflows"
)

// turns is how many questions are asked in one world.
const turns = 40

// TestRandom asks and changes things in turn, and in the middle of each other.
func TestRandom(t *testing.T) {
	seeds := []uint64{1, 2, 3}
	if s, err := strconv.ParseUint(os.Getenv("SIGHTLINE_TEST_SEED"), 10, 64); err == nil {
		seeds = []uint64{s}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for range turns {
				for w.chance(40) {
					w.change()
				}
				w.ask()
				if t.Failed() {
					break
				}
			}
			t.Logf("%+v", w.seen)
			// A world in which nothing may be seen would show nothing.
			if s := w.seen; len(seeds) > 1 && !t.Failed() && (s.fetched == 0 || s.shown == 0 || s.listed == 0 || s.retold == 0 || s.posted == 0 || s.refused == 0) {
				t.Errorf("something never happened: %+v", s)
			}
			if v := w.Violations(); len(v) > 0 {
				t.Errorf("the platform complains: %v", v)
			}
		})
	}
}

// ask has somebody ask somewhere for some pictures, theirs to see or not.
func (w *world) ask() {
	w.Helper()
	at := w.rooms[0]
	if w.chance(35) {
		at = one(w.rnd, w.rooms)
	}
	asker := one(w.rnd, w.all)
	if at.inside != nil {
		asker = w.all[0]
	}
	if w.chance(30) { // something beside the agent
		w.post(at, asker, "look what I found", 1+w.rnd.IntN(2), "")
	}
	q := &question{at: at, asker: asker}
	text := "<@" + w.me() + "> look"
	replyTo := ""
	for range w.rnd.IntN(4) {
		if len(w.pictures) > 0 {
			p := one(w.rnd, w.pictures)
			q.look = append(q.look, p.id)
			text += " " + string(p.id)
			if p.at == at && !p.gone && w.chance(50) {
				replyTo = p.post.ID
			}
		}
	}
	e, heard := w.post(at, asker, text, w.rnd.IntN(2), replyTo)
	if !heard {
		return
	}
	q.event = e.event
	w.asking = q
	w.did("%s asks in %s for %v", asker, at.id, q.look)
	w.answer()
	w.asking = nil
}

// answer plays the turn's workflow.
func (w *world) answer() {
	w.Helper()
	e := w.asking.event
	in := workflows.TurnInput{Agent: self, Conversation: e.Place.Conversation(), Place: e.Place.ID, Turn: chat.TurnOf(e.Message.ID), Message: e.Message.ID}
	post := workflows.PostInput{Turn: in.Turn, Kind: chat.ReplyFailure, Failed: "internal"}
	before := len(w.Said(w.asking.at.id))
	seq, again, compact := 0, 0, false
	for step := 1; step < 8; step++ {
		seq++
		infer := workflows.InferInput{Turn: in.Turn, Seq: seq, Step: step}
		if seq == 1 {
			infer.Begin = &in
		}
		var r workflows.InferResult
		if !w.run(w.acts.Infer, infer, &r) {
			break
		}
		if r.Skip || r.Failed != "" {
			post.Failed = r.Failed
			break
		}
		compact = compact || r.Compact
		inferred := seq
		for i := range r.Calls {
			seq++
			w.run(w.acts.Tool, workflows.ToolInput{Turn: in.Turn, Infer: inferred, Index: i, Seq: seq}, nil)
		}
		if r.Calls > 0 {
			continue
		}
		post = workflows.PostInput{Turn: in.Turn, Kind: chat.ReplyAnswer, Answer: inferred, Again: again < 2}
		if w.chance(25) { // the intent is written, and then the world moves on
			w.mouth.away = true
			var res workflows.PostResult
			if out := w.run(w.acts.Post, post, &res); out && res.Again {
				w.mouth.away = false
				again++
				continue
			}
			w.mouth.away = false
			w.change()
		}
		var res workflows.PostResult
		if w.run(w.acts.Post, post, &res) && res.Again {
			again++
			continue
		}
		break
	}
	if post.Kind == chat.ReplyFailure {
		w.run(w.acts.Post, post, nil)
	}
	w.heard(before)
	state := "failed"
	if post.Kind == chat.ReplyAnswer {
		state = "answered"
	}
	w.run(w.acts.Finish, workflows.FinishInput{Turn: in.Turn, State: state}, nil)
	w.bytes()
	if compact {
		w.run(w.acts.Compact, workflows.CompactInput{Turn: in.Turn}, nil)
		w.bytes()
	}
}

func (w *world) run(f, in, out any) bool {
	v, err := w.env.ExecuteActivity(f, in)
	if err != nil {
		w.did("%T: %v", in, err)
		return false
	}
	if out != nil {
		if err := v.Get(out); err != nil {
			w.Fatal(err)
		}
	}
	return true
}

// may: the picture may be shown for the question, now.
func (w *world) may(p *picture) bool {
	q := w.asking
	if p.gone {
		return false
	}
	return p.post.ID == q.event.Message.NativeID && w.sees(w.me(), p.at) || w.known(q.at, p.at)
}

// nameable: that the picture is or was there may be said. The question was on
// every screen, with its files' names.
func (w *world) nameable(p *picture) bool {
	return p.post.ID == w.asking.event.Message.NativeID || w.known(w.asking.at, p.at)
}

// heard looks at what was posted since.
func (w *world) heard(before int) {
	w.Helper()
	for _, m := range w.Said(w.asking.at.id)[before:] {
		w.seen.posted++
		w.repeated("posted", m.Content)
	}
}

var (
	// said is what the parrot says of pictures: that it saw one, or that one is
	// there, of which a place may know after the picture is gone, too.
	said   = regexp.MustCompile(`(saw|heard of) (att_[0-9a-z]{26})`)
	marker = regexp.MustCompile(`\((att_[0-9a-z]{26})\)\]`)
)

// repeated holds what a text says of pictures against who may hear it, and
// answers with all of that.
func (w *world) repeated(how, text string) (again string) {
	w.Helper()
	for _, m := range said.FindAllStringSubmatch(text, -1) {
		p := w.byID[chat.AttachmentID(m[2])]
		if m[1] == "saw" && !w.may(p) || m[1] != "saw" && !w.nameable(p) {
			w.wrong("%s in %s: %s %s of %s, gone %v", how, w.asking.at.id, m[1], p.id, p.at.id, p.gone)
		}
		again += m[0] + ". "
	}
	return again
}

// bytes holds what left the platform since against what may be fetched: the
// world does not change between two looks.
func (w *world) bytes() {
	w.Helper()
	rows, err := w.trail.Query(context.Background(), `SELECT seq, attachment, bytes_fetched FROM use WHERE seq > $1 AND action = 'fetch' ORDER BY seq`, w.lastUse)
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	var sum int64
	for rows.Next() {
		var id chat.AttachmentID
		var n int64
		if err := rows.Scan(&w.lastUse, &id, &n); err != nil {
			w.Fatal(err)
		}
		sum += n
		if n > 0 {
			w.seen.fetched++
			if p := w.byID[id]; p == nil || !w.may(p) {
				w.wrong("%d bytes of %s were fetched in %s", n, id, w.asking.at.id)
			}
		}
	}
	now := w.Served()
	if now-w.served != sum {
		w.wrong("%d bytes left the platform, and the trail knows of %d", now-w.served, sum)
	}
	w.served = now
}

// parrot is a model that says again whatever it is told and shown.
type parrot struct{ w *world }

func (parrot) Info(context.Context) agent.ModelInfo {
	return agent.ModelInfo{Name: "parrot", Key: "parrot", Capability: agent.Capability{Vision: agent.VisionYes, Source: "test"}}
}

func (m parrot) Generate(_ context.Context, r agent.ModelRequest, _ func(string)) (agent.ModelResponse, error) {
	w := m.w
	w.bytes()
	words := w.check(r)
	out := agent.Message{Role: agent.RoleAssistant, Text: words + " and that is all"}
	compacting := len(r.Tools) == 0
	last := r.Messages[len(r.Messages)-1]
	if !compacting && last.Role != agent.RoleTool && w.chance(80) {
		out.Calls = append(out.Calls, agent.ToolCall{ID: "l" + strconv.Itoa(len(r.Messages)), Name: "list_documents", Arguments: `{}`})
		if ids := w.asking.look; len(ids) > 0 {
			args, _ := json.Marshal(map[string]any{"ids": ids})
			out.Calls = append(out.Calls, agent.ToolCall{ID: "v" + strconv.Itoa(len(r.Messages)), Name: "view_images", Arguments: string(args)})
		}
	}
	if w.chance(30) {
		w.change()
	}
	return agent.ModelResponse{Message: out}, nil
}

// check looks at all that a request says and shows, and repeats it.
func (w *world) check(r agent.ModelRequest) string {
	w.Helper()
	var words strings.Builder
	repeat := func(p *picture) { fmt.Fprintf(&words, "saw %s. ", p.id) }
	for _, s := range r.Pictures {
		p := w.byID[s.ID]
		w.seen.shown++
		if !w.may(p) {
			w.wrong("shown in %s: %s of %s, gone %v", w.asking.at.id, p.id, p.at.id, p.gone)
		}
		repeat(p)
	}
	_, notes, _ := strings.Cut(r.Instructions, "EARLIER IN THIS CONVERSATION")
	_, before, _ := strings.Cut(r.Instructions, "NOTES SO FAR")
	if notes+before != "" {
		w.seen.summed++
	}
	words.WriteString(w.repeated("summed up", notes+before))
	for _, m := range r.Messages {
		switch m.Role {
		case agent.RoleAssistant:
			again := w.repeated("retold", m.Text)
			w.seen.retold += strings.Count(again, "att_")
			words.WriteString(again)
		case agent.RoleTool:
			words.WriteString(w.told(m.Text))
		default:
			w.markers(m.Text)
		}
	}
	return distinct(words.String())
}

// distinct says everything once.
func distinct(words string) string {
	list := strings.Split(words, ". ")
	slices.Sort(list)
	return strings.TrimPrefix(strings.Join(slices.Compact(list), ". "), ". ") + ". "
}

// markers name files of messages. A file that an edit took away may still be
// named where the others of its place may.
func (w *world) markers(text string) {
	w.Helper()
	for _, m := range marker.FindAllStringSubmatch(text, -1) {
		p := w.byID[chat.AttachmentID(m[1])]
		w.seen.quoted++
		if !w.nameable(p) {
			w.wrong("named in %s: %s of %s", w.asking.at.id, p.id, p.at.id)
		}
	}
}

// told repeats what a tool's answer says, once it was held against who may
// hear it.
func (w *world) told(answer string) string {
	w.Helper()
	var a struct {
		Documents []struct {
			ID    chat.AttachmentID
			State chat.FileState
		}
		Selected, Refused []struct {
			ID     chat.AttachmentID
			Name   string
			Reason string
		}
	}
	var out strings.Builder
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		w.Fatalf("%v: %s", err, answer)
	}
	for _, d := range a.Documents {
		p := w.byID[d.ID]
		w.seen.listed++
		if !w.nameable(p) {
			w.wrong("listed in %s: %s of %s as %s", w.asking.at.id, p.id, p.at.id, d.State)
		}
		fmt.Fprintf(&out, "heard of %s. ", p.id)
	}
	for _, s := range a.Selected {
		out.WriteString(w.repeated("selected", "saw "+string(s.ID)))
	}
	for _, s := range a.Refused {
		w.seen.refused++
		p := w.byID[s.ID]
		if s.Name != "" && p != nil && !w.nameable(p) {
			w.wrong("named in a refusal in %s: %s of %s", w.asking.at.id, p.id, p.at.id)
		}
		if p != nil && w.plain(p) && s.Reason == attachments.ErrNotAvailable.Error() {
			w.wrong("refused in %s for no reason: %s", w.asking.at.id, p.id)
		}
	}
	return out.String()
}

// plain: nothing stands against the picture, and the product has a rule for it.
func (w *world) plain(p *picture) bool {
	q := w.asking
	return w.may(p) && q.at == p.at && q.at.top().kind == open && !w.forgetful && w.sees(q.asker, q.at)
}
