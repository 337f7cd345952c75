package workflows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/attachments"
	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// beside records a picture of nobody's turn, in a place of the talk's agent.
func (k *talk) beside(p chat.Place, native string) checkpoints.Recorded {
	k.t.Helper()
	r, err := k.DB.Record(k.t.Context(), chat.Event{
		Kind: chat.MessagePosted, Place: p, Silent: true,
		Message: chat.Message{NativeID: native, Revision: "1", Text: "the text of " + native, At: time.Unix(1, 0), Author: chat.Actor{Platform: "test", User: "u"}},
		Files:   []chat.File{{NativeID: "f" + native, Name: native + ".png", DeclaredType: "image/png", Size: 9, State: chat.FileAvailable}},
	})
	k.ok(err)
	return r
}

func (k *talk) remove(p chat.Place, native string) {
	k.t.Helper()
	_, err := k.DB.Record(k.t.Context(), chat.Event{Kind: chat.MessageDeleted, Place: p, Message: chat.Message{NativeID: native}})
	k.ok(err)
}

// drew has the answer of a turn draw on an attachment that it looked at.
func (k *talk) drew(turn int, id chat.AttachmentID) {
	k.t.Helper()
	t := chat.TurnOf(k.turns[turn].Message.ID)
	_, err := k.DB.OpenAudit(k.t.Context(), checkpoints.Audit{Turn: t, Seq: 3, Attempt: 1, Model: "m", Body: []byte(`{}`), Pictures: []chat.Selected{{Attachment: id}}})
	k.ok(err)
	k.ok(k.DB.PutLabel(k.t.Context(), t, 3, checkpoints.Label{Attachments: []chat.AttachmentID{id}}))
}

func (k *talk) thread() chat.Place {
	p := chat.NewPlace("a", "test", "w", "c", "t", chat.PublicThread)
	p.Parent = k.place.ID
	return p
}

// What an answer drew on need not be of its turn's own messages.
func TestASummaryEndsWithWhatItsAnswersDrewOn(t *testing.T) {
	t.Parallel()
	k := newTalk(t, 25)
	k.drew(3, k.beside(k.place, "silent").Attachments[0].ID)
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	if p, _ := k.history(); p.summary.Text == "" || !strings.Contains(fmt.Sprint(k.model.Requests[0].Messages), "answer 3") {
		t.Fatalf("nothing is summed up: %+v", p.summary)
	}
	k.remove(k.place, "silent")
	if p, _ := k.history(); p.summary.Text != "" {
		t.Errorf("it is still told: %q", p.summary.Text)
	}
	// Made anew, it holds, and has none of it.
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	p, _ := k.history()
	if len(k.model.Requests) != 2 {
		t.Fatalf("%d requests", len(k.model.Requests))
	}
	if text := fmt.Sprint(k.model.Requests[1].Messages); p.summary.Text == "" || strings.Contains(text, "answer 3") || !strings.Contains(text, "answer 2") {
		t.Errorf("made anew: %q of %s", p.summary.Text, text)
	}
}

// A deletion while the model writes the summary is not lost.
func TestADeletionWhileASummaryIsMade(t *testing.T) {
	t.Parallel()
	k := newTalk(t, 25)
	k.drew(3, k.beside(k.place, "silent").Attachments[0].ID)
	k.At = func(boundary string) {
		if boundary == "compact.summarized" {
			k.remove(k.place, "silent")
		}
	}
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	if p, _ := k.history(); p.summary.Text != "" {
		t.Errorf("told: %q", p.summary.Text)
	}
}

