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
	pageLimit     = 100 // 10,000 messages are looked through for an earlier try
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
	shown string        // what its draft was last seen to say
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
// whatever was killed in between. A draft of it becomes its beginning.
func (b *Bot) Post(ctx context.Context, r chat.Reply) (chat.Posted, error) {
	channelID, text, err := b.sayable(r)
	if err != nil {
		return chat.Posted{}, fmt.Errorf("discord: post reply: %w", err)
	}
	p, leave, err := b.turnAt(ctx, channelID, r)
	if err != nil {
		return chat.Posted{}, err
	}
	defer leave()
	pieces, err := inPieces(text, r.Files)
	if err != nil {
		return chat.Posted{}, fmt.Errorf("discord: post reply: %w", err)
	}
	if err := b.findPieces(ctx, channelID, r, pieces, p); err != nil {
		return chat.Posted{}, fmt.Errorf("discord: look for an earlier try: %w", settled(err))
	}
	// Nothing is said before its files are known to be good.
	for i := len(p.parts); i < len(pieces); i++ {
		if pieces[i].form, err = b.formOf(ctx, r, i, pieces[i]); err != nil {
			return chat.Posted{}, fmt.Errorf("discord: post reply: %w", err)
		}
	}
	for i := len(p.parts); i < len(pieces); i++ {
		id, err := b.postPiece(ctx, channelID, r, i, pieces[i])
		if err != nil {
			return chat.Posted{}, fmt.Errorf("discord: post part %d of %d: %w", i+1, len(pieces), settled(err))
		}
		p.parts = append(p.parts, id)
	}
	p.shown = "" // of no more use, and thousands of replies are remembered
	if s, ok := b.channels.get(channelID); ok && s.thread() {
		b.channels.join(channelID, true)
	}
	return chat.Posted{NativeID: p.parts[0]}, nil
}

// sayable is where a reply goes and what it says there.
func (b *Bot) sayable(r chat.Reply) (channelID, text string, err error) {
	channelID, ok := b.native(r.Place)
	text = strings.ToValidUTF8(strings.ReplaceAll(r.Text, "\x00", ""), "\uFFFD")
	switch {
	case r.Key == "":
		return "", "", errors.New("no key")
	case !ok:
		return "", "", errors.New("not a place of this agent")
	case strings.TrimSpace(text) == "":
		return "", "", errors.New("there is nothing to say")
	}
	return channelID, text, nil
}

// turnAt holds a reply's key: its calls come one after the other.
func (b *Bot) turnAt(ctx context.Context, channelID string, r chat.Reply) (*post, func(), error) {
	p := b.posts.take(channelID + "/" + r.Key)
	select {
	case p.turn <- struct{}{}:
		return p, func() { <-p.turn; b.posts.leave(p) }, nil
	case <-ctx.Done():
		b.posts.leave(p)
		return nil, nil, ctx.Err()
	}
}

// settled marks what no later try can change: the channel is gone, or closed
// to the bot, or what is said is not taken (a locked thread, a moderation
// rule, a file that is too large there).
func settled(err error) error {
	if hasStatus(err, http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge) {
		return errors.Join(chat.ErrRefused, err)
	}
	return err
}

// nonce is the platform's name for "the same message again": 25 characters.
func nonce(key string, part int) string {
	h := sha256.Sum256([]byte(key + "\x00" + strconv.Itoa(part)))
	return base64.RawURLEncoding.EncodeToString(h[:])[:25]
}

// piece is one message of a reply: words, or files.
type piece struct {
	text  string
	files []chat.ReplyFile
	form  *form // of the files
}

func inPieces(text string, files []chat.ReplyFile) ([]piece, error) {
	batches, err := inBatches(files)
	if err != nil {
		return nil, err
	}
	var out []piece
	for _, part := range split(text, contentLimit) {
		out = append(out, piece{text: part})
	}
	for _, batch := range batches {
		out = append(out, piece{files: batch})
	}
	return out, nil
}

