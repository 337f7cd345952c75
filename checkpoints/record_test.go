package checkpoints

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sightline/connectors/chat"
)

func TestRecordKeepsWhatWasPosted(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	e := posted(room, "1", "look", png("a"), png("b"))
	e.Message.ReplyTo = chat.MessageOf(room.ID, "0")
	e.Files[1].Width, e.Files[1].Height, e.Files[1].SniffedType = 3, 4, "image/png"
	r := must[Recorded](t)(db.Record(ctx, e))
	if !r.New || r.Tombstone || r.Conversation != room.Conversation() {
		t.Fatalf("first delivery: %+v", r)
	}
	if r.Message.ID != chat.MessageOf(room.ID, "1") || r.Message.Place != room.ID {
		t.Fatalf("identity: %+v", r.Message)
	}
	m := must[chat.Message](t)(db.Message(ctx, room.ID, r.Message.ID))
	if !reflect.DeepEqual(m, r.Message) {
		t.Errorf("stored\n%+v, returned\n%+v", m, r.Message)
	}
	as := must[[]chat.Attachment](t)(db.MessageAttachments(ctx, "main", r.Conversation, []chat.MessageID{m.ID}))
	if !reflect.DeepEqual(as, r.Attachments) {
		t.Errorf("stored\n%+v, returned\n%+v", as, r.Attachments)
	}
	for i, a := range as {
		if _, err := chat.ParseAttachmentID(string(a.ID)); err != nil || a.Ordinal != i+1 || a.Index != i {
			t.Errorf("attachment %d: %+v", i, a)
		}
	}
	again := must[Recorded](t)(db.Record(ctx, e))
	if again.New || !reflect.DeepEqual(again.Attachments, r.Attachments) || !reflect.DeepEqual(again.Message, r.Message) {
		t.Errorf("again: %+v", again)
	}
	p := must[chat.Place](t)(db.Place(ctx, "main", room.ID))
	if p != room {
		t.Errorf("place: %+v", p)
	}
}

func TestRecordUpdatesPlace(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	thread := chat.NewPlace("main", "discord", "w", "room", "t", chat.PrivateThread)
	must[Recorded](t)(db.Record(ctx, posted(thread, "1", "x")))
	thread.Parent, thread.Kind, thread.Epoch = room.ID, chat.PublicThread, 7
	must[Recorded](t)(db.Record(ctx, posted(thread, "1", "x")))
	if p := must[chat.Place](t)(db.Place(ctx, "main", thread.ID)); p != thread {
		t.Errorf("got %+v, want %+v", p, thread)
	}
	late := thread
	late.Parent, late.Epoch = "", 3 // an event that knows less does not undo what is known
	must[Recorded](t)(db.Record(ctx, posted(late, "1", "x")))
	if p := must[chat.Place](t)(db.Place(ctx, "main", thread.ID)); p != thread {
		t.Errorf("got %+v, want %+v", p, thread)
	}
	stolen := thread
	stolen.Agent = "other"
	if _, err := db.Record(ctx, posted(stolen, "2", "x")); !errors.Is(err, ErrInvalid) {
		t.Errorf("another agent's event in the place: %v", err)
	}
}

func TestRecordMergesFilesInBothOrders(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	with, without := []chat.File{png("a"), png("b")}, []chat.File{png("a")}
	for _, tt := range []struct {
		native        string
		first, second []chat.File
	}{{"bare first", nil, with}, {"files first", with, nil}, {"one more", without, with}, {"one fewer", with, without}} {
		e := posted(room, tt.native, "t", tt.first...)
		if r := must[Recorded](t)(db.Record(ctx, e)); !r.New {
			t.Errorf("%s: not new", tt.native)
		}
		r := must[Recorded](t)(db.Record(ctx, posted(room, tt.native, "ignored", tt.second...)))
		if got := states(r.Attachments); r.New || r.Message.Text != "t" || !slices.Equal(got, []string{"a:available", "b:available"}) {
			t.Errorf("%s: new %v, text %q, files %v", tt.native, r.New, r.Message.Text, got)
		}
		if r.Attachments[0].Index != 0 || r.Attachments[1].Index != 1 {
			t.Errorf("%s: indices %d %d", tt.native, r.Attachments[0].Index, r.Attachments[1].Index)
		}
	}
	forwarded := png("a")
	forwarded.Origin = chat.OriginForward
	r := must[Recorded](t)(db.Record(ctx, posted(room, "origins", "t", png("a"), forwarded, png("a"))))
	if len(r.Attachments) != 2 {
		t.Errorf("one file by two ways is two rows, twice by one way is one: %v", states(r.Attachments))
	}
	if n, want := count(t, db, "attachment"), 10; n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
}