// A picture of another place that was looked at by its ID is that place's, as
// one from a list is.
func TestAnAnswerIsOfThePlacesThatItDrewOn(t *testing.T) {
	t.Parallel()
	k := newTalk(t, 25)
	below := k.thread()
	id := k.beside(below, "below").Attachments[0].ID
	k.drew(3, id)
	k.drew(15, id)
	if p, _ := k.history(); !slices.Contains(p.answers(), "answer 15") {
		t.Fatalf("answers %q", p.answers())
	}
	k.rules = func(q attachments.Question) (attachments.Decision, error) {
		if q.Source.ID == below.ID {
			return attachments.Refuse("S3", "the agent can't see the place any more"), nil
		}
		return attachments.Allow("S1", 0, 0), nil
	}
	p, _ := k.history()
	if a := p.answers(); len(a) != historyTurns || a[9] != "answer 14" || slices.ContainsFunc(a[10:], func(s string) bool { return s != notRetold }) {
		t.Errorf("answers %q", a)
	}
	k.rules = allow
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	if text := fmt.Sprint(k.model.Requests[0].Messages); strings.Contains(text, "answer 3") || !strings.Contains(text, "answer 4") {
		t.Errorf("summed up with what another place showed: %s", text)
	}
}

// A compaction is an inference: it is asked about who may know.
func TestACompactionIsForItsReaders(t *testing.T) {
	t.Parallel()
	k := newTalk(t, 25)
	k.rules = func(attachments.Question) (attachments.Decision, error) {
		return attachments.Refuse("S1", "the agent can't see the place any more"), nil
	}
	k.ok(k.compact(t.Context(), CompactInput{k.now}))
	if n := len(k.model.Requests); n != 0 {
		t.Errorf("%d requests", n)
	}
	k.rules = func(attachments.Question) (attachments.Decision, error) {
		return attachments.Decision{}, errors.New("unreachable")
	}
	k.ok(k.compact(t.Context(), CompactInput{k.now})) // the next turn asks for it again
	if n := len(k.model.Requests); n != 0 {
		t.Errorf("in doubt: %d requests", n)
	}
}

// reply has a turn answer a message that was posted before.
func (k *talk) reply(to checkpoints.Recorded) *loaded {
	k.t.Helper()
	_, err := k.DB.Record(k.t.Context(), chat.Event{Kind: chat.MessagePosted, Place: k.place, Message: chat.Message{
		NativeID: "reply", Revision: "1", Text: "what is this?", At: time.Now(), ReplyTo: to.Message.ID, Author: chat.Actor{Platform: "test", User: "u"}}})
	k.ok(err)
	_, _, err = k.DB.AppendStep(k.t.Context(), checkpoints.Step{Turn: k.now, Seq: 1, Kind: checkpoints.StepUser, Message: chat.MessageOf(k.place.ID, "reply")})
	k.ok(err)
	l, err := k.load(k.t.Context(), k.now)
	k.ok(err)
	return l
}

// Of what a message answers only those know who can read what was said before.
func TestAQuoteIsForThoseWhoCanReadIt(t *testing.T) {
	t.Parallel()
	k := newTalk(t, 1)
	quoted := k.beside(k.place, "quoted")
	said := func() string {
		b, err := k.brief(t.Context(), k.reply(quoted), InferInput{Turn: k.now, Seq: 5})
		k.ok(err)
		return fmt.Sprint(b.Transcript)
	}
	if s := said(); !strings.Contains(s, "the text of quoted") || !strings.Contains(s, "quoted.png") {
		t.Fatalf("told %q", s)
	}
	k.gone = "quoted" // heard of, and not recorded yet
	if s := said(); strings.Contains(s, "the text of quoted") || strings.Contains(s, "quoted.png") || !strings.Contains(s, "(deleted)") {
		t.Errorf("told %q of what is gone", s)
	}
	k.gone = ""
	k.rules = func(q attachments.Question) (attachments.Decision, error) {
		if q.Message != "" && q.Message == q.Trigger {
			return attachments.Allow("S1", 0, 0), nil
		}
		return attachments.Refuse("S1", "some who see the channel can't read its history"), nil
	}
	if s := said(); strings.Contains(s, "the text of quoted") || strings.Contains(s, "quoted.png") || !strings.Contains(s, "what is this?") {
		t.Errorf("told %q", s)
	}
	k.rules = func(attachments.Question) (attachments.Decision, error) {
		return attachments.Decision{}, errors.New("unreachable")
	}
	if s := said(); strings.Contains(s, "the text of quoted") || strings.Contains(s, "quoted.png") {
		t.Errorf("told in doubt: %q", s)
	}
}