func (b *Bot) postPiece(ctx context.Context, channelID string, r chat.Reply, n int, p piece) (string, error) {
	stale := ""
	if n == 0 && r.Draft != nil {
		id, gone, err := b.write(ctx, channelID, r, p.text)
		if err != nil || !gone {
			return id, err
		}
		stale = id
	}
	var body any = p.form
	if p.form == nil {
		body = b.message(r, n, p.text)
	}
	m, err := b.create(ctx, channelID, body)
	if err == nil && stale != "" && stale != m.ID {
		// The reply stands, whether its draft goes or not.
		if err := b.remove(ctx, channelID, stale); err != nil {
			b.log.Warn("a draft that could not be ended is left beside its reply", "channel", channelID, "error", err)
		}
	}
	return m.ID, err
}

// message is what every message of a reply has: nobody is called, no link is
// unfolded.
func (b *Bot) message(r chat.Reply, part int, text string) map[string]any {
	body := map[string]any{
		"content": text, "nonce": nonce(r.Key, part), "enforce_nonce": true, "flags": suppressEmbed,
		"allowed_mentions": map[string]any{"parse": []string{}},
	}
	if part <= 0 && answers(r) {
		body["message_reference"] = map[string]any{"message_id": r.ReplyTo.NativeID, "fail_if_not_exists": false}
		body["allowed_mentions"] = map[string]any{"parse": []string{}, "replied_user": false}
	}
	return body
}

func (b *Bot) create(ctx context.Context, channelID string, body any) (message, error) {
	var m message
	err := b.rest.do(ctx, "POST", "/channels/"+channelID+"/messages", body, &m)
	if words, ok := body.(map[string]any); ok && hasCode(err, noHistory) && words["message_reference"] != nil {
		// Said all the same, without pointing at what it answers.
		b.log.Warn("the bot lacks the permission Read Message History, so a reply names no message", "channel", channelID)
		delete(words, "message_reference")
		err = b.rest.do(ctx, "POST", "/channels/"+channelID+"/messages", words, &m)
	}
	if err != nil {
		return m, err
	}
	if !isSnowflake(m.ID) {
		return m, errors.New("the answer names no message")
	}
	return m, nil
}

// findPieces looks for what an earlier process may have posted of this reply,
// once the nonce is too old to tell, or where a file would be sent again.
// History has no nonces, so a piece is known by its author, its words or
// files and, for the first, by what it answers.
func (b *Bot) findPieces(ctx context.Context, channelID string, r chat.Reply, pieces []piece, p *post) error {
	trigger := r.ReplyTo.NativeID
	if len(p.parts) > 0 || !answers(r) || len(r.Files) == 0 && b.c.Now().Sub(snowflakeTime(trigger)) < nonceWindow {
		return nil
	}
	return b.own(ctx, channelID, trigger, func(m message) (enough bool) {
		n := len(p.parts)
		if n == len(pieces) {
			return true
		}
		if !pieces[n].is(m) || n == 0 && (m.MessageReference == nil || m.MessageReference.MessageID != trigger) {
			return false
		}
		p.parts = append(p.parts, m.ID)
		return false
	})
}

func (p piece) is(m message) bool {
	if strings.TrimSpace(m.Content) != strings.TrimSpace(p.text) || len(p.files) > 0 && len(m.Attachments) != len(p.files) {
		return false
	}
	for i, f := range p.files {
		if m.Attachments[i].Size != f.Size {
			return false
		}
	}
	return true
}

// answers reports whether the reply is to a message of its own channel.
func answers(r chat.Reply) bool {
	return r.ReplyTo.Place == r.Place.ID && isSnowflake(r.ReplyTo.NativeID)
}

// own walks the bot's own messages after one of the channel, in order, until
// f has seen enough.
func (b *Bot) own(ctx context.Context, channelID, after string, f func(message) bool) error {
	self, err := b.identity.self(ctx)
	if err != nil {
		return err
	}
	for range pageLimit {
		page, err := b.history(ctx, channelID, after)
		if err != nil {
			return err
		}
		for _, m := range page {
			after = m.ID
			if m.Author != nil && m.Author.ID == self.ID && f(m) {
				return nil
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
	return nil
}
