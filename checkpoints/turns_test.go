package checkpoints

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
)

func TestTurnBeginsOnceAndEndsOnce(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	r := must[Recorded](t)(db.Record(ctx, posted(room, "1", "hi")))
	want := turnFor(r)
	for _, got := range race(t, 8, func(i int) (Turn, error) {
		mine := want
		mine.RunID = fmt.Sprint("run", i)
		return db.BeginTurn(ctx, mine)
	}) {
		want.RunID, want.State = got.RunID, TurnRunning
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if stored := must[Turn](t)(db.Turn(ctx, want.ID)); stored.RunID != got.RunID {
			t.Errorf("told %s, stored %s", got.RunID, stored.RunID)
		}
	}
	other := must[Recorded](t)(db.Record(ctx, posted(room, "2", "hi")))
	clash := turnFor(other)
	clash.ID = want.ID
	if _, err := db.BeginTurn(ctx, clash); !errors.Is(err, ErrConflict) {
		t.Errorf("another message: %v", err)
	}
	stray := turnFor(other)
	stray.Conversation = chat.ConversationOf("main", "plc_0")
	if _, err := db.BeginTurn(ctx, stray); !errors.Is(err, ErrInvalid) {
		t.Errorf("a message of another conversation: %v", err)
	}
	if got := must[[]Turn](t)(db.RunningTurns(ctx, "main")); len(got) != 1 {
		t.Errorf("%d running", len(got))
	}
	for range 2 {
		if err := db.FinishTurn(ctx, want.ID, TurnFailed, "why\x00"); err != nil {
			t.Fatal(err)
		}
	}
	if got := must[Turn](t)(db.Turn(ctx, want.ID)); got.State != TurnFailed || got.Reason != "why\uFFFD" || got.FinishedAt.IsZero() {
		t.Errorf("finished: %+v", got)
	}
	if err := db.FinishTurn(ctx, want.ID, TurnAnswered, ""); !errors.Is(err, ErrConflict) {
		t.Errorf("a second end: %v", err)
	}
	if err := db.FinishTurn(ctx, want.ID, TurnRunning, ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("running as an end: %v", err)
	}
	if err := db.FinishTurn(ctx, chat.TurnOf("x"), TurnFailed, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("no turn: %v", err)
	}
	if _, err := db.Turn(ctx, chat.TurnOf("x")); !errors.Is(err, ErrNotFound) {
		t.Errorf("no turn: %v", err)
	}
	if got := must[[]Turn](t)(db.RunningTurns(ctx, "main")); len(got) != 0 {
		t.Errorf("%d running", len(got))
	}
}

func TestRecentTurnsNewestFirst(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	for i := range 5 {
		r := must[Recorded](t)(db.Record(ctx, posted(room, fmt.Sprint(i), "hi")))
		turn := turnFor(r)
		turn.StartedAt = then.Add(time.Duration(i) * time.Second)
		turn.WorkflowID = fmt.Sprint(i)
		must[Turn](t)(db.BeginTurn(ctx, turn))
	}
	got := must[[]Turn](t)(db.RecentTurns(ctx, "main", room.Conversation(), 3))
	if len(got) != 3 || got[0].WorkflowID != "4" || got[2].WorkflowID != "2" {
		t.Errorf("%+v", got)
	}
	if got := must[[]Turn](t)(db.RecentTurns(ctx, "other", room.Conversation(), 3)); len(got) != 0 {
		t.Errorf("another agent sees %+v", got)
	}
}

