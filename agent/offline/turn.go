package offline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sightline/agent"
	"sightline/connectors/chat"
)

const idPattern = `att_[0-9a-hjkmnp-tv-z]{26}`

var (
	anyID = regexp.MustCompile(`\b` + idPattern + `\b`)
	// marker is the line under a message that names one of its files.
	marker = regexp.MustCompile(`(?m)^\[(Image|PDF|File) #\d+: (.*) \((` + idPattern + `)\)\]$`)
	// hidden is a line of the instructions that says why a picture is not shown.
	hidden = regexp.MustCompile(`(?m)^- (` + idPattern + `(?: page \d+)?)(?: \((.*?)\))?: (.+)$`)
	// label is the text before a picture.
	label = regexp.MustCompile(`^Picture ` + idPattern + `(?: page (\d+))? \((.*)\), [a-z+./-]+, \d+x\d+ pixels: (.*)$`)
)

const pictureSection = "PICTURES IN THIS REQUEST"

// file is one attached file as a marker names it.
type file struct {
	id, name string
	kind     string // Image, PDF or File
}

// turn is what the transcript says of the turn under way.
type turn struct {
	request   string // the last message's text, without markers
	own       []file // attached in this turn
	first     bool   // nothing was answered in this conversation yet
	spoken    string // the ID of the picture that the last answer spoke of last
	spokenOne bool   // it spoke of no other
	listing   listing
	failed    string                    // what a tool answered instead of a result
	viewed    *viewing                  // what view_images answered to this request
	excerpts  map[readArguments]excerpt // what read_document did
	calls     int                       // tool calls since the request
	offered   map[string]bool           // tools
	shown     map[target]int            // index in pictures
	reasons   map[string]string         // attachment ID, and page -> why it is not shown
	names     map[string]string         // attachment ID -> file name
	known     map[string]file           // attachment ID -> file, of all markers
	pictures  []agent.ShownPicture
	messages  int
}

// listing is the inventory, as far as it was listed in this turn.
type listing struct {
	started  bool
	complete bool
	next     int
	total    int
	docs     []document
}

