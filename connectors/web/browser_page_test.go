package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"sightline/connectors/chat"
)

// signedIn opens a conversation's page in a browser.
func (s *served) signedIn(t *testing.T, ctx context.Context, conv string) {
	t.Helper()
	do(t, ctx, "sign in", chromedp.Navigate(s.SignInLink()), chromedp.WaitVisible(chromedp.CSS("#composer, .notice")),
		chromedp.Navigate(s.base+"/c/"+conv), chromedp.WaitVisible(chromedp.CSS("#text")))
}

// touch makes the screen one that is touched, without a mouse.
func touch(on bool) action {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: on})
		return chromedp.Void{}, err
	}
}

// The forms are the browser's own: what it sends with them, and from where it
// says they come, no client of Go's shows.
func TestThePagesFormsWorkInABrowser(t *testing.T) {
	ctx := browser(t)
	s := open(t)
	conv, _ := s.conv("main")
	do(t, ctx, "size", size(1280, 800), dark(false))
	s.signedIn(t, ctx, conv)

	do(t, ctx, "open a conversation", chromedp.Click(chromedp.CSS(".new summary")), chromedp.WaitVisible(chromedp.CSS("#new-name")),
		chromedp.SendKeys(chromedp.CSS("#new-name"), "release notes"), chromedp.Click(chromedp.CSS(".new button")))
	until(t, ctx, "the new conversation", `location.pathname.startsWith("/c/cv_") && document.querySelector("h1").textContent === "release notes" && document.querySelector("#composer")`)

	// A name of blanks passes the browser's own check, and is refused.
	do(t, ctx, "open one without a name", chromedp.Click(chromedp.CSS(".new summary")), chromedp.WaitVisible(chromedp.CSS("#new-name")),
		chromedp.SendKeys(chromedp.CSS("#new-name"), "   "), chromedp.Click(chromedp.CSS(".new button")))
	until(t, ctx, "the refusal, on the page and with the form", `location.pathname === "/conversations" && document.querySelector(".new[open] .complaint").textContent.includes("Give the conversation a name") && document.querySelectorAll("#conversations a").length === 2`)
	shot(t, ctx, "11-refused-name")
	do(t, ctx, "try again", chromedp.SendKeys(chromedp.CSS("#new-name"), "third"), chromedp.Click(chromedp.CSS(".new button")))
	until(t, ctx, "the third conversation", `document.querySelector("h1").textContent === "third" && document.querySelector("#composer")`)

	do(t, ctx, "to nowhere", chromedp.Navigate(s.base+"/c/nope"), chromedp.WaitVisible(chromedp.CSS(".notice a")))
	shot(t, ctx, "12-nowhere")
	do(t, ctx, "and back", chromedp.Click(chromedp.CSS(".notice a")), chromedp.WaitVisible(chromedp.CSS("#text")))

	do(t, ctx, "sign out", chromedp.Click(chromedp.CSS(`form[action="/sign-out"] button`)))
	until(t, ctx, "signed out", `document.querySelector("h1").textContent === "Sign in to Sightline"`)
	do(t, ctx, "look again", chromedp.Navigate(s.base+"/c/"+conv), chromedp.WaitVisible(chromedp.CSS(".notice")))
	until(t, ctx, "still signed out", `!document.querySelector("#composer")`)
}

func TestAConversationOpenedElsewhereAppears(t *testing.T) {
	ctx := browser(t)
	s := open(t)
	conv, _ := s.conv("main")
	s.signedIn(t, ctx, conv)
	until(t, ctx, "the connection", `document.querySelectorAll("#conversations a").length === 1`)
	second, _ := s.conv("second <b>")
	until(t, ctx, "the second", fmt.Sprintf(`(a => a && a.textContent === "second <b>" && a.pathname === "/c/%s")(document.querySelector("#conversations li:first-child a"))`, second))
	until(t, ctx, "no other, and none twice", `document.querySelectorAll("#conversations a").length === 2`)
	do(t, ctx, "go there", chromedp.Click(chromedp.CSS("#conversations li:first-child a")))
	until(t, ctx, "there", `document.querySelector("h1").textContent === "second <b>"`)
}

