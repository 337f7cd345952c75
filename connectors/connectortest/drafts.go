package connectortest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"sightline/connectors/chat"
)

// drafting is one answer on its way.
type drafting struct {
	*suite
	reply chat.Reply
}

func (s *suite) drafting(t *testing.T) drafting {
	t.Helper()
	if s.Drafts == nil {
		t.Skip("this connector shows no drafts")
	}
	e := s.Send(0, "a long question")
	return drafting{s, chat.Reply{Key: "draft", Turn: chat.TurnOf(e.Message.ID), Place: e.Place, ReplyTo: e.Message, Kind: chat.ReplyAnswer}}
}

func (d drafting) show(text string, known *chat.Draft) (string, error) {
	d.t.Helper()
	r := d.reply
	r.Text, r.Draft = text, known
	p, err := d.Drafts.Draft(d.t.Context(), r)
	return p.NativeID, err
}

func (d drafting) post(text string, known *chat.Draft) string {
	d.t.Helper()
	r := d.reply
	r.Text, r.Draft = text, known
	p, err := d.Post(d.t.Context(), r)
	if err != nil || p.NativeID == "" {
		d.t.Fatalf("post %.40q: %+v, %v", text, p, err)
	}
	return p.NativeID
}

func (d drafting) expect(when string, want ...string) {
	d.t.Helper()
	if said := d.Said(d.reply.Place); !slices.Equal(said, want) {
		d.t.Errorf("%s: said %q, want %q", when, said, want)
	}
}

// testDraft: an answer that grows is one message, and it is the reply.
func testDraft(t *testing.T, s *suite) {
	d := s.drafting(t)
	id, err := d.show("It is", nil)
	if err != nil || id == "" {
		t.Fatalf("%q, %v", id, err)
	}
	d.expect("begun", "It is")
	known := &chat.Draft{NativeID: id, First: "It is"}
	for _, text := range []string{"It is a picture", "It is a picture", "It is a picture of @everyone", "No, it is another one", "No, it is another one, after all"} {
		if again, err := d.show(text, known); err != nil || again != id {
			t.Errorf("%q is at %q, %v", text, again, err)
		}
		d.expect("while it grows", text)
	}
	d.Forget()
	if again, err := d.show("No, it is another one, after a restart", known); err != nil || again != id {
		t.Errorf("after a restart it is at %q, %v", again, err)
	}
	d.expect("after a restart", "No, it is another one, after a restart")

	long := "Look:\n```go\n" + strings.Repeat("fmt.Println(\"line\")\n", 1500) + "```\nThat is all."
	if again, err := d.show(long, known); err != nil || again != id {
		t.Errorf("a long one is at %q, %v", again, err)
	}
	if n := len(d.Said(d.reply.Place)); n != 1 {
		t.Errorf("a long draft is %d messages", n)
	}
	if p := d.post(long, known); p != id {
		t.Errorf("the reply is at %q, the draft at %q", p, id)
	}
	said := d.Said(d.reply.Place)
	if len(said) < 2 || !strings.HasPrefix(said[0], "Look:") || !strings.HasSuffix(said[len(said)-1], "That is all.") {
		t.Errorf("the reply is %d messages: %.60q", len(said), said)
	}
	for i, part := range said {
		if strings.Count(part, "```")%2 != 0 {
			t.Errorf("part %d has a fence open", i)
		}
	}
	// A straggler's edit comes too late.
	if p, err := d.show("late", known); !errors.Is(err, chat.ErrRefused) {
		t.Errorf("a draft after the reply: %q, %v", p, err)
	}
	d.Forget()
	if p := d.post(long, known); p != id {
		t.Errorf("posted again, after a restart: %q, want %q", p, id)
	}
	d.expect("after all", said...)
}

// testLostDraft: law 8. A kill between the message and the memory of it leaves
// no second one.
func testLostDraft(t *testing.T, s *suite) {
	for what, then := range map[string]func(d drafting, id string, lost *chat.Draft){
		"shown again": func(d drafting, id string, lost *chat.Draft) {
			if again, err := d.show("The **first** words, and more", lost); err != nil || again != id {
				t.Errorf("at %q, %v; want %q", again, err, id)
			}
			if said := d.Said(d.reply.Place); said[len(said)-1] != "The **first** words, and more" {
				t.Errorf("shown again: said %q", said)
			}
			lost.NativeID = id
			d.post("done", lost)
		},
		"posted": func(d drafting, id string, lost *chat.Draft) {
			if p := d.post("done", lost); p != id {
				t.Errorf("posted at %q, want %q", p, id)
			}
		},
	} {
		d := s.drafting(t)
		d.reply.Key = "lost " + what
		before := d.Said(d.reply.Place)
		id, err := d.show("The **first** words", nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Forget()
		then(d, id, &chat.Draft{First: "The **first** words"})
		d.expect(what+", in the end", append(before, "done")...)
	}
	// Intended, and never begun.
	d := s.drafting(t)
	d.reply.Key = "never begun"
	before := d.Said(d.reply.Place)
	d.post("all the same", &chat.Draft{First: "Never seen"})
	d.expect("never begun", append(before, "all the same")...)
}

// testWithdraw: law 7. What may not be shown any more goes, and the reply that
// says so comes all the same.
func testWithdraw(t *testing.T, s *suite) {
	for _, known := range []bool{true, false} {
		d := s.drafting(t)
		d.reply.Key = map[bool]string{true: "withdraw", false: "withdraw lost"}[known]
		before := d.Said(d.reply.Place)
		id, err := d.show("A secret", nil)
		if err != nil {
			t.Fatal(err)
		}
		draft := &chat.Draft{NativeID: id, First: "A secret"}
		if !known {
			draft.NativeID = ""
			d.Forget()
		}
		for range 2 {
			r := d.reply
			r.Draft = draft
			if err := d.Drafts.Withdraw(t.Context(), r); err != nil {
				t.Errorf("withdraw: %v", err)
			}
			d.expect("withdrawn", before...)
		}
		d.post("It is withheld.", draft)
		d.post("It is withheld.", draft)
		d.expect("in the end", append(before, "It is withheld.")...)
	}
}
