package checkpoints

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
)

func TestInventoryIsScoped(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	elsewhere := chat.NewPlace("main", "discord", "w", "elsewhere", "", chat.Channel)
	foreign := chat.NewPlace("other", "discord", "w", "room", "", chat.Channel)
	mine := must[Recorded](t)(db.Record(ctx, posted(room, "1", "t", png("a"))))
	must[Recorded](t)(db.Record(ctx, posted(elsewhere, "1", "t", png("a"))))
	theirs := must[Recorded](t)(db.Record(ctx, posted(foreign, "1", "t", png("a"))))
	a, conv := mine.Attachments[0], mine.Conversation
	if got := must[chat.Attachment](t)(db.Attachment(ctx, "main", conv, a.ID)); !reflect.DeepEqual(got, a) {
		t.Errorf("got %+v, want %+v", got, a)
	}
	digest := strings.Repeat("a", 64)
	var texts []string
	for name, err := range map[string]error{
		"another agent":        fail(db.Attachment(ctx, "other", conv, a.ID)),
		"another conversation": fail(db.Attachment(ctx, "main", elsewhere.Conversation(), a.ID)),
		"theirs":               fail(db.Attachment(ctx, "main", conv, theirs.Attachments[0].ID)),
		"no such":              fail(db.Attachment(ctx, "main", conv, chat.NewAttachmentID())),
		"no id":                fail(db.Attachment(ctx, "main", conv, "../\x00\xff'")),
		"nothing":              fail(db.Attachment(ctx, "", "", "")),
		"place":                fail(db.Place(ctx, "other", room.ID)),
		"message":              fail(db.Message(ctx, elsewhere.ID, mine.Message.ID)),
		"learn":                db.Learn(ctx, "other", a.ID, chat.Facts{Digest: digest}),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasPrefix(fmt.Sprint(err), "checkpoints: attachment:") {
			texts = append(texts, err.Error())
		}
	}
	for _, s := range texts {
		if s != texts[0] {
			t.Errorf("missing and forbidden differ: %q, %q", s, texts[0])
		}
	}
	if ps := must[[]chat.Place](t)(db.SourcePlaces(ctx, "main", conv)); len(ps) != 1 || ps[0] != room {
		t.Errorf("source places %+v", ps)
	}
	if ps := must[[]chat.Place](t)(db.SourcePlaces(ctx, "other", conv)); len(ps) != 0 {
		t.Errorf("source places for another agent %+v", ps)
	}
	if as, n, err := db.Attachments(ctx, "other", conv, []chat.PlaceID{room.ID}, "", 0, 9); err != nil || len(as) != 0 || n != 0 {
		t.Errorf("another agent: %v, %d, %v", as, n, err)
	}
	if as := must[[]chat.Attachment](t)(db.MessageAttachments(ctx, "other", conv, []chat.MessageID{mine.Message.ID})); len(as) != 0 {
		t.Errorf("another agent: %v", as)
	}
}