type document struct {
	ID       string `json:"id"`
	Ordinal  int    `json:"ordinal"`
	Name     string `json:"name"`
	Type     string `json:"type"`
	Size     int64  `json:"size"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
	PostedBy string `json:"posted_by"`
	PostedAt string `json:"posted_at"`
	State    string `json:"state"`
	Viewable bool   `json:"viewable"`
	Note     string `json:"note"`
}

func (d document) image() bool { return d.Viewable || strings.HasPrefix(d.Type, "image/") }

// viewing is what view_images was asked and what it answered.
type viewing struct {
	refused map[string]string // attachment ID, and page -> why
}

func readTurn(r agent.ModelRequest) *turn {
	t := &turn{
		first: true, offered: map[string]bool{}, shown: map[target]int{}, reasons: map[string]string{}, names: map[string]string{},
		known: map[string]file{}, excerpts: map[readArguments]excerpt{},
		pictures: r.Pictures, messages: len(r.Messages),
	}
	for _, tool := range r.Tools {
		t.offered[tool.Name] = true
	}
	begin := 0
	for i, m := range r.Messages {
		for _, f := range marker.FindAllStringSubmatch(m.Text, -1) {
			if m.Role == agent.RoleUser {
				t.names[f[3]] = f[2]
				t.known[f[3]] = file{id: f[3], name: f[2], kind: f[1]}
			}
		}
		if m.Role == agent.RoleAssistant && m.Text != "" {
			t.first = false
			if ids := anyID.FindAllString(m.Text, -1); len(ids) > 0 {
				t.spoken, t.spokenOne = ids[len(ids)-1], len(unique(ids)) == 1
			}
		}
		if m.Role == agent.RoleAssistant && len(m.Calls) == 0 {
			begin = i + 1
		}
	}
	asked := map[string]agent.ToolCall{}
	for _, m := range r.Messages[begin:] {
		switch m.Role {
		case agent.RoleUser:
			t.hear(m.Text)
		case agent.RoleAssistant:
			for _, c := range m.Calls {
				asked[c.ID] = c
				t.calls++
			}
		case agent.RoleTool:
			if c, ok := asked[m.CallID]; ok {
				t.learn(c, m.Text)
			}
		}
	}
	for i, p := range r.Pictures {
		g := pictured(p)
		if l := label.FindStringSubmatch(p.Label); l != nil {
			t.names[g.id] = l[2]
		}
		if _, twice := t.shown[g]; !twice {
			t.shown[g] = i
		}
	}
	if at := strings.LastIndex(r.Instructions, pictureSection); at >= 0 {
		for _, h := range hidden.FindAllStringSubmatch(r.Instructions[at:], -1) {
			t.reasons[h[1]] = h[3]
		}
	}
	return t
}

// hear takes a message. A later one replaces the request of an earlier one (it steers the turn) but not its files: people
// often post a picture first and ask in the next message.
func (t *turn) hear(text string) {
	for _, f := range marker.FindAllStringSubmatch(text, -1) {
		t.own = append(t.own, file{id: f[3], name: f[2], kind: f[1]})
	}
	said := strings.TrimSpace(marker.ReplaceAllString(text, ""))
	if said != "" || t.request == "" {
		t.request = said
		t.viewed, t.failed, t.calls = nil, "", 0
		clear(t.excerpts)
	}
}

// learn takes a tool's answer.
func (t *turn) learn(c agent.ToolCall, answer string) {
	var failure struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(answer), &failure) != nil {
		t.failed = c.Name + " gave an answer that can't be read"
		return
	}
	if c.Name == readDocument {
		t.learnText(c, answer, failure.Error) // of several documents one may fail
		return
	}
	if failure.Error != "" {
		t.failed = c.Name + ": " + failure.Error
		return
	}
	switch c.Name {
	case listDocuments:
		var page struct {
			Documents []document `json:"documents"`
			Total     int        `json:"total"`
			Next      int        `json:"next"`
		}
		if json.Unmarshal([]byte(answer), &page) != nil {
			t.failed = c.Name + " gave an answer that can't be read"
			return
		}
		var args struct {
			After int `json:"after"`
		}
		if json.Unmarshal([]byte(c.Arguments), &args) == nil && args.After == 0 {
			t.listing.docs = nil // a fresh look from the start
		}
		for _, d := range page.Documents {
			if _, err := chat.ParseAttachmentID(d.ID); err == nil { // nothing else could be looked at
				t.listing.docs = append(t.listing.docs, d)
				t.names[d.ID] = d.Name
			}
		}
		t.listing.started, t.listing.complete = true, page.Next == 0
		t.listing.next, t.listing.total = page.Next, page.Total
	case viewImages:
		t.view(c, answer)
	}
}

func (t *turn) view(c agent.ToolCall, answer string) {
	var result struct {
		Refused []struct {
			ID     string `json:"id"`
			Page   int    `json:"page"`
			Reason string `json:"reason"`
		} `json:"refused"`
	}
	if json.Unmarshal([]byte(answer), &result) != nil {
		t.failed = c.Name + " gave an answer that can't be read"
		return
	}
	t.viewed = &viewing{refused: map[string]string{}}
	for _, r := range result.Refused {
		t.viewed.refused[target{id: r.ID, page: r.Page}.key()] = r.Reason
	}
}

// callID is unique in the transcript: each call makes it longer.
func (t *turn) callID() string { return fmt.Sprintf("call_offline_%d", t.messages) }

// pictured is what a picture shows, as its label tells.
func pictured(p agent.ShownPicture) target {
	g := target{id: string(p.ID)}
	if l := label.FindStringSubmatch(p.Label); l != nil {
		g.page, _ = strconv.Atoi(l[1]) // none: 0
	}
	return g
}

// called is how a target is called in an answer.
func (t *turn) called(g target) string {
	if g.page > 0 {
		return fmt.Sprintf("Page %d of %s", g.page, t.name(g.id))
	}
	return t.name(g.id)
}

// name is how a file is called in an answer.
func (t *turn) name(id string) string {
	if n := t.names[id]; n != "" {
		return n + " (" + id + ")"
	}
	return id
}

func (t *turn) owns(id string) bool {
	for _, f := range t.own {
		if f.id == id {
			return true
		}
	}
	return false
}

// document is what a marker tells of a file, in the inventory's terms.
func (f file) document() document {
	d := document{ID: f.id, Name: f.name, State: "available"}
	switch f.kind {
	case "Image":
		d.Viewable = true
		d.Type = "image/" + strings.Replace(strings.ToLower(strings.TrimPrefix(f.name[len(stem(f.name)):], ".")), "jpg", "jpeg", 1)
	case "PDF":
		d.Type = "application/pdf"
	}
	return d
}

// attached are the files of this turn.
func (t *turn) attached() []document {
	var out []document
	for _, f := range t.own {
		out = append(out, f.document())
	}
	return out
}
