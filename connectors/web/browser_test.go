package web

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"sightline/connectors/chat"
)

// browser starts a headless Chromium of its own, and fails the test for what
// the page's console complains of.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		const hint = "this test needs Chromium: apt-get install chromium"
		if os.Getenv("SIGHTLINE_NO_SKIP") == "1" {
			t.Fatal(hint)
		}
		t.Skip(hint + " (set SIGHTLINE_NO_SKIP=1 to fail instead)")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// A machine without a mouse would make every page one that is touched.
		chromedp.Flag("blink-settings", "availableHoverTypes=2,primaryHoverType=2,availablePointerTypes=4,primaryPointerType=4"))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.Flag("no-sandbox", true))
	}
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	if err := chromedp.Do(ctx); err != nil { // starts it
		t.Fatalf("start Chromium: %v", err)
	}
	said := chromedp.Console(ctx)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		for m, err := range said {
			// Refused uploads and lost connections are expected and logged.
			if err == nil && (m.Type == chromedp.ConsoleException || strings.Contains(m.Text, "Content Security Policy")) {
				t.Errorf("the page's console: %s", m.Text)
			}
		}
	}()
	t.Cleanup(func() {
		chromedp.Cancel(ctx) // waits for the browser to end
		cancel()
		cancelAlloc()
		<-listening
	})
	return ctx
}

type action = chromedp.Action[chromedp.Void]

func do(t *testing.T, ctx context.Context, what string, actions ...action) {
	t.Helper()
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(limit, actions...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// enter is the key as a browser has it: no character follows a keydown that
// the page took for itself, as one does in SendKeys.
func enter(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
	for _, typ := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
		_, err = cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type: typ, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13, NativeVirtualKeyCode: 13,
		})
		if err != nil {
			return v, err
		}
	}
	return v, nil
}

// until waits for a condition of the page.
func until(t *testing.T, ctx context.Context, what, js string) {
	t.Helper()
	await(t, what, func() bool {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+js+")"))
		return err == nil && ok
	})
}

// shot keeps a screenshot where SIGHTLINE_SCREENSHOTS says, for people.
func shot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("SIGHTLINE_SCREENSHOTS")
	if dir == "" {
		return
	}
	b, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func size(w, h int64) action { return chromedp.EmulateViewport(w, h) }

func dark(on bool) action {
	v := "light"
	if on {
		v = "dark"
	}
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v}},
		})
		return chromedp.Void{}, err
	}
}