func TestStepsAreAppendedOnce(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn := begun(t, db, "1")
	user := Step{Turn: turn.ID, Kind: StepUser, Message: turn.Message}
	must2[Step](t)(db.AppendStep(ctx, user))
	type result struct {
		step    Step
		existed bool
	}
	fresh := 0
	all := race(t, 8, func(i int) (result, error) {
		s, existed, err := db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 1, Kind: StepAssistant, Body: json.RawMessage(fmt.Sprintf(`{"n": %d}`, i))})
		return result{s, existed}, err
	})
	for _, r := range all {
		if !r.existed {
			fresh++
		}
		if !reflect.DeepEqual(r.step, all[0].step) {
			t.Errorf("two answers for one step: %s and %s", r.step.Body, all[0].step.Body)
		}
	}
	if fresh != 1 {
		t.Errorf("%d wrote it", fresh)
	}
	sum := sha256.Sum256(all[0].step.Body)
	if all[0].step.Digest != hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s", all[0].step.Digest)
	}
	if _, _, err := db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 1, Kind: StepUser, Message: turn.Message}); !errors.Is(err, ErrConflict) {
		t.Errorf("another kind: %v", err)
	}
	joined := must[Recorded](t)(db.Record(ctx, posted(room, "2", "and")))
	if _, _, err := db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 0, Kind: StepUser, Message: joined.Message.ID}); !errors.Is(err, ErrConflict) {
		t.Errorf("another message: %v", err)
	}
	must2[Step](t)(db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 2, Kind: StepUser, Message: joined.Message.ID}))
	steps := must[[]Step](t)(db.Steps(ctx, turn.ID))
	if len(steps) != 3 || steps[0].Kind != StepUser || steps[0].Body != nil || !reflect.DeepEqual(steps[1], all[0].step) {
		t.Errorf("transcript: %+v", steps)
	}
	must[Recorded](t)(db.Record(ctx, deleted(room, "1")))
	must[Recorded](t)(db.Record(ctx, edited(room, "2", "r2", "and now")))
	msgs := must[[]chat.Message](t)(db.TurnMessages(ctx, turn.ID))
	if len(msgs) != 2 || !msgs[0].Deleted || msgs[0].Text != "" || msgs[1].Text != "and now" {
		t.Errorf("messages: %+v", msgs)
	}
	if got := must[Turn](t)(db.TurnOfMessage(ctx, joined.Message.ID)); got.ID != turn.ID {
		t.Errorf("turn of the joined message: %+v", got)
	}
}

// must2 is must for calls that also say whether the row was there; it must not
// have been.
func must2[T any](t testing.TB) func(T, bool, error) T {
	return func(v T, existed bool, err error) T {
		t.Helper()
		if err != nil || existed {
			t.Fatal(existed, err)
		}
		return v
	}
}

