package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sightline/agent"
	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/checkpoints"
	"sightline/connectors/chat"
)

const (
	historyTurns = 20
	historyBytes = 64 << 10 // of retold text
)

// loaded is a turn as its rows tell it at this moment.
type loaded struct {
	turn     checkpoints.Turn
	agent    *Agent
	place    chat.Place
	steps    []checkpoints.Step
	receipts []checkpoints.Receipt
	messages map[chat.MessageID]chat.Message
	files    []chat.Attachment
	quotes   map[chat.MessageID]string // of the messages that this turn's answer to
	seen     []chat.Selected           // by earlier inferences of this turn, in order
	request  attachments.Request

	discarded int            // last step whose answer was discarded; -1: none
	withheld  []int          // tool steps that may not be told any more
	unsaid    int            // first step whose words drew on what may not be told any more; 0: none (a question is the first)
	terms     []chat.PlaceID // places that the retold answers told of
	labels    map[int]checkpoints.Label
	compact   bool // turns are neither retold nor summed up
}

func (a *Activities) load(ctx context.Context, id chat.TurnID) (*loaded, error) {
	l := &loaded{messages: map[chat.MessageID]chat.Message{}, quotes: map[chat.MessageID]string{}}
	var err error
	if l.turn, err = a.DB.Turn(ctx, id); err != nil {
		return nil, err
	}
	if l.agent, err = a.agent(l.turn.Agent); err != nil {
		return nil, err
	}
	if l.place, err = a.DB.Place(ctx, l.turn.Agent, l.turn.Place); err != nil {
		return nil, err
	}
	if l.steps, err = a.DB.Steps(ctx, id); err != nil {
		return nil, err
	}
	if l.receipts, err = a.DB.Receipts(ctx, id); err != nil {
		return nil, err
	}
	msgs, err := a.DB.TurnMessages(ctx, id)
	if err != nil {
		return nil, err
	}
	var ids []chat.MessageID
	for _, m := range msgs {
		l.messages[m.ID] = m
		ids = append(ids, m.ID)
	}
	for _, m := range msgs {
		if err := a.quote(ctx, l, m); err != nil {
			return nil, err
		}
	}
	if l.files, err = a.DB.MessageAttachments(ctx, l.turn.Agent, l.turn.Conversation, ids); err != nil {
		return nil, err
	}
	if l.discarded, err = a.DB.Discarded(ctx, id); err != nil {
		return nil, err
	}
	if l.labels, err = a.DB.Labels(ctx, id); err != nil {
		return nil, err
	}
	// What was shown for an answer that was discarded shaped none that counts.
	if l.seen, err = a.DB.TurnPictures(ctx, id, l.discarded); err != nil {
		return nil, err
	}
	l.request = attachments.Request{
		Agent: l.turn.Agent, Actor: l.turn.Actor, Conversation: l.turn.Conversation,
		Destination: l.turn.Place, Trigger: l.turn.Message, Turn: id,
	}
	return l, nil
}

