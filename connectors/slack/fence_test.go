package slack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// document is a random answer with blocks of code wherever they may be. Lines
// of code say "code", all others "talk", each with its number.
func document(r *rand.Rand) string {
	var b strings.Builder
	n := 0
	lines := func(lead, word string, most int) {
		for range r.IntN(most) {
			n++
			fmt.Fprintf(&b, "%s%s %d %s\n", lead, word, n, strings.Repeat("x", r.IntN(60)))
		}
	}
	for range 1 + r.IntN(8) {
		marks := []string{"```", "````", "~~~", "~~~~~"}[r.IntN(4)]
		info := []string{"", "go", " text title=x"}[r.IntN(3)]
		lead := [][2]string{{"", ""}, {"  ", "  "}, {"- ", "  "}, {"     ", "     "}, {"12. ", "    "}, {"> ", "> "}, {"> > ", "> > "}}[r.IntN(7)]
		lines("", "talk", 20)
		if lead[1] == "     " {
			b.WriteString("1.   - talk 0\n")
		}
		fmt.Fprintf(&b, "%s%s%s\n", lead[0], marks, info)
		lines(lead[1], "code", 30)
		if len(marks) > 3 {
			other := strings.Replace(marks[:3], "~", "`", 3)
			fmt.Fprintf(&b, "%s%s\n", lead[1], other) // an inner fence is code
			lines(lead[1], "code", 4)
		}
		fmt.Fprintf(&b, "%s%s\n\n", lead[1], marks)
		if r.IntN(3) == 0 {
			b.WriteString("```talk 0``` is no fence\n\n")
		}
	}
	return b.String()
}

// read sorts the lines of one part into code and talk, as a renderer does that
// knows quotes and lists.
func readPart(t *testing.T, part string) (code, talk []string) {
	t.Helper()
	open := ""
	for line := range strings.Lines(part) {
		bare := strings.TrimLeft(strings.TrimSpace(line), "> -0123456789.")
		marks := bare[:len(bare)-len(strings.TrimLeft(bare, "`~"))]
		switch {
		case open == "" && len(marks) >= 3 && !strings.Contains(bare[len(marks):], "`"):
			open = marks
			if n := len(line) - len(strings.TrimLeft(line, " ")); n > 5 {
				t.Errorf("%q is indented too far to be a fence", line)
			}
		case open != "" && bare == marks && strings.HasPrefix(marks, open):
			open = ""
		case open != "" && strings.Contains(line, "talk"), open == "" && strings.Contains(line, "code"):
			t.Errorf("talk and code are mixed up at %q", line)
		case strings.Contains(line, "code"):
			code = append(code, bare)
		case strings.Contains(line, "talk"):
			talk = append(talk, bare)
		}
	}
	if open != "" {
		t.Errorf("a block is open at the end of %q", part)
	}
	return code, talk
}

// A block of code stays one wherever it is: in a list, in a quote, with inner
// fences. No line is lost or doubled.
func TestSplitKeepsBlocksWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1500 {
		text := document(r)
		code, talk := readPart(t, text)
		var code2, talk2 []string
		parts := split(text, 400+r.IntN(600))
		for _, p := range parts {
			c, s := readPart(t, p)
			code2, talk2 = append(code2, c...), append(talk2, s...)
		}
		if t.Failed() || !slices.Equal(code, code2) || !slices.Equal(talk, talk2) {
			t.Fatalf("%s\nbecame\n%s", text, strings.Join(parts, "\n=====\n"))
		}
	}
}

// A block that goes on below another part is in no list any more: what was its
// indentation there is none of the code's.
func TestSplitOutOfAList(t *testing.T) {
	text := "1. first\n   - then\n\n     ```py\n" + strings.Repeat("     if x:\n         y()\n", 60) + "     ```\n2. second\n"
	parts := split(text, 600)
	for n, p := range parts[1:] {
		if !strings.HasPrefix(p, "```py\n") || !strings.Contains(p, "\nif x:\n    y()\n") || !strings.Contains(p, "\n```") || strings.Contains(p, "\n     ```") {
			t.Errorf("part %d: %q", n+1, p)
		}
	}
}