func TestStepBodies(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn := begun(t, db, "1")
	for i, tt := range []struct{ in, out string }{
		{`{"text":"a\u0000b"}`, `{"text":"a\u0000b"}`},
		{`{ "b" : 1, "a": [1.0, 1e400], "a":2 }`, `{ "b" : 1, "a": [1.0, 1e400], "a":2 }`},
		{`"\ud83d\ude00 \ud800"`, `"\ud83d\ude00 \ud800"`},
		{"\"a\xffb\"", "\"a\uFFFDb\""},
		{`"` + strings.Repeat("x", 1<<20-2) + `"`, ""},
	} {
		s := must2[Step](t)(db.AppendStep(ctx, Step{Turn: turn.ID, Seq: i, Kind: StepAssistant, Body: json.RawMessage(tt.in)}))
		if tt.out == "" {
			tt.out = tt.in
		}
		if string(s.Body) != tt.out {
			t.Errorf("%.40q came back as %.40q", tt.in, s.Body)
		}
		stored := must[[]Step](t)(db.Steps(ctx, turn.ID))[i]
		sum := sha256.Sum256(stored.Body)
		if !reflect.DeepEqual(stored, s) || s.Digest != hex.EncodeToString(sum[:]) {
			t.Errorf("%.40q is stored as %.40q", s.Body, stored.Body)
		}
	}
	for name, b := range map[string]string{
		"not json": `{`, "empty": ``, "too long": `"` + strings.Repeat("x", 1<<20) + `"`, "raw nul": "\"\x00\"",
		"too deep": strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
	} {
		_, _, err := db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 99, Kind: StepAssistant, Body: json.RawMessage(b)})
		if name == "too deep" && err == nil {
			continue // it depends on the server's stack; it must only not crash
		}
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestToolStepsComeWithReceipts(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn := begun(t, db, "1")
	s := Step{Turn: turn.ID, Seq: 1, Kind: StepTool, Body: json.RawMessage(`"done"`)}
	want := Receipt{Tool: "view_images", CallID: "c1", Verdict: chat.VerdictDone, Reason: "nul \x00 and \xff",
		Selected: []Selected{{Attachment: chat.NewAttachmentID(), Message: turn.Message, Digest: strings.Repeat("a", 64), Type: "image/png", Width: 1, Height: 2, Region: &[4]int{1, 2, 3, 4}, Reason: "x\x00y"}}}
	type result struct {
		Step    Step
		Receipt Receipt
	}
	fresh := make(chan bool, 8)
	all := race(t, 8, func(i int) (result, error) {
		mine := want
		mine.CallID = fmt.Sprint("c", i)
		s, r, existed, err := db.AppendToolStep(ctx, s, mine)
		fresh <- !existed
		return result{s, r}, err
	})
	writers := 0
	for _, r := range all {
		if <-fresh {
			writers++
		}
		if !reflect.DeepEqual(r, all[0]) {
			t.Errorf("two answers: %+v and %+v", r, all[0])
		}
	}
	got := all[0].Receipt
	if writers != 1 || got.Turn != turn.ID || got.Seq != 1 || got.Verdict != chat.VerdictDone || got.Reason != "nul \uFFFD and \uFFFD" || !reflect.DeepEqual(got.Selected, want.Selected) {
		t.Errorf("%d wrote %+v", writers, got)
	}
	if rs := must[[]Receipt](t)(db.Receipts(ctx, turn.ID)); len(rs) != 1 || !reflect.DeepEqual(rs[0], got) {
		t.Errorf("stored %+v", rs)
	}
	if _, _, err := db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 2, Kind: StepTool, Body: json.RawMessage(`1`)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a tool's step alone: %v", err)
	}
	// A receipt that is refused takes its step with it.
	if _, _, _, err := db.AppendToolStep(ctx, Step{Turn: turn.ID, Seq: 2, Kind: StepTool, Body: json.RawMessage(`1`)}, Receipt{Tool: "t", Verdict: "maybe"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a strange verdict: %v", err)
	}
	must2[Step](t)(db.AppendStep(ctx, Step{Turn: turn.ID, Seq: 2, Kind: StepAssistant, Body: json.RawMessage(`1`)}))
	if _, _, _, err := db.AppendToolStep(ctx, Step{Turn: turn.ID, Seq: 2, Kind: StepTool, Body: json.RawMessage(`1`)}, want); !errors.Is(err, ErrConflict) {
		t.Errorf("over another kind: %v", err)
	}
	empty := must4[Receipt](t)(db.AppendToolStep(ctx, Step{Turn: turn.ID, Seq: 3, Kind: StepTool, Body: json.RawMessage(`1`)}, Receipt{Tool: "t", Verdict: chat.VerdictFailed}))
	if len(empty.Selected) != 0 {
		t.Errorf("selected: %+v", empty.Selected)
	}
}

func must4[R any](t testing.TB) func(Step, R, bool, error) R {
	return func(_ Step, r R, existed bool, err error) R {
		t.Helper()
		return must2[R](t)(r, existed, err)
	}
}

