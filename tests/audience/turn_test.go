package audience

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sightline/agent"
	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/workflows"
)

// answer plays the turn's workflow.
func (d *driver) answer() {
	d.Helper()
	e := d.asking.event
	in := workflows.TurnInput{Agent: self, Conversation: e.Place.Conversation(), Place: e.Place.ID, Turn: chat.TurnOf(e.Message.ID), Message: e.Message.ID}
	post := workflows.PostInput{Turn: in.Turn, Kind: chat.ReplyFailure, Failed: "internal"}
	before := len(d.on.said())
	seq, again, compact := 0, 0, false
	for step := 1; step < 8; step++ {
		seq++
		infer := workflows.InferInput{Turn: in.Turn, Seq: seq, Step: step}
		if seq == 1 {
			infer.Begin = &in
		}
		var r workflows.InferResult
		if !d.run(d.acts.Infer, infer, &r) {
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
			d.run(d.acts.Tool, workflows.ToolInput{Turn: in.Turn, Infer: inferred, Index: i, Seq: seq}, nil)
		}
		if r.Calls > 0 {
			continue
		}
		post = workflows.PostInput{Turn: in.Turn, Kind: chat.ReplyAnswer, Answer: inferred, Again: again < 2}
		if d.chance(25) { // the intent is written, and then the world moves on
			d.mouth.away = true
			var res workflows.PostResult
			if out := d.run(d.acts.Post, post, &res); out && res.Again {
				d.mouth.away = false
				again++
				continue
			}
			d.mouth.away = false
			d.on.change()
		}
		var res workflows.PostResult
		if d.run(d.acts.Post, post, &res) && res.Again {
			again++
			continue
		}
		break
	}
	if post.Kind == chat.ReplyFailure {
		d.run(d.acts.Post, post, nil)
	}
	d.heard(before)
	state := "failed"
	if post.Kind == chat.ReplyAnswer {
		state = "answered"
	}
	d.run(d.acts.Finish, workflows.FinishInput{Turn: in.Turn, State: state}, nil)
	d.bytes()
	if compact {
		d.run(d.acts.Compact, workflows.CompactInput{Turn: in.Turn}, nil)
		d.bytes()
	}
}

func (d *driver) run(f, in, out any) bool {
	v, err := d.env.ExecuteActivity(f, in)
	if err != nil {
		d.did("%T: %v", in, err)
		return false
	}
	if out != nil {
		if err := v.Get(out); err != nil {
			d.Fatal(err)
		}
	}
	return true
}