func TestAnAnswerLeadsToItsTurn(t *testing.T) {
	ctx := browser(t)
	s := open(t, func(c *Config) { c.Console = &archive{} })
	conv, api := s.conv("main")
	m := s.sent(api, "k1", "hello")
	<-s.sink.got
	s.reply(conv, sentJSON{Message: m.Message, Turn: aTurn}, chat.ReplyAnswer, "an answer")
	do(t, ctx, "size", size(1280, 800), touch(false))
	s.signedIn(t, ctx, conv)
	const opacity = `getComputedStyle(document.querySelector(".answer .turn")).opacity`
	until(t, ctx, "out of the way", opacity+` === "0" && !document.querySelector(".person .turn")`)
	do(t, ctx, "focus", chromedp.Evaluate[chromedp.Void](`document.querySelector(".person .delete").focus()`), press("Tab", 9))
	until(t, ctx, "reached by the keyboard, and seen", `document.activeElement.matches(".answer .turn") && `+opacity+` === "1"`)
	do(t, ctx, "leave", chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`), touch(true))
	until(t, ctx, "there on touch", opacity+` === "1"`)
	// One that comes while the page is open has it too.
	second := s.sent(api, "k2", "again")
	s.reply(conv, second, chat.ReplyAnswer, "another")
	until(t, ctx, "on the live one", `document.querySelectorAll(".answer .turn").length === 2`)
	do(t, ctx, "go", touch(false), chromedp.Evaluate[chromedp.Void](`document.querySelector(".answer .turn").focus()`), enter, chromedp.WaitVisible(chromedp.CSS(".console h1")))
	until(t, ctx, "the turn", fmt.Sprintf(`location.pathname === "/console/turn/%s"`, aTurn))

	// Nobody is sent where they may not go.
	s.person.Role = chat.Guest
	if a := s.do("GET", "/c/"+conv, nil); strings.Contains(a.body, "/console") {
		t.Error("a guest's page leads to the console")
	}
}

func TestDeletingSaysWhatStays(t *testing.T) {
	ctx := browser(t)
	s := open(t)
	conv, api := s.conv("main")
	s.sent(api, "k1", "hello")
	s.signedIn(t, ctx, conv)
	do(t, ctx, "delete, and think again", chromedp.Evaluate[chromedp.Void](`confirm = said => { window.said = said; return false; }; document.querySelector(".delete").click()`))
	until(t, ctx, "what is asked", `window.said.includes("Answers that quote them stay visible")`)
	until(t, ctx, "nothing deleted", `document.querySelectorAll(".person").length === 1`)
}

// Whatever does not fit is said to be there, and what needs a hand comes first.
func TestTheComposerShowsItsFiles(t *testing.T) {
	ctx := browser(t)
	s := open(t, func(c *Config) { c.Model = "offline-describer-2026 (deterministic, sees pictures)" })
	conv, _ := s.conv("Ein langer Name für eine Unterhaltung über Bildschirmfotos")
	do(t, ctx, "size", size(1280, 800), dark(false))
	s.signedIn(t, ctx, conv)
	png := picture(64, 40)
	do(t, ctx, "attach", pasted("paste", "one.png", "image/png", png), pasted("paste", "two.png", "image/png", png),
		pasted("paste", "three.png", "image/png", png), pasted("paste", "empty.bin", "application/octet-stream", nil))
	until(t, ctx, "chips", fmt.Sprintf(chipsReady, 4))
	until(t, ctx, "the refused one is first", `document.querySelector("#chips li:first-child").matches(".refused")`)
	const inSight = `[...document.querySelectorAll("#chips li")].every(li => (a => (b => a.top >= b.top && a.bottom <= b.bottom)(document.getElementById("chips").getBoundingClientRect()))(li.getBoundingClientRect()))`
	for _, look := range []struct {
		name string
		w, h int64
		dark bool
	}{{"13-files-1280", 1280, 800, false}, {"13-files-dark-1280", 1280, 800, true}, {"13-files-800", 800, 900, false}, {"13-files-390", 390, 844, false}, {"13-files-dark-390", 390, 844, true}} {
		do(t, ctx, look.name, size(look.w, look.h), dark(look.dark), chromedp.Sleep(100*time.Millisecond))
		until(t, ctx, "all four are in sight", inSight)
		until(t, ctx, "the count", `document.getElementById("tally").textContent === "4 files, 1 can't be sent"`)
		until(t, ctx, "nothing wider than the window", `document.documentElement.scrollWidth <= innerWidth`)
		until(t, ctx, "model and title are whole", `[document.querySelector(".top h1"), document.querySelector(".fact")].every(e => e.scrollWidth <= e.clientWidth + 1 || getComputedStyle(e).display === "inline") && document.querySelector(".fact").getBoundingClientRect().right <= innerWidth && document.querySelector(".top h1").clientWidth > 100`)
		shot(t, ctx, look.name)
	}
	// Too many to be shown at once.
	for i := range 9 {
		do(t, ctx, "attach more", pasted("paste", fmt.Sprintf("more%d.png", i), "image/png", png))
	}
	do(t, ctx, "attach a bad one", pasted("paste", "empty2.bin", "application/octet-stream", nil))
	until(t, ctx, "chips", fmt.Sprintf(chipsReady, 14))
	until(t, ctx, "the count, and that there is more", `document.getElementById("tally").textContent === "14 files, 2 can't be sent; scroll to see all" && document.getElementById("chips").classList.contains("more")`)
	until(t, ctx, "both refused ones first, as attached", `[...document.querySelectorAll("#chips li")].slice(0, 2).map(li => li.querySelector(".name").textContent).join() === "empty.bin,empty2.bin" && document.getElementById("chips").scrollTop === 0`)
	shot(t, ctx, "14-many-390")
	do(t, ctx, "remove", chromedp.Click(chromedp.CSS("#chips .refused button")))
	until(t, ctx, "the new count", `document.getElementById("tally").textContent.startsWith("13 files, 1 can't")`)
	do(t, ctx, "remove", chromedp.Click(chromedp.CSS("#chips .refused button")), chromedp.SendKeys(chromedp.CSS("#text"), "all these"), enter)
	e := <-s.sink.got
	if len(e.Files) != 12 || e.Files[0].Name != "one.png" || e.Files[3].Name != "more0.png" {
		t.Errorf("sent %+v", e.Files)
	}
	until(t, ctx, "no count", `document.getElementById("tally").hidden && document.getElementById("chips").hidden`)
}

// Whoever picks more files than a message takes is told which ones are not there.
func TestFilesThatAreTooManyAreNamed(t *testing.T) {
	ctx := browser(t)
	s := open(t)
	conv, _ := s.conv("main")
	s.signedIn(t, ctx, conv)
	dir := t.TempDir()
	var picked []string
	for i := range maxFiles + 3 {
		picked = append(picked, filepath.Join(dir, fmt.Sprintf("n%02d.txt", i)))
		if err := os.WriteFile(picked[i], []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do(t, ctx, "pick too many", chromedp.SetUploadFiles(chromedp.CSS("#pick"), picked))
	until(t, ctx, "what was left out", fmt.Sprintf(`document.querySelector("#complaint").textContent.includes("at most %d files: 3 were left out, from n%02d.txt on.")`, maxFiles, maxFiles))
	do(t, ctx, "one more", chromedp.SetUploadFiles(chromedp.CSS("#pick"), picked[:1]))
	until(t, ctx, "the one that was left out", `document.querySelector("#complaint").textContent.includes("n00.txt was left out.")`)
	until(t, ctx, "chips", fmt.Sprintf(chipsReady, maxFiles))
}