func TestAudits(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn := begun(t, db, "1")
	a := Audit{Turn: turn.ID, Seq: 1, Model: "m", Body: json.RawMessage(`{"input": "a\u0000"}`), Pictures: []Selected{{Type: "image/png"}}, At: then}
	seen := map[int]bool{}
	for _, n := range race(t, 8, func(int) (int, error) { return db.OpenAudit(ctx, a) }) {
		seen[n] = true
	}
	for n := 1; n <= 8; n++ {
		if !seen[n] {
			t.Errorf("no attempt %d: %v", n, seen)
		}
	}
	for range 2 {
		if err := db.CloseAudit(ctx, turn.ID, 1, 2, "answered", 10, 20, 1500*time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		attempt int
		outcome string
		want    error
	}{{2, "failed", ErrConflict}, {99, "answered", ErrNotFound}, {3, "", ErrInvalid}} {
		if err := db.CloseAudit(ctx, turn.ID, 1, tt.attempt, tt.outcome, 0, 0, 0); !errors.Is(err, tt.want) {
			t.Errorf("attempt %d, %q: %v", tt.attempt, tt.outcome, err)
		}
	}
	all := must[[]Audit](t)(db.Audits(ctx, turn.ID))
	want := a
	want.Attempt, want.Outcome, want.InputTokens, want.OutputTokens, want.Took = 2, "answered", 10, 20, 1500*time.Microsecond
	if len(all) != 8 || !reflect.DeepEqual(all[1], want) || all[0].Outcome != "" {
		t.Errorf("stored %+v", all)
	}
	if ps := must[[]Selected](t)(db.TurnPictures(ctx, turn.ID, -1)); len(ps) != 8 || ps[0].Type != "image/png" {
		t.Errorf("pictures %+v", ps)
	}
	a.Turn = chat.TurnOf("x")
	if _, err := db.OpenAudit(ctx, a); !errors.Is(err, ErrNotFound) {
		t.Errorf("no turn: %v", err)
	}
}

func TestPosts(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	turn, other := begun(t, db, "1"), begun(t, db, "2")
	fresh := make(chan bool, 8)
	all := race(t, 8, func(i int) (Post, error) {
		p, existed, err := db.IntendPost(ctx, Post{Key: "k", Turn: turn.ID, Kind: chat.ReplyAnswer, Text: fmt.Sprint("text", i), At: then})
		fresh <- !existed
		return p, err
	})
	writers := 0
	for _, p := range all {
		if <-fresh {
			writers++
		}
		if p != all[0] {
			t.Errorf("two replies: %+v and %+v", p, all[0])
		}
	}
	if writers != 1 || all[0].NativeID != "" {
		t.Errorf("%d wrote %+v", writers, all[0])
	}
	if _, _, err := db.IntendPost(ctx, Post{Key: "k", Turn: other.ID, Kind: chat.ReplyAnswer}); !errors.Is(err, ErrConflict) {
		t.Errorf("another turn's key: %v", err)
	}
	race(t, 4, func(int) (struct{}, error) { return struct{}{}, db.SettlePost(ctx, "k", "native") })
	if err := db.SettlePost(ctx, "k", "elsewhere"); !errors.Is(err, ErrConflict) {
		t.Errorf("posted twice: %v", err)
	}
	if err := db.SettlePost(ctx, "absent", "n"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no post: %v", err)
	}
	if err := db.SettlePost(ctx, "k", ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("posted nowhere: %v", err)
	}
	long, _, err := db.IntendPost(ctx, Post{Key: "long", Turn: turn.ID, Kind: chat.ReplyFailure, Text: "\x00" + strings.Repeat("x", maxText)})
	if err != nil || len(long.Text) > maxText {
		t.Errorf("long: %d, %v", len(long.Text), err)
	}
	ps := must[[]Post](t)(db.Posts(ctx, turn.ID))
	if len(ps) != 2 || ps[0].NativeID != "native" || ps[0].PostedAt.IsZero() || ps[1] != long {
		t.Errorf("%+v", ps[0])
	}
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	d := func(s string) string { return strings.Repeat(s, 64) }
	race(t, 12, func(i int) (struct{}, error) {
		q := []Quarantine{{d("a"), "", "all", then}, {d("a"), "m", "mine", then}, {d("b"), "other", "theirs", then}}[i%3]
		return struct{}{}, db.PutQuarantine(ctx, q)
	})
	got := must[map[string]Quarantine](t)(db.Quarantined(ctx, []string{d("a"), d("b"), d("c"), "\x00"}, "m"))
	if len(got) != 1 || got[d("a")] != (Quarantine{d("a"), "m", "mine", then}) {
		t.Errorf("%+v", got)
	}
	got = must[map[string]Quarantine](t)(db.Quarantined(ctx, []string{d("a"), d("b")}, "other"))
	if len(got) != 2 || got[d("a")].Reason != "all" {
		t.Errorf("%+v", got)
	}
	if err := db.PutQuarantine(ctx, Quarantine{Digest: "sha256:x"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("not a digest: %v", err)
	}
}
