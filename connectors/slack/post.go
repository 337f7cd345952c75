package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"sightline/connectors/chat"
)

// replyType marks the agent's replies, so that one that was posted is found
// again.
const replyType = "sightline_reply"

type replyMark struct {
	Key   string `json:"key"`
	Part  int    `json:"part"`
	Draft bool   `json:"draft,omitempty"`
}

// posts holds one key at a time, and remembers what was posted.
type posts struct {
	max   int
	mu    sync.Mutex
	busy  map[string]chan struct{}
	done  map[string]chat.Posted
	order []string
	// shared are files by their IDs, and the replies that they went with: one of
	// another reply may have the same name and size.
	shared map[string]string
}

func newPosts(max int) *posts {
	return &posts{max: max, busy: map[string]chan struct{}{}, done: map[string]chat.Posted{}, shared: map[string]string{}}
}

// hold waits for others that post the same key. Whoever finds it posted need
// not post.
func (p *posts) hold(ctx context.Context, key string) (posted chat.Posted, ok bool, err error) {
	for {
		p.mu.Lock()
		if posted, ok := p.done[key]; ok {
			p.mu.Unlock()
			return posted, true, nil
		}
		c := p.busy[key]
		if c == nil {
			p.busy[key] = make(chan struct{})
			p.mu.Unlock()
			return chat.Posted{}, false, nil
		}
		p.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			return chat.Posted{}, false, ctx.Err()
		}
	}
}

func (p *posts) share(key string, list []uploaded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.shared) > p.max {
		clear(p.shared)
	}
	for _, f := range list {
		p.shared[f.ID] = key
	}
}

// others reports whether a file is known to have gone with another reply.
func (p *posts) others(key string, f file) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, ok := p.shared[f.ID]
	return ok && of != key
}

func (p *posts) release(key string, posted chat.Posted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.busy[key])
	delete(p.busy, key)
	if posted.NativeID == "" {
		return
	}
	p.done[key] = posted
	p.order = append(p.order, key)
	if len(p.order) > p.max {
		delete(p.done, p.order[0])
		p.order = p.order[1:]
	}
}

// Post says something in a thread, once for each key: whatever an earlier
// attempt, of this process or of one before, has posted is looked for first.
// A draft of the reply becomes its beginning.
func (b *Bot) Post(ctx context.Context, r chat.Reply) (chat.Posted, error) {
	self, text, err := b.sayable(ctx, r)
	if err != nil {
		return chat.Posted{}, fmt.Errorf("slack: post reply: %w", err)
	}
	if err := chat.CheckFiles(r.Files, filesPerReply, bytesPerFile); err != nil {
		return chat.Posted{}, fmt.Errorf("slack: post reply: %w", err)
	}
	posted, ok, err := b.posts.hold(ctx, r.Key)
	if ok || err != nil {
		return posted, err
	}
	defer func() { b.posts.release(r.Key, posted) }()
	parts := split(inert(text), maxBlock)
	there, err := b.already(ctx, self, r)
	if err != nil {
		return chat.Posted{}, settled(err)
	}
	// Nothing is said before its files are known to be good.
	missing := without(r.Files, there.files)
	files, err := b.uploadAll(ctx, missing)
	if err != nil {
		return chat.Posted{}, settled(err)
	}
	for n, part := range parts {
		if there.parts[n] != "" {
			continue
		}
		m := mark(r.Key, n)
		if n == 0 {
			if there.parts[0], err = b.finish(ctx, r, there, part, m); err != nil {
				return chat.Posted{}, settled(err)
			}
		}
		if there.parts[n] == "" {
			if there.parts[n], err = b.postPart(ctx, self, r, m, part); err != nil {
				return chat.Posted{}, settled(err)
			}
		}
	}
	if err := b.share(ctx, self, r, missing, files); err != nil {
		return chat.Posted{}, settled(err)
	}
	if r.Place.Thread != "" {
		b.threads.join(b.facts.canonical(r.Place.Channel), r.Place.Thread)
	}
	b.streams.drop(r.Key)
	posted = chat.Posted{NativeID: there.parts[0]}
	return posted, nil
}

// sayable is what a reply says, if it may be said there.
func (b *Bot) sayable(ctx context.Context, r chat.Reply) (identity, string, error) {
	self, err := b.me(ctx)
	if err != nil {
		return identity{}, "", err
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(r.Text, "\x00", ""), "\uFFFD")
	switch {
	case r.Key == "":
		return identity{}, "", errors.New("no key")
	case !b.ours(self, r.Place):
		return identity{}, "", errors.New("not a place of this connector")
	case r.Place.Kind == chat.Ephemeral:
		return identity{}, "", errors.New("an ephemeral place takes answers to commands only")
	case strings.TrimSpace(text) == "":
		return identity{}, "", errors.New("no text")
	}
	return self, text, nil
}

// closed are Slack's words for a place that takes no reply of the agent any
// more; those that begin with restricted_action name the rule, such as a
// channel that only some may post in.
var closed = []string{"channel_not_found", "not_in_channel", "is_archived", "thread_not_found", "cannot_reply_to_message", "account_inactive",
	"messages_tab_disabled", "cannot_dm_bot", "ekm_access_denied", "team_access_not_granted"}

