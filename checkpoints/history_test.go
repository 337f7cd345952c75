package checkpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"sightline/connectors/chat"
)

// answered makes a finished turn of one or two messages, one with a file.
func answered(t *testing.T, db *DB, i int) Turn {
	t.Helper()
	ctx := t.Context()
	r := must[Recorded](t)(db.Record(ctx, posted(room, fmt.Sprint("q", i), fmt.Sprint("question ", i), png("a"))))
	turn := turnFor(r)
	turn.StartedAt = then.Add(time.Duration(i/2) * time.Second) // two at a time begin together
	turn = must[Turn](t)(db.BeginTurn(ctx, turn))
	must2[Step](t)(db.AppendStep(ctx, Step{Turn: turn.ID, Kind: StepUser, Message: turn.Message}))
	if i%2 == 0 {
		joined := must[Recorded](t)(db.Record(ctx, posted(room, fmt.Sprint("j", i), "and")))
		must2[Step](t)(db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 1, Kind: StepUser, Message: joined.Message.ID}))
	}
	must2[Step](t)(db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 2, Kind: StepAssistant, Body: json.RawMessage(`1`)}))
	key := fmt.Sprint("k", i)
	must2[Post](t)(db.IntendPost(ctx, Post{Key: key, Turn: turn.ID, Kind: chat.ReplyAnswer, Text: fmt.Sprint("answer ", i)}))
	if err := db.SettlePost(ctx, key, fmt.Sprint("a", i)); err != nil {
		t.Fatal(err)
	}
	if err := db.FinishTurn(ctx, turn.ID, TurnAnswered, ""); err != nil {
		t.Fatal(err)
	}
	return turn
}

func TestHistory(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	var all []Turn
	for i := range 6 {
		all = append(all, answered(t, db, i))
	}
	running := begun(t, db, "running") // begun at the start of time, but not finished
	now := must[Recorded](t)(db.Record(ctx, posted(room, "now", "now")))
	current := turnFor(now)
	current.StartedAt = then.Add(time.Hour)
	current = must[Turn](t)(db.BeginTurn(ctx, current))

	turns, older, err := db.History(ctx, "main", room.Conversation(), current.ID, 4)
	if err != nil || len(turns) != 4 || older != 2 {
		t.Fatalf("%d turns, %d older, %v", len(turns), older, err)
	}
	seen := map[chat.TurnID]bool{}
	for i, p := range turns {
		seen[p.Turn.ID] = true
		if i > 0 && p.Turn.StartedAt.Before(turns[i-1].Turn.StartedAt) {
			t.Error("not oldest first")
		}
		var n int
		fmt.Sscanf(p.Answer, "answer %d", &n)
		if p.Turn.ID != all[n].ID || len(p.Messages) != 2-n%2 || p.Messages[0].Text != fmt.Sprint("question ", n) || len(p.Attachments) != 1 || p.Attachments[0].Message != p.Messages[0].ID {
			t.Errorf("turn %d: %+v", n, p)
		}
	}
	if seen[all[0].ID] || seen[all[1].ID] || seen[running.ID] || seen[current.ID] {
		t.Errorf("the wrong four: %v", seen)
	}
	// Walking back with the oldest as the cursor meets every turn once.
	for before := turns[0].Turn.ID; ; {
		page, left, err := db.History(ctx, "main", room.Conversation(), before, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		before = page[0].Turn.ID
		if seen[before] || left != 6-len(seen)-1 {
			t.Errorf("%s, %d left", before, left)
		}
		seen[before] = true
	}
	if len(seen) != 6 {
		t.Errorf("met %d", len(seen))
	}
	if turns, older, err := db.History(ctx, "main", room.Conversation(), current.ID, 0); err != nil || len(turns) != 0 || older != 6 {
		t.Errorf("none: %d, %d, %v", len(turns), older, err)
	}
	if turns, _, err := db.History(ctx, "main", room.Conversation(), "", 100); err != nil || len(turns) != 6 {
		t.Errorf("all: %d, %v", len(turns), err)
	}
	for _, err := range []error{
		fail2(db.History(ctx, "other", room.Conversation(), current.ID, 4)),
		fail2(db.History(ctx, "main", chat.ConversationOf("main", "plc_x"), current.ID, 4)),
		fail2(db.History(ctx, "main", room.Conversation(), chat.TurnOf("x"), 4)),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("out of scope: %v", err)
		}
	}
}

func fail2[T any](_ T, _ int, err error) error { return err }

func TestHistoryForgetsWhatWasDeleted(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	answered(t, db, 0)
	own := posted(room, "a0", "answer 0")
	own.Message.FromAgent = true
	if r := must[Recorded](t)(db.Record(ctx, own)); !r.Message.FromAgent {
		t.Error("the agent's own message is not marked")
	}
	turns, _, err := db.History(ctx, "main", room.Conversation(), "", 9)
	if err != nil || len(turns) != 1 {
		t.Fatal(turns, err)
	}
	if p := turns[0]; p.Answer != "answer 0" || p.Turn.Stale {
		t.Errorf("%+v", p)
	}
	must[Recorded](t)(db.Record(ctx, deleted(room, "q0")))
	if turns, _, err = db.History(ctx, "main", room.Conversation(), "", 9); err != nil || len(turns) != 1 {
		t.Fatal(turns, err)
	}
	// The question is gone, and with it the answer, which draws on it.
	p := turns[0]
	if !p.Messages[0].Deleted || p.Messages[0].Text != "" || p.Messages[1].Text != "and" || p.Attachments[0].State != chat.FileDeleted || p.Answer != "" || !p.Turn.Stale {
		t.Errorf("%+v", p)
	}
	must[Recorded](t)(db.Record(ctx, deleted(room, "a0")))
	if turns, _, err = db.History(ctx, "main", room.Conversation(), "", 9); err != nil || turns[0].Answer != "" {
		t.Errorf("a deleted answer is retold: %+v, %v", turns, err)
	}
}

func TestHistoryRetellsOnlyWhatWasPosted(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn := begun(t, db, "1")
	must2[Post](t)(db.IntendPost(ctx, Post{Key: "k", Turn: turn.ID, Kind: chat.ReplyAnswer, Text: "unsaid"}))
	if err := db.FinishTurn(ctx, turn.ID, TurnFailed, "x"); err != nil {
		t.Fatal(err)
	}
	turns, _, err := db.History(ctx, "main", room.Conversation(), "", 9)
	if err != nil || len(turns) != 1 || turns[0].Answer != "" {
		t.Errorf("%+v, %v", turns, err)
	}
}
