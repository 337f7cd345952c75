package checkpoints

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
)

func TestIntentIsWrittenOnce(t *testing.T) {
	t.Parallel()
	db, turn := filled(t)
	for i, want := range []bool{false, true, true} {
		if existed, err := db.Intend(t.Context(), turn.ID, 5, "workspace_exec", "c"); err != nil || existed != want {
			t.Errorf("time %d: existed %v, %v", i+1, existed, err)
		}
	}
	if existed, err := db.Intend(t.Context(), turn.ID, 6, "workspace_exec", "c"); err != nil || existed {
		t.Errorf("another step: %v, %v", existed, err)
	}
	for _, sql := range []string{`UPDATE intent SET tool = 'x'`, `DELETE FROM intent`, `TRUNCATE intent`} {
		if _, err := db.pool.Exec(t.Context(), sql); !errors.Is(translate(t.Context(), "x", err), ErrInvalid) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if _, err := db.Intend(t.Context(), chat.TurnOf("nobody's"), 1, "x", ""); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrNotFound) {
		t.Errorf("without a turn: %v", err)
	}
}

func TestLastReceiptsAreNewestFirst(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	one := begun(t, db, "1")
	for seq, tool := range []string{"a", "b", "a"} {
		must4[Receipt](t)(db.AppendToolStep(ctx, Step{Turn: one.ID, Seq: seq, Kind: StepTool, Body: json.RawMessage(`1`)},
			Receipt{Tool: tool, Verdict: chat.VerdictDone, Places: []chat.PlaceID{room.ID}}))
	}
	got := must[[]Receipt](t)(db.LastReceipts(ctx, one.Agent, one.Conversation, []string{"a", "c"}, 9))
	if len(got) != 2 || got[0].Seq != 2 || got[1].Seq != 0 || !slices.Equal(got[0].Places, []chat.PlaceID{room.ID}) {
		t.Errorf("%+v", got)
	}
	if got := must[[]Receipt](t)(db.LastReceipts(ctx, "other", one.Conversation, []string{"a"}, 9)); len(got) != 0 {
		t.Errorf("another agent: %+v", got)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	conv := room.Conversation()
	get := func() string { return must[string](t)(db.Setting(ctx, "main", conv, "workspace")) }
	if get() != "" {
		t.Errorf("unset: %q", get())
	}
	for _, v := range []string{"on", "off"} {
		if err := db.SetSetting(ctx, "main", conv, "workspace", v, chat.Actor{User: "u", Role: chat.Owner}); err != nil || get() != v {
			t.Errorf("%s: %q, %v", v, get(), err)
		}
	}
	if v := must[string](t)(db.Setting(ctx, "other", conv, "workspace")); v != "" {
		t.Errorf("another agent: %q", v)
	}
}

// One process holds a lease, renews it, and another one gets it when it was
// given back or has run out.
func TestLease(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	take := func(holder string, ttl time.Duration) bool {
		return must[bool](t)(db.Lease(ctx, "gateway", holder, ttl))
	}
	if !take("a", time.Hour) || take("b", time.Hour) || !take("a", time.Hour) {
		t.Error("a lease that is held was given away, or not renewed")
	}
	if err := db.Release(ctx, "gateway", "b"); err != nil || take("b", time.Hour) {
		t.Errorf("somebody else gave it back: %v", err)
	}
	if err := db.Release(ctx, "gateway", "a"); err != nil || !take("b", time.Millisecond) {
		t.Errorf("given back: %v", err)
	}
	time.Sleep(5 * time.Millisecond)
	if !take("a", time.Hour) {
		t.Error("it never runs out")
	}
}

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	conv := room.Conversation()
	const one, two = "wsp_00000000000000000000000001", "wsp_00000000000000000000000002"
	w := must[Workspace](t)(db.UseWorkspace(ctx, "main", conv, one))
	if again := must[Workspace](t)(db.UseWorkspace(ctx, "main", conv, two)); again.ID != one || again.UsedAt.Before(w.UsedAt) {
		t.Errorf("a second workspace: %+v", again)
	}
	if ok := must[bool](t)(db.RetireWorkspace(ctx, one, w.UsedAt)); ok {
		t.Error("retired though it was used since")
	}
	att := chat.NewAttachmentID()
	files := []WorkspaceFile{{Name: "a", Imported: true, Digest: strings.Repeat("a", 64), Sources: []chat.AttachmentID{att}}, {Name: "b"}}
	if err := db.PutWorkspaceFiles(ctx, one, files); err != nil {
		t.Fatal(err)
	}
	files[1].Sources, files[1].Digest = []chat.AttachmentID{att}, strings.Repeat("b", 64)
	if err := db.PutWorkspaceFiles(ctx, one, files[1:]); err != nil {
		t.Fatal(err)
	}
	if got := must[[]WorkspaceFile](t)(db.WorkspaceFiles(ctx, one)); len(got) != 2 || got[0].Digest != strings.Repeat("a", 64) || !slices.Equal(got[1].Sources, []chat.AttachmentID{att}) {
		t.Errorf("%+v", got)
	}
	if err := db.DropWorkspaceFiles(ctx, one, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if got := must[[]WorkspaceFile](t)(db.WorkspaceFiles(ctx, one)); len(got) != 1 || got[0].Name != "b" {
		t.Errorf("%+v", got)
	}
	now := must[Workspace](t)(db.UseWorkspace(ctx, "main", conv, two))
	if ok := must[bool](t)(db.RetireWorkspace(ctx, one, now.UsedAt)); !ok {
		t.Error("not retired")
	}
	if fresh := must[Workspace](t)(db.UseWorkspace(ctx, "main", conv, two)); fresh.ID != two {
		t.Errorf("after its end: %+v", fresh)
	}
	if live := must[[]Workspace](t)(db.LiveWorkspaces(ctx)); len(live) != 1 || live[0].ID != two {
		t.Errorf("live: %+v", live)
	}
}

// Only what is deleted is gone, and only for workspaces that are there.
func TestGoneSources(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	const id, other = "wsp_00000000000000000000000001", "wsp_00000000000000000000000002"
	r := must[Recorded](t)(db.Record(ctx, posted(room, "1", "", png("a"), png("b"), png("c"))))
	q := must[Recorded](t)(db.Record(ctx, posted(room, "2", "", png("d"))))
	a, b, c, d := r.Attachments[0].ID, r.Attachments[1].ID, r.Attachments[2].ID, q.Attachments[0].ID
	w := must[Workspace](t)(db.UseWorkspace(ctx, "main", r.Conversation, id))
	must[Workspace](t)(db.UseWorkspace(ctx, "other", r.Conversation, other))
	unknown := chat.NewAttachmentID()
	for _, ws := range []string{id, other} { // another agent's row can't name them, and if it did
		if err := db.PutWorkspaceFiles(ctx, ws, []WorkspaceFile{{Name: "*", Sources: []chat.AttachmentID{d, b, unknown, a, c}}, {Name: "/x", Sources: []chat.AttachmentID{c}}}); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(name string) map[string][]chat.AttachmentID {
		t.Helper()
		return must[map[string][]chat.AttachmentID](t)(db.GoneSources(ctx, name))
	}
	if got := gone("*"); len(got) != 0 {
		t.Errorf("nothing was deleted: %v", got)
	}
	for _, s := range []chat.FileState{chat.FileHidden, chat.FileDenied, chat.FileOversize, chat.FileUnread, chat.FileExternal} {
		if err := db.Learn(ctx, "main", b, chat.Facts{State: s}); err != nil {
			t.Fatal(err)
		}
		if got := gone("*"); len(got) != 0 {
			t.Errorf("%s is not deleted: %v", s, got)
		}
	}
	must[int](t)(db.Forget(ctx, "main", r.Conversation, "", a))
	if got := gone("*"); len(got) != 1 || !slices.Equal(got[id], []chat.AttachmentID{a}) {
		t.Errorf("forgotten: %v", got)
	}
	must[Recorded](t)(db.Record(ctx, deleted(room, "2")))
	want := []chat.AttachmentID{a, d}
	slices.Sort(want)
	if got := gone("*"); len(got) != 1 || !slices.Equal(got[id], want) {
		t.Errorf("its message is deleted: %v, want %v", got, want)
	}
	// The message alone says it, too.
	if _, err := db.pool.Exec(ctx, `UPDATE attachment SET state = 'available' WHERE id = $1`, d); err != nil {
		t.Fatal(err)
	}
	if got := gone("*"); !slices.Equal(got[id], want) {
		t.Errorf("by its message: %v", got)
	}
	if got := gone("/x"); len(got) != 0 {
		t.Errorf("of another row: %v", got)
	}
	if err := db.DropWorkspaceSources(ctx, id, "*", want); err != nil {
		t.Fatal(err)
	}
	if got := must[[]WorkspaceFile](t)(db.WorkspaceFiles(ctx, id)); len(got) != 2 || !slices.Equal(got[0].Sources, []chat.AttachmentID{b, unknown, c}) || !slices.Equal(got[1].Sources, []chat.AttachmentID{c}) {
		t.Errorf("left: %+v", got)
	}
	if err := db.DropWorkspaceSources(ctx, id, "*", []chat.AttachmentID{b, unknown, c}); err != nil {
		t.Fatal(err)
	}
	if got := must[[]WorkspaceFile](t)(db.WorkspaceFiles(ctx, id)); len(got) != 2 || len(got[0].Sources) != 0 || len(got[1].Sources) != 1 {
		t.Errorf("all of them: %+v", got)
	}
	if err := db.PutWorkspaceFiles(ctx, id, []WorkspaceFile{{Name: "*", Sources: want}}); err != nil {
		t.Fatal(err)
	}
	now := must[Workspace](t)(db.UseWorkspace(ctx, "main", w.Conversation, id))
	if ok := must[bool](t)(db.RetireWorkspace(ctx, id, now.UsedAt)); !ok || len(gone("*")) != 0 {
		t.Errorf("of a workspace that is over: %v, %v", ok, gone("*"))
	}
}

// A command may give a file any name.
func TestWorkspaceFilesOfAnyName(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	const id, name = "wsp_00000000000000000000000001", "/workspace/\xff"
	must[Workspace](t)(db.UseWorkspace(ctx, "main", room.Conversation(), id))
	if err := db.PutWorkspaceFiles(ctx, id, []WorkspaceFile{{Name: name}}); err != nil {
		t.Fatal(err)
	}
	if err := db.DropWorkspaceFiles(ctx, id, []string{name}); err != nil {
		t.Fatal(err)
	}
	if got := must[[]WorkspaceFile](t)(db.WorkspaceFiles(ctx, id)); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
}

// A summary without sources is nobody's to read (cases.md 43), and one whose
// source is gone or was edited holds no more.
func TestSummariesCarryTheirLabel(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*DB, Recorded){
		"the message is deleted": func(db *DB, r Recorded) {
			e := posted(room, "9", "", png("z"))
			e.Kind = chat.MessageDeleted
			must[Recorded](t)(db.Record(t.Context(), e))
		},
		"the message is edited": func(db *DB, r Recorded) {
			e := posted(room, "9", "other words", png("z"))
			e.Kind, e.Message.Revision = chat.MessageEdited, "2"
			must[Recorded](t)(db.Record(t.Context(), e))
		},
		"the file is forgotten": func(db *DB, r Recorded) {
			must[int](t)(db.Forget(t.Context(), "main", r.Conversation, "", r.Attachments[0].ID))
		},
	} {
		db, ctx := open(t), t.Context()
		turn := begun(t, db, "1")
		r := must[Recorded](t)(db.Record(ctx, posted(room, "9", "words", png("z"))))
		s := Summary{Agent: "main", Conversation: r.Conversation, Upto: turn.ID, Turns: 3, Text: "they spoke of z.png",
			Messages: []chat.MessageID{r.Message.ID}, Attachments: []chat.AttachmentID{r.Attachments[0].ID}}
		bare := s
		bare.Messages = nil
		if err := db.PutSummary(ctx, bare); !errors.Is(err, ErrInvalid) {
			t.Errorf("without sources: %v", err)
		}
		for range 2 { // a retried activity
			if err := db.PutSummary(ctx, s); err != nil {
				t.Fatal(err)
			}
		}
		got := must[Summary](t)(db.LastSummary(ctx, "main", r.Conversation))
		if got.Seq != 1 || got.Text != s.Text || !slices.Equal(got.Messages, s.Messages) || !slices.Equal(got.Attachments, s.Attachments) {
			t.Errorf("%s: %+v", name, got)
		}
		if _, err := db.LastSummary(ctx, "other", r.Conversation); !errors.Is(err, ErrNotFound) {
			t.Errorf("another agent: %v", err)
		}
		spoil(db, r)
		if got, err := db.LastSummary(ctx, "main", r.Conversation); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s, and it is still told: %+v, %v", name, got, err)
		}
	}
}