// TestAroundAConversation: a thread finds what its channel and the channel's
// other threads hold, and the other way round; nothing else is found, and no
// other agent finds anything.
func TestAroundAConversation(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	channel := chat.NewPlace("main", "discord", "w", "C", "", chat.Channel)
	under := func(agent chat.AgentID, channel, thread string) chat.Place {
		p := chat.NewPlace(agent, "discord", "w", channel, thread, chat.PublicThread)
		p.Parent = chat.NewPlace(agent, "discord", "w", channel, "", chat.Channel).ID
		return p
	}
	places := map[string]chat.Place{
		"channel": channel, "thread": under("main", "C", "T1"), "sibling": under("main", "C", "T2"),
		"elsewhere": chat.NewPlace("main", "discord", "w", "D", "", chat.Channel), "its thread": under("main", "D", "T3"),
		"foreign": under("other", "C", "T1"),
	}
	ids := map[string]chat.AttachmentID{}
	for name, p := range places {
		for n := range 2 {
			e := posted(p, fmt.Sprint(n), "t", png("a"))
			e.Message.At = time.Unix(int64(1000+len(ids)), 0)
			ids[name] = must[Recorded](t)(db.Record(ctx, e)).Attachments[0].ID
		}
	}
	family := map[string]bool{"channel": true, "thread": true, "sibling": true}
	for from := range family {
		conv := places[from].Conversation()
		for name, id := range ids {
			got, err := db.Attachment(ctx, "main", conv, id)
			if family[name] && (err != nil || got.ID != id) || !family[name] && !errors.Is(err, ErrNotFound) {
				t.Errorf("%s asks for the file of %s: %v", from, name, err)
			}
		}
		ps := must[[]chat.Place](t)(db.SourcePlaces(ctx, "main", conv))
		if len(ps) != 3 || ps[0] != places[from] {
			t.Errorf("%s: source places %+v, want three, its own first", from, ps)
		}
		all := []chat.PlaceID{}
		for _, p := range places {
			all = append(all, p.ID) // whatever is asked for, only these are found
		}
		var got []chat.AttachmentID
		for after := 0; ; after += 4 {
			page, total, err := db.Attachments(ctx, "main", conv, all, "", after, 4)
			if err != nil || total != 6 {
				t.Fatal(total, err)
			}
			for i, a := range page {
				if own := a.Conversation == conv; own != (after+i < 2) {
					t.Errorf("%s: entry %d is of the conversation: %v", from, after+i, own)
				}
				got = append(got, a.ID)
			}
			if len(page) < 4 {
				break
			}
		}
		slices.Sort(got)
		if len(slices.Compact(got)) != 6 {
			t.Errorf("%s: pages gave %v", from, got)
		}
	}
	if _, err := db.Attachment(ctx, "main", places["elsewhere"].Conversation(), ids["its thread"]); err != nil {
		t.Errorf("another channel's thread from its channel: %v", err)
	}
	if _, err := db.Attachment(ctx, "other", channel.Conversation(), ids["thread"]); !errors.Is(err, ErrNotFound) {
		t.Errorf("another agent: %v", err)
	}
}

func fail[T any](_ T, err error) error { return err }

