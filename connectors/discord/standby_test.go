package discord

import (
	"testing"

	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

// A process whose connection was another one's for a while goes on where that
// one stopped; what it remembers of threads is asked again.
func TestRunAgain(t *testing.T) {
	w := newWorld(t)
	thread := w.AddThread(w.channel, fakediscord.PublicThread)
	w.run()
	// As if it had been in the thread, and was taken out while another process
	// had the connection.
	w.bot.channels.put(channel{ID: thread, GuildID: w.guild, ParentID: w.channel, Type: threadPublic, OwnerID: w.Bot.ID}, w.Bot.ID)
	w.Post(thread, w.alice, draft{Text: "one"})
	w.next()
	w.stop()
	missed := w.Post(w.channel, w.alice, draft{Text: w.at() + " two"})
	w.rerun()
	if e := w.next(); e.Message.NativeID != missed.ID {
		t.Errorf("%+v", e)
	}
	w.Post(thread, w.alice, draft{Text: "not for the agent"})
	w.nothing(thread)
}

// A process that has no connection decides, reads and posts; what the one with
// the connection is told reaches it through the store.
func TestWithoutRunning(t *testing.T) {
	w := newWorld(t)
	w.run()
	e := w.said(w.channel)
	listens := w.bot
	w.make() // and never run
	w.expect("as it is", e, e.Place, "S1")
	if _, err := w.bot.Post(t.Context(), chat.Reply{Key: "k", Place: e.Place, ReplyTo: e.Message, Text: "here"}); err != nil {
		t.Error(err)
	}
	if said := w.Said(w.channel); len(said) != 1 || said[0].Content != "here" {
		t.Errorf("%+v", said)
	}
	// The other process retries the same reply.
	if _, err := listens.Post(t.Context(), chat.Reply{Key: "k", Place: e.Place, ReplyTo: e.Message, Text: "here"}); err != nil || len(w.Said(w.channel)) != 1 {
		t.Errorf("%v, said %d times", err, len(w.Said(w.channel)))
	}
	w.Delete(fakediscord.Message{ID: e.Message.NativeID, ChannelID: w.channel})
	if d := w.next(); d.Kind != chat.MessageDeleted {
		t.Fatalf("%+v", d)
	}
	w.expect("deleted", e, e.Place, "")
}
