package checkpoints

import (
	"slices"
	"strings"
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

func TestGapsOpenAndClose(t *testing.T) {
	db := open(t)
	set := func(agent chat.AgentID, opened []Gap, closed ...Gap) {
		t.Helper()
		if err := db.SetGaps(t.Context(), agent, "slack", opened, closed); err != nil {
			t.Fatal(err)
		}
	}
	set("a", []Gap{{"C1", "10.1"}, {"C2", "20.1"}, {"", "5.0"}})
	set("b", []Gap{{"C1", "99.0"}})
	set("a", []Gap{{"C2", "15.1"}, {"C3", "30.1"}}, Gap{"C1", "10.1"}, Gap{"", "5.0"}, Gap{"C9", "1.0"})
	set("a", nil, Gap{"C2", "20.1"}) // it was noted anew since
	set("a", nil)
	got, err := db.Gaps(t.Context(), "a", "slack")
	if err != nil || !slices.Equal(got, []Gap{{"C2", "15.1"}, {"C3", "30.1"}}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := db.Gaps(t.Context(), "b", "slack"); err != nil || !slices.Equal(got, []Gap{{"C1", "99.0"}}) {
		t.Errorf("of another agent: %+v, %v", got, err)
	}
	if got, err := db.Gaps(t.Context(), "a", "discord"); err != nil || len(got) != 0 {
		t.Errorf("of another platform: %+v, %v", got, err)
	}
	// All or nothing: what can't be stored leaves the others as they were.
	if err := db.SetGaps(t.Context(), "a", "slack", []Gap{{strings.Repeat("x", 2000), "1.0"}}, []Gap{{"C2", "15.1"}}); err == nil {
		t.Error("a channel of 2,000 bytes is stored")
	}
	if got, _ := db.Gaps(t.Context(), "a", "slack"); len(got) != 2 {
		t.Errorf("after a refusal: %+v", got)
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
	if err != nil || len(got) != 2 || got[0] != (Last{"C1", "", "1000.000010", false}) || got[1] != (Last{"C1", "900.1", "1000.000005", false}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// What is compared with the platform after a gap: people's messages of the
// last days that are not known to be gone, the newest first.
func TestRecentMessages(t *testing.T) {
	db := open(t)
	place := chat.NewPlace("a", "slack", "T", "C1", "9.1", chat.PublicThread)
	record := func(p chat.Place, kind chat.EventKind, native string, age time.Duration, files ...chat.File) Recorded {
		t.Helper()
		r, err := db.Record(t.Context(), chat.Event{Kind: kind, Place: p, Files: files,
			Message: chat.Message{NativeID: native, Revision: "r" + native, Text: "x", At: time.Now().Add(-age), Author: chat.Actor{Platform: "slack", User: "u"}}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const day = 24 * time.Hour
	record(place, chat.MessagePosted, "old with a file", 20*day, png("f"))
	record(place, chat.MessagePosted, "old", 20*day)
	record(place, chat.MessagePosted, "older with a file", 40*day, png("f"))
	record(place, chat.MessagePosted, "new", time.Hour)
	record(place, chat.MessagePosted, "gone", 0)
	record(place, chat.MessageDeleted, "gone", 0)
	record(chat.NewPlace("b", "slack", "T", "C1", "", chat.Channel), chat.MessagePosted, "another agent's", 0)
	record(chat.NewPlace("a", "slack", "T", "C1", "", chat.Ephemeral), chat.MessagePosted, "a command's", 0)
	want := []Recent{{"T", "C1", "9.1", "new", "rnew"}, {"T", "C1", "9.1", "old with a file", "rold with a file"}}
	for limit, want := range map[int][]Recent{10: want, 1: want[:1]} {
		if got, err := db.RecentMessages(t.Context(), "a", "slack", limit); err != nil || !slices.Equal(got, want) {
			t.Errorf("at most %d: %+v, %v", limit, got, err)
		}
	}
	// A thread in which the agent answered is told from one that it noted.
	m := record(place, chat.MessagePosted, "9.9", 0)
	last := func() bool {
		t.Helper()
		l, err := db.LastMessages(t.Context(), "a", "slack")
		if err != nil || len(l) != 2 {
			t.Fatalf("%+v, %v", l, err)
		}
		for _, p := range l {
			if p.Thread == "9.1" {
				return p.Answered
			}
		}
		return false
	}
	if last() {
		t.Error("answered, before there was a turn")
	}
	if _, err := db.BeginTurn(t.Context(), Turn{ID: chat.TurnOf(m.Message.ID), Agent: "a", Conversation: m.Conversation, Place: place.ID, Message: m.Message.ID,
		Actor: m.Message.Author, WorkflowID: "w", RunID: "r"}); err != nil {
		t.Fatal(err)
	}
	if !last() {
		t.Error("not answered, with a turn")
	}
}

func TestAliases(t *testing.T) {
	db := open(t)
	for _, a := range []Alias{{"C1", "C2"}, {"C1", "C3"}, {"C1", "C2"}, {"C7", "C0"}} {
		if err := db.SetAlias(t.Context(), "a", "slack", a); err != nil {
			t.Fatal(err)
		}
	}
	// In the order in which they came: the last one of a channel is its own now.
	if got, err := db.Aliases(t.Context(), "a", "slack"); err != nil || !slices.Equal(got, []Alias{{"C1", "C2"}, {"C1", "C3"}, {"C7", "C0"}}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := db.Aliases(t.Context(), "b", "slack"); err != nil || len(got) != 0 {
		t.Errorf("of another agent: %+v, %v", got, err)
	}
	if db.SetAlias(t.Context(), "a", "slack", Alias{"C1", "C1"}) == nil {
		t.Error("a channel is its own alias")
	}
}

// A file's deletion names no message: those that have it are found, of the
// agent and the platform alone, until they are known to have lost it.
func TestMessagesWithFile(t *testing.T) {
	db := open(t)
	channel := chat.NewPlace("a", "slack", "T", "C1", "", chat.Channel)
	thread := chat.NewPlace("a", "slack", "T", "C1", "9.1", chat.PublicThread)
	gone := png("f")
	gone.State = chat.FileDeleted
	for _, e := range []chat.Event{
		posted(channel, "1", "x", png("f"), png("g")), posted(thread, "2", "x", png("f")), posted(channel, "3", "x", png("g")),
		posted(channel, "4", "x", png("f")), {Kind: chat.MessageDeleted, Place: channel, Message: chat.Message{NativeID: "4"}},
		posted(channel, "5", "x", png("f")), edited(channel, "5", "2", "x", gone),
		posted(chat.NewPlace("b", "slack", "T", "C1", "", chat.Channel), "6", "x", png("f")),
		posted(chat.NewPlace("a", "discord", "T", "C1", "", chat.Channel), "7", "x", png("f")),
	} {
		if _, err := db.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := db.MessagesWithFile(t.Context(), "a", "slack", "f")
	var ids []string
	for _, m := range got {
		ids = append(ids, m.Scope+" "+m.Channel+" "+m.Thread+" "+m.Message)
	}
	slices.Sort(ids)
	if err != nil || !slices.Equal(ids, []string{"T C1  1", "T C1 9.1 2"}) {
		t.Errorf("%q, %v", ids, err)
	}
}
