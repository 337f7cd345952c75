package discord

import (
	"strings"
	"testing"

	"sightline/tests/fakediscord"
)

// A poll asks in words of its own; a forward of something that has no words is
// heard all the same. Nothing that is said to the agent is passed over.
func TestMessagesOfOtherKinds(t *testing.T) {
	w := newWorld(t)
	dm := w.AddDM(w.alice)
	elsewhere := w.AddChannel(w.guild)
	w.run()
	w.Post(dm, w.alice, draft{Poll: "Which\nof them?"})
	if e := w.next(); e.Silent || e.Message.Text != "(a poll) Which of them?\n- yes\n- no" {
		t.Errorf("%+v", e)
	}
	of := w.Post(elsewhere, w.bob, draft{Text: "", Poll: "Lunch?"})
	w.Post(dm, w.alice, draft{Forward: &of})
	if e := w.next(); e.Silent || !strings.HasPrefix(e.Message.Text, "(forwarded") {
		t.Errorf("%+v", e)
	}
	w.Post(dm, w.alice, draft{Forward: &fakediscord.Message{ID: of.ID, ChannelID: of.ChannelID, Content: "words"}})
	if e := w.next(); e.Message.Text != "(forwarded) words" {
		t.Errorf("%+v", e)
	}
}

// Discord makes a role of the bot's name in every server, and offers it to
// whoever types that name: a mention of it is one of the bot.
func TestMentionOfItsRole(t *testing.T) {
	w := newWorld(t)
	other := w.AddRole(w.guild, 0, w.alice)
	w.run()
	own := w.OwnRole(w.guild)
	w.Post(w.channel, w.alice, draft{Text: "<@&" + other + "> not for the agent"})
	w.Post(w.channel, w.alice, draft{Text: "<@&" + own + "> look"})
	if e := w.next(); e.Silent || e.Message.Text != "look" {
		t.Errorf("%+v", e)
	}
	w.Post(w.channel, w.alice, draft{Text: "<@&" + own + ">"})
	if e := w.next(); e.Silent || !strings.HasPrefix(e.Message.Text, "@") || strings.Contains(e.Message.Text, own) {
		t.Errorf("%+v", e)
	}
}