// A line that is the first of a part keeps the indentation that is its own.
func TestSplitKeepsIndentation(t *testing.T) {
	for lead, at := range map[string]string{"- ": "  ", "12. ": "    ", "     ": "     ", "": ""} {
		for width := 10; width < 60; width += 7 {
			code := strings.Repeat(strings.Repeat(" ", 12)+strings.Repeat("x", width)+"\n", 80)
			text := lead + "```py\n" + at + strings.TrimSuffix(strings.ReplaceAll(code, "\n", "\n"+at), at) + at + "```\n"
			for n, p := range split(text, 600) {
				for line := range strings.Lines(p) {
					if body := strings.TrimLeft(line, " "); strings.HasPrefix(body, "x") && len(line)-len(body) != 12 && (n > 0 || len(line)-len(body) != 12+len(at)) {
						t.Fatalf("%q, part %d: %q", lead, n, line)
					}
				}
			}
		}
	}
}

// What is short is said as it is.
func TestSplitAddsNothing(t *testing.T) {
	for _, s := range []string{"```ls -la``` lists them\nand so on", "a `b` c", "```", "```\n```", "~~~", "> ```\n> x\n> ```", "- ```go\n  x\n  ```\n- more"} {
		if p := split(s, maxBlock); len(p) != 1 || p[0] != s {
			t.Errorf("%q became %q", s, p)
		}
	}
}

