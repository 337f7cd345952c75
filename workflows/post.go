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
	defer beat(ctx)()
	a.at("post.started")
	r, err := a.post(ctx, in)
	return r, settle(ctx, err)
}

func (a *Activities) post(ctx context.Context, in PostInput) (PostResult, error) {
	l, err := a.load(ctx, in.Turn)
	if err != nil {
		return PostResult{}, err
	}
	reason := in.Reason
	kind, text := in.Kind, ""
	switch kind {
	case chat.ReplyStopped:
		text = "Stopped."
	case chat.ReplyAnswer:
		if text, err = l.answer(in.Answer); err != nil {
			return PostResult{}, err
		}
		why, err := a.disclose(ctx, l)
		if err != nil {
			return PostResult{}, err
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
	key := string(in.Turn) + "/reply"
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
		Key: key, Turn: in.Turn, Place: l.place, ReplyTo: l.messages[l.turn.Message], Kind: p.Kind, Text: p.Text,
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

// Tell says that there is no answer, for a turn that could not even begin.
// Its key is the reply's own, so that a turn never says two things.
func (a *Activities) Tell(ctx context.Context, in TurnInput) error {
	defer beat(ctx)()
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
	_, err = r.Post(ctx, chat.Reply{
		Key: string(in.Turn) + "/reply", Turn: in.Turn, Place: p, ReplyTo: m, Kind: chat.ReplyFailure, Text: sentence(failInternal),
	})
	return err
}

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

// disclose asks again, for every picture that shaped the answer, whether the
// place of the reply may know of it now (law 7). The model's words can't be
// attributed more finely, so one refusal withholds them all.
func (a *Activities) disclose(ctx context.Context, l *loaded) (why string, err error) {
	asked := map[chat.AttachmentID]bool{}
	check := func(list []chat.Selected) error {
		for _, s := range list {
			if s.Reason != "" || asked[s.Attachment] {
				continue
			}
			asked[s.Attachment] = true
			_, _, err := l.agent.Authorizer.Authorize(ctx, l.request, s.Attachment, "post")
			var state *attachments.StateError
			switch {
			case err == nil:
			case errors.Is(err, attachments.ErrNotAvailable), errors.As(err, &state):
				why = fmt.Sprintf("the answer draws on %s, which may not be shown here now", s.Attachment)
			default:
				return err
			}
		}
		return nil
	}
	if err := check(l.seen); err != nil {
		return "", err
	}
	for _, r := range l.receipts {
		if err := check(r.Selected); err != nil {
			return "", err
		}
	}
	return why, nil
}
