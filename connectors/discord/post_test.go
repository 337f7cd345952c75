package discord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

func reply(e chat.Event, key, text string) chat.Reply {
	return chat.Reply{Key: key, Turn: "t", Place: e.Place, ReplyTo: e.Message, Kind: chat.ReplyAnswer, Text: text}
}

func TestPostShape(t *testing.T) {
	w := newWorld(t).run()
	e := w.said(w.channel)
	text := strings.Repeat("a line of words\n", 200) + "```go\n" + strings.Repeat("code()\n", 300) + "```\n@everyone <@" + w.alice + "> https://example.com"
	if _, err := w.bot.Post(t.Context(), reply(e, "k", text)); err != nil {
		t.Fatal(err)
	}
	said := w.Said(w.channel)
	if len(said) < 3 {
		t.Fatalf("%d parts", len(said))
	}
	for i, m := range said {
		if (i == 0) != (m.MessageReference != nil && m.MessageReference.MessageID == e.Message.NativeID) {
			t.Errorf("part %d: reference %+v", i, m.MessageReference)
		}
		if m.Flags&suppressEmbed == 0 || len(m.Mentions) > 0 || strings.Count(m.Content, fence)%2 != 0 {
			t.Errorf("part %d: %+v", i, m)
		}
	}
	// What it answers is gone: said all the same.
	w.Delete(fakediscord.Message{ID: e.Message.NativeID, ChannelID: w.channel})
	w.next()
	if _, err := w.bot.Post(t.Context(), reply(e, "k2", "late")); err != nil {
		t.Error(err)
	}
	if _, err := w.bot.Post(t.Context(), reply(e, "k3", " \n")); err == nil {
		t.Error("an empty reply was posted")
	}
}

// What no later try can change is said to be so; what can pass is not.
func TestPostRefusedForGood(t *testing.T) {
	w := newWorld(t).run()
	e := w.said(w.channel)
	for status, final := range map[int]bool{http.StatusForbidden: true, http.StatusNotFound: true, http.StatusBadRequest: true,
		http.StatusRequestEntityTooLarge: true, http.StatusInternalServerError: false} {
		w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/messages") {
				return false
			}
			rw.WriteHeader(status)
			_, _ = rw.Write([]byte(`{"code":50013,"message":"Missing Permissions"}`))
			return true
		})
		// What can pass is tried again until nobody waits any more.
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if !final {
			ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		}
		_, err := w.bot.Post(ctx, reply(e, fmt.Sprint("refused", status), "x"))
		cancel()
		if err == nil || errors.Is(err, chat.ErrRefused) != final {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// Law 8: killed after the platform took the message and before we knew.
func TestPostOnceAcrossRestarts(t *testing.T) {
	w := newWorld(t)
	now := newClock()
	w.change = func(c *Config) { c.Now = now.now }
	w.run()
	e := w.said(w.channel)
	long := strings.Repeat("first part\n", 150) + strings.Repeat("second part\n", 150)
	parts := split(long, contentLimit)
	if len(parts) != 2 {
		t.Fatal(len(parts))
	}
	post := func(key, text string) chat.Posted {
		t.Helper()
		p, err := w.bot.Post(t.Context(), reply(e, key, text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := post("k", "an answer")
	w.bot.posts = posts{} // another process
	if p := post("k", "an answer"); p != first {
		t.Errorf("within the nonce's life: %v, %v", p, first)
	}
	w.bot.posts = posts{}
	w.Later(time.Hour)
	now.later(time.Hour)
	if p := post("k", "an answer"); p != first {
		t.Errorf("an hour later: %v, %v", p, first)
	}
	// The same words for another question are another reply.
	other := w.said(w.channel)
	q, err := w.bot.Post(t.Context(), reply(other, "o", "yes"))
	if err != nil {
		t.Fatal(err)
	}
	w.bot.posts = posts{}
	now.later(time.Hour)
	w.Later(time.Hour)
	if p := post("k2", "yes"); p == q {
		t.Error("a reply to another question was taken for this one")
	}
	// Half of a long one: the other half follows, and only that.
	id, err := w.bot.postPiece(t.Context(), w.channel, reply(e, "l", long), 0, piece{text: parts[0]})
	if err != nil {
		t.Fatal(err)
	}
	w.Later(time.Hour)
	now.later(time.Hour)
	if p := post("l", long); p.NativeID != id {
		t.Errorf("%v, %v", p, id)
	}
	if said := w.Said(w.channel); len(said) != 5 {
		t.Errorf("said %d times", len(said))
	}
}

// discordgo's message has no nonce. Without one, a lost answer posts twice.
func TestLostAnswerOfAPost(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	lost, limited := 0, 0
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != "POST" || !strings.HasSuffix(r.URL.Path, "/messages") {
			return false
		}
		switch {
		case limited < 2:
			limited++
			rw.Header().Set("Retry-After", "0.05")
			if limited == 2 {
				rw.Header().Set("X-RateLimit-Global", "true")
			}
			rw.WriteHeader(429)
			_, _ = fmt.Fprint(rw, `{"message":"You are being rate limited.","retry_after":0.05,"global":false}`)
			return true
		case lost == 0:
			lost++
			w.Answer(httptest.NewRecorder(), r) // taken, and the answer never arrives
			rw.WriteHeader(503)                 // discordgo repeats 502 alone
			return true
		}
		return false
	})
	w.run()
	e := w.said(w.channel)
	if _, err := w.bot.Post(t.Context(), reply(e, "k", "once")); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Said(w.channel)); n != 1 || limited != 2 || lost != 1 {
		t.Errorf("said %d times; %d limits, %d lost", n, limited, lost)
	}
}

// A wait that the platform asks for ends with the context.
func TestRetryAfterHonoursContext(t *testing.T) {
	w := newWorld(t)
	w.run()
	e := w.said(w.channel)
	w.stop()
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header().Set("Retry-After", "30")
		rw.WriteHeader(429)
		return true
	})
	b := w.make()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := b.Post(ctx, reply(e, "k", "x")); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	b.rest.http.CloseIdleConnections()
}

