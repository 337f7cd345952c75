package workflows

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/mocks"

	"sightline/checkpoints"
	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
)

// A message that comes while Temporal is away is acknowledged, since it is
// owed, and told once it is back, however long that takes.
func TestMessagesAreOwedWhileTemporalIsAway(t *testing.T) {
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	c := &mocks.Client{}
	away := c.On("SignalWithStartWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil, errors.New("connection refused"))
	g := &Ingress{DB: db, Client: c}
	p := chat.NewPlace("a", "test", "w", "c", "", chat.Direct)
	say := func(native string) chat.MessageID {
		t.Helper()
		if err := g.Deliver(t.Context(), chat.Event{Kind: chat.MessagePosted, Place: p, Message: chat.Message{
			NativeID: native, Revision: "1", Text: "hello", At: time.Now(), Author: chat.Actor{Platform: "test", User: "u"},
		}}); err != nil {
			t.Fatal(err)
		}
		return chat.MessageOf(p.ID, native)
	}
	one, two := say("1"), say("2")
	say("2") // as a platform repeats itself
	if err := g.Settle(t.Context()); err == nil {
		t.Error("settled with Temporal away")
	}
	if owed, err := db.Owing(t.Context(), 9); err != nil || len(owed) != 2 || owed[0].Message != one || owed[1].Message != two || owed[0].Conversation != p.Conversation() {
		t.Fatalf("owed %+v, %v", owed, err)
	}
	away.Unset()
	var told []chat.MessageID
	c.On("SignalWithStartWorkflow", mock.Anything, string(p.Conversation()), SignalMessage, mock.Anything, mock.Anything, ConversationType, mock.Anything).
		Run(func(a mock.Arguments) { told = append(told, a.Get(3).(MessageSignal).Message) }).Return(nil, nil)
	if err := g.Settle(t.Context()); err != nil || len(told) != 2 || told[0] != one || told[1] != two {
		t.Errorf("told %v, %v", told, err)
	}
	if owed, err := db.Owing(t.Context(), 9); err != nil || len(owed) != 0 {
		t.Errorf("still owed %+v, %v", owed, err)
	}
}

// What the store can't keep, whoever tries, is told from a store that is away
// or of another version.
func TestUnfitEvents(t *testing.T) {
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	g := &Ingress{DB: db, Client: &mocks.Client{}}
	p := chat.NewPlace("a", "test", "w", "c", "", chat.Direct)
	nameless := chat.Event{Kind: chat.MessagePosted, Place: p, Silent: true, Message: chat.Message{Revision: "1"}}
	if err := g.Deliver(t.Context(), nameless); !errors.Is(err, chat.ErrUnfit) {
		t.Errorf("without an ID: %v", err)
	}
	db.Close()
	nameless.Message.NativeID = "1"
	if err := g.Deliver(t.Context(), nameless); err == nil || errors.Is(err, chat.ErrUnfit) {
		t.Errorf("a store that is away: %v", err)
	}
}
