package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"sightline/connectors/chat"
)

// archive is a console with one of each.
type archive struct {
	picture string
	asked   []string
}

const (
	aTurn = "trn_0123456789abcdefghjkmnpqrs"
	aConv = "cnv_0123456789abcdefghjkmnpqrs"
	anAtt = "att_0123456789abcdefghjkmnpqrs"
	aSum  = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

func (a *archive) Overview(context.Context) (Report, error) {
	return Report{Title: "Console", Tables: []Table{{Name: "Conversations", Columns: []string{"conversation", "last turn", "state"},
		Rows: [][]Cell{{{Text: aConv, Kind: "conversation", ID: aConv}, {Text: aTurn, Kind: "turn", ID: aTurn}, {Text: "answered", Tone: "good"}}}}}}, nil
}

func (a *archive) Inspect(_ context.Context, kind, id string) (Report, error) {
	a.asked = append(a.asked, kind+"/"+id)
	switch kind + "/" + id {
	case "turn/" + aTurn:
		return Report{Title: "Turn " + aTurn, Facts: []Fact{
			{"state", Cell{Text: "answered", Tone: "good"}}, {"asker", Cell{Text: "Ann <script>alert(1)</script> (web local/local, owner)"}},
			{"destination", Cell{Text: "web direct conv_1 (plc_0123456789abcdefghjkmnpqrs)"}}, {"conversation", Cell{Text: aConv, Kind: "conversation", ID: aConv}},
			{"workflow", Cell{Text: aTurn + ", run 01a22cdc-b8ec-75c8-9b9a-7a4a984cebc7", URL: "http://127.0.0.1:8233/namespaces/default/workflows/x/y/history"}},
		}, Tables: []Table{
			{Name: "Model calls", Columns: []string{"step", "try", "model", "outcome", "tokens in", "tokens out", "seconds", "pictures"},
				Rows: [][]Cell{{{Text: "1"}, {Text: "1"}, {Text: "gpt-6.1-terra (responses, api.openai.com)"}, {Text: "stop"}, {Text: "1812"}, {Text: "77"}, {Text: "2.31"}, {Text: anAtt + " sha256 " + aSum}}}},
			{Name: "Tool calls", Columns: []string{"step", "tool"}, Empty: "No tool was called."},
			{Name: "Decisions", Columns: []string{"at", "attachment", "action", "verdict", "rule", "reason", "asker", "destination", "bytes", "sha256"},
				Rows: [][]Cell{
					{{Text: "2026-11-30 14:12:01Z"}, {Text: anAtt, Kind: "attachment", ID: anAtt}, {Text: "show"}, {Text: "allowed", Tone: "good"}, {Text: "S1"}, {}, {Text: "Ann (web local/local, owner)"}, {Text: "plc_0123456789abcdefghjkmnpqrs"}, {Text: "0"}, {Text: aSum}},
					{{Text: "2026-11-30 14:12:02Z"}, {Text: "att_00000000000000000000000000"}, {Text: "view"}, {Text: "refused", Tone: "bad"}, {Text: "unknown"}, {Text: "no such attachment for this agent in this conversation"}, {Text: "Ann (web local/local, owner)"}, {Text: "plc_0123456789abcdefghjkmnpqrs"}, {Text: "0"}, {}},
				}},
		}}, nil
	case "attachment/" + anAtt:
		return Report{Title: "Attachment " + anAtt, Picture: a.picture, Facts: []Fact{{"name", Cell{Text: "shot.png"}}, {"sha256", Cell{Text: aSum}}}}, nil
	case "conversation/" + aConv:
		return Report{Title: "Conversation " + aConv, Facts: []Fact{{"agent", Cell{Text: "main"}}}}, nil
	}
	return Report{}, fmt.Errorf("there is no %s %s: %w", kind, id, chat.ErrNotFound)
}

// The console is the owner's, signed in; to anybody else it is not there.
func TestTheConsoleIsTheOwners(t *testing.T) {
	a := &archive{}
	s := open(t, func(c *Config) { c.Console = a })
	pages := []string{"/console", "/console/turn/" + aTurn, "/console/attachment/" + anAtt, "/console/conversation/" + aConv}
	for _, path := range pages {
		if r := s.do("GET", path, nil); r.status != http.StatusOK || !strings.Contains(r.body, "<h1>") {
			t.Errorf("%s: %d", path, r.status)
		}
		if r := s.do("GET", path, nil, "Cookie", ""); r.status != http.StatusUnauthorized || strings.Contains(r.body, "0123456789") {
			t.Errorf("%s without a session: %d", path, r.status)
		}
	}
	asked := len(a.asked)
	s.person.Role = chat.Guest
	for _, path := range pages {
		if r := s.do("GET", path, nil); r.status != http.StatusNotFound {
			t.Errorf("%s as a guest: %d", path, r.status)
		}
	}
	if len(a.asked) != asked {
		t.Errorf("a guest's request was looked up: %v", a.asked)
	}
	s.person.Role = chat.Owner
	for _, path := range []string{"/console/turn/trn_x", "/console/pixels/" + anAtt, "/console/turn/..%2f..%2fetc", "/console/attachment/%3Cscript%3E"} {
		if r := s.do("GET", path, nil); r.status != http.StatusNotFound || strings.Contains(r.body, "<script>") {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if r := s.do("GET", "/console/turn/"+aTurn, nil); strings.Contains(r.body, "<script>alert") || !strings.Contains(r.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error("a name of a person is markup, or the page has no policy")
	}
	// Without a console there are no such pages, and no link to them.
	plain := open(t)
	if r := plain.do("GET", "/console", nil); r.status != http.StatusNotFound {
		t.Errorf("no console: %d", r.status)
	}
	if r := plain.do("GET", "/c/"+first1(plain), nil); strings.Contains(r.body, "/console") {
		t.Error("the page links to a console that is not there")
	}
}

func first1(s *served) string { id, _ := s.conv("main"); return id }

// A thumbnail is one that the place serves anyway: of a raster upload of a
// message that is there. Of anything else there is no picture.
func TestTheConsoleShowsOnlyItsOwnThumbnails(t *testing.T) {
	a := &archive{}
	s := open(t, func(c *Config) { c.Console = a })
	_, api := s.conv("main")
	u := s.uploaded(api, "shot.png", picture(64, 48))
	text := s.uploaded(api, "a.txt", []byte("hello"))
	m := s.sent(api, "k1", "look", u.ID, text.ID)
	<-s.sink.got
	path := "/console/attachment/" + anAtt
	for name, want := range map[string]bool{u.ID: true, text.ID: false, "": false, "F012SLACKFILE": false, "upl_0123456789abcdefghjkmnpqrs": false} {
		a.picture = name
		r := s.do("GET", path, nil)
		if r.status != http.StatusOK || strings.Contains(r.body, "<img src=\"/uploads/") != want {
			t.Errorf("picture %q: %d, shown %v", name, r.status, !want)
		}
	}
	a.picture = u.ID
	s.do("DELETE", api+"/messages/"+m.Message, nil)
	if r := s.do("GET", path, nil); r.status != http.StatusOK || strings.Contains(r.body, "/uploads/") {
		t.Errorf("a deleted picture: %d, and shown", r.status)
	}
}

func press(key string, code int64) action {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		for _, typ := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
			if _, err = cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{
				Type: typ, Key: key, Code: key, WindowsVirtualKeyCode: code, NativeVirtualKeyCode: code,
			}); err != nil {
				return v, err
			}
		}
		return v, nil
	}
}

