package discord

import (
	"context"
	"errors"
	"sync"
	"time"
)

// identity is who the bot is and who owns it.
type identity struct {
	b *Bot

	mu sync.Mutex // never held while asking: the gateway's reader takes it
	me user

	asking chan struct{} // one question at a time
	app    string
	owners map[string]bool
	asked  time.Time
}

// ownersLife bounds how long someone who left the team stays an owner.
const ownersLife = 10 * time.Minute

func (i *identity) self(ctx context.Context) (user, error) {
	if u := i.known(); u.ID != "" {
		return u, nil
	}
	var u user
	if err := i.b.rest.do(ctx, "GET", "/users/@me", nil, &u); err != nil {
		return user{}, err
	}
	if !isSnowflake(u.ID) {
		return user{}, errors.New("discord does not say who the bot is")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.me = u
	return u, nil
}

func (i *identity) known() user {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.me
}

// id is the bot's user id, once it is known; Run learns it before the first event.
func (i *identity) id() string { return i.known().ID }

type application struct {
	ID    string `json:"id"`
	Flags int    `json:"flags"`
	Owner *user  `json:"owner"`
	Team  *struct {
		Members []struct {
			State int  `json:"membership_state"`
			User  user `json:"user"`
		} `json:"members"`
	} `json:"team"`
}

const teamAccepted = 2

// application answers the application's id and its owners.
func (i *identity) application(ctx context.Context) (string, map[string]bool, error) {
	select {
	case i.asking <- struct{}{}:
		defer func() { <-i.asking }()
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
	if i.app != "" && i.b.c.Now().Sub(i.asked) < ownersLife {
		return i.app, i.owners, nil
	}
	var a application
	if err := i.b.rest.do(ctx, "GET", "/oauth2/applications/@me", nil, &a); err != nil {
		return "", nil, err
	}
	owners := map[string]bool{}
	switch {
	case a.Team != nil:
		// A team's application names a pseudo user as its owner.
		for _, m := range a.Team.Members {
			if m.State == teamAccepted {
				owners[m.User.ID] = true
			}
		}
	case a.Owner != nil:
		owners[a.Owner.ID] = true
	}
	i.app, i.owners, i.asked = a.ID, owners, i.b.c.Now()
	return i.app, i.owners, nil
}

// owner says whether a user owns the agent: a configured id wins, then the
// application's. Who can't be established is no owner, and err says why.
func (i *identity) owner(ctx context.Context, id string) (bool, error) {
	if len(i.b.c.Owners) > 0 {
		return i.b.configuredOwner(id), nil
	}
	_, owners, err := i.application(ctx)
	if err != nil {
		return false, err
	}
	return owners[id], nil
}
