package discord

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

// The facts of one decision are of several questions. What the channel was
// before a change and the roles are after it make no yes together, which
// neither moment would have given.
func TestFactsOfTwoMomentsAreNoYes(t *testing.T) {
	w := newWorld(t)
	var armed, answered atomic.Bool
	changed := 0
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case !armed.Load():
		case strings.HasSuffix(r.URL.Path, "/channels/"+w.channel):
			w.Answer(rw, r)
			answered.Store(true)
			return true
		case strings.HasSuffix(r.URL.Path, "/guilds/"+w.guild) && changed == 0:
			changed++
			w.until("the channel is known", answered.Load)
			time.Sleep(50 * time.Millisecond) // for the decision to have taken it
			before := w.bot.facts.epochOf(w.guild)
			w.SetOverwrites(w.channel, fakediscord.Deny(w.guild, history), fakediscord.Member(w.Bot.ID, see|history, 0))
			w.SetRole(w.guild, w.guild, see|history|fakediscord.SendMessages)
			w.until("the changes are known", func() bool { return w.bot.facts.epochOf(w.guild) >= before+2 })
		}
		return false
	})
	w.run()
	src := w.said(w.channel)
	before := w.bot.facts.epochOf(w.guild)
	w.SetRole(w.guild, w.guild, see|fakediscord.SendMessages) // nobody reads the history
	w.until("the beginning is known", func() bool { return w.bot.facts.epochOf(w.guild) > before })
	armed.Store(true)
	w.expect("of two moments", src, src.Place, "")
	if changed != 1 {
		t.Error("nothing was changed while it was asked")
	}
}

// An answer that an earlier process may have posted, and that may not be said
// any more, is written over where it is out, and said instead where it is not.
func TestARecalledAnswerIsWrittenOver(t *testing.T) {
	w := newWorld(t)
	now := newClock()
	w.change = func(c *Config) { c.Now = now.now }
	w.run()
	for _, out := range []bool{true, false} {
		src := w.said(w.channel)
		before := len(w.Said(w.channel))
		r := chat.Reply{Key: src.Message.NativeID, Place: src.Place, ReplyTo: src.Message, Kind: chat.ReplyAnswer, Text: "the secret"}
		if out {
			if _, err := w.bot.Post(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		w.stop()
		w.Later(10 * time.Minute) // nonces are forgotten
		now.later(10 * time.Minute)
		w.run()
		r.Kind, r.Text, r.Draft = chat.ReplyFailure, "it may not be said", &chat.Draft{First: "the secret"}
		for range 2 {
			if _, err := w.bot.Post(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if said := w.Said(w.channel)[before:]; len(said) != 1 || said[0].Content != "it may not be said" {
			t.Errorf("out %v: said %+v", out, said)
		}
	}
}
