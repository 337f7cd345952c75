package service

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sightline/checkpoints"
	"sightline/connectors/chat"
	"sightline/connectors/web"
)

// text makes a cell of what may come from anywhere: one line, without what
// moves a terminal's cursor or turns the direction of a page's text.
func text(s string) web.Cell {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, s)
	return web.Cell{Text: s}
}

func link[T ~string](kind string, id T) web.Cell {
	if id == "" {
		return web.Cell{}
	}
	return web.Cell{Text: string(id), Kind: kind, ID: string(id)}
}

var anID = regexp.MustCompile(`\b(cnv|trn|att)_[0-9a-hjkmnp-tv-z]{26}\b`)

// linked is text in which IDs lead to their reports; missing are those that
// have none.
func linked(s string, missing map[string]bool) web.Cell {
	c := text(s)
	kinds := map[string]string{"cnv": "conversation", "trn": "turn", "att": "attachment"}
	at := 0
	for _, m := range anID.FindAllStringSubmatchIndex(c.Text, -1) {
		id := c.Text[m[0]:m[1]]
		if missing[id] {
			continue
		}
		if at < m[0] {
			c.Parts = append(c.Parts, web.Cell{Text: c.Text[at:m[0]]})
		}
		c.Parts = append(c.Parts, link(kinds[c.Text[m[2]:m[3]]], id))
		at = m[1]
	}
	if at > 0 && at < len(c.Text) {
		c.Parts = append(c.Parts, web.Cell{Text: c.Text[at:]})
	}
	return c
}

// missing are the attachments that were asked for and not found: they have no
// report.
func missing(ds []decision) map[string]bool {
	out := map[string]bool{}
	for _, d := range ds {
		if !d.Allowed && d.Rule == "unknown" {
			out[string(d.Attachment)] = true
		}
	}
	return out
}

// rules are what the short names in decisions ask for.
var rules = map[string]string{
	"S1":      "a file may be used where it was posted",
	"S2":      "a thread, or an answer that one person sees, may use what the channel around it shows",
	"S3":      "a public thread and its channel have the same readers",
	"grant":   "the bytes that were fetched after a yes",
	"state":   "the file and its message have to be there still",
	"message": "the message it came with has to be there still",
	"unknown": "the ID has to be one of this conversation or around it",
	"place":   "both places have to be known",
	"member":  "the agent has to be in the channel",
	"doubt":   "it has to be certain who would see the answer",
}

// legend explains those rules that a list names, in its order.
func legend(ds []decision) string {
	var out []string
	told := map[string]bool{}
	for _, d := range ds {
		if what := rules[d.Rule]; what != "" && !told[d.Rule] {
			told[d.Rule] = true
			out = append(out, d.Rule+": "+what)
		}
	}
	return strings.Join(out, "; ")
}

func number[T int | int64](n T) web.Cell { return web.Cell{Text: strconv.FormatInt(int64(n), 10)} }

func clock(t time.Time) web.Cell {
	if t.IsZero() {
		return web.Cell{}
	}
	return web.Cell{Text: t.UTC().Format("2006-01-02 15:04:05Z")}
}

func stateCell(s string) web.Cell {
	c := web.Cell{Text: s}
	switch s {
	case "answered", "done", "available", "ok", "stop", "allowed":
		c.Tone = "good"
	case "failed", "refused", "uncertain", "deleted", "denied", "unreadable":
		c.Tone = "bad"
	}
	return c
}

func verdict(allowed bool) web.Cell {
	if allowed {
		return stateCell("allowed")
	}
	return stateCell("refused")
}

// who names a person as the platform's event did, with the role and the ID
// that decide.
func who(a chat.Actor) web.Cell {
	id := a.User
	if a.Workspace != "" {
		id = a.Workspace + "/" + id
	}
	s := fmt.Sprintf("%s (%s %s, %s)", a.Name, a.Platform, id, a.Role)
	if a.Name == "" {
		s = fmt.Sprintf("%s %s, %s", a.Platform, id, a.Role)
	}
	if a.Bot {
		s += ", a bot"
	}
	return text(s)
}

func where(p chat.Place) web.Cell {
	s := fmt.Sprintf("%s %s %s", p.Platform, strings.ReplaceAll(string(p.Kind), "_", " "), p.Channel)
	if p.Thread != "" {
		s += ", thread " + p.Thread
	}
	if p.Workspace != "" {
		s += ", in " + p.Workspace
	}
	return text(s + " (" + string(p.ID) + ")")
}

func (w workflowView) facts() []web.Fact {
	s := w.ID
	if w.Run != "" {
		s += ", run " + w.Run
	}
	out := []web.Fact{{Name: "workflow", Value: web.Cell{Text: s, URL: w.URL}}}
	if w.State != "" {
		out = append(out, web.Fact{Name: "now", Value: linked(w.State, nil)})
	}
	return out
}