func TestAttachmentsPage(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	for i := range 7 {
		must[Recorded](t)(db.Record(ctx, posted(room, fmt.Sprint(i), "t", png("a"))))
	}
	conv, from := room.Conversation(), []chat.PlaceID{room.ID}
	var got []int
	for after := 0; ; {
		page, total, err := db.Attachments(ctx, "main", conv, from, "", after, 3)
		if err != nil || total != 7 {
			t.Fatal(total, err)
		}
		if len(page) == 0 {
			break
		}
		for _, a := range page {
			got = append(got, a.Ordinal)
		}
		after = page[len(page)-1].Ordinal
	}
	if !reflect.DeepEqual(got, []int{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("pages gave %v", got)
	}
	third := chat.MessageOf(room.ID, "2")
	if page, total, err := db.Attachments(ctx, "main", conv, nil, third, 0, 3); err != nil || total != 1 || len(page) != 1 || page[0].Message != third {
		t.Errorf("of one message: %v, %d, %v", page, total, err)
	}
	if page, total, err := db.Attachments(ctx, "other", conv, nil, third, 0, 3); err != nil || total != 0 || len(page) != 0 {
		t.Errorf("of one message, by another agent: %v, %d, %v", page, total, err)
	}
	if page, total, err := db.Attachments(ctx, "main", conv, nil, "", 0, 3); err != nil || total != 0 || len(page) != 0 {
		t.Errorf("no places: %v, %d, %v", page, total, err)
	}
	if page, total, err := db.Attachments(ctx, "main", conv, from, "", 0, -1); err != nil || total != 7 || len(page) != 0 {
		t.Errorf("no limit: %v, %d, %v", page, total, err)
	}
}

func TestLearn(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	r := must[Recorded](t)(db.Record(ctx, posted(room, "1", "t", png("a"))))
	id := r.Attachments[0].ID
	get := func() chat.Attachment {
		return must[chat.Attachment](t)(db.Attachment(ctx, "main", r.Conversation, id))
	}
	learn := func(f chat.Facts) chat.Attachment {
		t.Helper()
		if err := db.Learn(ctx, "main", id, f); err != nil {
			t.Fatal(err)
		}
		return get()
	}
	first, second := strings.Repeat("a", 64), strings.Repeat("b", 64)
	want := r.Attachments[0]
	if got := learn(chat.Facts{}); !reflect.DeepEqual(got, want) {
		t.Errorf("nothing learned: %+v", got)
	}
	want.SniffedType, want.Width, want.Height, want.Size, want.Digest = "image/webp", 3, 4, 99, first
	if got := learn(chat.Facts{SniffedType: "image/webp", Width: 3, Height: 4, Size: 99, Digest: first}); !reflect.DeepEqual(got, want) {
		t.Errorf("first: %+v", got)
	}
	if got := learn(chat.Facts{SniffedType: "image/gif", Width: 1, Height: 1, Size: 1, Digest: second}); !reflect.DeepEqual(got, want) {
		t.Errorf("other bytes replaced the first digest's facts: %+v", got)
	}
	want.State, want.StateReason = chat.FileUnread, "no\uFFFD picture"
	if got := learn(chat.Facts{State: chat.FileUnread, StateReason: "no\x00 picture"}); !reflect.DeepEqual(got, want) {
		t.Errorf("state: %+v", got)
	}
	must[Recorded](t)(db.Record(ctx, deleted(room, "1")))
	if got := learn(chat.Facts{State: chat.FileAvailable}); got.State != chat.FileDeleted {
		t.Errorf("a deleted file came back: %+v", got)
	}
	if err := db.Learn(ctx, "main", id, chat.Facts{State: "fine"}); err != nil {
		t.Errorf("a deleted file takes no state at all: %v", err)
	}
	if err := db.Learn(ctx, "main", id, chat.Facts{Digest: "short"}); err != nil {
		t.Errorf("a known digest is kept: %v", err)
	}
	other := must[Recorded](t)(db.Record(ctx, posted(room, "2", "t", png("a"))))
	for _, f := range []chat.Facts{{State: "fine"}, {Digest: "short"}} {
		if err := db.Learn(ctx, "main", other.Attachments[0].ID, f); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestUses(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	id := chat.NewAttachmentID()
	want := chat.Use{Turn: chat.TurnOf("x"), Agent: "main", Conversation: room.Conversation(), Actor: alice, Attachment: id, Destination: room.ID,
		Action: "view", Allowed: true, Rule: "S1", Reason: "same place", SourceEpoch: 3, DestEpoch: 4, Digest: strings.Repeat("a", 64), BytesFetched: 5, At: then}
	refused := chat.Use{Agent: "main", Attachment: "https://evil/\x00" + chat.AttachmentID(strings.Repeat("x", 5000)), Reason: "\xff", At: then}
	later := want
	later.At, later.Allowed = then.Add(1e9), false
	if err := db.RecordUses(ctx, []chat.Use{later, refused, want}); err != nil {
		t.Fatal(err)
	}
	if err := db.RecordUses(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if got := must[[]chat.Use](t)(db.Uses(ctx, "main", id)); !reflect.DeepEqual(got, []chat.Use{want, later}) {
		t.Errorf("%+v", got)
	}
	if got := must[[]chat.Use](t)(db.Uses(ctx, "main", refused.Attachment)); len(got) != 1 || got[0].Allowed {
		t.Errorf("what names nothing: %+v", got)
	}
	if got := must[[]chat.Use](t)(db.Uses(ctx, "other", id)); len(got) != 0 {
		t.Errorf("another agent: %+v", got)
	}
	bad := want
	bad.Digest = "short"
	if err := db.RecordUses(ctx, []chat.Use{want, bad}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a bad digest: %v", err)
	}
	if got := must[[]chat.Use](t)(db.Uses(ctx, "main", id)); len(got) != 2 {
		t.Errorf("half of a batch is kept: %d", len(got))
	}
}