// heard looks at what was posted since.
func (d *driver) heard(before int) {
	d.Helper()
	for _, text := range d.on.said()[before:] {
		d.seen.posted++
		d.repeated("posted", text)
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
func (d *driver) repeated(how, text string) (again string) {
	d.Helper()
	for _, m := range said.FindAllStringSubmatch(text, -1) {
		p := d.picture(chat.AttachmentID(m[2]))
		if m[1] == "saw" && !d.on.retellable(p) || m[1] != "saw" && !d.on.nameable(p) {
			d.wrong("%s in %s: %s %s of %s, message %s", how, d.asking.at, m[1], p.id, p.at, p.message)
		}
		again += m[0] + ". "
	}
	return again
}

// bytes holds what left the platform since against what may be fetched: the
// world does not change between two looks.
func (d *driver) bytes() {
	d.Helper()
	d.bytesFor(d.on.may)
}

func (d *driver) bytesFor(may func(*picture) bool) {
	d.Helper()
	rows, err := d.trail.Query(context.Background(), `SELECT seq, attachment, bytes_fetched FROM use WHERE seq > $1 AND action = 'fetch' ORDER BY seq`, d.lastUse)
	if err != nil {
		d.Fatal(err)
	}
	defer rows.Close()
	var sum int64
	for rows.Next() {
		var id chat.AttachmentID
		var n int64
		if err := rows.Scan(&d.lastUse, &id, &n); err != nil {
			d.Fatal(err)
		}
		sum += n
		if n > 0 {
			d.seen.fetched++
			if p := d.picture(id); p == nil || !may(p) {
				d.wrong("%d bytes of %s were fetched", n, id)
			}
		}
	}
	now := d.on.Served()
	if now-d.served != sum {
		d.wrong("%d bytes left the platform, and the trail knows of %d", now-d.served, sum)
	}
	d.served = now
}

// parrot is a model that says again whatever it is told and shown.
type parrot struct{ d *driver }

func (parrot) Info(context.Context) agent.ModelInfo {
	return agent.ModelInfo{Name: "parrot", Key: "parrot", Capability: agent.Capability{Vision: agent.VisionYes, Source: "test"}}
}

func (m parrot) Generate(_ context.Context, r agent.ModelRequest, _ func(string)) (agent.ModelResponse, error) {
	d := m.d
	d.bytes()
	words := d.check(r)
	out := agent.Message{Role: agent.RoleAssistant, Text: words + " and that is all"}
	compacting := len(r.Tools) == 0
	last := r.Messages[len(r.Messages)-1]
	if !compacting && last.Role != agent.RoleTool && d.chance(80) {
		out.Calls = append(out.Calls, agent.ToolCall{ID: "l" + strconv.Itoa(len(r.Messages)), Name: "list_documents", Arguments: `{}`})
		if ids := d.asking.look; len(ids) > 0 {
			args, _ := json.Marshal(map[string]any{"ids": ids})
			out.Calls = append(out.Calls, agent.ToolCall{ID: "v" + strconv.Itoa(len(r.Messages)), Name: "view_images", Arguments: string(args)})
		}
	}
	if d.chance(30) {
		d.on.change()
	}
	return agent.ModelResponse{Message: out}, nil
}

// check looks at all that a request says and shows, and repeats it.
func (d *driver) check(r agent.ModelRequest) string {
	d.Helper()
	var words strings.Builder
	repeat := func(p *picture) { fmt.Fprintf(&words, "saw %s. ", p.id) }
	for _, s := range r.Pictures {
		p := d.picture(s.ID)
		d.seen.shown++
		if !d.on.may(p) {
			d.wrong("shown in %s: %s of %s, message %s", d.asking.at, p.id, p.at, p.message)
		}
		repeat(p)
	}
	_, notes, _ := strings.Cut(r.Instructions, "EARLIER IN THIS CONVERSATION")
	_, before, _ := strings.Cut(r.Instructions, "NOTES SO FAR")
	if notes+before != "" {
		d.seen.summed++
	}
	words.WriteString(d.repeated("summed up", notes+before))
	for _, m := range r.Messages {
		switch m.Role {
		case agent.RoleAssistant:
			again := d.repeated("retold", m.Text)
			d.seen.retold += strings.Count(again, "att_")
			words.WriteString(again)
		case agent.RoleTool:
			words.WriteString(d.told(m.Text))
		default:
			d.markers(m.Text)
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
func (d *driver) markers(text string) {
	d.Helper()
	for _, m := range marker.FindAllStringSubmatch(text, -1) {
		p := d.picture(chat.AttachmentID(m[1]))
		d.seen.quoted++
		if !d.on.nameable(p) {
			d.wrong("named in %s: %s of %s", d.asking.at, p.id, p.at)
		}
	}
}

// told repeats what a tool's answer says, once it was held against who may
// hear it.
func (d *driver) told(answer string) string {
	d.Helper()
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
		d.Fatalf("%v: %s", err, answer)
	}
	for _, l := range a.Documents {
		p := d.picture(l.ID)
		d.seen.listed++
		if !d.on.nameable(p) {
			d.wrong("listed in %s: %s of %s as %s", d.asking.at, p.id, p.at, l.State)
		}
		fmt.Fprintf(&out, "heard of %s. ", p.id)
	}
	for _, s := range a.Selected {
		out.WriteString(d.repeated("selected", "saw "+string(s.ID)))
	}
	for _, s := range a.Refused {
		d.seen.refused++
		p := d.picture(s.ID)
		if s.Name != "" && p != nil && !d.on.nameable(p) {
			d.wrong("named in a refusal in %s: %s of %s", d.asking.at, p.id, p.at)
		}
		if p != nil && d.on.plain(p) && s.Reason == attachments.ErrNotAvailable.Error() {
			d.wrong("refused in %s for no reason: %s, %s", d.asking.at, p.id, d.why(p.id))
		}
	}
	return out.String()
}
