package checkpoints

import (
	"testing"

	"sightline/connectors/chat"
)

// Only an answer that is not known to be out is recalled.
func TestRecallPost(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn := begun(t, db, "1")
	for key, kind := range map[string]chat.ReplyKind{"open": chat.ReplyAnswer, "out": chat.ReplyAnswer, "stopped": chat.ReplyStopped} {
		if _, _, err := db.IntendPost(ctx, Post{Key: key, Turn: turn.ID, Kind: kind, Text: "as it was", At: then}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.SettlePost(ctx, "out", "native"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, key := range []string{"open", "out", "stopped", "absent"} {
			if err := db.RecallPost(ctx, key, "recalled"); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	posts, err := db.Posts(ctx, turn.ID)
	if err != nil || len(posts) != 3 {
		t.Fatalf("%d posts, %v", len(posts), err)
	}
	for _, p := range posts {
		if recalled := p.Key == "open"; recalled != (p.Text == "recalled") || recalled != (p.Kind == chat.ReplyFailure) {
			t.Errorf("%+v", p)
		}
	}
}
