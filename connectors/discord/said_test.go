package discord

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sightline/connectors/chat"
)

// A fence that an answer leaves open (it broke off, or is still being made) is
// closed, where there is room and where there is none.
func TestOpenFenceIsClosed(t *testing.T) {
	for n := 1; n <= 4100; n += 7 {
		code := strings.Repeat("code()\n", n/7) + strings.Repeat("x", n%7)
		for _, open := range []string{"```go\n", "talk\n````\n", "- a\n  ```sh\n"} {
			var all strings.Builder
			for _, p := range split(open+code, contentLimit) {
				if strings.Count(p, fence)%2 != 0 || units(p) > contentLimit {
					t.Fatalf("%d: a part of %d units is open: %q", n, units(p), p[:min(len(p), 60)])
				}
				all.WriteString(p)
			}
			if strings.Count(all.String(), "code()") != n/7 {
				t.Fatalf("%d: lines are lost or doubled", n)
			}
		}
	}
	for _, s := range []string{"```", "type ``` to begin", "a\n```go", "```\nx\n```", "```\nx\n```\n"} {
		if p := split(s, contentLimit); len(p) != 1 || p[0] != s {
			t.Errorf("%q became %q", s, p)
		}
	}
	if p := split(strings.Repeat("a\n", 998)+"```\nb", contentLimit); len(p) != 2 || p[1] != "```\nb\n```" {
		t.Errorf("where there is no room for its end: %q", p)
	}
}

// Discord ends a block at any fence; what follows the marks in that line is
// said, wherever the cut falls.
func TestWordsBehindAFenceAreSaid(t *testing.T) {
	for n := 1960; n < 2010; n++ {
		text := "```\n" + strings.Repeat("x", n) + "\n```remainder\n" + strings.Repeat("talk\n", 100)
		if all := strings.Join(split(text, contentLimit), "\n"); strings.Count(all, "remainder") != 1 {
			t.Errorf("%d: %q", n, all[len(all)-600:])
		}
	}
}

func (w *world) refuse(method string, code, status int, when func(*http.Request) bool) {
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || !strings.Contains(r.URL.Path, "/messages") || !when(r) {
			return false
		}
		rw.WriteHeader(status)
		_, _ = rw.Write([]byte(fmt.Sprintf(`{"code":%d,"message":"no"}`, code)))
		return true
	})
}

// A bot that may not read the history can't point at a message; it answers all
// the same.
func TestAnswerWithoutHistory(t *testing.T) {
	w := newWorld(t).run()
	e := w.said(w.channel)
	n := 0
	w.refuse(http.MethodPost, noHistory, http.StatusForbidden, func(*http.Request) bool { n++; return n == 1 })
	if _, err := w.bot.Post(t.Context(), reply(e, "k", "an answer")); err != nil {
		t.Fatal(err)
	}
	if said := w.Said(w.channel); len(said) != 1 || said[0].MessageReference != nil || said[0].Content != "an answer" {
		t.Errorf("%+v", said)
	}
	if !strings.Contains(w.log.String(), "Read Message History") {
		t.Error("no reason for the operator")
	}
}

// A draft that is old and was edited often takes no more: the answer is said
// anew.
func TestDraftThatTakesNoMoreEdits(t *testing.T) {
	w := newWorld(t).run()
	e := w.said(w.channel)
	r := reply(e, "k", "so far")
	p, err := w.bot.Draft(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	w.refuse(http.MethodPatch, editsUsedUp, http.StatusTooManyRequests, func(*http.Request) bool { return true })
	r.Draft = &chat.Draft{NativeID: p.NativeID, First: "so far"}
	r.Text = "so far, so good"
	if q, err := w.bot.Draft(t.Context(), r); !errors.Is(err, chat.ErrRefused) {
		t.Errorf("%+v, %v", q, err)
	}
	if q, err := w.bot.Post(t.Context(), r); err != nil || q == p {
		t.Errorf("%+v, %v", q, err)
	}
	if said := w.Said(w.channel); len(said) != 1 || said[0].Content != r.Text {
		t.Errorf("%+v", said)
	}
}

// Of a long answer the beginning is shown, and edited only while it changes.
func TestDraftBeyondItsMessage(t *testing.T) {
	w := newWorld(t).run()
	e := w.said(w.channel)
	r := reply(e, "k", strings.Repeat("a line of words\n", 10))
	p, err := w.bot.Draft(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	edits := 0
	w.Intercept(func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodPatch {
			edits++
		}
		return false
	})
	r.Draft = &chat.Draft{NativeID: p.NativeID, First: r.Text}
	for n := range 5 {
		r.Text = strings.Repeat("a line of words\n", 200+n)
		if q, err := w.bot.Draft(t.Context(), r); err != nil || q != p {
			t.Fatalf("%+v, %v", q, err)
		}
	}
	if edits != 1 {
		t.Errorf("edited %d times", edits)
	}
	if q, err := w.bot.Post(t.Context(), r); err != nil || q != p {
		t.Errorf("%+v, %v", q, err)
	}
	for _, p := range w.bot.posts.m {
		if p.shown != "" {
			t.Error("it is remembered for ever")
		}
	}
	if said := w.Said(w.channel); len(said) != 2 || strings.Count(said[0].Content+"\n"+said[1].Content, "words") != 204 {
		t.Errorf("%+v", said)
	}
}
