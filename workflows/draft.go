package workflows

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// Drafter is a connector that can show an answer while it is made: a message
// that becomes the reply. Its calls may be repeated, as Post may.
type Drafter interface {
	// Draft shows the text so far and says where. Without r.Draft it begins a
	// message. It is chat.ErrRefused where there is to be none any more: a
	// person removed it.
	Draft(ctx context.Context, r chat.Reply) (chat.Posted, error)
	// Withdraw takes back what r.Draft names.
	Withdraw(ctx context.Context, r chat.Reply) error
	// DraftsPerMinute is how many calls of Draft the platform has room for
	// beside replies, in all places like p together.
	DraftsPerMinute(p chat.Place) int
}

const (
	// draftAfter is how long an answer has to take, from its first word, to be
	// shown before it is whole. Most are done by then and are posted once.
	draftAfter = 1500 * time.Millisecond
	// draftEvery keeps edits below what the platforms take in a channel.
	draftEvery = 1200 * time.Millisecond
	// draftGrace is how long the end of an inference waits for an edit that is
	// under way. One that is cut off is found again by its key.
	draftGrace = 3 * time.Second
)

// drafting shows one inference's answer as it grows. A draft discloses what
// the answer does, so that each one is checked as a post is (law 7). Its
// message is a row before the platform is asked, so that a retry and the post
// find it (law 8).
type drafting struct {
	a      *Activities
	l      *loaded
	to     Drafter
	key    string
	text   chan string // the newest, at most one
	stop   chan struct{}
	gone   chan struct{}
	cancel context.CancelFunc
	once   sync.Once
}

// drafting is nil where no drafts are shown.
func (a *Activities) drafting(ctx context.Context, l *loaded, r Replier) *drafting {
	to, ok := r.(Drafter)
	if !ok || !a.Drafts {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &drafting{
		a: a, l: l, to: to, key: replyKey(l.turn.ID),
		text: make(chan string, 1), stop: make(chan struct{}), gone: make(chan struct{}), cancel: cancel,
	}
	go func() {
		defer close(d.gone)
		d.run(ctx)
	}()
	return d
}

// show takes the answer so far. It never blocks.
func (d *drafting) show(text string) {
	if d == nil || strings.TrimSpace(text) == "" {
		return
	}
	select {
	case <-d.text:
	default:
	}
	select {
	case d.text <- text:
	default: // only the model's stream sends
	}
}

// end returns when nothing more is sent.
func (d *drafting) end() {
	if d == nil {
		return
	}
	d.once.Do(func() {
		close(d.stop)
		select {
		case <-d.gone:
		case <-time.After(draftGrace):
		}
		d.cancel()
		<-d.gone
	})
}

func (d *drafting) run(ctx context.Context) {
	if !d.resume(ctx) {
		return
	}
	var text string
	var last time.Time
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.stop:
			return
		case text = <-d.text:
			switch {
			case due != nil:
			case last.IsZero():
				due = time.After(draftAfter)
			default:
				due = time.After(draftEvery - time.Since(last))
			}
		case <-due:
			due = nil
			if !d.flush(ctx, text) {
				return
			}
			last = time.Now()
		}
	}
}

// resume looks at the draft of an earlier step or try: one that may not be
// shown any more goes before the model says another word.
func (d *drafting) resume(ctx context.Context) (goOn bool) {
	row, err := d.a.DB.Draft(ctx, d.key)
	switch {
	case errors.Is(err, checkpoints.ErrNotFound):
		return true
	case err != nil:
		d.log(ctx, "look for a draft", err)
		return true // every flush looks again
	case row.Ended:
		return false
	case d.l.discarded >= 0:
		// Its words may be those of the answer that was discarded.
		d.withdraw(ctx, row)
		return false
	}
	return d.allowed(ctx, &row)
}