// An answer that was made with a quote draws on it: on its readers, and on its
// being there.
func TestAQuoteIsASource(t *testing.T) {
	t.Parallel()
	k := newTalk(t, 0)
	quoted := k.beside(k.place, "quoted")
	l := k.reply(quoted)
	_, err := k.brief(t.Context(), l, InferInput{Turn: k.now, Seq: 5})
	k.ok(err)
	if label := l.label(); !slices.Contains(label.Places, k.place.ID) {
		t.Errorf("label %+v", label)
	}
	k.remove(k.place, "quoted")
	if turn, err := k.DB.Turn(t.Context(), k.now); err != nil || !turn.Stale {
		t.Errorf("the turn is %+v, %v", turn, err)
	}
}

// A file of the model's own making may say what it was told of a message that
// is gone since.
func TestNothingIsSharedThatDrewOnWhatIsGone(t *testing.T) {
	t.Parallel()
	k := newTalk(t, 1)
	said := mouth{}
	k.Agents["a"].Repliers = map[chat.Platform]Replier{"test": said}
	l, err := k.load(t.Context(), k.now)
	k.ok(err)
	share := k.share(l, k.now, "key")
	f := chat.ReplyFile{Name: "notes.txt", Size: 1, SHA256: "00", Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }}
	k.ok(share(t.Context(), f))
	if len(said) != 1 {
		t.Fatalf("said %v", said)
	}
	clear(said)
	k.steer("steered")
	k.remove(k.place, "steered")
	if err := share(t.Context(), f); !errors.Is(err, attachments.ErrNotAvailable) || len(said) != 0 {
		t.Errorf("%v, said %v", err, said)
	}
}

// steer has a message join the running turn.
func (k *talk) steer(native string) {
	k.t.Helper()
	r := k.beside(k.place, native)
	_, _, err := k.DB.AppendStep(k.t.Context(), checkpoints.Step{Turn: k.now, Seq: 2, Kind: checkpoints.StepUser, Message: r.Message.ID})
	k.ok(err)
}

// A process that dies between its intent and the platform may be away for
// long: what it was about to say is asked about again.
func TestAnAnswerThatWasIntendedIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*talk)
		kind   chat.ReplyKind
		text   string
	}{
		"nothing changed":    {func(*talk) {}, chat.ReplyAnswer, "the secret"},
		"a source is gone":   {func(k *talk) { k.steer("s"); k.remove(k.place, "s") }, chat.ReplyFailure, sentence(failAudience)},
		"the audience grew":  {func(k *talk) { k.rules = refuseAll }, chat.ReplyFailure, sentence(failAudience)},
		"the question went":  {func(k *talk) { k.remove(k.place, "m1") }, chat.ReplyStopped, ""},
		"it was settled yet": {func(k *talk) { k.ok(k.DB.SettlePost(k.t.Context(), replyKey(k.now), "n")); k.rules = refuseAll }, chat.ReplyAnswer, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTalk(t, 1)
			said := mouth{}
			k.Agents["a"].Repliers = map[chat.Platform]Replier{"test": said}
			_, _, err := k.DB.AppendStep(t.Context(), checkpoints.Step{Turn: k.now, Seq: 5, Kind: checkpoints.StepAssistant, Body: []byte(`{"text":"the secret"}`)})
			k.ok(err)
			k.ok(k.DB.PutLabel(t.Context(), k.now, 5, checkpoints.Label{Attachments: []chat.AttachmentID{k.turns[1].Attachments[0].ID}}))
			_, _, err = k.DB.IntendPost(t.Context(), checkpoints.Post{Key: replyKey(k.now), Turn: k.now, Kind: chat.ReplyAnswer, Text: "the secret", At: time.Now()})
			k.ok(err)
			c.change(k)
			for range 2 { // and once more: it stays what it became
				res, err := k.post(t.Context(), PostInput{Turn: k.now, Kind: chat.ReplyAnswer, Answer: 5, Again: true})
				k.ok(err)
				if res.Kind != c.kind || res.Again {
					t.Errorf("%+v", res)
				}
			}
			r := said[replyKey(k.now)]
			if r.Text != c.text || r.Kind == chat.ReplyFailure && (r.Draft != nil && r.Draft.First != "the secret") {
				t.Errorf("said %+v", r)
			}
		})
	}
}

