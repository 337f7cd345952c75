package workflows

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"sightline/attachments"
	"sightline/checkpoints"
	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
)

// slate is a place that shows drafts, and fails when told to.
type slate struct {
	mu        sync.Mutex
	shown     []chat.Reply
	withdrawn []chat.Reply
	fail      error
}

func (*slate) Post(context.Context, chat.Reply) (chat.Posted, error) { return chat.Posted{}, nil }
func (*slate) Progress(context.Context, chat.Progress)               {}

func (*slate) DraftsPerMinute(chat.Place) int { return 1000 }

func (s *slate) Draft(_ context.Context, r chat.Reply) (chat.Posted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = append(s.shown, r)
	return chat.Posted{NativeID: "d1"}, s.fail
}

func (s *slate) Withdraw(_ context.Context, r chat.Reply) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawn = append(s.withdrawn, r)
	return s.fail
}

func (s *slate) texts() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.shown {
		out = append(out, r.Text)
	}
	return out
}

// audience refuses once the picture may not be shown any more, or can't tell.
type audience struct {
	mu     sync.Mutex
	closed bool
	doubt  error
}

func (v *audience) Decide(context.Context, attachments.Question) (attachments.Decision, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.doubt != nil:
		return attachments.Decision{}, v.doubt
	case v.closed:
		return attachments.Refuse("test", "closed"), nil
	}
	return attachments.Allow("test", 0, 0), nil
}

func (v *audience) set(closed bool, doubt error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed, v.doubt = closed, doubt
}

// drafted is a turn with one picture, in the middle of its answer.
type drafted struct {
	*Activities
	l     *loaded
	place *slate
	who   *audience
}