// allowed asks whether the answer may be shown where it is going, as it is
// now. What was shown before a refusal is withdrawn, and the turn's post says
// why.
func (d *drafting) allowed(ctx context.Context, row *checkpoints.Draft) bool {
	// This inference's own pictures came after l was loaded.
	seen, err := d.a.DB.TurnPictures(ctx, d.l.turn.ID, d.l.discarded)
	if err != nil {
		d.log(ctx, "check a draft", err)
		return false
	}
	now, err := d.a.DB.Turn(ctx, d.l.turn.ID)
	if err != nil {
		d.log(ctx, "check a draft", err)
		return false
	}
	why := whyStale(now)
	if why == "" {
		why, err = d.a.disclose(ctx, d.l, with(d.l.label(), seen), "draft")
	}
	if err != nil {
		d.log(ctx, "check a draft", err)
		return false
	}
	if why == "" {
		return true
	}
	if row != nil {
		d.withdraw(ctx, *row)
	}
	return false
}

func (d *drafting) withdraw(ctx context.Context, row checkpoints.Draft) {
	d.a.at("draft.refused")
	if err := d.to.Withdraw(ctx, d.reply("", &row)); err != nil {
		// The post writes over it.
		d.log(ctx, "withdraw a draft", err)
		return
	}
	d.a.at("draft.withdrawn")
	d.ended(ctx)
}

func (d *drafting) ended(ctx context.Context) {
	if err := d.a.DB.EndDraft(ctx, d.key); err != nil {
		d.log(ctx, "end a draft", err)
	}
}

// flush shows the text. Whatever it can't do, the post does in the end.
func (d *drafting) flush(ctx context.Context, text string) (goOn bool) {
	account := string(d.l.agent.ID) + "/" + string(d.l.place.Platform)
	if !d.a.pace.take(account, d.to.DraftsPerMinute(d.l.place), time.Now()) {
		return true
	}
	var row *checkpoints.Draft
	known, err := d.a.DB.Draft(ctx, d.key)
	switch {
	case err == nil:
		row = &known
	case !errors.Is(err, checkpoints.ErrNotFound):
		d.log(ctx, "look for a draft", err)
		return true
	}
	if row != nil && row.Ended {
		return false
	}
	if !d.allowed(ctx, row) {
		return false
	}
	r := d.reply(text, row)
	if row == nil {
		begun, existed, err := d.a.DB.BeginDraft(ctx, checkpoints.Draft{Key: d.key, Turn: d.l.turn.ID, First: text})
		if err != nil {
			d.log(ctx, "begin a draft", err)
			return false
		}
		if existed { // by another try that still runs
			r = d.reply(text, &begun)
		}
		d.a.at("draft.intended")
	}
	posted, err := d.to.Draft(ctx, r)
	if err != nil {
		d.log(ctx, "show a draft", err)
		if errors.Is(err, chat.ErrRefused) {
			d.ended(ctx)
			return false
		}
		return true
	}
	d.a.at("draft.shown")
	if row == nil || row.NativeID == "" {
		if err := d.a.DB.SettleDraft(ctx, d.key, posted.NativeID); err != nil {
			d.log(ctx, "keep where a draft is", err)
			return false
		}
		d.a.at("draft.settled")
	}
	return true
}

func (d *drafting) reply(text string, row *checkpoints.Draft) chat.Reply {
	r := chat.Reply{
		Key: d.key, Turn: d.l.turn.ID, Place: d.l.place, ReplyTo: d.l.messages[d.l.turn.Message], Kind: chat.ReplyAnswer, Text: text,
	}
	if row != nil {
		r.Draft = &chat.Draft{NativeID: row.NativeID, First: row.First}
	}
	return r
}

func (d *drafting) log(ctx context.Context, what string, err error) {
	if ctx.Err() == nil && d.a.Log != nil {
		d.a.Log.Info("a draft is not shown", "turn", d.l.turn.ID, "doing", what, "error", err)
	}
}
