package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sightline/agent"
	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// A conversation's past is retold in words as far as it fits. What no longer
// does is compacted, after an answer is out, into a summary that carries the
// label of all it was made of: it is told as long as all of that is there.
//
//	| summary: turns up to Upto | retold: at most historyTurns, historyBytes | this turn |

const (
	// keptTurns are left out of a compaction, so that the next one is not due
	// at once.
	keptTurns = 10
	// compactLeast is what a compaction is worth being made for.
	compactLeast = 5
	// compactTurns bounds what one compaction reads.
	compactTurns = 40
	// compactSeq is where a compaction's request is audited: beyond every step.
	compactSeq = 1 << 20
)

// past is what a turn is told of the turns before it.
type past struct {
	retold  []agent.Exchange
	summary checkpoints.Summary // zero: none
	older   int                 // turns that are told in neither way
}

func (a *Activities) history(ctx context.Context, l *loaded) (past, error) {
	turns, older, err := a.DB.History(ctx, l.turn.Agent, l.turn.Conversation, l.turn.ID, historyTurns)
	if err != nil {
		return past{}, err
	}
	all := len(turns) + older
	told, err := a.retellable(ctx, l, turns)
	if err != nil {
		return past{}, err
	}
	if told == nil && len(turns) > 0 {
		return past{older: all}, nil // and its summary is for nobody else either
	}
	var p past
	switch p.summary, err = a.DB.LastSummary(ctx, l.turn.Agent, l.turn.Conversation); {
	case errors.Is(err, checkpoints.ErrNotFound):
		p.summary = checkpoints.Summary{}
	case err != nil:
		return past{}, err
	}
	near := false // the summary reaches into what would be retold
	for i, t := range told {
		if t.Turn.ID == p.summary.Upto {
			told, near = told[i+1:], true
			break
		}
	}
	var dropped int
	p.retold, dropped = retold(told)
	p.older = max(all-len(p.retold)-p.summary.Turns, 0)
	l.compact = dropped > 0 || older > 0 && !near
	return p, nil
}

// Compaction runs beside the conversation, which does not wait for it.
func Compaction(ctx workflow.Context, in CompactInput) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 3 * time.Minute, ScheduleToCloseTimeout: 30 * time.Minute, HeartbeatTimeout: 10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 5 * time.Second, BackoffCoefficient: 2},
	})
	return workflow.ExecuteActivity(ctx, "Compact", in).Get(ctx, nil)
}

// Compact retells older turns in a summary. Its failure costs nothing but the
// memory of them: they are counted, and their attachments are still listed.
func (a *Activities) Compact(ctx context.Context, in CompactInput) error {
	defer a.Pulse.beat(ctx)()
	a.at("compact.started")
	return settle(ctx, attempts(ctx, a.compact(ctx, in)))
}

func (a *Activities) compact(ctx context.Context, in CompactInput) error {
	l, err := a.load(ctx, in.Turn)
	if err != nil {
		return err
	}
	began, err := a.DB.Clock(ctx) // before anything is read that may go stale meanwhile
	if err != nil {
		return err
	}
	recent, _, err := a.DB.History(ctx, l.turn.Agent, l.turn.Conversation, in.Turn, keptTurns)
	if err != nil || len(recent) < keptTurns {
		return err
	}
	turns, _, err := a.DB.History(ctx, l.turn.Agent, l.turn.Conversation, recent[0].Turn.ID, compactTurns)
	if err != nil {
		return err
	}
	s, err := a.DB.LastSummary(ctx, l.turn.Agent, l.turn.Conversation)
	if err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
		return err
	}
	for i, t := range turns {
		if t.Turn.ID == s.Upto {
			turns = turns[i+1:]
			break
		}
	}
	if len(turns) < compactLeast {
		return nil
	}
	// It is an inference like any other: what may not be known of here now is
	// not told to the model either.
	if turns, err = a.retellable(ctx, l, turns); err != nil || turns == nil {
		return err
	}
	if turns, err = a.own(ctx, turns); err != nil {
		return err
	}
	next := checkpoints.Summary{
		Agent: l.turn.Agent, Conversation: l.turn.Conversation, Upto: turns[len(turns)-1].Turn.ID, Turns: s.Turns + len(turns),
		Messages: s.Messages, Attachments: s.Attachments, At: began,
	}
	for _, t := range turns {
		for _, m := range t.Messages {
			if !m.Deleted {
				next.Messages = append(next.Messages, m.ID)
			}
		}
		for _, f := range t.Attachments {
			if f.State != chat.FileDeleted {
				next.Attachments = append(next.Attachments, f.ID)
			}
		}
	}
	if len(next.Messages) == 0 {
		return nil // nothing is left of them
	}
	if next.Text, err = a.summarize(ctx, l, s.Text, turns); err != nil {
		return err
	}
	a.at("compact.summarized")
	err = a.DB.PutSummary(ctx, next)
	if err == nil {
		a.at("compact.written")
	}
	return err
}

// own leaves out what was answered from other places than the conversation's
// own: a summary is told for as long as the conversation is.
func (a *Activities) own(ctx context.Context, turns []checkpoints.PastTurn) ([]checkpoints.PastTurn, error) {
	ids := make([]chat.TurnID, len(turns))
	for i, t := range turns {
		ids[i] = t.Turn.ID
	}
	terms, err := a.DB.Terms(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, t := range turns {
		for _, p := range terms[t.Turn.ID] {
			if p != t.Turn.Place {
				turns[i].Answer = ""
			}
		}
	}
	return turns, nil
}

const maxSummary = 6000 // bytes

func (a *Activities) summarize(ctx context.Context, l *loaded, before string, turns []checkpoints.PastTurn) (string, error) {
	exchanges, _ := retold(turns)
	info := l.agent.Inference.Model.Info(ctx)
	if info.Offline {
		return clip(before+agent.Extract(exchanges), maxSummary), nil
	}
	req := agent.Summarize(before, exchanges, l.place.Kind, maxSummary)
	req.Key = fmt.Sprintf("%s/compact", l.turn.ID)
	body, err := json.Marshal(map[string]any{"instructions": req.Instructions, "messages": req.Messages})
	if err != nil {
		return "", fmt.Errorf("encode the request for a summary: %w", err)
	}
	began := time.Now()
	attempt, err := a.DB.OpenAudit(ctx, checkpoints.Audit{Turn: l.turn.ID, Seq: compactSeq, Model: info.Key, Body: body, At: began})
	if err != nil {
		return "", err
	}
	resp, err := l.agent.Inference.Model.Generate(ctx, req, nil)
	if cerr := a.DB.CloseAudit(context.WithoutCancel(ctx), l.turn.ID, compactSeq, attempt, outcome(resp, err), resp.Usage.InputTokens, resp.Usage.OutputTokens, time.Since(began)); err == nil {
		err = cerr
	}
	if err != nil {
		return "", err
	}
	if text := strings.TrimSpace(resp.Message.Text); text != "" {
		return clip(text, maxSummary), nil
	}
	return "", errors.New("the model gave no summary")
}

// clip keeps the newest end of a text that is too long.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-most:], "")
}
