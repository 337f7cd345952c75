package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sightline/agent"
	"sightline/attachments"
	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// Post sends the turn's one reply. The intent is a row before the platform is
// called; the key makes the platform's own repetition harmless.
func (a *Activities) Post(ctx context.Context, in PostInput) (PostResult, error) {
	defer a.Pulse.beat(ctx)()
	a.at("post.started")
	r, err := a.postAndFinish(ctx, in)
	return r, settle(ctx, err)
}

func (a *Activities) postAndFinish(ctx context.Context, in PostInput) (PostResult, error) {
	r, err := a.post(ctx, in)
	if err == nil && in.Finish && !r.Again {
		err = a.finish(ctx, FinishInput{Turn: in.Turn, State: stateOf(r.Kind), Reason: r.Reason})
	}
	return r, err
}

func (a *Activities) post(ctx context.Context, in PostInput) (PostResult, error) {
	l, err := a.load(ctx, in.Turn)
	if err != nil {
		return PostResult{}, err
	}
	reason := in.Reason
	kind, text := in.Kind, ""
	intended, err := a.DB.Posts(ctx, in.Turn)
	if err != nil {
		return PostResult{}, err
	}
	var owed *checkpoints.Post // an answer that an earlier try was about to say
	if len(intended) > 0 && intended[0].Kind == chat.ReplyAnswer && intended[0].NativeID == "" {
		owed, kind = &intended[0], chat.ReplyAnswer
	}
	switch {
	case len(intended) > 0 && owed == nil: // it is out, or tells of nothing
		kind = intended[0].Kind
	case in.Failed == failDeleted || kind == chat.ReplyAnswer && l.messages[l.turn.Message].Deleted:
		// Whoever takes a question back wants no answer to it.
		return a.unasked(ctx, l)
	case owed != nil:
		if reason, err = a.recall(ctx, l, owed, in.Answer); err != nil {
			return PostResult{}, err
		}
	case kind == chat.ReplyStopped:
		text = "Stopped."
	case kind == chat.ReplyAnswer:
		if text, err = l.answer(in.Answer); err != nil {
			return PostResult{}, err
		}
		why, err := a.discloseAnswer(ctx, l, in.Answer)
		if err != nil {
			return PostResult{}, err
		}
		if why != "" && in.Again {
			// Another one is made, without what may not be shown.
			if err := a.DB.Discard(ctx, in.Turn, in.Answer, why); err != nil {
				return PostResult{}, err
			}
			a.at("post.discarded")
			return PostResult{Again: true}, nil
		}
		if why != "" {
			kind, text, reason = chat.ReplyFailure, sentence(failAudience), why
		}
	default:
		kind, text = chat.ReplyFailure, sentence(in.Failed)
		if reason == "" {
			reason = in.Failed
		} else {
			reason = in.Failed + ": " + reason
		}
	}
	key := replyKey(in.Turn)
	p, _, err := a.DB.IntendPost(ctx, checkpoints.Post{Key: key, Turn: in.Turn, Kind: kind, Text: text, At: time.Now()})
	if err != nil {
		return PostResult{}, err
	}
	a.at("post.intended")
	// What was intended first stands: it may be out already.
	res := PostResult{Kind: p.Kind, Reason: bounded(reason)}
	if p.Kind == chat.ReplyAnswer {
		res.Reason = ""
	}
	if p.NativeID != "" {
		return res, nil
	}
	r := l.agent.Repliers[l.place.Platform]
	if r == nil {
		return PostResult{}, fmt.Errorf("no connector of agent %s posts to %s", l.agent.ID, l.place.Platform)
	}
	posted, err := r.Post(ctx, chat.Reply{
		Key: key, Turn: in.Turn, Place: l.place, ReplyTo: l.messages[l.turn.Message], Kind: p.Kind, Text: p.Text, Draft: draftOf(p, owed),
	})
	if err != nil {
		return PostResult{}, fmt.Errorf("post the reply: %w", err)
	}
	a.at("post.sent")
	if err := a.DB.SettlePost(ctx, key, posted.NativeID); err != nil {
		return PostResult{}, err
	}
	a.at("post.settled")
	return res, nil
}

// recall asks once more about an answer that an earlier try was about to say:
// whoever may know of it can have changed since, however long this process was
// gone. What may not be said any more is written over before the platform is
// called.
func (a *Activities) recall(ctx context.Context, l *loaded, owed *checkpoints.Post, answer int) (why string, err error) {
	if why, err = a.discloseAnswer(ctx, l, answer); err != nil || why == "" {
		return why, err
	}
	return why, a.DB.RecallPost(ctx, owed.Key, sentence(failAudience))
}

// draftOf is the message that a reply is written over: its draft, or, where an
// answer was recalled that may be out already, that one.
func draftOf(p checkpoints.Post, owed *checkpoints.Post) *chat.Draft {
	if owed != nil && p.Draft == nil && p.Kind != owed.Kind {
		return &chat.Draft{First: owed.Text}
	}
	return p.Draft
}

// Tell says that there is no answer, for a turn that could not even begin.
// Its key is the reply's own, so that a turn never says two things.
func (a *Activities) Tell(ctx context.Context, in TurnInput) error {
	defer a.Pulse.beat(ctx)()
	a.at("tell.started")
	return settle(ctx, a.tell(ctx, in))
}

