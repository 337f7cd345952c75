package discord

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"sightline/connectors/chat"
)

const (
	contentLimit  = 2000
	suppressEmbed = 1 << 2
	// nonceWindow is less than Discord remembers a nonce ("a few minutes").
	nonceWindow = time.Minute
)

// posts are the replies that this process has begun, so that two calls with
// one key are one reply.
type posts struct {
	mu sync.Mutex
	m  map[string]*post
}

type post struct {
	turn  chan struct{} // held while posting
	parts []string      // ids of the parts that are there
	users int
}

const rememberedPosts = 5000

func (k *posts) take(key string) *post {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = map[string]*post{}
	}
	p := k.m[key]
	if p == nil {
		if len(k.m) >= rememberedPosts {
			for old, v := range k.m {
				if v.users == 0 {
					delete(k.m, old)
				}
			}
		}
		p = &post{turn: make(chan struct{}, 1)}
		k.m[key] = p
	}
	p.users++
	return p
}

func (k *posts) leave(p *post) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.users--
}

// Post says something, once for each key, however often it is asked to and
// whatever was killed in between.
func (b *Bot) Post(ctx context.Context, r chat.Reply) (chat.Posted, error) {
	channelID, ok := b.native(r.Place)
	switch {
	case r.Key == "":
		return chat.Posted{}, errors.New("discord: post reply: no key")
	case !ok:
		return chat.Posted{}, errors.New("discord: post reply: not a place of this agent")
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(r.Text, "\x00", ""), "\uFFFD")
	if strings.TrimSpace(text) == "" {
		return chat.Posted{}, errors.New("discord: post reply: there is nothing to say")
	}
	key := channelID + "/" + r.Key
	p := b.posts.take(key)
	defer b.posts.leave(p)
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return chat.Posted{}, ctx.Err()
	}
	parts := split(text, contentLimit)
	if err := b.findParts(ctx, channelID, r, parts, p); err != nil {
		return chat.Posted{}, fmt.Errorf("discord: look for an earlier try: %w", settled(err))
	}
	for i := len(p.parts); i < len(parts); i++ {
		id, err := b.postPart(ctx, channelID, r, i, parts[i])
		if err != nil {
			return chat.Posted{}, fmt.Errorf("discord: post part %d of %d: %w", i+1, len(parts), settled(err))
		}
		p.parts = append(p.parts, id)
	}
	if s, ok := b.channels.get(channelID); ok && s.thread() {
		b.channels.join(channelID, true)
	}
	return chat.Posted{NativeID: p.parts[0]}, nil
}

// settled marks what no later try can change: the channel is gone, or closed
// to the bot.
func settled(err error) error {
	if hasStatus(err, http.StatusForbidden, http.StatusNotFound) {
		return errors.Join(chat.ErrRefused, err)
	}
	return err
}

// nonce is the platform's name for "the same message again": 25 characters.
func nonce(key string, part int) string {
	h := sha256.Sum256([]byte(key + "\x00" + strconv.Itoa(part)))
	return base64.RawURLEncoding.EncodeToString(h[:])[:25]
}

func (b *Bot) postPart(ctx context.Context, channelID string, r chat.Reply, part int, text string) (string, error) {
	body := map[string]any{
		"content": text, "nonce": nonce(r.Key, part), "enforce_nonce": true, "flags": suppressEmbed,
		"allowed_mentions": map[string]any{"parse": []string{}},
	}
	if part == 0 && r.ReplyTo.Place == r.Place.ID && isSnowflake(r.ReplyTo.NativeID) {
		body["message_reference"] = map[string]any{"message_id": r.ReplyTo.NativeID, "fail_if_not_exists": false}
		body["allowed_mentions"] = map[string]any{"parse": []string{}, "replied_user": false}
	}
	var m message
	if err := b.rest.do(ctx, "POST", "/channels/"+channelID+"/messages", body, &m); err != nil {
		return "", err
	}
	if !isSnowflake(m.ID) {
		return "", errors.New("the answer names no message")
	}
	return m.ID, nil
}

// findParts looks for what an earlier process may have posted of this reply,
// once the nonce is too old to tell. History has no nonces, so a part is known
// by its author, its words and, for the first, by what it answers.
func (b *Bot) findParts(ctx context.Context, channelID string, r chat.Reply, parts []string, p *post) error {
	trigger := r.ReplyTo.NativeID
	if len(p.parts) > 0 || r.ReplyTo.Place != r.Place.ID || !isSnowflake(trigger) || b.c.Now().Sub(snowflakeTime(trigger)) < nonceWindow {
		return nil
	}
	self, err := b.identity.self(ctx)
	if err != nil {
		return err
	}
	after := trigger
	for range pageLimit {
		page, err := b.history(ctx, channelID, after)
		if err != nil {
			return err
		}
		for _, m := range page {
			after = m.ID
			if len(p.parts) == len(parts) {
				return nil
			}
			n := len(p.parts)
			if m.Author == nil || m.Author.ID != self.ID || strings.TrimSpace(m.Content) != strings.TrimSpace(parts[n]) {
				continue
			}
			if n == 0 && (m.MessageReference == nil || m.MessageReference.MessageID != trigger) {
				continue
			}
			p.parts = append(p.parts, m.ID)
		}
		if len(page) < pageSize {
			return nil
		}
	}
	return nil
}
