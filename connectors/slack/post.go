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
	Key  string `json:"key"`
	Part int    `json:"part"`
}

// posts holds one key at a time, and remembers what was posted.
type posts struct {
	max   int
	mu    sync.Mutex
	busy  map[string]chan struct{}
	done  map[string]chat.Posted
	order []string
}

func newPosts(max int) *posts {
	return &posts{max: max, busy: map[string]chan struct{}{}, done: map[string]chat.Posted{}}
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
func (b *Bot) Post(ctx context.Context, r chat.Reply) (chat.Posted, error) {
	self, err := b.me(ctx)
	if err != nil {
		return chat.Posted{}, err
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(r.Text, "\x00", ""), "\uFFFD")
	switch {
	case r.Key == "":
		return chat.Posted{}, errors.New("slack: post reply: no key")
	case !b.ours(self, r.Place):
		return chat.Posted{}, errors.New("slack: post reply: not a place of this connector")
	case r.Place.Kind == chat.Ephemeral:
		return chat.Posted{}, errors.New("slack: post reply: an ephemeral place takes answers to commands only")
	case strings.TrimSpace(text) == "":
		return chat.Posted{}, errors.New("slack: post reply: no text")
	}
	posted, ok, err := b.posts.hold(ctx, r.Key)
	if ok || err != nil {
		return posted, err
	}
	defer func() { b.posts.release(r.Key, posted) }()
	parts := split(inert(text), maxBlock)
	there, err := b.postedParts(ctx, self, r)
	if err != nil {
		return chat.Posted{}, settled(err)
	}
	for n, part := range parts {
		if there[n] == "" {
			if there[n], err = b.postPart(ctx, self, r, n, part); err != nil {
				return chat.Posted{}, settled(err)
			}
		}
	}
	if r.Place.Thread != "" {
		b.threads.join(b.facts.canonical(r.Place.Channel), r.Place.Thread)
	}
	posted = chat.Posted{NativeID: there[0]}
	return posted, nil
}

// closed are Slack's words for a place that takes no reply of the agent any
// more.
var closed = []string{"channel_not_found", "not_in_channel", "is_archived", "thread_not_found", "restricted_action", "cannot_reply_to_message", "account_inactive"}

// settled marks what no later try can change.
func settled(err error) error {
	if slices.Contains(closed, codeOf(err)) {
		return errors.Join(chat.ErrRefused, err)
	}
	return err
}

// postPart posts. If it stays open whether it was posted, the thread tells.
func (b *Bot) postPart(ctx context.Context, self identity, r chat.Reply, n int, part string) (string, error) {
	blocks, err := json.Marshal([]map[string]string{{"type": "markdown", "text": part}})
	if err != nil {
		return "", fmt.Errorf("slack: post reply: %w", err)
	}
	mark, err := json.Marshal(map[string]any{"event_type": replyType, "event_payload": replyMark{r.Key, n}})
	if err != nil {
		return "", fmt.Errorf("slack: post reply: %w", err)
	}
	in := url.Values{
		"channel": {b.facts.present(r.Place.Channel)}, "blocks": {string(blocks)}, "text": {notice(part)}, "metadata": {string(mark)},
		"unfurl_links": {"false"}, "unfurl_media": {"false"}, "link_names": {"false"}, "parse": {"none"},
	}
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
		var e *apiError
		if ctx.Err() != nil || errors.As(err, &e) && (!e.passing() || e.Retry > 0) || try == maxTries {
			return "", err
		}
		if err := sleep(ctx, pause); err != nil {
			return "", err
		}
		pause *= 2
		there, lerr := b.postedParts(ctx, self, r)
		if lerr != nil {
			return "", errors.Join(err, lerr)
		}
		if there[n] != "" {
			return there[n], nil
		}
	}
}

// postedParts finds what was posted for the key after the message it answers.
// Only the agent's own messages count: others can carry the same mark.
func (b *Bot) postedParts(ctx context.Context, self identity, r chat.Reply) (map[int]string, error) {
	var list []message
	var err error
	if r.Place.Thread != "" {
		list, err = b.replies(ctx, r.Place.Channel, r.Place.Thread, r.ReplyTo.NativeID, true)
	} else {
		list, err = b.history(ctx, r.Place.Channel, r.ReplyTo.NativeID, true)
	}
	out := map[int]string{}
	if codeOf(err) == "thread_not_found" {
		return out, nil // the message it answers is gone: nothing can be below it
	}
	if err != nil {
		return nil, fmt.Errorf("slack: look for an earlier post of the reply: %w", err)
	}
	for n := range list {
		m := &list[n]
		var mark replyMark
		if m.Metadata == nil || m.Metadata.Type != replyType || !self.wrote(m) || json.Unmarshal(m.Metadata.Payload, &mark) != nil {
			continue
		}
		if mark.Key == r.Key && out[mark.Part] == "" {
			out[mark.Part] = m.TS
		}
	}
	return out, nil
}