func newDrafted(t *testing.T) drafted {
	t.Helper()
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	p := chat.NewPlace("a", "test", "w", "c", "", chat.Direct)
	rec, err := db.Record(t.Context(), chat.Event{
		Kind: chat.MessagePosted, Place: p, Files: []chat.File{{NativeID: "f1", Name: "x.png", Size: 1, State: chat.FileAvailable}},
		Message: chat.Message{NativeID: "m1", Revision: "1", Text: "look", At: time.Now(), Author: chat.Actor{Platform: "test", User: "u"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := chat.TurnOf(rec.Message.ID)
	if _, err := db.BeginTurn(t.Context(), checkpoints.Turn{
		ID: id, Agent: "a", Conversation: rec.Conversation, Place: p.ID, Message: rec.Message.ID, Actor: rec.Message.Author, State: checkpoints.TurnRunning,
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.AppendStep(t.Context(), checkpoints.Step{Turn: id, Seq: 0, Kind: checkpoints.StepUser, Message: rec.Message.ID}); err != nil {
		t.Fatal(err)
	}
	d := drafted{place: &slate{}, who: &audience{}}
	auth, err := attachments.New(attachments.Config{
		Inventory: db, Visibility: map[chat.Platform]attachments.Visibility{"test": d.who}, MaxBytes: 1 << 20,
		Sources: map[chat.AgentID]map[chat.Platform]attachments.Source{"a": {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Activities = &Activities{DB: db, Log: slog.New(slog.DiscardHandler), Drafts: true, Agents: map[chat.AgentID]*Agent{
		"a": {ID: "a", Authorizer: auth, Repliers: map[chat.Platform]Replier{"test": d.place}},
	}}
	if d.l, err = d.load(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	// The request of this very inference, which came after the turn was loaded.
	if _, err := db.OpenAudit(t.Context(), checkpoints.Audit{
		Turn: id, Seq: 1, Attempt: 1, Model: "m", Body: []byte(`{}`), Pictures: []chat.Selected{{Attachment: rec.Attachments[0].ID, Message: rec.Message.ID}},
	}); err != nil {
		t.Fatal(err)
	}
	return d
}

// grow plays a model that says something every 100 ms for d.
func (d drafted) grow(ctx context.Context, long time.Duration) *drafting {
	g := d.drafting(ctx, d.l, d.place)
	text := ""
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		text += "word "
		g.show(text)
	}
	return g
}

// growTo plays it until so many drafts were shown.
func (d drafted) growTo(t *testing.T, shown int) *drafting {
	t.Helper()
	g := d.drafting(t.Context(), d.l, d.place)
	d.goOn(t, g, "so many drafts", func() bool { return len(d.place.texts()) >= shown })
	return g
}

func (d drafted) goOn(t *testing.T, g *drafting, until string, f func() bool) {
	t.Helper()
	text := ""
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s; shown %q", until, d.place.texts())
		}
		text += "word "
		g.show(text)
	}
}

func TestDraftsAreRareAndGrow(t *testing.T) {
	t.Parallel()
	d := newDrafted(t)
	began := time.Now()
	d.grow(t.Context(), draftAfter-300*time.Millisecond).end()
	if n := d.place.texts(); len(n) != 0 {
		if time.Since(began) < draftAfter {
			t.Errorf("a short answer was shown: %q", n)
		}
		d = newDrafted(t) // the machine made a long one of it
	}
	began = time.Now()
	g := d.growTo(t, 3)
	g.end()
	took := time.Since(began)
	g.show("late") // and nobody waits for it
	n := d.place.texts()
	if !slices.IsSorted(n) || took < draftAfter+time.Duration(len(n)-1)*draftEvery {
		t.Errorf("shown in %v: %q", took, n)
	}
	if r := d.place.shown; r[0].Draft != nil || r[1].Draft == nil || r[1].Draft.NativeID != "d1" || r[1].Draft.First != n[0] || r[0].Key != replyKey(d.l.turn.ID) {
		t.Errorf("shown as %+v", r)
	}
	row, err := d.DB.Draft(t.Context(), replyKey(d.l.turn.ID))
	if err != nil || row.NativeID != "d1" || row.Ended {
		t.Errorf("%+v, %v", row, err)
	}
	// The account has been busy elsewhere.
	d.pace.spent["a/test"] = time.Now().Add(time.Hour)
	d.grow(t.Context(), draftAfter+300*time.Millisecond).end()
	if got := d.place.texts(); len(got) != len(n) {
		t.Errorf("shown beyond what the platform takes: %q", got)
	}
	d.Drafts = false
	if d.drafting(t.Context(), d.l, d.place) != nil {
		t.Error("drafts are shown although they are off")
	}
}

// A failure leaves an intent without a place: the next edit says so, for the
// connector to look.
func TestDraftThatMayBeOut(t *testing.T) {
	t.Parallel()
	d := newDrafted(t)
	d.place.fail = errors.New("no answer came")
	d.growTo(t, 2).end()
	r := d.place.shown
	if r[0].Draft != nil || r[1].Draft == nil || r[1].Draft.NativeID != "" || r[1].Draft.First != r[0].Text {
		t.Fatalf("shown as %+v", r)
	}
	// Refused for good: never again in this turn.
	d.place.fail = chat.ErrRefused
	d.growTo(t, len(r)+1).end()
	d.grow(t.Context(), draftAfter+draftEvery+300*time.Millisecond).end()
	if n := len(d.place.texts()); n != len(r)+1 {
		t.Errorf("asked %d times", n-len(r))
	}
}

// Law 7 holds for what is shown on the way.
func TestDraftsAreCheckedAsPostsAre(t *testing.T) {
	t.Parallel()
	d := newDrafted(t)
	d.who.set(false, errors.New("the platform can't be asked"))
	d.grow(t.Context(), draftAfter+300*time.Millisecond).end()
	if n := d.place.texts(); len(n) != 0 {
		t.Errorf("shown in doubt: %q", n)
	}
	d.who.set(false, nil)
	g := d.growTo(t, 1)
	d.who.set(true, nil)
	d.goOn(t, g, "it is withdrawn", func() bool {
		d.place.mu.Lock()
		defer d.place.mu.Unlock()
		return len(d.place.withdrawn) > 0
	})
	g.end()
	if w := d.place.withdrawn; len(d.place.texts()) != 1 || len(w) != 1 || w[0].Draft == nil || w[0].Draft.NativeID != "d1" {
		t.Errorf("shown %q, withdrawn %+v", d.place.texts(), w)
	}
	// Allowed again: this turn has said its last.
	d.who.set(false, nil)
	d.grow(t.Context(), draftAfter+300*time.Millisecond).end()
	if n := d.place.texts(); len(n) != 1 {
		t.Errorf("shown after it was withdrawn: %q", n)
	}
}

// The draft of an earlier step goes before the model says another word, where
// it may not be shown any more or its answer was discarded.
func TestDraftOfAnEarlierStepIsChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(drafted){
		"refused":   func(d drafted) { d.who.set(true, nil) },
		"discarded": func(d drafted) { d.l.discarded = 1 },
	} {
		t.Run(name, func(t *testing.T) { testEarlierStep(t, change) })
	}
}

func testEarlierStep(t *testing.T, change func(drafted)) {
	t.Parallel()
	d := newDrafted(t)
	d.growTo(t, 1).end()
	change(d)
	g := d.drafting(t.Context(), d.l, d.place)
	select {
	case <-g.gone: // it may not go on
	case <-time.After(time.Minute):
		t.Error("drafts go on")
	}
	g.end()
	if len(d.place.withdrawn) != 1 {
		t.Errorf("withdrawn %+v", d.place.withdrawn)
	}
}
