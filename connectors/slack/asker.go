package slack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"sightline/connectors/chat"
)

// askerReads refuses whoever has left the channel or the workspace since their
// message: nothing is looked up for them any more. A public channel is read by
// every full member of the workspace, a guest and somebody of another team
// reads the channels that they are in.
func (b *Bot) askerReads(ctx context.Context, self identity, channel string, i channelInfo, a chat.Actor) (reason string, err error) {
	switch {
	case a.Bot:
		return "", nil // the place of the answer decides, as it does for everybody
	case a.Platform != Platform || a.User == "":
		return "it is not known who asks", nil
	case i.IsIM && i.User != a.User:
		return "the one who asks does not take part in the direct message", nil
	}
	// Whoever is deactivated stays in direct messages, and in lists of members.
	u, err := b.readers.user(ctx, b, a.User)
	switch {
	case err != nil:
		return "", fmt.Errorf("slack: who asks could not be looked up: %w", err)
	case u.Deleted:
		return "the one who asks is not in the workspace any more", nil
	case i.IsIM, !i.IsPrivate && !i.IsMPIM && !u.guest() && u.TeamID == self.Team:
		return "", nil
	}
	in, err := b.readers.member(ctx, b, channel, a)
	if errors.Is(err, errTooMany) {
		return "the channel has more members than are listed, and the one who asks is not among the first", nil
	}
	if err != nil {
		return "", err
	}
	if !in {
		return "the one who asks is not in the channel any more", nil
	}
	return "", nil
}

type userInfo struct {
	ID              string `json:"id"`
	TeamID          string `json:"team_id"`
	Deleted         bool   `json:"deleted"`
	Restricted      bool   `json:"is_restricted"`
	UltraRestricted bool   `json:"is_ultra_restricted"`
	Stranger        bool   `json:"is_stranger"`
}

func (u userInfo) guest() bool { return u.Restricted || u.UltraRestricted || u.Stranger }

// readers remembers for as long as facts live who asked and may. Who else is a
// member is not kept.
type readers struct {
	mu      sync.Mutex
	users   map[string]remembered[userInfo]
	members map[[2]string]remembered[bool]
	there   map[chat.MessageID]reading
}

// reading is when a message was read and there.
type reading struct {
	at         time.Time
	generation int
}

// read reports whether a message was there not longer ago than facts live, and
// nothing was missed since. Whoever asks has asked the store first, which knows
// of deletions.
func (r *readers) read(id chat.MessageID, now reading) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, ok := r.there[id]
	return ok && was.generation == now.generation && now.at.Sub(was.at) < factsAge
}

func (r *readers) note(id chat.MessageID, now reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.there == nil || len(r.there) >= maxReaders {
		r.there = map[chat.MessageID]reading{}
	}
	r.there[id] = now
}

// remembered is an answer and when its question was asked, by the clock and by
// the epoch: a change since then makes it worthless.
type remembered[T any] struct {
	at    int64
	epoch int64
	value T
}

const maxReaders = 20_000

func (r *readers) user(ctx context.Context, b *Bot, id string) (userInfo, error) {
	at, epoch := b.c.Now().UnixNano(), b.facts.epoch("")
	r.mu.Lock()
	u, ok := r.users[id]
	r.mu.Unlock()
	if ok && u.epoch == epoch && at-u.at < factsAge.Nanoseconds() {
		return u.value, nil
	}
	var a struct {
		User userInfo `json:"user"`
	}
	if _, err := b.api.call(ctx, "users.info", url.Values{"user": {id}}, &a); err != nil {
		if code := codeOf(err); code == "user_not_found" || code == "user_not_visible" {
			return userInfo{Deleted: true}, nil
		}
		return userInfo{}, err
	}
	if a.User.ID != id {
		return userInfo{}, fmt.Errorf("slack: users.info answers with another user")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil || len(r.users) >= maxReaders {
		r.users = map[string]remembered[userInfo]{}
	}
	r.users[id] = remembered[userInfo]{at, epoch, a.User}
	return a.User, nil
}

func (r *readers) member(ctx context.Context, b *Bot, channel string, a chat.Actor) (bool, error) {
	k := [2]string{channel, a.User}
	at, epoch := b.c.Now().UnixNano(), b.facts.epoch(channel)
	r.mu.Lock()
	m, ok := r.members[k]
	r.mu.Unlock()
	if ok && m.epoch == epoch && at-m.at < factsAge.Nanoseconds() {
		return m.value, nil
	}
	in, err := b.isMember(ctx, channel, a)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.members == nil || len(r.members) >= maxReaders {
		r.members = map[[2]string]remembered[bool]{}
	}
	r.members[k] = remembered[bool]{at, epoch, in}
	return in, nil
}