func kindOf(a attachmentLine) string {
	t := a.SniffedType
	if t == "" {
		t = a.DeclaredType + " as declared"
	}
	if a.Width > 0 {
		t += fmt.Sprintf(", %dx%d", a.Width, a.Height)
	}
	return t
}

func filesTable(name string, as []attachmentLine) web.Table {
	t := web.Table{Name: name, Columns: []string{"attachment", "name", "type", "bytes", "state", "sha256", "poster", "posted"}, Empty: "None."}
	for _, a := range as {
		state := stateCell(string(a.State))
		state.Text = text(strings.TrimSpace(state.Text + " " + a.StateReason)).Text
		t.Rows = append(t.Rows, []web.Cell{link("attachment", a.ID), text(a.Name), text(kindOf(a)), number(a.Size), state, text(a.Digest), who(a.Poster), clock(a.Posted)})
	}
	return t
}

func took(t turnLine) web.Cell {
	if t.Finished == nil {
		return web.Cell{}
	}
	return web.Cell{Text: t.Finished.Sub(t.Started).Round(time.Millisecond).String()}
}

func decisionsTable(ds []decision, withTurn bool) web.Table {
	t := web.Table{Name: "Decisions", Columns: []string{"at", "attachment", "action", "verdict", "rule", "reason", "asker", "destination", "bytes", "sha256"}, Empty: "Nothing was asked for."}
	t.Legend = legend(ds)
	if withTurn {
		t.Columns[1] = "turn"
	}
	gone := missing(ds)
	for _, d := range ds {
		what := link("attachment", d.Attachment)
		if gone[string(d.Attachment)] || !ids["attachment"].MatchString(string(d.Attachment)) {
			what = text(string(d.Attachment)) // as it was asked for: no ID of anything
		}
		if withTurn {
			what = link("turn", d.Turn)
		}
		t.Rows = append(t.Rows, []web.Cell{clock(d.At), what, text(d.Action), verdict(d.Allowed), text(d.Rule), linked(d.Reason, gone), who(d.Asker),
			text(string(d.Destination)), number(d.Bytes), text(d.Digest)})
	}
	return t
}

func selectedCell(list []chat.Selected, gone map[string]bool) web.Cell {
	var out []string
	for _, s := range list {
		one := string(s.Attachment)
		if s.Region != nil {
			one += fmt.Sprintf(" region %d,%d %dx%d", s.Region[0], s.Region[1], s.Region[2], s.Region[3])
		}
		if s.Digest != "" {
			one += " sha256 " + s.Digest
		}
		if s.Reason != "" {
			one += " not shown: " + s.Reason
		}
		out = append(out, one)
	}
	return linked(strings.Join(out, "; "), gone)
}

func turnsTable(ts []turnLine) web.Table {
	t := web.Table{Name: "Turns", Columns: []string{"turn", "state", "asker", "began", "took", "reason"}, Empty: "Nothing was asked here yet."}
	for _, l := range ts {
		t.Rows = append(t.Rows, []web.Cell{link("turn", l.ID), stateCell(string(l.State)), who(l.Asker), clock(l.Started), took(l), linked(l.Reason, nil)})
	}
	return t
}

func (v *conversationView) report() web.Report {
	r := web.Report{Title: "Conversation " + string(v.ID), Facts: []web.Fact{
		{Name: "agent", Value: text(string(v.Agent))}, {Name: "place", Value: where(v.Place)},
		{Name: "messages", Value: number(v.Messages)}, {Name: "attachments", Value: number(v.Attachments)}, {Name: "turns", Value: number(v.Turns)},
	}}
	r.Facts = append(r.Facts, v.Workflow.facts()...)
	r.Tables = []web.Table{turnsTable(v.LastTurns), filesTable("Attachments", v.LastFiles)}
	if n := v.Turns - len(v.LastTurns); n > 0 {
		r.Tables[0].Name = fmt.Sprintf("Turns, the newest (%d more)", n)
	}
	if n := v.Attachments - len(v.LastFiles); n > 0 {
		r.Tables[1].Name = fmt.Sprintf("Attachments, the newest (%d more)", n)
	}
	return r
}

