package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sightline/connectors/chat"
)

// register is a console of one conversation, as Discord, Slack or this place
// has it.
type register struct{ conversation, place, destination string }

const longName = "a_file_with_a_name_that_has_no_place_to_break_at_but_goes_on.png"

func (g *register) Overview(context.Context) (Report, error) {
	row := []Cell{{Text: g.conversation, Kind: "conversation", ID: g.conversation}, {Text: g.place}, {Text: aTurn, Kind: "turn", ID: aTurn},
		{Text: "answered", Tone: "good"}, {Text: "2026-11-30 14:12:01Z"}, {Text: "12"}, {Text: "30"}, {Text: "4"}}
	return Report{Title: "Console", Tables: []Table{{Name: "Conversations", Rows: [][]Cell{row},
		Columns: []string{"conversation", "place", "last turn", "state", "last turn began", "turns", "messages", "attachments"}}}}, nil
}

func (g *register) Inspect(_ context.Context, kind, id string) (Report, error) {
	att := Cell{Text: anAtt, Kind: "attachment", ID: anAtt}
	return Report{Title: "Conversation " + g.conversation, Facts: []Fact{
		{"place", Cell{Text: g.place}}, {"sha256", Cell{Text: aSum}},
		{"workflow", Cell{Text: g.conversation, URL: "http://127.0.0.1:8233/namespaces/default/workflows/x"}},
	}, Tables: []Table{{Name: "Decisions", Legend: "S1: a file may be used where it was posted", Columns: []string{"attachment", "name", "destination", "reason", "sha256"},
		Rows: [][]Cell{{att, {Text: longName}, {Text: g.destination},
			{Text: anAtt + " sha256 " + aSum, Parts: []Cell{att, {Text: " sha256 " + aSum}}}, {Text: aSum}}}}}}, nil
}

func (s *served) registered(g *register, conv string) {
	place := s.placeOf(conv)
	*g = register{string(place.Conversation()), fmt.Sprintf("web direct %s (%s)", conv, place.ID), string(place.ID)}
}

// The names of conversations are the owner's; they are this place's alone to
// tell, and of its own conversations alone.
func TestTheConsoleNamesThisPlacesConversations(t *testing.T) {
	g := &register{}
	s := open(t, func(c *Config) { c.Console = g })
	conv, _ := s.conv("release <notes>")
	s.registered(g, conv)
	for _, path := range []string{"/console", "/console/conversation/" + g.conversation} {
		body := s.do("GET", path, nil).body
		for _, want := range []string{"release &lt;notes&gt;", `<a class="named" href="/c/` + conv + `">`, ">" + g.conversation + "</code>"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %s:\n%s", path, want, body)
			}
		}
	}
	if body := s.do("GET", "/console", nil).body; strings.Count(body, "release &lt;") != 2 { // the conversation and its place
		t.Errorf("the name is told %d times", strings.Count(body, "release &lt;"))
	}
	// Where both of a place's IDs are told the name is told once, and where one is, too.
	if body := s.do("GET", "/console/conversation/"+g.conversation, nil).body; strings.Count(body, "release &lt;") != 4 { // title, place, workflow, destination
		t.Errorf("the name is told %d times", strings.Count(body, "release &lt;"))
	}
	// Somebody else's, another agent's or another platform's has no name here.
	theirs, _, err := s.db.named(t.Context(), "somebody", "their secret")
	if err != nil {
		t.Fatal(err)
	}
	s.registered(g, theirs.ID)
	if body := s.do("GET", "/console", nil).body; strings.Contains(body, "their secret") || strings.Contains(body, `class="named"`) || !strings.Contains(body, theirs.ID) {
		t.Error("the name of somebody else's conversation is told")
	}
	other := chat.NewPlace(agent, "discord", "1", conv, "", chat.Direct)
	*g = register{string(other.Conversation()), "discord direct 5 (" + string(other.ID) + ")", string(other.ID)}
	if body := s.do("GET", "/console", nil).body; strings.Contains(body, `class="named"`) {
		t.Error("a conversation of another platform has a name of this one")
	}
}

