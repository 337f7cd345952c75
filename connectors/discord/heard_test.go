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