// pasted makes the page think that files were pasted or dropped.
func pasted(event, name, mime string, data []byte) action {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
		const bytes = Uint8Array.from(atob(%q), c => c.charCodeAt(0)), t = new DataTransfer();
		t.items.add(new File([bytes], %q, {type: %q}));
		const e = %q === "paste" ? new ClipboardEvent("paste", {clipboardData: t, bubbles: true, cancelable: true})
			: new DragEvent("drop", {dataTransfer: t, bubbles: true, cancelable: true});
		document.getElementById("text").dispatchEvent(e);
	})()`, base64.StdEncoding.EncodeToString(data), name, mime, event))
}

const chipsReady = `document.querySelectorAll("#chips li").length === %d && !document.querySelector("#chips progress")`

func TestAPersonAsksAboutAPicture(t *testing.T) {
	ctx := browser(t)
	s := open(t, func(c *Config) { c.Model, c.TemporalUI = "gpt-vision (sees pictures)", "http://127.0.0.1:8233" })
	conv, _ := s.conv("main")
	s.conv("release notes")
	s.conv("a conversation with a rather long name that has to be cut")

	do(t, ctx, "sign in", size(1280, 800), dark(false), chromedp.Navigate(s.SignInLink()), chromedp.WaitVisible(chromedp.CSS("#composer, .notice")))
	do(t, ctx, "open", chromedp.Navigate(s.base+"/c/"+conv), chromedp.WaitVisible(chromedp.CSS("#text")))
	shot(t, ctx, "1-empty-1280")

	// Pasted, dropped and picked; one that is refused says why.
	picked := filepath.Join(t.TempDir(), "drawing.svg")
	os.WriteFile(picked, []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o600)
	do(t, ctx, "attach",
		pasted("paste", "shot.png", "image/png", picture(640, 400)),
		pasted("drop", "tall.png", "image/png", picture(60, 900)),
		chromedp.SetUploadFiles(chromedp.CSS("#pick"), []string{picked}),
		pasted("paste", "empty.bin", "application/octet-stream", nil))
	until(t, ctx, "chips", fmt.Sprintf(chipsReady, 4))
	until(t, ctx, "the refusal", `document.querySelector("#chips .refused .state").textContent.includes("empty")`)
	shot(t, ctx, "2-chips-1280")
	do(t, ctx, "remove", chromedp.Click(chromedp.CSS("#chips .refused button")))
	until(t, ctx, "three chips", fmt.Sprintf(chipsReady, 3))

	do(t, ctx, "write", chromedp.SendKeys(chromedp.CSS("#text"), "What does the screenshot show?"), enter)
	e := <-s.sink.got
	if e.Message.Text != "What does the screenshot show?" || len(e.Files) != 3 || e.Files[0].Name != "shot.png" || e.Files[2].SniffedType != "image/svg+xml" {
		t.Fatalf("delivered %+v", e)
	}
	until(t, ctx, "the thumbnail", `(i => i && i.complete && i.naturalWidth === 640 && i.alt === "shot.png" && i.loading === "lazy" && i.width > 0)(document.querySelector(".person .picture img"))`)
	until(t, ctx, "the chip and its guidance", `document.querySelector(".person .chip .note").textContent.includes("SVG")`)
	until(t, ctx, "an empty composer", `document.getElementById("text").value === "" && document.getElementById("chips").hidden`)
	until(t, ctx, "the stop button", `!document.getElementById("stop").hidden`)

	turn := chat.TurnOf(e.Message.ID)
	s.Progress(t.Context(), chat.Progress{Turn: turn, Place: e.Place, Step: 1, Text: "Looking at shot.png"})
	until(t, ctx, "the step", `document.getElementById("step-text").textContent === "Looking at shot.png"`)
	s.Progress(t.Context(), chat.Progress{Turn: turn, Place: e.Place, Step: 2, Text: "Writing the answer", Draft: "It shows a **gradient** from"})
	until(t, ctx, "the draft", `document.querySelector("#draft strong").textContent === "gradient"`)
	shot(t, ctx, "3-working-1280")
	do(t, ctx, "narrow", size(390, 844))
	shot(t, ctx, "3-working-390")
	do(t, ctx, "wide", size(1280, 800))

	do(t, ctx, "stop", chromedp.Click(chromedp.CSS("#stop")))
	await(t, "stop", func() bool {
		s.sink.mu.Lock()
		defer s.sink.mu.Unlock()
		return len(s.sink.stopped) == 1 && s.sink.stopped[0] == e.Place.Conversation()
	})
	s.reply(conv, sentJSON{Turn: turn}, chat.ReplyAnswer, answerText)
	until(t, ctx, "the answer", `document.querySelector(".answer .rendered strong")`)
	until(t, ctx, "quiet again", `document.getElementById("working").hidden && document.getElementById("stop").hidden`)
	until(t, ctx, "nothing foreign", `!document.querySelector(".answer img, .answer script, .answer b") && document.querySelector(".answer a").rel.includes("noopener")`)

	// Late progress of a turn that has its answer changes nothing.
	s.Progress(t.Context(), chat.Progress{Turn: turn, Place: e.Place, Text: "late"})
	do(t, ctx, "ask again", chromedp.SendKeys(chromedp.CSS("#text"), "And now?"), enter, chromedp.SendKeys(chromedp.CSS("#text"), "the next one, already"))
	second := <-s.sink.got
	s.reply(conv, sentJSON{Turn: chat.TurnOf(second.Message.ID)}, chat.ReplyFailure, "The model could not be reached; try again in a minute.")
	until(t, ctx, "the failure", `document.querySelector(".failure .badge")`)
	until(t, ctx, "what was written meanwhile", `document.getElementById("text").value === "the next one, already"`)
	for _, look := range []struct {
		name string
		w, h int64
		dark bool
	}{{"4-answer-1280", 1280, 900, false}, {"4-answer-390", 390, 844, false}, {"5-dark-1280", 1280, 900, true}, {"5-dark-390", 390, 844, true}} {
		do(t, ctx, look.name, size(look.w, look.h), dark(look.dark), chromedp.Sleep(200*time.Millisecond))
		until(t, ctx, "nothing wider than the window", `document.documentElement.scrollWidth <= innerWidth && document.getElementById("scroll").scrollWidth <= document.getElementById("scroll").clientWidth`)
		until(t, ctx, "no message over another", `[...document.querySelectorAll("#transcript .message")].every((m, i, all) => i === 0 || m.getBoundingClientRect().top >= all[i-1].getBoundingClientRect().bottom)`)
		do(t, ctx, "down", chromedp.Evaluate[chromedp.Void](`document.getElementById("scroll").scrollTop = 1e6`), chromedp.Sleep(200*time.Millisecond))
		shot(t, ctx, look.name)
		do(t, ctx, "up", chromedp.Evaluate[chromedp.Void](`document.getElementById("scroll").scrollTop = 0`))
		shot(t, ctx, look.name+"-top")
	}
}

const answerText = "It shows a **gradient** from blue to red:\n\n| edge | colour |\n|:-----|-------:|\n| left | blue |\n| right | red, and a long explanation that needs some room |\n\n" +
	"1. `shot.png` is 640 x 400\n2. see [the docs](https://example.com/docs) or <b>this</b>\n\n![chart](https://example.com/steal?x=1)\n\n" +
	"```go\nfunc main() { fmt.Println(\"a rather long line of code that does not fit into a narrow window at all, so it scrolls\") }\n```\n\n> Only what was posted here was looked at.\n"

func TestThePageComesBackAfterARestart(t *testing.T) {
	ctx := browser(t)
	s := open(t)
	addr := strings.TrimPrefix(s.base, "http://")
	conv, _ := s.conv("main")
	do(t, ctx, "sign in", chromedp.Navigate(s.SignInLink()), chromedp.WaitVisible(chromedp.CSS("#composer, .notice")),
		chromedp.Navigate(s.base+"/c/"+conv), chromedp.WaitVisible(chromedp.CSS("#text")), chromedp.SendKeys(chromedp.CSS("#text"), "hello"), enter)
	e := <-s.sink.got
	until(t, ctx, "the message", `document.querySelectorAll("#transcript .person").length === 1`)
	s.stop()
	until(t, ctx, "the loss", `document.getElementById("connection").textContent.includes("lost")`)
	// Sent while nobody is there: it arrives later, once.
	do(t, ctx, "send into the void", chromedp.SendKeys(chromedp.CSS("#text"), "are you there?"), enter)
	until(t, ctx, "the complaint", `document.getElementById("complaint").textContent.includes("Trying again")`)
	until(t, ctx, "what waits", `document.querySelector(".message.leaving").textContent === "are you there?"`)
	shot(t, ctx, "6-lost")
	s.start(addr)
	s.reply(conv, sentJSON{Turn: chat.TurnOf(e.Message.ID)}, chat.ReplyAnswer, "said meanwhile")
	<-s.sink.got
	until(t, ctx, "both messages and the answer", `document.querySelectorAll("#transcript .person").length === 2 && !document.querySelector(".leaving") && document.querySelectorAll(".answer").length === 1`)
	until(t, ctx, "the connection", `document.getElementById("connection").textContent === "" && document.getElementById("text").value === ""`)

	// Deleted elsewhere, gone here.
	list, _ := s.db.messages(t.Context(), conv, 10)
	s.do("DELETE", "/api/conversations/"+conv+"/messages/"+list[0].ID, nil)
	until(t, ctx, "the deletion", `document.querySelectorAll("#transcript .person").length === 1`)
}