func (v *turnView) report() web.Report {
	r := web.Report{Title: "Turn " + string(v.ID), Facts: []web.Fact{
		{Name: "state", Value: stateCell(string(v.State))}, {Name: "asker", Value: who(v.Asker)}, {Name: "destination", Value: where(v.Destination)},
		{Name: "agent", Value: text(string(v.Agent))}, {Name: "conversation", Value: link("conversation", v.Conversation)},
		{Name: "began", Value: clock(v.Started)},
	}}
	if v.Reason != "" {
		r.Facts = append(r.Facts, web.Fact{Name: "reason", Value: linked(v.Reason, nil)})
	}
	if v.Finished != nil {
		r.Facts = append(r.Facts, web.Fact{Name: "took", Value: took(v.turnLine)})
	}
	if len(v.Wanted) > 0 {
		r.Facts = append(r.Facts, web.Fact{Name: "tools without a receipt", Value: text(strings.Join(v.Wanted, ", "))})
	}
	r.Facts = append(append(r.Facts, v.Workflow.facts()...), web.Fact{Name: "trace", Value: text(v.Trace)})

	messages := web.Table{Name: "Messages", Columns: []string{"step", "message", "poster", "posted", "bytes", "state"}, Empty: "None."}
	for _, m := range v.Messages {
		state := "there"
		if m.Deleted {
			state = "deleted"
		}
		messages.Rows = append(messages.Rows, []web.Cell{number(m.Seq), text(string(m.ID)), who(m.Poster), clock(m.At), number(m.Bytes), stateCell(state)})
	}
	gone := missing(v.Decisions)
	model := web.Table{Name: "Model calls", Columns: []string{"step", "try", "model", "outcome", "tokens in", "tokens out", "seconds", "pictures"}, Empty: "The model was not asked."}
	for _, c := range v.Model {
		outcome := c.Outcome
		if outcome == "" {
			outcome = "under way, or cut off"
		}
		model.Rows = append(model.Rows, []web.Cell{number(c.Seq), number(c.Attempt), text(c.Model), stateCell(outcome), number(c.InputTokens), number(c.OutputTokens),
			{Text: fmt.Sprintf("%.2f", c.Took)}, selectedCell(c.Pictures, gone)})
	}
	tools := web.Table{Name: "Tool calls", Columns: []string{"step", "tool", "verdict", "at", "selected", "reason"}, Empty: "No tool was called."}
	for _, c := range v.Tools {
		tools.Rows = append(tools.Rows, []web.Cell{number(c.Seq), text(c.Tool), stateCell(string(c.Verdict)), clock(c.At), selectedCell(c.Selected, gone), linked(c.Reason, gone)})
	}
	posts := web.Table{Name: "Posts", Columns: []string{"kind", "where", "intended", "posted", "bytes"}, Empty: "Nothing was posted."}
	for _, p := range v.Posts {
		native, posted := "not known to be posted", time.Time{}
		if p.Posted != nil {
			native, posted = p.NativeID, *p.Posted
		}
		posts.Rows = append(posts.Rows, []web.Cell{text(string(p.Kind)), text(native), clock(p.At), clock(posted), number(p.Bytes)})
	}
	r.Tables = []web.Table{messages, filesTable("Attachments of these messages", v.Files), model, tools, decisionsTable(v.Decisions, false), posts}
	return r
}

func (v *attachmentView) report() web.Report {
	digest := v.Digest
	if digest == "" {
		digest = "never fetched"
	}
	state := stateCell(string(v.State))
	state.Text = text(strings.TrimSpace(state.Text + " " + v.StateReason)).Text
	r := web.Report{Title: "Attachment " + string(v.ID), Facts: []web.Fact{
		{Name: "name", Value: text(v.Name)}, {Name: "poster", Value: who(v.Poster)}, {Name: "posted", Value: clock(v.Posted)},
		{Name: "type", Value: text(kindOf(v.attachmentLine))}, {Name: "bytes", Value: number(v.Size)}, {Name: "sha256", Value: text(digest)},
		{Name: "state", Value: state}, {Name: "came", Value: text(string(v.Origin))}, {Name: "message", Value: text(string(v.Message))},
		{Name: "source", Value: where(v.Source)}, {Name: "agent", Value: text(string(v.Agent))}, {Name: "conversation", Value: link("conversation", v.Conversation)},
	}}
	t := decisionsTable(v.Decisions, true)
	if v.Earlier > 0 {
		t.Name = fmt.Sprintf("Decisions, the newest (%d earlier)", v.Earlier)
	}
	r.Tables = []web.Table{t}
	if v.Source.Platform == web.Platform {
		r.Picture = v.NativeFile
	}
	return r
}

// overview is the console's first page.
func overview(rows []checkpoints.ConversationRow) web.Report {
	t := web.Table{Name: "Conversations", Columns: []string{"conversation", "place", "last turn", "state", "last turn began", "turns", "messages", "attachments"}, Empty: "Nobody has said anything yet."}
	for _, c := range rows {
		t.Rows = append(t.Rows, []web.Cell{link("conversation", c.ID), where(c.Place), link("turn", c.LastTurn), stateCell(string(c.LastState)), clock(c.LastActivity),
			number(c.Turns), number(c.Messages), number(c.Attachments)})
	}
	return web.Report{Title: "Console", Tables: []web.Table{t}}
}
