package discord

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sightline/connectors/chat"
)

// draftPart is the draft's place among the nonces of a reply. It is none of
// the reply's own: a draft that was withdrawn must not stand for the reply.
const draftPart = -1

// Discord's words for a message that is not there any more, for one that can't
// be edited because its thread was archived (a new one opens it again) or
// because it is old and was edited often, and for an answer to a message whose
// channel's history the bot may not read.
const (
	unknownMessage = 10008
	threadArchived = 50083
	editsUsedUp    = 30046
	noHistory      = 160002
)

// draftsPerMinute is less than half of the 50 calls a second that Discord
// takes from a bot. Every channel has a limit of its own beside it, which one
// draft does not reach.
const draftsPerMinute = 20 * 60

// DraftsPerMinute is how many drafts and edits there is room for.
func (b *Bot) DraftsPerMinute(chat.Place) int { return draftsPerMinute }

// Draft shows an answer while it is made: a message that is edited, and that
// Post ends. Of a long one it shows the beginning.
func (b *Bot) Draft(ctx context.Context, r chat.Reply) (chat.Posted, error) {
	channelID, text, err := b.sayable(r)
	if err != nil {
		return chat.Posted{}, fmt.Errorf("discord: show draft: %w", err)
	}
	p, leave, err := b.turnAt(ctx, channelID, r)
	if err != nil {
		return chat.Posted{}, err
	}
	defer leave()
	if len(p.parts) > 0 {
		return chat.Posted{}, fmt.Errorf("discord: show draft: the reply itself is out: %w", chat.ErrRefused)
	}
	first := split(text, contentLimit)[0]
	if r.Draft != nil && r.Draft.NativeID != "" && p.shown == first {
		// The answer grows beyond what is shown of it: an edit would change
		// nothing, and the reply would wait for the room that it takes.
		return chat.Posted{NativeID: r.Draft.NativeID}, nil
	}
	id, gone, err := b.write(ctx, channelID, r, first)
	switch {
	case err != nil:
		return chat.Posted{}, fmt.Errorf("discord: show draft: %w", settled(err))
	case gone:
		return chat.Posted{}, fmt.Errorf("discord: show draft: somebody deleted it or archived its thread, or it takes no more edits: %w", chat.ErrRefused)
	}
	p.shown = first
	b.typing.note(channelID, b.c.Now())
	return chat.Posted{NativeID: id}, nil
}

// Withdraw deletes a draft.
func (b *Bot) Withdraw(ctx context.Context, r chat.Reply) error {
	channelID, ok := b.native(r.Place)
	if r.Key == "" || r.Draft == nil || !ok {
		return errors.New("discord: withdraw draft: no key, no draft, or not a place of this agent")
	}
	_, leave, err := b.turnAt(ctx, channelID, r)
	if err != nil {
		return err
	}
	defer leave()
	id, err := b.drafted(ctx, channelID, r)
	if err == nil && id != "" {
		err = b.remove(ctx, channelID, id)
	}
	if err != nil {
		return fmt.Errorf("discord: withdraw draft: %w", settled(err))
	}
	return nil
}

// remove deletes a message of the bot's, if it is there.
func (b *Bot) remove(ctx context.Context, channelID, id string) error {
	err := b.rest.do(ctx, "DELETE", "/channels/"+channelID+"/messages/"+id, nil, nil)
	if hasCode(err, unknownMessage) {
		return nil
	}
	return err
}

// write puts text into the draft's message, and makes it where it is not
// there. gone: it was there, and is deleted, or can't be edited any more, in
// which case id is still its own.
func (b *Bot) write(ctx context.Context, channelID string, r chat.Reply, text string) (id string, gone bool, err error) {
	if id, err = b.drafted(ctx, channelID, r); err != nil {
		return "", false, err
	}
	if id == "" {
		m, err := b.create(ctx, channelID, b.message(r, draftPart, text))
		if err != nil {
			return "", false, err
		}
		if strings.TrimSpace(m.Content) == strings.TrimSpace(text) {
			return m.ID, false, nil
		}
		id = m.ID // an earlier try's, which its nonce brought back
	}
	err = b.rest.do(ctx, "PATCH", "/channels/"+channelID+"/messages/"+id, map[string]any{
		"content": text, "flags": suppressEmbed, "allowed_mentions": map[string]any{"parse": []string{}, "replied_user": false},
	}, nil)
	switch {
	case hasCode(err, unknownMessage):
		return "", true, nil
	case hasCode(err, threadArchived), hasCode(err, editsUsedUp):
		return id, true, nil
	}
	return id, false, err
}

// drafted is the draft's message, looked for where its identifier was lost:
// the bot's own that has the words that the draft began with, or the last that
// answers the same message. What a tool of the turn posted answers it too.
func (b *Bot) drafted(ctx context.Context, channelID string, r chat.Reply) (id string, err error) {
	if r.Draft == nil || r.Draft.NativeID != "" || !answers(r) {
		if r.Draft != nil {
			id = r.Draft.NativeID
		}
		return id, nil
	}
	trigger := r.ReplyTo.NativeID
	first := piece{text: split(r.Draft.First, contentLimit)[0]}
	err = b.own(ctx, channelID, trigger, func(m message) bool {
		ref := m.MessageReference
		if len(m.Attachments) > 0 || ref != nil && ref.MessageID != trigger {
			return false
		}
		same := first.is(m)
		if same || ref != nil {
			id = m.ID
		}
		return same
	})
	return id, err
}

func hasCode(err error, code int) bool {
	var e *apiError
	return errors.As(err, &e) && e.Code == code
}