func (a *Activities) tell(ctx context.Context, in TurnInput) error {
	ag, err := a.agent(in.Agent)
	if err != nil {
		return err
	}
	p, err := a.DB.Place(ctx, in.Agent, in.Place)
	if err != nil {
		return err
	}
	m, err := a.DB.Message(ctx, in.Place, in.Message)
	if err != nil {
		return err
	}
	r := ag.Repliers[p.Platform]
	if r == nil {
		return fmt.Errorf("no connector of agent %s posts to %s", ag.ID, p.Platform)
	}
	var draft *chat.Draft
	switch d, err := a.DB.Draft(ctx, replyKey(in.Turn)); {
	case err == nil:
		draft = &chat.Draft{NativeID: d.NativeID, First: d.First}
	case !errors.Is(err, checkpoints.ErrNotFound):
		return err
	}
	_, err = r.Post(ctx, chat.Reply{
		Draft: draft, Key: replyKey(in.Turn), Turn: in.Turn, Place: p, ReplyTo: m, Kind: chat.ReplyFailure, Text: sentence(failInternal),
	})
	return err
}

// replyKey names a turn's one reply, and its draft.
func replyKey(t chat.TurnID) string { return string(t) + "/reply" }

func (l *loaded) answer(seq int) (string, error) {
	s, ok := l.step(seq)
	if !ok || s.Kind != checkpoints.StepAssistant {
		return "", fmt.Errorf("answer step %d: %w", seq, checkpoints.ErrNotFound)
	}
	var m agent.Message
	if err := json.Unmarshal(s.Body, &m); err != nil {
		return "", fmt.Errorf("answer step %d: %w", seq, checkpoints.ErrInvalid)
	}
	return m.Text, nil
}

// whyStale refuses a turn that had something which is gone by now: a message
// that was retold or quoted is in no label of attachments and places.
func whyStale(t checkpoints.Turn) string {
	if t.Stale {
		return "something that the answer draws on was deleted meanwhile"
	}
	return ""
}

// discloseAnswer asks whether an answer may be posted where it is going, as
// that is now.
func (a *Activities) discloseAnswer(ctx context.Context, l *loaded, answer int) (why string, err error) {
	if why := whyStale(l.turn); why != "" {
		return why, nil
	}
	label, ok := l.labels[answer]
	if !ok { // of a version that kept none
		label = with(l.label(), l.seen)
	}
	return a.disclose(ctx, l, label, "post")
}

// unasked ends a turn whose message is gone without a word. What was shown of
// an answer is taken back.
func (a *Activities) unasked(ctx context.Context, l *loaded) (PostResult, error) {
	done := PostResult{Kind: chat.ReplyStopped, Reason: "the message was deleted"}
	row, err := a.DB.Draft(ctx, replyKey(l.turn.ID))
	if errors.Is(err, checkpoints.ErrNotFound) {
		return done, nil
	}
	if err != nil {
		return PostResult{}, err
	}
	to, ok := l.agent.Repliers[l.place.Platform].(Drafter)
	if !ok || row.Ended {
		return done, nil
	}
	err = to.Withdraw(ctx, chat.Reply{
		Key: row.Key, Turn: l.turn.ID, Place: l.place, ReplyTo: l.messages[l.turn.Message], Draft: &chat.Draft{NativeID: row.NativeID, First: row.First},
	})
	if err != nil && !errors.Is(err, chat.ErrRefused) {
		return PostResult{}, fmt.Errorf("withdraw draft: %w", err)
	}
	return done, nil
}

// disclose asks again, for everything that shaped the answer, whether the
// place of the reply may know of it now (law 7). The model's words can't be
// attributed more finely, so one refusal withholds them all.
func (a *Activities) disclose(ctx context.Context, l *loaded, label checkpoints.Label, action string) (why string, err error) {
	// What is made of nothing known is nobody's to read (an empty label is
	// refused, never public).
	if len(l.messages) == 0 {
		return "the answer has no source that is known", nil
	}
	for _, id := range label.Attachments {
		_, _, err := l.agent.Authorizer.Authorize(ctx, l.request, id, action)
		var state *attachments.StateError
		switch {
		case err == nil:
		case errors.Is(err, attachments.ErrDoubt): // it passes: asked again rather than given up
			return "", fmt.Errorf("whether %s may be shown: %w", id, err)
		case errors.Is(err, attachments.ErrNotAvailable), errors.As(err, &state):
			return fmt.Sprintf("the answer draws on %s, which may not be shown here now", id), nil
		default:
			return "", err
		}
	}
	for _, p := range label.Places {
		switch err := l.agent.Authorizer.Known(ctx, l.request, p, action); {
		case err == nil:
		case errors.Is(err, attachments.ErrDoubt):
			return "", fmt.Errorf("whether %s may be known of: %w", p, err)
		case errors.Is(err, attachments.ErrNotAvailable):
			return "the answer draws on a place that may not be known of here now", nil
		default:
			return "", err
		}
	}
	return "", nil
}

// sources are the attachments that selected things are made of.
func sources(list []chat.Selected) []chat.AttachmentID {
	var out []chat.AttachmentID
	for _, s := range list {
		if s.Reason != "" {
			continue // not shown
		}
		if s.Attachment != "" {
			out = append(out, s.Attachment)
		}
		out = append(out, s.Sources...)
	}
	return out
}