func TestRecordEdits(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	first := must[Recorded](t)(db.Record(ctx, posted(room, "1", "old", png("a"), png("b"))))
	r := must[Recorded](t)(db.Record(ctx, edited(room, "1", "r2", "new", png("b"), png("c"))))
	if r.New || r.Message.Text != "new" || r.Message.Revision != "r2" {
		t.Errorf("edit: %+v", r)
	}
	if got, want := states(r.Attachments), []string{"a:deleted", "b:available", "c:available"}; !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if r.Attachments[0].ID != first.Attachments[0].ID || r.Attachments[1].ID != first.Attachments[1].ID || r.Attachments[2].Ordinal != 3 {
		t.Errorf("rows were not kept: %+v", r.Attachments)
	}
	if r.Attachments[1].Index != 0 || r.Attachments[2].Index != 1 || r.Attachments[0].StateReason == "" {
		t.Errorf("positions: %+v", r.Attachments)
	}
	stored := must[[]chat.Attachment](t)(db.MessageAttachments(ctx, "main", r.Conversation, []chat.MessageID{r.Message.ID}))
	if !reflect.DeepEqual(stored, r.Attachments) {
		t.Errorf("stored\n%+v, returned\n%+v", stored, r.Attachments)
	}
	// The creation, delivered again after its edit, brings nothing back.
	r = must[Recorded](t)(db.Record(ctx, posted(room, "1", "old", png("a"), png("b"), png("z"))))
	if got, want := states(r.Attachments), []string{"a:deleted", "b:available", "c:available"}; r.Message.Text != "new" || !slices.Equal(got, want) {
		t.Errorf("stale creation: %q %v", r.Message.Text, got)
	}
	// An edit that has the file again brings it back, but not what was learned.
	if err := db.Learn(ctx, "main", r.Attachments[1].ID, chat.Facts{State: chat.FileUnread, StateReason: "no picture"}); err != nil {
		t.Fatal(err)
	}
	r = must[Recorded](t)(db.Record(ctx, edited(room, "1", "r3", "newer", png("a"), png("b"))))
	if got, want := states(r.Attachments), []string{"a:available", "b:unreadable", "c:deleted"}; !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

func TestRecordEditBeforeCreation(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	r := must[Recorded](t)(db.Record(ctx, edited(room, "1", "r2", "new", png("b"))))
	if !r.New || r.Message.Text != "new" {
		t.Errorf("edit first: %+v", r)
	}
	r = must[Recorded](t)(db.Record(ctx, posted(room, "1", "old", png("a"))))
	if r.New || r.Message.Text != "new" || !slices.Equal(states(r.Attachments), []string{"b:available"}) {
		t.Errorf("creation after: %+v", r)
	}
}

func TestRecordDeletion(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	must[Recorded](t)(db.Record(ctx, posted(room, "1", "secret", png("a"))))
	for range 2 {
		r := must[Recorded](t)(db.Record(ctx, deleted(room, "1")))
		if r.New || !r.Tombstone || !r.Message.Deleted || r.Message.Text != "" || !slices.Equal(states(r.Attachments), []string{"a:deleted"}) {
			t.Errorf("deletion: %+v", r)
		}
	}
	for _, e := range []chat.Event{posted(room, "1", "secret", png("a"), png("b")), edited(room, "1", "r2", "secret", png("a"))} {
		r := must[Recorded](t)(db.Record(ctx, e))
		if r.New || !r.Tombstone || r.Message.Text != "" || !slices.Equal(states(r.Attachments), []string{"a:deleted"}) {
			t.Errorf("%s after deletion: %+v", e.Kind, r)
		}
	}
	m := must[chat.Message](t)(db.Message(ctx, room.ID, chat.MessageOf(room.ID, "1")))
	if !m.Deleted || m.Text != "" || m.Author != alice {
		t.Errorf("stored: %+v", m)
	}
}

func TestRecordDeletionBeforeCreation(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	r := must[Recorded](t)(db.Record(ctx, deleted(room, "1")))
	if r.New || !r.Tombstone {
		t.Errorf("tombstone: %+v", r)
	}
	r = must[Recorded](t)(db.Record(ctx, posted(room, "1", "secret", png("a"))))
	if r.New || !r.Tombstone || r.Message.Text != "" || len(r.Attachments) != 0 {
		t.Errorf("creation after its deletion: %+v", r)
	}
	if count(t, db, "attachment") != 0 {
		t.Error("a deleted message got attachments")
	}
}

func TestRecordTakesBadText(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	e := posted(room, "n\x00\xff", "a\x00b\xffc\xc3\x28", chat.File{NativeID: "f\x00", Name: "n\xffame\x00", DeclaredType: "\x00", Size: -1, State: chat.FileAvailable},
		chat.File{Name: "nameless", State: chat.FileAvailable}, chat.File{NativeID: strings.Repeat("x", 2000), State: chat.FileAvailable})
	e.Message.Author.Name = "\x00" + strings.Repeat("é", 3000)
	e.Message.Revision = strings.Repeat("r", 3000)
	r := must[Recorded](t)(db.Record(ctx, e))
	if want := "a\uFFFDb\uFFFDc\uFFFD("; r.Message.Text != want {
		t.Errorf("text %q, want %q", r.Message.Text, want)
	}
	if a := r.Attachments[0]; a.Name != "n\uFFFDame\uFFFD" || a.NativeFile != "f\uFFFD" || a.Size != 0 {
		t.Errorf("file: %+v", a)
	}
	for _, a := range r.Attachments[1:] {
		if a.State != chat.FileDenied || a.StateReason == "" {
			t.Errorf("a file without identifier: %+v", a)
		}
	}
	again := must[Recorded](t)(db.Record(ctx, e))
	if again.New || len(again.Attachments) != 3 {
		t.Errorf("again: %+v", again)
	}
	e.Kind = chat.MessageEdited
	if again = must[Recorded](t)(db.Record(ctx, e)); !slices.Equal(states(again.Attachments), states(r.Attachments)) {
		t.Errorf("edited: %v", states(again.Attachments))
	}
	m := must[chat.Message](t)(db.Message(ctx, room.ID, r.Message.ID))
	if m.Author != again.Message.Author || m.Text != r.Message.Text {
		t.Errorf("stored %+v", m)
	}
}

func TestRecordCutsLongText(t *testing.T) {
	t.Parallel()
	db := open(t)
	for _, n := range []int{maxText - 1, maxText, maxText + 1, 5 * maxText} {
		long := strings.Repeat("é", n/2) + strings.Repeat("x", n%2)
		r := must[Recorded](t)(db.Record(t.Context(), posted(room, "long"+string(rune('a'+n%7)), long)))
		got := r.Message.Text
		if n <= maxText && got != long {
			t.Errorf("%d bytes were changed", n)
		}
		if n > maxText && (len(got) > maxText || !strings.Contains(got, "are not kept]") || !strings.HasPrefix(long, got[:strings.IndexByte(got, '\n')])) {
			t.Errorf("%d bytes: kept %d, ends %q", n, len(got), got[len(got)-80:])
		}
	}
}

func TestRecordRefusesNonsense(t *testing.T) {
	t.Parallel()
	db := open(t)
	for name, change := range map[string]func(*chat.Event){
		"kind":       func(e *chat.Event) { e.Kind = "" },
		"no place":   func(e *chat.Event) { e.Place = chat.Place{} },
		"no native":  func(e *chat.Event) { e.Message.NativeID = "" },
		"place id":   func(e *chat.Event) { e.Place.ID = "room" },
		"place kind": func(e *chat.Event) { e.Place.Kind = "cafe" },
		"origin":     func(e *chat.Event) { e.Files[0].Origin = "stork" },
		"file state": func(e *chat.Event) { e.Files[0].State = "fine" },
		"reply":      func(e *chat.Event) { e.Message.ReplyTo = "msg_1" },
	} {
		e := posted(room, "1", "t", png("a"))
		change(&e)
		if _, err := db.Record(t.Context(), e); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if count(t, db, "message")+count(t, db, "attachment") != 0 {
		t.Error("a refused event left rows")
	}
}

func TestRecordRaces(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	e := posted(room, "1", "t", png("a"), png("b"))
	rs := race(t, 16, func(int) (Recorded, error) { return db.Record(ctx, e) })
	news := 0
	for _, r := range rs {
		if r.New {
			news++
		}
		if !reflect.DeepEqual(r.Attachments, rs[0].Attachments) {
			t.Errorf("racing deliveries see different rows")
		}
	}
	if news != 1 {
		t.Errorf("%d deliveries were new", news)
	}
	// Different messages of one conversation get ordinals without gap or twin.
	race(t, 16, func(i int) (Recorded, error) {
		return db.Record(ctx, posted(room, string(rune('A'+i)), "t", png("a"), png("b")))
	})
	all, total, err := db.Attachments(ctx, "main", room.Conversation(), []chat.PlaceID{room.ID}, "", 0, 100)
	if err != nil || total != 34 {
		t.Fatalf("%d attachments, %v", total, err)
	}
	for i, a := range all {
		if a.Ordinal != i+1 {
			t.Fatalf("ordinal %d at %d", a.Ordinal, i)
		}
	}
	// Creation, edit and deletion at once: whatever the order, it ends deleted.
	events := []chat.Event{posted(room, "x", "t", png("a")), edited(room, "x", "r2", "u", png("b")), deleted(room, "x")}
	race(t, 15, func(i int) (Recorded, error) { return db.Record(ctx, events[i%3]) })
	r := must[Recorded](t)(db.Record(ctx, events[0]))
	if !r.Tombstone || r.Message.Text != "" {
		t.Errorf("end: %+v", r)
	}
	for _, a := range r.Attachments {
		if a.State != chat.FileDeleted {
			t.Errorf("file survives: %+v", a)
		}
	}
}
