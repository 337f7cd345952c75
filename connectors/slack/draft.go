package slack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"sightline/connectors/chat"
)

// Of the 100 additions to streams and the 50 edits that Slack takes from an
// app in a minute, these leave the edits that end drafts.
const (
	streamsPerMinute = 60
	editsPerMinute   = 30
)

// DraftsPerMinute is how many drafts and edits there is room for.
func (b *Bot) DraftsPerMinute(p chat.Place) int {
	if p.Thread == "" || b.streams.refused() {
		return editsPerMinute
	}
	return streamsPerMinute
}

// Draft shows an answer while it is made: as a stream where Slack takes one,
// else as a message that is edited. Post ends it. Of a long answer it shows
// the beginning.
func (b *Bot) Draft(ctx context.Context, r chat.Reply) (chat.Posted, error) {
	self, text, err := b.sayable(ctx, r)
	if err != nil {
		return chat.Posted{}, fmt.Errorf("slack: show draft: %w", err)
	}
	_, out, err := b.posts.hold(ctx, r.Key)
	if err != nil {
		return chat.Posted{}, err
	}
	if out {
		return chat.Posted{}, fmt.Errorf("slack: show draft: the reply itself is out: %w", chat.ErrRefused)
	}
	defer b.posts.release(r.Key, chat.Posted{})
	ts := ""
	if r.Draft != nil {
		if ts = r.Draft.NativeID; ts == "" {
			there, err := b.already(ctx, self, r)
			if err != nil {
				return chat.Posted{}, err
			}
			ts = drafted(r, there)
		}
	}
	parts, added := splitOpen(inert(text), maxBlock)
	// A stream only grows: a fence that is still open is not closed in it.
	so := parts[0]
	if len(parts) == 1 {
		so = strings.TrimSuffix(so, added)
	}
	if ts == "" {
		ts, err = b.begin(ctx, self, r, parts[0], so)
	} else {
		err = b.grow(ctx, r, ts, parts[0], so)
	}
	switch {
	case err == nil:
		b.status.note(r.Place.ID, b.c.Now())
		return chat.Posted{NativeID: ts}, nil
	case slices.Contains(uneditable, codeOf(err)):
		return chat.Posted{}, fmt.Errorf("slack: show draft: %w", errors.Join(chat.ErrRefused, err))
	}
	return chat.Posted{}, settled(err)
}

// uneditable are Slack's words for a message that is gone, or closed to edits.
var uneditable = []string{"message_not_found", "cant_update_message", "edit_window_closed"}

// begin makes the draft's message. Where a stream is refused, whatever for, a
// message is posted, and a refusal that is for good is remembered.
func (b *Bot) begin(ctx context.Context, self identity, r chat.Reply, text, streamed string) (string, error) {
	if b.streamable(r) {
		ts, err := b.startStream(ctx, r, streamed)
		switch code := codeOf(err); {
		case err == nil:
			return ts, nil
		case ctx.Err() != nil, unsure(err), code == "ratelimited", isClosed(code):
			return "", err // what may have begun is looked for at the next edit
		case slices.Contains([]string{"unknown_method", "http_404", "missing_scope", "not_allowed_token_type"}, code):
			b.streams.refuse()
			fallthrough
		default:
			b.log.Info("slack takes no stream here; the answer is a message that is edited", "reason", code)
		}
	}
	m := mark(r.Key, 0)
	m.Draft = true
	return b.postPart(ctx, self, r, m, text)
}

// streamable: a stream needs a thread and a person whom it is for.
func (b *Bot) streamable(r chat.Reply) bool {
	a := r.ReplyTo.Author
	return !b.streams.refused() && r.Place.Thread != "" && a.User != "" && a.Workspace != "" && !a.Bot
}

func (b *Bot) startStream(ctx context.Context, r chat.Reply, text string) (string, error) {
	var a struct {
		TS string `json:"ts"`
	}
	_, err := b.api.retry(ctx, b.api.token, "chat.startStream", url.Values{
		"channel": {b.facts.present(r.Place.Channel)}, "thread_ts": {r.Place.Thread}, "markdown_text": {text},
		"recipient_user_id": {r.ReplyTo.Author.User}, "recipient_team_id": {r.ReplyTo.Author.Workspace},
		"unfurl_links": {"false"}, "unfurl_media": {"false"},
	}, &a, false)
	if err != nil {
		return "", err
	}
	s := &stream{channel: r.Place.Channel, ts: a.TS, sent: text, until: b.c.Now().Add(streamLife)}
	b.streams.put(r.Key, s)
	b.watch(r.Key, s)
	return a.TS, nil
}

// grow shows more of the answer.
func (b *Bot) grow(ctx context.Context, r chat.Reply, ts, text, streamed string) error {
	if s := b.streams.get(r.Key, ts); s != nil {
		rest, more := strings.CutPrefix(streamed, s.sent)
		if more && b.c.Now().Before(s.until) {
			if rest == "" {
				return nil
			}
			_, err := b.api.retry(ctx, b.api.token, "chat.appendStream", url.Values{
				"channel": {b.facts.present(s.channel)}, "ts": {ts}, "markdown_text": {rest},
			}, nil, false)
			switch {
			case err == nil:
				s.sent = streamed
				b.watch(r.Key, s)
				return nil
			case ctx.Err() != nil:
				return err
			}
		}
		// Too old, ended by Slack, or not what was said before: from here on it
		// is a message that is edited.
		b.stopStream(ctx, r.Key, s)
	}
	if b.streams.shows(r.Key, ts, text) {
		// The answer grows beyond what is shown of it: an edit would change nothing.
		return nil
	}
	m := mark(r.Key, 0)
	m.Draft = true
	err := b.update(ctx, r, ts, text, m)
	if err == nil {
		b.streams.show(r.Key, ts, text)
	}
	return err
}

