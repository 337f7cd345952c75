package discord

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

// What a draft is to a reader: an answer to the question that calls nobody,
// unfolds nothing and is edited in place.
func TestDraftShape(t *testing.T) {
	w := newWorld(t).run()
	e := w.said(w.channel)
	loud := "see https://example.com <@" + w.alice + "> @everyone"
	r := reply(e, "k", loud)
	p, err := w.bot.Draft(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Draft = &chat.Draft{NativeID: p.NativeID, First: loud}
	for _, text := range []string{loud + " again", loud + " and again"} {
		r.Text = text
		if again, err := w.bot.Draft(t.Context(), r); err != nil || again != p {
			t.Fatalf("%+v, %v", again, err)
		}
	}
	if q, err := w.bot.Post(t.Context(), r); err != nil || q != p {
		t.Fatalf("%+v, %v", q, err)
	}
	said := w.Said(w.channel)
	if len(said) != 1 || len(said[0].Mentions) > 0 || said[0].Flags&suppressEmbed == 0 || said[0].MessageReference == nil || said[0].EditedTimestamp == nil {
		t.Errorf("%+v", said)
	}
	// Its own edits are nobody's messages.
	w.nothing(w.channel)
}

// A moderator's deletion of a draft is an answer: it is not begun again, and
// the reply is a message of its own.
func TestDraftThatSomebodyDeleted(t *testing.T) {
	w := newWorld(t).run()
	e := w.said(w.channel)
	r := reply(e, "k", "so far")
	p, err := w.bot.Draft(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	w.Delete(fakediscord.Message{ID: p.NativeID, ChannelID: w.channel})
	r.Draft = &chat.Draft{NativeID: p.NativeID, First: "so far"}
	r.Text = "so far, so good"
	if q, err := w.bot.Draft(t.Context(), r); !errors.Is(err, chat.ErrRefused) {
		t.Errorf("%+v, %v", q, err)
	}
	if q, err := w.bot.Post(t.Context(), r); err != nil || q == p || len(w.Said(w.channel)) != 1 {
		t.Errorf("%+v, %v, said %v", q, err, w.Said(w.channel))
	}
}

// Long after a nonce is forgotten, history tells.
func TestLostDraftIsFoundLater(t *testing.T) {
	w := newWorld(t)
	now := newClock()
	w.change = func(c *Config) { c.Now = now.now }
	w.run()
	e := w.said(w.channel)
	r := reply(e, "k", "so far")
	p, err := w.bot.Draft(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	w.bot.posts = posts{} // another process
	w.Later(time.Hour)
	now.later(time.Hour)
	r.Draft, r.Text = &chat.Draft{First: "so far"}, "the answer"
	if q, err := w.bot.Post(t.Context(), r); err != nil || q != p {
		t.Errorf("%+v, %v; want %+v", q, err, p)
	}
	if said := w.Said(w.channel); len(said) != 1 || said[0].Content != "the answer" {
		t.Errorf("said %+v", said)
	}
}

// Retry-After is honoured by edits too.
func TestDraftWaits(t *testing.T) {
	w := newWorld(t)
	var asked []time.Time
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		if asked = append(asked, time.Now()); len(asked) > 1 {
			return false
		}
		rw.Header().Set("Retry-After", "0.7")
		rw.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	w.run()
	e := w.said(w.channel)
	r := reply(e, "k", "so far")
	p, err := w.bot.Draft(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Draft, r.Text = &chat.Draft{NativeID: p.NativeID}, "so far, so good"
	if _, err := w.bot.Draft(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 2 || asked[1].Sub(asked[0]) < 700*time.Millisecond {
		t.Errorf("edited at %v", asked)
	}
}

// Files over what one message takes go into several; over what any takes they
// are refused before a word is said.
func TestFileBatches(t *testing.T) {
	files := func(sizes ...int64) (out []chat.ReplyFile) {
		for _, n := range sizes {
			out = append(out, chat.ReplyFile{Name: "f", Size: n, Open: func(context.Context) (io.ReadCloser, error) {
				return nil, errors.New("nobody reads it")
			}})
		}
		return out
	}
	for _, c := range []struct {
		sizes []int64
		want  []int
	}{
		{nil, nil},
		{[]int64{1, 2}, []int{2}},
		{[]int64{6 << 20, 5 << 20, 5 << 20}, []int{1, 2}},
		{slices.Repeat([]int64{1}, 23), []int{10, 10, 3}},
	} {
		got, err := inBatches(files(c.sizes...))
		var n []int
		for _, b := range got {
			n = append(n, len(b))
		}
		if err != nil || !slices.Equal(n, c.want) {
			t.Errorf("%v: %v, %v", c.sizes, n, err)
		}
	}
	for _, sizes := range [][]int64{{10<<20 + 1}, {0}, slices.Repeat([]int64{1}, filesPerReply+1)} {
		if _, err := inBatches(files(sizes...)); !errors.Is(err, chat.ErrRefused) {
			t.Errorf("%d files, the first of %d bytes: %v", len(sizes), sizes[0], err)
		}
	}
}

// A thread that is archived while an answer is made takes no edit: the answer
// is said anew, which opens the thread, and its beginning goes.
func TestThreadArchivedUnderADraft(t *testing.T) {
	w := newWorld(t)
	thread := w.AddThread(w.channel, fakediscord.PublicThread, w.alice, w.Bot.ID)
	w.run()
	e := w.said(thread)
	r := reply(e, "k", "so far")
	p, err := w.bot.Draft(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	w.Archive(thread, "done")
	r.Draft = &chat.Draft{NativeID: p.NativeID, First: "so far"}
	r.Text = "so far, so good"
	if q, err := w.bot.Draft(t.Context(), r); !errors.Is(err, chat.ErrRefused) {
		t.Errorf("%+v, %v", q, err)
	}
	for range 2 {
		if q, err := w.bot.Post(t.Context(), r); err != nil || q == p {
			t.Errorf("%+v, %v", q, err)
		}
	}
	if said := w.Said(thread); len(said) != 1 || said[0].Content != r.Text {
		t.Errorf("%+v", said)
	}
}

// A draft in a place that is closed to the bot stays there: no later try can
// take it back.
func TestWithdrawingWhereNothingCanBeDone(t *testing.T) {
	w := newWorld(t)
	thread := w.AddThread(w.channel, fakediscord.PublicThread, w.alice, w.Bot.ID)
	w.run()
	for what, shut := range map[string]func(){
		"archived": func() { w.Archive(thread, "done") },
		"closed":   func() { w.SetOverwrites(w.channel, fakediscord.Deny(w.guild, fakediscord.ViewChannel)) },
	} {
		e := w.said(thread)
		r := reply(e, what, "so far")
		p, err := w.bot.Draft(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		shut()
		r.Draft = &chat.Draft{NativeID: p.NativeID, First: "so far"}
		if err := w.bot.Withdraw(t.Context(), r); !errors.Is(err, chat.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
		w.SetOverwrites(w.channel)
	}
}
