package workflows

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/agent"
	"sightline/agent/agenttest"
	"sightline/attachments"
	"sightline/checkpoints"
	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
)

type decides func(attachments.Question) (attachments.Decision, error)

func (d decides) Decide(_ context.Context, q attachments.Question) (attachments.Decision, error) {
	return d(q)
}

// witness has heard of deletions that the store has not.
type witness struct {
	decides
	gone *string // the message's own ID on its platform
}

func (w witness) Gone(_ chat.Place, m chat.Message) bool { return m.NativeID == *w.gone }

func allow(attachments.Question) (attachments.Decision, error) {
	return attachments.Allow("S1", 0, 0), nil
}

// past is a conversation of answered turns, each about a picture of its own,
// and one that runs.
type talk struct {
	*Activities
	t     *testing.T
	place chat.Place
	model *agenttest.Model
	rules decides
	gone  string
	turns []checkpoints.Recorded
	now   chat.TurnID
}

func newTalk(t *testing.T, answered int) *talk {
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	k := &talk{t: t, place: chat.NewPlace("a", "test", "w", "c", "", chat.Channel), model: agenttest.Seeing("they spoke of att_1"), rules: allow}
	auth, err := attachments.New(attachments.Config{Inventory: db, MaxBytes: 1 << 20, Visibility: map[chat.Platform]attachments.Visibility{
		"test": witness{func(q attachments.Question) (attachments.Decision, error) { return k.rules(q) }, &k.gone},
	}})
	if err != nil {
		t.Fatal(err)
	}
	k.Activities = &Activities{DB: db, Log: slog.New(slog.DiscardHandler), Agents: map[chat.AgentID]*Agent{"a": {
		ID: "a", Authorizer: auth, Inference: &agent.Inference{Model: k.model, Tools: must(agent.NewRegistry())},
	}}}
	for i := range answered {
		id := k.begin(i)
		k.ok(k.answer(id, fmt.Sprintf("answer %d", i)))
	}
	k.now = k.begin(answered)
	return k
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (k *talk) ok(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) begin(i int) chat.TurnID {
	k.t.Helper()
	author := chat.Actor{Platform: "test", User: "u", Name: "ann"}
	r, err := k.DB.Record(k.t.Context(), chat.Event{
		Kind: chat.MessagePosted, Place: k.place,
		Message: chat.Message{NativeID: fmt.Sprint("m", i), Revision: "1", Text: fmt.Sprint("question ", i), At: time.Unix(int64(i), 0), Author: author},
		Files:   []chat.File{{NativeID: "f", Name: fmt.Sprintf("p%d.png", i), DeclaredType: "image/png", Size: 9, State: chat.FileAvailable}},
	})
	k.ok(err)
	k.turns = append(k.turns, r)
	id := chat.TurnOf(r.Message.ID)
	_, err = k.DB.BeginTurn(k.t.Context(), checkpoints.Turn{ID: id, Agent: "a", Conversation: r.Conversation, Place: k.place.ID, Message: r.Message.ID,
		Actor: author, StartedAt: time.Now().Add(time.Duration(i-1000) * time.Second)})
	k.ok(err)
	_, _, err = k.DB.AppendStep(k.t.Context(), checkpoints.Step{Turn: id, Kind: checkpoints.StepUser, Message: r.Message.ID})
	k.ok(err)
	return id
}

func (k *talk) answer(id chat.TurnID, text string) error {
	ctx := k.t.Context()
	if _, _, err := k.DB.IntendPost(ctx, checkpoints.Post{Key: replyKey(id), Turn: id, Kind: chat.ReplyAnswer, Text: text, At: time.Now()}); err != nil {
		return err
	}
	if err := k.DB.SettlePost(ctx, replyKey(id), "n"+string(id)); err != nil {
		return err
	}
	return k.DB.FinishTurn(ctx, id, checkpoints.TurnAnswered, "")
}

func (k *talk) history() (past, bool) {
	k.t.Helper()
	l, err := k.load(k.t.Context(), k.now)
	k.ok(err)
	p, err := k.Activities.history(k.t.Context(), l)
	k.ok(err)
	return p, l.compact
}

func (p past) answers() (out []string) {
	for _, e := range p.retold {
		out = append(out, e.Answer)
	}
	return out
}

func TestLongConversationsAreSummedUp(t *testing.T) {
	k := newTalk(t, 25)
	p, due := k.history()
	if !due || len(p.retold) != historyTurns || p.older != 5 || p.summary.Text != "" {
		t.Fatalf("before: due %v, %d retold, %d older, summary %q", due, len(p.retold), p.older, p.summary.Text)
	}
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	p, due = k.history()
	if due || p.older != 0 || p.summary.Text != "they spoke of att_1" || p.summary.Turns != 15 || len(p.retold) != keptTurns || p.answers()[0] != "answer 15" {
		t.Fatalf("after: due %v, %d older, %+v, retold %v", due, p.older, p.summary, p.answers())
	}
	// Its label is all that it was made of.
	if len(p.summary.Messages) != 15 || len(p.summary.Attachments) != 15 || !slices.Contains(p.summary.Attachments, k.turns[3].Attachments[0].ID) ||
		slices.Contains(p.summary.Attachments, k.turns[15].Attachments[0].ID) {
		t.Errorf("label %v", p.summary.Attachments)
	}
	req := k.model.Requests[0]
	if text := fmt.Sprint(req.Messages); !strings.Contains(text, "question 0") || !strings.Contains(text, "answer 14") || strings.Contains(text, "question 15") ||
		!strings.Contains(text, string(k.turns[0].Attachments[0].ID)) || len(req.Tools) != 0 || len(req.Pictures) != 0 {
		t.Errorf("what was asked for: %s", text)
	}
	// Done again, as after a crash, it changes nothing.
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	if len(k.model.Requests) != 1 {
		t.Errorf("%d requests", len(k.model.Requests))
	}
	// It carries on what the one before had.
	for i := 26; i < 40; i++ {
		k.ok(k.answer(k.now, fmt.Sprint("answer ", i-1)))
		k.now = k.begin(i)
	}
	if p, due = k.history(); !due || p.summary.Turns != 15 {
		t.Errorf("later: due %v, %+v", due, p.summary)
	}
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	if p, due = k.history(); due || p.summary.Turns != 29 || p.older != 0 || !strings.Contains(k.model.Requests[1].Instructions, "they spoke of att_1") {
		t.Errorf("carried on: due %v, %+v", due, p.summary)
	}
	// A source that is gone takes the summary with it.
	_, err := k.DB.Record(t.Context(), chat.Event{Kind: chat.MessageDeleted, Place: k.place, Message: chat.Message{NativeID: "m2"}})
	k.ok(err)
	if p, _ = k.history(); p.summary.Text != "" || slices.ContainsFunc(p.answers(), func(a string) bool { return a != notRetold }) {
		t.Errorf("after a deletion: %+v, answers %q", p.summary, p.answers())
	}
}

// What is deleted is not retold from when it is heard of, though the store
// learns of it a moment later; neither is what was said with it in mind.
func TestADeletionOnItsWayToTheStore(t *testing.T) {
	k := newTalk(t, 4)
	k.gone = "m2"
	p, _ := k.history()
	if got := p.answers(); !slices.Equal(got, []string{"answer 0", "answer 1", notRetold, notRetold}) {
		t.Errorf("%q", got)
	}
	for n, e := range p.retold {
		if m := e.Messages[0]; m.Deleted != (n == 2) || (m.Text == "") != (n == 2) {
			t.Errorf("%d: %+v", n, m)
		}
	}
	k.gone = ""
	if p, _ = k.history(); slices.Contains(p.answers(), notRetold) {
		t.Errorf("%q", p.answers())
	}
}

// Who may not read what was said here before is told nothing of it.
func TestHistoryIsForItsReaders(t *testing.T) {
	k := newTalk(t, 25)
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	k.rules = func(q attachments.Question) (attachments.Decision, error) {
		return attachments.Refuse("S1", "some who see the channel can't read its history"), nil
	}
	if p, _ := k.history(); len(p.retold) != 0 || p.summary.Text != "" || p.older != 25 {
		t.Errorf("%d retold, summary %q, %d older", len(p.retold), p.summary.Text, p.older)
	}
}

func TestAnExtractNamesWhatWasSaid(t *testing.T) {
	k := newTalk(t, 25)
	k.model.Known.Offline = true
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	p, _ := k.history()
	if !strings.Contains(p.summary.Text, "question 14") || !strings.Contains(p.summary.Text, string(k.turns[14].Attachments[0].ID)+"), not loaded") || len(p.summary.Text) > maxSummary+3 {
		t.Errorf("%s", p.summary.Text)
	}
}
