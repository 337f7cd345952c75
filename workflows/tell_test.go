package workflows

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"sightline/checkpoints"
	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// mouth keeps what was said, by key, as a platform with idempotent posts does.
type mouth map[string]chat.Reply

func (m mouth) Post(_ context.Context, r chat.Reply) (chat.Posted, error) {
	m[r.Key] = r
	return chat.Posted{NativeID: r.Key}, nil
}

func (mouth) Progress(context.Context, chat.Progress) {}

func TestTellSaysThatThereIsNoAnswer(t *testing.T) {
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	p := chat.NewPlace("a", "test", "w", "c", "", chat.Direct)
	rec, err := db.Record(t.Context(), chat.Event{
		Kind: chat.MessagePosted, Place: p,
		Message: chat.Message{NativeID: "m1", Revision: "1", Text: "look", At: time.Now(), Author: chat.Actor{Platform: "test", User: "u"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	said := mouth{}
	a := &Activities{DB: db, Agents: map[chat.AgentID]*Agent{"a": {ID: "a", Repliers: map[chat.Platform]Replier{"test": said}}}}
	in := TurnInput{Agent: "a", Conversation: rec.Conversation, Place: p.ID, Turn: chat.TurnOf(rec.Message.ID), Message: rec.Message.ID}
	for range 2 {
		if err := a.tell(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	r, ok := said[string(in.Turn)+"/reply"]
	if !ok || len(said) != 1 || r.Kind != chat.ReplyFailure || r.Text == "" || r.ReplyTo.NativeID != "m1" || r.Place.ID != p.ID {
		t.Errorf("said %+v", said)
	}
	in.Agent = "b"
	if err := a.tell(t.Context(), in); err == nil {
		t.Error("another agent told")
	}
}