// quote names what a message answers, where that is known here.
func (a *Activities) quote(ctx context.Context, l *loaded, m chat.Message) error {
	if m.ReplyTo == "" || l.messages[m.ReplyTo].ID != "" {
		return nil
	}
	to, err := a.DB.Message(ctx, m.Place, m.ReplyTo)
	if errors.Is(err, checkpoints.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	to.Deleted = to.Deleted || to.Place == l.place.ID && l.agent.Authorizer.Gone(l.place, to)
	files, err := a.DB.MessageAttachments(ctx, l.turn.Agent, l.turn.Conversation, []chat.MessageID{to.ID})
	if err != nil {
		return err
	}
	l.quotes[m.ID] = agent.Quote(to, files)
	return nil
}

// step finds a row by its number.
func (l *loaded) step(seq int) (checkpoints.Step, bool) {
	for _, s := range l.steps {
		if s.Seq == seq {
			return s, true
		}
	}
	return checkpoints.Step{}, false
}

// transcript retells the turn's rows before seq.
func (l *loaded) transcript(seq int) ([]agent.Message, error) {
	files := map[chat.MessageID][]chat.Attachment{}
	for _, f := range l.files {
		files[f.Message] = append(files[f.Message], f)
	}
	var out []agent.Message
	for _, s := range l.steps {
		if s.Seq >= seq {
			break
		}
		if s.Kind == checkpoints.StepUser {
			m := agent.UserMessage(l.messages[s.Message], files[s.Message], l.place.Kind)
			if q := l.quotes[s.Message]; q != "" {
				m.Text = q + "\n\n" + m.Text
			}
			out = append(out, m)
			continue
		}
		var m agent.Message
		if err := json.Unmarshal(s.Body, &m); err != nil {
			return nil, fmt.Errorf("step %d of turn %s: %w", s.Seq, l.turn.ID, checkpoints.ErrInvalid)
		}
		if m = l.told(s, m); m.Text == "" && len(m.Calls) == 0 {
			continue // an answer that was discarded
		}
		out = append(out, m)
	}
	return out, nil
}

// selection is what the next request should show: the newest view_images
// receipt of the turn that selected anything, else the pictures of the
// turn's own messages. They are authorized and fetched anew by the inference.
func (l *loaded) selection() (wanted []agent.Wanted, explicit bool) {
	for i := len(l.receipts) - 1; i >= 0; i-- {
		r := l.receipts[i]
		if r.Tool != "view_images" && r.Tool != "workspace_view" || r.Verdict != chat.VerdictDone {
			continue
		}
		for _, s := range r.Selected {
			if s.Reason != "" {
				continue
			}
			w := agent.Wanted{Attachment: s.Attachment, Digest: s.Digest, Page: s.Page, File: s.File}
			if s.Region != nil {
				w.Region = &visual.Region{X: s.Region[0], Y: s.Region[1], Width: s.Region[2], Height: s.Region[3]}
			}
			wanted = append(wanted, w)
		}
		return wanted, true
	}
	for _, f := range l.files {
		if !agent.Viewable(f) {
			continue
		}
		w := agent.Wanted{Attachment: f.ID}
		for _, s := range l.seen {
			if s.Attachment == f.ID && s.Digest != "" {
				w.Digest = s.Digest
				break
			}
		}
		wanted = append(wanted, w)
	}
	return wanted, false
}

// brief is everything one inference is made of.
func (a *Activities) brief(ctx context.Context, l *loaded, in InferInput) (agent.Brief, error) {
	h, err := a.history(ctx, l)
	if err != nil {
		return agent.Brief{}, err
	}
	if err := a.withhold(ctx, l); err != nil {
		return agent.Brief{}, err
	}
	if err := a.quotable(ctx, l); err != nil {
		return agent.Brief{}, err
	}
	transcript, err := l.transcript(in.Seq)
	if err != nil {
		return agent.Brief{}, err
	}
	b := agent.Brief{
		Request: l.request,
		Profile: agent.Profile{Name: l.agent.Name, Place: l.place, Instructions: l.agent.Instructions},
		Now:     time.Now(), History: h.retold, Older: h.older, Summary: h.summary.Text, Summed: h.summary.Turns,
		Transcript: transcript, Files: l.files,
		Key: fmt.Sprintf("%s/%d", l.turn.ID, in.Seq),
	}
	b.Wanted, b.Explicit = l.selection()
	b.Workspace, err = a.workspace(ctx, l)
	return b, err
}

const notRetold = "(This was answered. The answer is not retold: what it drew on was deleted, or may not be told here.)"

// retold keeps the newest exchanges within the byte budget.
func retold(past []checkpoints.PastTurn) (out []agent.Exchange, dropped int) {
	size, first := 0, len(past)
	for first > 0 {
		p := past[first-1]
		n := len(p.Answer)
		for _, m := range p.Messages {
			n += len(m.Text)
		}
		if size+n > historyBytes && first < len(past) {
			break
		}
		size += n
		first--
	}
	for _, p := range past[first:] {
		answer := p.Answer
		if answer == "" && p.Turn.State == checkpoints.TurnAnswered {
			answer = notRetold // without a word, a model would answer the question again
		}
		out = append(out, agent.Exchange{Messages: p.Messages, Attachments: p.Attachments, Answer: answer})
	}
	return out, first
}