// update edits. A message that still streams takes no edit: an earlier
// process's, for this one's are stopped before.
func (b *Bot) update(ctx context.Context, r chat.Reply, ts, text string, m replyMark) error {
	in, err := b.words(r, m, text)
	if err != nil {
		return err
	}
	in.Set("ts", ts)
	_, err = b.api.call(ctx, "chat.update", in, nil)
	if codeOf(err) == "streaming_state_conflict" {
		if err := b.endStream(ctx, r.Place.Channel, ts); err != nil {
			return err
		}
		_, err = b.api.call(ctx, "chat.update", in, nil)
	}
	return err
}

// finish turns the draft into the reply's first part and says where it is;
// "" where there is none to be turned.
func (b *Bot) finish(ctx context.Context, r chat.Reply, there found, text string, m replyMark) (string, error) {
	ts := drafted(r, there)
	if ts == "" {
		return "", nil
	}
	if s := b.streams.get(r.Key, ts); s != nil {
		b.stopStream(ctx, r.Key, s)
	}
	err := b.update(ctx, r, ts, text, m)
	switch {
	case err == nil:
		b.unstatus(ctx, r.Place)
		return ts, nil
	case slices.Contains(uneditable, codeOf(err)) || final(err) && !isClosed(codeOf(err)):
		// Gone; or not to be edited whatever for, and then it must not stand
		// beside the reply, which is said anew.
		if err := b.remove(ctx, r.Place.Channel, ts); err != nil && codeOf(err) != "message_not_found" {
			b.log.Warn("a draft that can't be edited could not be deleted", "reason", codeOf(err))
		}
		return "", nil
	}
	return "", err
}

// Withdraw deletes a draft, or writes over one that can't be deleted.
func (b *Bot) Withdraw(ctx context.Context, r chat.Reply) error {
	self, err := b.me(ctx)
	if err != nil {
		return err
	}
	if r.Key == "" || r.Draft == nil || !b.ours(self, r.Place) {
		return errors.New("slack: withdraw draft: no key, no draft, or not a place of this connector")
	}
	_, out, err := b.posts.hold(ctx, r.Key)
	if err != nil || out {
		return err
	}
	defer b.posts.release(r.Key, chat.Posted{})
	ts := r.Draft.NativeID
	if ts == "" {
		there, err := b.already(ctx, self, r)
		if err != nil {
			return err
		}
		if ts = drafted(r, there); ts == "" {
			return nil
		}
	}
	if s := b.streams.get(r.Key, ts); s != nil {
		b.stopStream(ctx, r.Key, s)
	}
	b.streams.drop(r.Key)
	err = b.remove(ctx, r.Place.Channel, ts)
	if err == nil || codeOf(err) == "message_not_found" {
		return nil
	}
	m := mark(r.Key, 0)
	m.Draft = true
	if uerr := b.update(ctx, r, ts, "(withdrawn)", m); uerr != nil {
		return fmt.Errorf("slack: withdraw draft: %w", errors.Join(err, uerr))
	}
	return nil
}

// remove deletes a message. One that still streams can't be.
func (b *Bot) remove(ctx context.Context, channel, ts string) error {
	in := url.Values{"channel": {b.facts.present(channel)}, "ts": {ts}}
	_, err := b.api.call(ctx, "chat.delete", in, nil)
	if code := codeOf(err); code == "cant_delete_message" || code == "streaming_state_conflict" {
		if b.endStream(ctx, channel, ts) == nil {
			_, err = b.api.call(ctx, "chat.delete", in, nil)
		}
	}
	return err
}

// drafted is the draft's message. A stream carries no mark, so that one whose
// identifier was lost is known by its words.
func drafted(r chat.Reply, there found) string {
	if r.Draft != nil && r.Draft.NativeID != "" {
		return r.Draft.NativeID
	}
	if there.draft != "" || r.Draft == nil {
		return there.draft
	}
	first := letters(r.Draft.First)
	for _, m := range there.bare {
		if l := letters(m.Text); l != "" && (strings.HasPrefix(first, l) || strings.HasPrefix(l, first)) {
			return m.TS
		}
	}
	return ""
}

// letters are the beginning of a text without what Slack's own rendering
// changes: marks, escapes, links.
func letters(s string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		if n == 30 || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		n++
		return r
	}, strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(s))
}

// watch ends a stream that nothing is added to: Slack would end it with an
// error in the reader's view.
func (b *Bot) watch(key string, s *stream) {
	if s.idle != nil {
		s.idle.Stop()
	}
	s.idle = time.AfterFunc(streamIdle, func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		if _, out, err := b.posts.hold(ctx, key); out || err != nil {
			return
		}
		defer b.posts.release(key, chat.Posted{})
		if b.streams.get(key, s.ts) == s {
			b.stopStream(ctx, key, s)
		}
	})
}

// stopStream ends a stream of this process. Its failure shows in the edit that
// follows.
func (b *Bot) stopStream(ctx context.Context, key string, s *stream) {
	b.streams.drop(key)
	if err := b.endStream(ctx, s.channel, s.ts); err != nil {
		b.log.Info("a stream could not be stopped", "reason", codeOf(err))
	}
}

func (b *Bot) endStream(ctx context.Context, channel, ts string) error {
	_, err := b.api.call(ctx, "chat.stopStream", url.Values{"channel": {b.facts.present(channel)}, "ts": {ts}}, nil)
	if codeOf(err) == "message_not_in_streaming_state" {
		return nil
	}
	return err
}
