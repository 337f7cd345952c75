package checkpoints

import (
	"errors"
	"testing"

	"sightline/connectors/chat"
)

func TestDraftBecomesThePost(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn, other := begun(t, db, "1"), begun(t, db, "2")
	if _, err := db.Draft(ctx, "k"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no draft: %v", err)
	}
	for i := range 2 { // the first words stand
		d, existed, err := db.BeginDraft(ctx, Draft{Key: "k", Turn: turn.ID, First: []string{"one\x00", "two"}[i]})
		if err != nil || existed != (i == 1) || d.First != "one\uFFFD" || d.NativeID != "" || d.Ended {
			t.Errorf("begun %d: %+v, %v, %v", i, d, existed, err)
		}
	}
	if _, _, err := db.BeginDraft(ctx, Draft{Key: "k", Turn: other.ID, First: "x"}); !errors.Is(err, ErrConflict) {
		t.Errorf("another turn's key: %v", err)
	}
	for native, want := range map[string]error{"": ErrInvalid, "m1": nil} {
		if err := db.SettleDraft(ctx, "k", native); !errors.Is(err, want) {
			t.Errorf("settled at %q: %v", native, err)
		}
	}
	if err := db.SettleDraft(ctx, "k", "m1"); err != nil {
		t.Errorf("settled again: %v", err)
	}
	for key, native := range map[string]string{"k": "m2", "none": "m1"} {
		if err := db.SettleDraft(ctx, key, native); !errors.Is(err, ErrConflict) {
			t.Errorf("settled %s at %s: %v", key, native, err)
		}
	}
	for range 2 {
		p, _, err := db.IntendPost(ctx, Post{Key: "k", Turn: turn.ID, Kind: chat.ReplyAnswer, Text: "done"})
		if err != nil || p.Draft == nil || *p.Draft != (chat.Draft{NativeID: "m1", First: "one\uFFFD"}) {
			t.Errorf("the post knows of %+v, %v", p.Draft, err)
		}
	}
	// Nothing is shown once the reply is on its way.
	if d, err := db.Draft(ctx, "k"); err != nil || !d.Ended {
		t.Errorf("after the post: %+v, %v", d, err)
	}
	p, _, err := db.IntendPost(ctx, Post{Key: "k2", Turn: turn.ID, Kind: chat.ReplyAnswer, Text: "done"})
	if err != nil || p.Draft != nil {
		t.Errorf("a post without a draft: %+v, %v", p, err)
	}
	if _, _, err := db.BeginDraft(ctx, Draft{Key: "k2", Turn: turn.ID, First: "late"}); !errors.Is(err, ErrConflict) {
		t.Errorf("a draft after its post: %v", err)
	}
}

func TestEndedDraft(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn := begun(t, db, "1")
	must2[Draft](t)(db.BeginDraft(ctx, Draft{Key: "k", Turn: turn.ID, First: "one"}))
	if err := db.EndDraft(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if d, err := db.Draft(ctx, "k"); err != nil || !d.Ended {
		t.Errorf("%+v, %v", d, err)
	}
}