func TestDeadTokenIsNotHammered(t *testing.T) {
	w := newWorld(t)
	w.change = func(c *Config) { c.Token = "wrong" }
	b := w.make()
	for range 5 {
		if _, err := b.identity.self(t.Context()); !errors.Is(err, errToken) {
			t.Errorf("%v", err)
		}
	}
	if n := len(w.Requests()); n != 1 {
		t.Errorf("%d requests with a token that is refused", n)
	}
	b.rest.http.CloseIdleConnections()
}

func TestProgress(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/typing") {
			<-hold
		}
		return false
	})
	w.run()
	e := w.said(w.channel)
	w.until("the start is over", w.bot.rest.pace.idle)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			w.bot.Progress(t.Context(), chat.Progress{Place: e.Place, Text: "looking"})
		}
		w.bot.Progress(t.Context(), chat.Progress{})
	}()
	select {
	case <-done: // though Discord has not answered yet
	case <-time.After(patience):
		t.Fatal("progress waits for Discord")
	}
	release()
	w.until("it types", func() bool { return w.Typing(w.channel) == 1 })
	time.Sleep(100 * time.Millisecond)
	if n := w.Typing(w.channel); n != 1 {
		t.Errorf("typed %d times in 8 seconds", n)
	}
}

// A cut within a fence closes it and opens it again; no line of code is lost
// or doubled.
func TestSplitKeepsFences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lines := func(parts ...string) (code, talk []string, open bool) {
		for _, p := range parts {
			in := false
			for line := range strings.Lines(p) {
				line = strings.TrimSuffix(line, "\n")
				switch {
				case strings.HasPrefix(line, fence):
					in = !in
				case strings.TrimSpace(line) == "":
				case in:
					code = append(code, line)
				default:
					talk = append(talk, line)
				}
			}
			open = open || in
		}
		return code, talk, open
	}
	for range 3000 {
		var b strings.Builder
		for i := range 1 + r.IntN(8) {
			info := []string{"", "go", "text"}[r.IntN(3)]
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, "%s%s\n", fence, info)
			} else {
				info = "none"
			}
			for j := range r.IntN(30) {
				fmt.Fprintf(&b, "%d.%d %s\n", i, j, strings.Repeat("x", r.IntN(60)))
			}
			if info != "none" {
				fmt.Fprintf(&b, "%s\n", fence)
			}
		}
		text := b.String()
		parts := split(text, 100+r.IntN(300))
		code, talk, _ := lines(text)
		code2, talk2, open := lines(parts...)
		if open || !slices.Equal(code, code2) || !slices.Equal(talk, talk2) {
			t.Fatalf("%q became %q", text, parts)
		}
	}
}

// A fence may begin and end within a line; one that nothing ends is none.
func TestSplitFencesWithinLines(t *testing.T) {
	code, talk := strings.Repeat("code()\n", 400), strings.Repeat("talk of things\n", 300)
	for _, end := range []string{"```\n", "last()```\n"} {
		for _, p := range split("1. Run this: ```sh\n"+code+end+talk, contentLimit) {
			inner := p
			if strings.Count(p, fence)%2 != 0 {
				t.Fatalf("%q is open", p)
			}
			if at := strings.LastIndex(p, fence); at >= 0 {
				inner = p[at:]
				if first := p[strings.Index(p, fence):]; !strings.HasPrefix(first, fence+"sh\n") {
					t.Errorf("%q is not as it was", first[:20])
				}
			}
			if strings.Contains(inner, "code()") || strings.Contains(p[:len(p)-len(inner)], "talk") {
				t.Errorf("code and talk are mixed up: %q", p)
			}
		}
	}
	if all := strings.Join(split("type ``` to begin\n"+talk, contentLimit), "\n"); strings.Count(all, fence) != 1 {
		t.Error("a fence was made up")
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"", "a", "```go\ncode\n```", "a\n```\n" + strings.Repeat("x", 90) + "\n```\nb", strings.Repeat("🖼", 50), "````", "```a```b\n"} {
		f.Add(s, 40)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 40 || limit > 5000 || len(s) > 20_000 {
			return
		}
		s = strings.ToValidUTF8(s, "?")
		parts := split(s, limit)
		keep := func(s string) string {
			return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '`' || r == ' ' || r == '\n' || r == '\r' || r == '\t' }), "")
		}
		var all strings.Builder
		for i, p := range parts {
			if units(p) > limit {
				t.Errorf("part %d has %d units of %d", i, units(p), limit)
			}
			all.WriteString(p)
		}
		// Every word is there, in order; reopened fences repeat their first line only.
		if !strings.Contains(s, fence) && keep(all.String()) != keep(s) {
			t.Errorf("%q became %q", s, parts)
		}
	})
}