func TestRunsKeepTheTextAndKnowItsForms(t *testing.T) {
	v := consoleView{names: map[string]named{aConv: {"main", "/c/x"}}}
	for text, want := range map[string][]string{
		"":                      nil,
		"Ann (web local/local)": {""},
		aConv:                   {"id"},
		"x " + aConv + ", run 01a22cdc-b8ec-75c8-9b9a-7a4a984cebc7": {"", "id", "", "id"},
		anAtt + " sha256 " + aSum + "; " + anAtt:                    {"id", "", "digest", "", "id"},
		"web direct x (" + aConv + ")":                              {"", "id", ""},
		aSum + "0":                                                  {"long"},
		"2026-11-30 14:12:01Z":                                      {"day", ""},
		longName:                                                    {"long"},
		"conversation_that is not one":                              {""},
	} {
		var classes []string
		joined := ""
		for _, r := range v.Runs(text, false) {
			classes, joined = append(classes, r.Class), joined+r.Text
			if (r.Name != nil) != (r.Text == aConv) {
				t.Errorf("%q: a name for %q: %v", text, r.Text, r.Name)
			}
		}
		if joined != text || !slices.Equal(classes, want) {
			t.Errorf("%q: %q, %q", text, joined, classes)
		}
	}
	if r := v.Runs(aConv, true); r[0].Name.Href != "" || v.names[aConv].Href == "" {
		t.Error("a link in a link")
	}
}

func TestIDsAndDigestsCanBeReadAndCopied(t *testing.T) {
	ctx := browser(t)
	g := &register{}
	s := open(t, func(c *Config) { c.Console = g })
	conv, _ := s.conv("release notes")
	s.registered(g, conv)
	do(t, ctx, "size", size(1280, 900), dark(false))
	s.signedIn(t, ctx, conv)
	for _, path := range []string{"/console", "/console/conversation/" + g.conversation} {
		do(t, ctx, "go", chromedp.Navigate(s.base+path), chromedp.WaitVisible(chromedp.CSS(".console table")))
		for _, look := range []struct {
			name string
			w, h int64
			dark bool
		}{{"1280", 1280, 900, false}, {"390", 390, 844, false}, {"dark-390", 390, 844, true}, {"dark-1280", 1280, 900, true}} {
			do(t, ctx, look.name, size(look.w, look.h), dark(look.dark))
			until(t, ctx, "nothing wider than the window", `document.documentElement.scrollWidth <= innerWidth`)
			until(t, ctx, "no text is cut off", `[...document.querySelectorAll("td, dd")].every(e => e.scrollWidth <= e.clientWidth + 1)`)
			until(t, ctx, "IDs and digests are monospace", `[...document.querySelectorAll(".id, .digest")].every(e => getComputedStyle(e).fontFamily.includes("monospace"))`)
			until(t, ctx, "an ID takes two lines at most", `[...document.querySelectorAll(".id")].every(e => e.getBoundingClientRect().height < 3.2 * parseFloat(getComputedStyle(e).fontSize))`)
			until(t, ctx, "a cell is in its column", `[...document.querySelectorAll("td")].every(e => e.childElementCount === 1)`)
			until(t, ctx, "an ID is part of its link's line", `[...document.querySelectorAll(".id")].every(e => getComputedStyle(e).display === "inline")`)
			until(t, ctx, "words break nowhere", `[...document.querySelectorAll("td, dd, h1")].every(e => getComputedStyle(e).overflowWrap === "break-word")`)
			shot(t, ctx, map[bool]string{true: "15-overview-", false: "16-conversation-"}[path == "/console"]+look.name)
		}
	}
	do(t, ctx, "wide", size(1280, 900), dark(false))
	until(t, ctx, "a digest in a table is shortened, the whole is in its title", `(d => d.title === "`+aSum+`" && d.scrollWidth > d.clientWidth && d.clientWidth < 160)(document.querySelector("td .digest"))`)
	until(t, ctx, "what is copied is the whole", `(d => { getSelection().selectAllChildren(d); return getSelection().toString() === "`+aSum+`" && getComputedStyle(d).userSelect === "all"; })(document.querySelector("td .digest"))`)
	until(t, ctx, "in a fact there is room for it", `(d => d.scrollWidth <= d.clientWidth || getComputedStyle(d).display === "inline")(document.querySelector("dd .digest"))`)
	until(t, ctx, "an ID in a text leads to its report", `document.querySelectorAll('td:nth-child(4) a[href="/console/attachment/`+anAtt+`"]').length === 1`)
	until(t, ctx, "the legend", `document.querySelector(".legend").textContent.startsWith("S1: ")`)
	do(t, ctx, "to the conversation", chromedp.Click(chromedp.CSS("dd a.named")), chromedp.WaitVisible(chromedp.CSS("#text")))
	until(t, ctx, "there", `document.querySelector("h1").textContent === "release notes"`)
}