func isClosed(code string) bool {
	return slices.Contains(closed, code) || strings.HasPrefix(code, "restricted_action")
}

// unsayable are its words for a message that is refused as it is.
var unsayable = []string{"msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format", "no_text", "metadata_too_large"}

// unrenderable are those of them that may be about the blocks.
var unrenderable = []string{"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long"}

// settled marks what no later try can change.
func settled(err error) error {
	if code := codeOf(err); isClosed(code) || slices.Contains(unsayable, code) {
		return errors.Join(chat.ErrRefused, err)
	}
	return err
}

func mark(key string, part int) replyMark { return replyMark{Key: key, Part: part} }

// words are a message's text as Slack's methods take it: nobody is called, no
// link is unfolded.
func (b *Bot) words(r chat.Reply, m replyMark, part string) (url.Values, error) {
	blocks, err := json.Marshal([]map[string]string{{"type": "markdown", "text": part}})
	if err != nil {
		return nil, fmt.Errorf("slack: post reply: %w", err)
	}
	meta, err := json.Marshal(map[string]any{"event_type": replyType, "event_payload": m})
	if err != nil {
		return nil, fmt.Errorf("slack: post reply: %w", err)
	}
	return url.Values{
		"channel": {b.facts.present(r.Place.Channel)}, "blocks": {string(blocks)}, "text": {notice(part)}, "metadata": {string(meta)},
		"link_names": {"false"}, "parse": {"none"},
	}, nil
}

// postPart posts. If it stays open whether it was posted, the thread tells.
func (b *Bot) postPart(ctx context.Context, self identity, r chat.Reply, m replyMark, part string) (string, error) {
	in, err := b.words(r, m, part)
	if err != nil {
		return "", err
	}
	in.Set("unfurl_links", "false")
	in.Set("unfurl_media", "false")
	if r.Place.Thread != "" {
		in.Set("thread_ts", r.Place.Thread)
	}
	pause := b.api.pause
	for try := 1; ; try++ {
		var a struct {
			TS string `json:"ts"`
		}
		_, err := b.api.retry(ctx, b.api.token, "chat.postMessage", in, &a, false)
		if err == nil {
			return a.TS, nil
		}
		if slices.Contains(unrenderable, codeOf(err)) && in.Has("blocks") {
			// The words count for more than how they look.
			b.log.Info("slack does not render a reply; it is said as plain text", "reason", codeOf(err))
			in.Del("blocks")
			in.Set("text", literal(part))
			in.Set("mrkdwn", "false")
			continue
		}
		if ctx.Err() != nil || !unsure(err) || try == maxTries {
			return "", err
		}
		if err := sleep(ctx, pause); err != nil {
			return "", err
		}
		pause *= 2
		there, lerr := b.already(ctx, self, r)
		if lerr != nil {
			return "", errors.Join(err, lerr)
		}
		ts := there.parts[m.Part]
		if m.Draft {
			ts = there.draft
		}
		if ts != "" {
			return ts, nil
		}
	}
}

// unsure: what was asked may have been done.
func unsure(err error) bool {
	var e *apiError
	return !errors.As(err, &e) || e.passing() && e.Retry == 0
}

// found is what is in the place of a reply, after the message that it answers.
type found struct {
	parts map[int]string
	draft string     // the one that is marked as the reply's
	bare  []*message // the agent's own without a mark: streams that broke off
	files []file     // that the agent shared
}

// already looks for what was posted for the key. Only the agent's own messages
// count: others can carry the same mark.
func (b *Bot) already(ctx context.Context, self identity, r chat.Reply) (found, error) {
	var list []message
	var err error
	if r.Place.Thread != "" {
		list, err = b.replies(ctx, r.Place.Channel, r.Place.Thread, r.ReplyTo.NativeID, true, maxPages)
	} else {
		list, err = b.history(ctx, r.Place.Channel, r.ReplyTo.NativeID, true)
	}
	out := found{parts: map[int]string{}}
	if codeOf(err) == "thread_not_found" {
		return out, nil // the message it answers is gone: nothing can be below it
	}
	if err != nil {
		return out, fmt.Errorf("slack: look for an earlier post of the reply: %w", err)
	}
	for n := range list {
		m := &list[n]
		if !self.wrote(m) {
			continue
		}
		for _, f := range m.Files {
			if !b.posts.others(r.Key, f) {
				out.files = append(out.files, f)
			}
		}
		if m.Metadata == nil || m.Metadata.Type != replyType {
			if len(m.Files) == 0 && m.TS > r.ReplyTo.NativeID {
				out.bare = append(out.bare, m)
			}
			continue
		}
		var k replyMark
		switch {
		case json.Unmarshal(m.Metadata.Payload, &k) != nil || k.Key != r.Key:
		case k.Draft && out.draft == "":
			out.draft = m.TS
		case !k.Draft && out.parts[k.Part] == "":
			out.parts[k.Part] = m.TS
		}
	}
	return out, nil
}