func TestAnOwnerReadsTheConsole(t *testing.T) {
	ctx := browser(t)
	a := &archive{}
	s := open(t, func(c *Config) {
		c.Console, c.TemporalUI, c.Model = a, "http://127.0.0.1:8233", "gpt-vision (sees pictures)"
	})
	conv, api := s.conv("main")
	u := s.uploaded(api, "shot.png", picture(640, 400))
	s.sent(api, "k1", "look", u.ID)
	<-s.sink.got
	a.picture = u.ID

	do(t, ctx, "sign in", size(1280, 900), dark(false), chromedp.Navigate(s.SignInLink()), chromedp.WaitVisible(chromedp.CSS("#composer, .notice")),
		chromedp.Navigate(s.base+"/c/"+conv), chromedp.WaitVisible(chromedp.CSS("#text")))
	shot(t, ctx, "7-page-with-console-1280")
	do(t, ctx, "narrow", size(390, 844))
	until(t, ctx, "the page with its link fits", `document.documentElement.scrollWidth <= innerWidth && (e => e.getBoundingClientRect().right <= innerWidth && e.getBoundingClientRect().width > 20)(document.querySelector(".facts form"))`)
	shot(t, ctx, "7-page-with-console-390")
	do(t, ctx, "wide", size(1280, 900))
	// With the mouse to the console, with the keyboard through it.
	do(t, ctx, "to the console", chromedp.Click(chromedp.CSS(`.facts a[href="/console"]`)), chromedp.WaitVisible(chromedp.CSS(".console h1")))
	do(t, ctx, "tab to the skip link", press("Tab", 9))
	until(t, ctx, "the skip link comes first, and shows", `(e => e.className === "skip" && e.getBoundingClientRect().top >= 0)(document.activeElement)`)
	do(t, ctx, "skip", enter)
	until(t, ctx, "the report has the focus", `document.activeElement.id === "report"`)
	do(t, ctx, "tab to the table", press("Tab", 9))
	until(t, ctx, "a wide table can be scrolled by keys", `(e => e.getAttribute("role") === "region" && document.getElementById(e.getAttribute("aria-labelledby")).textContent === "Conversations")(document.activeElement)`)
	do(t, ctx, "tab to the turn", press("Tab", 9), press("Tab", 9), enter, chromedp.WaitVisible(chromedp.CSS("dl")))
	until(t, ctx, "the turn", fmt.Sprintf(`location.pathname === "/console/turn/%s" && document.querySelector("h1").textContent.startsWith("Turn")`, aTurn))

	for _, look := range []struct {
		name string
		w, h int64
		dark bool
	}{{"8-turn-1280", 1280, 900, false}, {"8-turn-390", 390, 844, false}, {"9-turn-dark-390", 390, 844, true}, {"9-turn-dark-1280", 1280, 900, true}} {
		do(t, ctx, look.name, size(look.w, look.h), dark(look.dark))
		until(t, ctx, "nothing wider than the window", `document.documentElement.scrollWidth <= innerWidth`)
		until(t, ctx, "tables are tables to a screen reader", `[...document.querySelectorAll("table")].every(t => t.getAttribute("role") === "table" && t.querySelector("tr").getAttribute("role") === "row" && [...t.querySelectorAll("th")].every(h => h.scope === "col"))`)
		until(t, ctx, "no text is cut off", `[...document.querySelectorAll("td, dd")].every(e => e.scrollWidth <= e.clientWidth + 1)`)
		shot(t, ctx, look.name)
	}
	until(t, ctx, "one main heading, sections named", `document.querySelectorAll("h1").length === 1 && [...document.querySelectorAll("section")].every(s => document.getElementById(s.getAttribute("aria-labelledby")).textContent)`)
	until(t, ctx, "verdicts do not rest on colour alone", `getComputedStyle(document.querySelector(".tone.bad"), "::before").content.includes("✕")`)
	until(t, ctx, "the history is a tab of its own", `(a => a.target === "_blank" && a.rel.includes("noopener") && a.textContent.includes("Temporal"))(document.querySelector('dd a[href*="/history"]'))`)
	until(t, ctx, "no picture but the emblem", `[...document.images].every(i => i.src.includes("/static/"))`)

	do(t, ctx, "the attachment", size(1280, 900), dark(false), chromedp.Click(chromedp.CSS(`td a[href="/console/attachment/`+anAtt+`"]`)), chromedp.WaitVisible(chromedp.CSS(".picture img")))
	until(t, ctx, "its thumbnail", `(i => i.complete && i.naturalWidth === 640 && i.alt.includes("shot.png"))(document.querySelector(".picture img"))`)
	shot(t, ctx, "10-attachment-1280")
}