// Code is shown as it is, to be copied; what would call somebody is broken all
// the same.
func TestCodeIsLeftAlone(t *testing.T) {
	for _, s := range []string{
		"```html\n<!DOCTYPE html>\n<!-- a comment -->\n```\nend", "~~~html\n<!-- a comment -->\n~~~\nend", "- ```html\n  <!-- a -->\n  ```\nend",
		"````md\n<!-- a -->\n```html\n<!-- b -->\n```\n<!-- c -->\n````\nend", "use `<!-- a -->` or ``<!-- `b` -->``", "```java\nList<@NotNull String>\n```", "```html\n<!-- not closed\n",
	} {
		if got := inert(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	for _, call := range []string{"<!channel>", "<!here|here>", "<!subteam^S12345>", "<@U1>", "<@W12|x>", "@everyone", "@Here"} {
		for _, form := range []string{"%s", "`%s`", "``%s``", "```\n%s\n```", "~~~\n%s\n~~~", "````\n```\n%s\n````", "- ```\n  %s\n  ```", "> %s", "```%s", "```\n%s", "`%s", "<%s>", "[x](%s)"} {
			if got := inert(fmt.Sprintf(form, call)); strings.Contains(got, call) {
				t.Errorf("%q calls", got)
			}
		}
	}
}

// An answer with code in it streams to its end: a fence that is open is not
// closed in what only grows.
func TestDraftStreamsCode(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	text := "Look:\n```go\na()\nb()\n```\nDone, and so on"
	for n := 3; n <= len(text); n += 4 {
		s.must(s.draft(&r, text[:n]))
		if !s.fake.Streaming("C1", r.Draft.NativeID) {
			t.Fatalf("it streams no more after %q", text[:n])
		}
	}
	r.Text = text
	if p, err := s.Post(t.Context(), r); err != nil || p.NativeID != r.Draft.NativeID || len(s.said(r.Place)) != 1 || s.said(r.Place)[0] != text {
		t.Errorf("%+v, %v, said %q", p, err, s.said(r.Place))
	}
}

// A fence and nothing in it is said too, rather than taken for said.
func TestAnEmptyFenceIsSaid(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	r.Text = "```"
	if p, err := s.Post(t.Context(), r); err != nil || p.NativeID == "" || len(s.said(r.Place)) != 1 {
		t.Errorf("%+v, %v, said %q", p, err, s.said(r.Place))
	}
}

// What Slack does not render is said as plain text: words count for more than
// how they look.
func TestReplyThatIsNotRendered(t *testing.T) {
	s := open(t, nil).run()
	for _, drafted := range []bool{false, true} {
		r := s.answering("C1")
		r.Key = fmt.Sprint(drafted)
		text := strings.Repeat("a < b, @here\n", 500)
		if drafted {
			s.must(s.draft(&r, text[:99]))
			s.fake.Fail("chat.update", fakeslack.Failure{Code: "invalid_blocks", Times: 9})
		}
		s.fake.Fail("chat.postMessage", fakeslack.Failure{Code: "invalid_blocks", Times: 1})
		r.Text = text
		if _, err := s.Post(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		said := s.said(r.Place)
		if len(said) != 1 || strings.TrimSpace(said[0]) != strings.TrimSpace(text) {
			t.Errorf("drafted %v: said %d messages: %.200q", drafted, len(said), said)
		}
		calls := s.fake.Calls("chat.postMessage")
		if f := calls[len(calls)-1].Form; f["mrkdwn"] != "false" || strings.Contains(f["text"], "@here") || f["blocks"] != "" {
			t.Errorf("posted with %.300v", f)
		}
	}
}

// An edit that is refused for a reason that is not known here costs the draft,
// not the answer; what can pass is waited for.
func TestEditRefused(t *testing.T) {
	for code, anew := range map[string]bool{"update_failed": true, "internal_error": false} {
		s := open(t, nil).run()
		r := s.answering("C1")
		s.must(s.draft(&r, "so far"))
		s.fake.Fail("chat.update", fakeslack.Failure{Code: code, Times: maxTries})
		r.Text = "so far, so good"
		p, err := s.Post(t.Context(), r)
		if (err == nil) != anew {
			t.Errorf("%s: %+v, %v", code, p, err)
		}
		if err != nil {
			p, err = s.Post(t.Context(), r)
		}
		if said := s.said(r.Place); err != nil || (p.NativeID == r.Draft.NativeID) == anew || len(said) != 1 || said[0] != r.Text {
			t.Errorf("%s: %+v, %v, said %q", code, p, err, said)
		}
	}
}

// A quota or a rule of the workspace is no later try's to change.
func TestUploadsRefusedForGood(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	r.Text, r.Files = "here", []chat.ReplyFile{textFile("a.txt", "abc")}
	for _, method := range []string{"files.getUploadURLExternal", "files.completeUploadExternal"} {
		for _, code := range []string{"storage_limit_reached", "file_type_not_allowed", "file_uploads_except_images_disabled"} {
			r.Key = method + code
			s.fake.Fail(method, fakeslack.Failure{Code: code, Times: 1})
			if _, err := s.Post(t.Context(), r); !errors.Is(err, chat.ErrRefused) || !strings.Contains(err.Error(), code) {
				t.Errorf("%s: %s: %v", method, code, err)
			}
		}
	}
}

// Of a long answer the beginning is shown, and edited only while it changes.
func TestDraftBeyondItsMessage(t *testing.T) {
	s := open(t, nil).run()
	s.streams.refuse()
	r := s.answering("C1")
	line := strings.Repeat("words ", 20) + "\n"
	s.must(s.draft(&r, line))
	for n := range 5 {
		s.must(s.draft(&r, strings.Repeat(line, 110+n)))
	}
	if n := len(s.fake.Calls("chat.update")); n != 1 {
		t.Errorf("edited %d times", n)
	}
	r.Text = strings.Repeat(line, 115)
	if _, err := s.Post(t.Context(), r); err != nil || strings.Count(strings.Join(s.said(r.Place), "\n"), "words") != 115*20 {
		t.Errorf("%v, %d messages", err, len(s.said(r.Place)))
	}
	if len(s.streams.shown) > 0 {
		t.Error("it is remembered for ever")
	}
}

// Replies of drafts that this process showed may be posted by another one: what
// is remembered of those is bounded, and leaves room for the next.
func TestShownDraftsAreBounded(t *testing.T) {
	k := newStreams(3)
	for n := range 10 {
		key := fmt.Sprint(n)
		k.show(key, "1", "text")
		if !k.shows(key, "1", "text") || k.shows(key, "2", "text") || len(k.shown) > 3 {
			t.Errorf("%d: %v", n, k.shown)
		}
	}
}
