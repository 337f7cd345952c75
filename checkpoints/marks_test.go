package checkpoints

import (
	"testing"
	"time"

	"sightline/connectors/chat"
)

func TestMarksMoveAndStayApart(t *testing.T) {
	db := open(t)
	for _, m := range []struct {
		agent chat.AgentID
		mark  Mark
	}{
		{"a", Mark{"g", "c1", "10"}}, {"a", Mark{"g", "c1", "20"}}, {"a", Mark{"", "c1", "5"}}, {"b", Mark{"g", "c1", "99"}},
	} {
		if err := db.SetMark(t.Context(), m.agent, "discord", m.mark); err != nil {
			t.Fatal(err)
		}
	}
	got, err := db.Marks(t.Context(), "a", "discord")
	if err != nil || len(got) != 2 || got[0] != (Mark{"", "c1", "5"}) || got[1] != (Mark{"g", "c1", "20"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := db.Marks(t.Context(), "a", "slack"); err != nil || len(got) != 0 {
		t.Errorf("of another platform: %+v, %v", got, err)
	}
}

func TestLastMessagesOfEachPlace(t *testing.T) {
	db := open(t)
	say := func(agent chat.AgentID, channel, thread, native string) {
		t.Helper()
		_, err := db.Record(t.Context(), chat.Event{
			Kind: chat.MessagePosted, Place: chat.NewPlace(agent, "slack", "T", channel, thread, chat.Channel),
			Message: chat.Message{NativeID: native, Revision: "1", Text: "x", At: time.Now(), Author: chat.Actor{Platform: "slack", User: "u"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	say("a", "C1", "", "1000.000002")
	say("a", "C1", "", "1000.000010")
	say("a", "C1", "900.1", "1000.000005")
	say("b", "C1", "", "9999.000000")
	got, err := db.LastMessages(t.Context(), "a", "slack")
	if err != nil || len(got) != 2 || got[0] != (Last{"C1", "", "1000.000010"}) || got[1] != (Last{"C1", "900.1", "1000.000005"}) {
		t.Errorf("%+v, %v", got, err)
	}
}