// What draws on a source that is gone leaves later prompts, and so does what
// came after it; what came before stays, and so do other conversations.
func TestSourcesThatAreGoneMakeTurnsStale(t *testing.T) {
	t.Parallel()
	thread := chat.NewPlace("main", "discord", "w", "room", "T", chat.PublicThread)
	thread.Parent = room.ID
	elsewhere := chat.NewPlace("main", "discord", "w", "elsewhere", "", chat.Channel)
	for name, lose := range map[string]func(*DB, Recorded){
		"deleted": func(db *DB, r Recorded) {
			e := posted(room, "shot", "", png("z"))
			e.Kind = chat.MessageDeleted
			must[Recorded](t)(db.Record(t.Context(), e))
		},
		"taken off its message": func(db *DB, r Recorded) {
			e := posted(room, "shot", "look")
			e.Kind, e.Message.Revision = chat.MessageEdited, "2"
			must[Recorded](t)(db.Record(t.Context(), e))
		},
		"forgotten": func(db *DB, r Recorded) {
			must[int](t)(db.Forget(t.Context(), "main", r.Conversation, "", r.Attachments[0].ID))
		},
	} {
		db, ctx := open(t), t.Context()
		shot := must[Recorded](t)(db.Record(ctx, posted(room, "shot", "look", png("z"))))
		at := 0
		turn := func(p chat.Place, native string, pictures ...Selected) chat.TurnID {
			r := must[Recorded](t)(db.Record(ctx, posted(p, native, "hello")))
			in := turnFor(r)
			at++
			in.StartedAt = then.Add(time.Duration(at) * time.Minute)
			begun := must[Turn](t)(db.BeginTurn(ctx, in))
			if len(pictures) > 0 {
				must[int](t)(db.OpenAudit(ctx, Audit{Turn: begun.ID, Model: "m", Body: json.RawMessage(`{}`), Pictures: pictures}))
			}
			return begun.ID
		}
		seen := Selected{Attachment: shot.Attachments[0].ID}
		before, foreign := turn(room, "before"), turn(elsewhere, "foreign")
		looked := turn(room, "looked", seen)
		derived := turn(thread, "derived", Selected{File: "/workspace/x", Sources: []chat.AttachmentID{seen.Attachment}})
		after := turn(room, "after")
		lose(db, shot)
		for id, want := range map[chat.TurnID]bool{before: false, foreign: false, looked: true, derived: true, after: true} {
			if got := must[Turn](t)(db.Turn(ctx, id)); got.Stale != want {
				t.Errorf("%s: turn on %s is stale %v, want %v", name, got.Message, got.Stale, want)
			}
		}
		if err := db.Discard(ctx, after, 3, "why"); err != nil {
			t.Fatal(err)
		}
		if got := must[Turn](t)(db.Turn(ctx, after)); got.Stale || must[int](t)(db.Discarded(ctx, after)) != 3 || must[int](t)(db.Discarded(ctx, before)) != -1 {
			t.Errorf("%s: a discarded answer: %+v", name, got)
		}
	}
}

func TestOwed(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	r := must[Recorded](t)(db.Record(ctx, posted(room, "1", "t", png("a"))))
	o := Owed{Message: r.Message.ID, Agent: "main", Conversation: r.Conversation, Place: room.ID, Platform: "discord", Attachments: 1}
	for range 2 {
		if err := db.Owe(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if got := must[[]Owed](t)(db.Owing(ctx, 9)); len(got) != 1 || got[0] != o {
		t.Errorf("%+v", got)
	}
	if err := db.Settle(ctx, o.Message); err != nil {
		t.Fatal(err)
	}
	if got := must[[]Owed](t)(db.Owing(ctx, 9)); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