func refuseAll(attachments.Question) (attachments.Decision, error) {
	return attachments.Refuse("S1", "closed"), nil
}

// A draft says what the answer will, and goes with what that drew on.
func TestADraftGoesWithWhatItDrewOn(t *testing.T) {
	t.Parallel()
	d := newDrafted(t)
	p := d.l.place
	rec, err := d.DB.Record(t.Context(), chat.Event{
		Kind: chat.MessagePosted, Place: p, Silent: true,
		Message: chat.Message{NativeID: "m2", Revision: "1", Text: "more", At: time.Now(), Author: chat.Actor{Platform: "test", User: "u"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.DB.AppendStep(t.Context(), checkpoints.Step{Turn: d.l.turn.ID, Seq: 2, Kind: checkpoints.StepUser, Message: rec.Message.ID}); err != nil {
		t.Fatal(err)
	}
	d.growTo(t, 1).end()
	if n := d.place.texts(); len(n) != 1 {
		t.Fatalf("shown %q", n)
	}
	if _, err := d.DB.Record(t.Context(), chat.Event{Kind: chat.MessageDeleted, Place: p, Message: chat.Message{NativeID: "m2"}}); err != nil {
		t.Fatal(err)
	}
	g := d.drafting(t.Context(), d.l, d.place)
	d.goOn(t, g, "it is withdrawn", func() bool {
		d.place.mu.Lock()
		defer d.place.mu.Unlock()
		return len(d.place.withdrawn) > 0
	})
	g.end()
	if len(d.place.texts()) != 1 || len(d.place.withdrawn) != 1 {
		t.Errorf("shown %q, withdrawn %+v", d.place.texts(), d.place.withdrawn)
	}
}

// The model's own words in the middle of a turn draw on what it was shown by
// itself, without a tool that has a receipt for it.
func TestWordsGoWithThePictureTheyDrewOn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*talk, checkpoints.Recorded){
		"its message is gone":      func(k *talk, r checkpoints.Recorded) { k.remove(k.place, "shown") },
		"a retold message is gone": func(k *talk, r checkpoints.Recorded) { k.steer("steered"); k.remove(k.place, "steered") },
		"it may not be shown here": func(k *talk, r checkpoints.Recorded) { k.rules = refuseAll },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, 0)
			r := k.beside(k.place, "shown")
			said := func(seq int, text string, l checkpoints.Label) {
				t.Helper()
				k.ok(k.DB.PutLabel(t.Context(), k.now, seq, l))
				_, _, err := k.DB.AppendStep(t.Context(), checkpoints.Step{Turn: k.now, Seq: seq, Kind: checkpoints.StepAssistant, Body: []byte(fmt.Sprintf(`{"role":"assistant","text":%q}`, text))})
				k.ok(err)
			}
			said(4, "before it", checkpoints.Label{})
			said(5, "it is vermilion", checkpoints.Label{Attachments: []chat.AttachmentID{r.Attachments[0].ID}})
			said(6, "as I said", checkpoints.Label{})
			told := func() string {
				t.Helper()
				l, err := k.load(t.Context(), k.now)
				k.ok(err)
				b, err := k.brief(t.Context(), l, InferInput{Turn: k.now, Seq: 9})
				k.ok(err)
				return fmt.Sprint(b.Transcript)
			}
			if s := told(); !strings.Contains(s, "vermilion") || !strings.Contains(s, "as I said") {
				t.Fatalf("told %s", s)
			}
			change(k, r)
			s := told()
			if strings.Contains(s, "vermilion") || strings.Contains(s, "as I said") || name != "a retold message is gone" && !strings.Contains(s, "before it") {
				t.Errorf("told %s", s)
			}
		})
	}
}
