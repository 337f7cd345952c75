package checkpoints

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
)

// Whoever only looks changes nothing, not even by mistake, and migrates
// nothing.
func TestOpenToReadRefusesWrites(t *testing.T) {
	url := testenv.Postgres(t)
	empty := must[*DB](t)(OpenToRead(t.Context(), url, nil))
	if _, err := empty.Turn(t.Context(), "trn_0123456789abcdefghjkmnpqrs"); err == nil {
		t.Error("the schema is there: it was migrated")
	}
	empty.Close()
	db := openAt(t, url)
	turn := begun(t, db, "m1")
	read := must[*DB](t)(OpenToRead(t.Context(), url, nil))
	defer read.Close()
	if got := must[Turn](t)(read.Turn(t.Context(), turn.ID)); got.ID != turn.ID {
		t.Errorf("read %+v", got)
	}
	if err := read.FinishTurn(t.Context(), turn.ID, TurnAnswered, ""); err == nil {
		t.Error("a reader finished a turn")
	}
	if _, err := read.Record(t.Context(), posted(room, "m2", "x")); err == nil {
		t.Error("a reader recorded an event")
	}
}

func TestInspectConversation(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	r := must[Recorded](t)(db.Record(ctx, posted(room, "m1", "hello", png("f1"), png("f2"))))
	turn := must[Turn](t)(db.BeginTurn(ctx, turnFor(r)))
	other := chat.NewPlace("other", "discord", "w", "room", "", chat.Channel)
	must[Recorded](t)(db.Record(ctx, posted(other, "m1", "hello")))

	c := must[ConversationRow](t)(db.InspectConversation(ctx, "", r.Conversation))
	if c.Agent != "main" || c.Place.ID != room.ID || c.Messages != 1 || c.Attachments != 2 || c.Turns != 1 || c.LastTurn != turn.ID ||
		c.LastState != TurnRunning || !c.LastActivity.Equal(turn.StartedAt) {
		t.Errorf("%+v", c)
	}
	quiet := must[ConversationRow](t)(db.InspectConversation(ctx, "other", other.Conversation()))
	if quiet.Turns != 0 || quiet.LastTurn != "" || !quiet.LastActivity.IsZero() {
		t.Errorf("%+v", quiet)
	}
	// Another agent's is not there.
	for _, agent := range []chat.AgentID{"other", "nobody"} {
		if _, err := db.InspectConversation(ctx, agent, r.Conversation); !errors.Is(err, ErrNotFound) {
			t.Errorf("as agent %s: %v", agent, err)
		}
		if _, err := db.InspectAttachment(ctx, agent, r.Attachments[0].ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("attachment as agent %s: %v", agent, err)
		}
	}
	if a := must[chat.Attachment](t)(db.InspectAttachment(ctx, "", r.Attachments[1].ID)); a.ID != r.Attachments[1].ID || a.Author.Name != "Alice" {
		t.Errorf("%+v", a)
	}
	list := must[[]ConversationRow](t)(db.RecentConversations(ctx, "main", 10))
	if len(list) != 1 || list[0].ID != r.Conversation {
		t.Errorf("%+v", list)
	}
	files := must[[]chat.Attachment](t)(db.NewestAttachments(ctx, "main", r.Conversation, 1))
	if len(files) != 1 || files[0].Ordinal != 2 {
		t.Errorf("%+v", files)
	}
}

func TestInspectTurn(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	turn := begun(t, db, "m1")
	if _, _, err := db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 0, Kind: StepUser, Message: turn.Message}); err != nil {
		t.Fatal(err)
	}
	body := json.RawMessage(`{"messages":["what was said"]}`)
	attempt := must[int](t)(db.OpenAudit(ctx, Audit{Turn: turn.ID, Seq: 1, Model: "m", Body: body, At: then}))
	if err := db.CloseAudit(ctx, turn.ID, 1, attempt, "stop", 5, 6, 7*time.Second); err != nil {
		t.Fatal(err)
	}
	calls := must[[]ModelCall](t)(db.ModelCalls(ctx, turn.ID))
	if len(calls) != 1 || calls[0].Body != nil || calls[0].BodyBytes != int64(len(body)) || calls[0].InputTokens != 5 || calls[0].OutputTokens != 6 ||
		calls[0].Took != 7*time.Second || calls[0].Outcome != "stop" {
		t.Errorf("%+v", calls)
	}
	// Also what names nothing is in the trail of its turn, and no other's is.
	uses := []chat.Use{
		{Turn: turn.ID, Agent: "main", Actor: alice, Attachment: "../../etc", Action: "view", Rule: "id", At: then},
		{Turn: turn.ID, Agent: "main", Actor: alice, Attachment: "att_x", Action: "view", Rule: "unknown", At: then},
		{Turn: "trn_other", Agent: "main", Actor: alice, Attachment: "att_x", Action: "view", At: then},
		{Turn: turn.ID, Agent: "other", Actor: alice, Attachment: "att_x", Action: "view", At: then},
	}
	if err := db.RecordUses(ctx, uses); err != nil {
		t.Fatal(err)
	}
	got := must[[]chat.Use](t)(db.TurnUses(ctx, "main", turn.ID))
	if len(got) != 2 || got[0].Attachment != "../../etc" || got[1].Rule != "unknown" {
		t.Errorf("%+v", got)
	}
}
