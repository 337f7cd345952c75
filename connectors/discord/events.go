package discord

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sightline/connectors/chat"
)

// posted delivers a message that is new to us, after what it answers.
func (b *Bot) posted(ctx context.Context, m message) error {
	s, err := b.shapeOf(ctx, m.ChannelID)
	if err != nil {
		return err
	}
	self, err := b.identity.self(ctx)
	if err != nil {
		return err
	}
	how := b.treat(s, m, self.ID)
	if m.Author != nil && m.Author.ID == self.ID && s.thread() {
		b.channels.join(s.id, true)
	}
	if how == pass || b.deleted.has(m.ChannelID+"/"+m.ID) {
		return b.marks.move(ctx, Mark{Guild: s.guild, Channel: m.ChannelID, Message: m.ID}, false)
	}
	if how == answer && !b.seen.has(eventKey(chat.MessagePosted, m)) {
		if err := b.deliverReplied(ctx, s, m, self.ID); err != nil {
			return err
		}
	}
	if err := b.deliver(ctx, chat.MessagePosted, s, m, how, self); err != nil {
		return err
	}
	return b.marks.move(ctx, Mark{Guild: s.guild, Channel: m.ChannelID, Message: m.ID}, true)
}

// deliverReplied records the message that m answers, as a source of its own.
func (b *Bot) deliverReplied(ctx context.Context, s shape, m message, self string) error {
	id := m.repliedTo()
	if id == "" || !isSnowflake(id) {
		return nil
	}
	r := m.ReferencedMessage
	if r == nil {
		r = &message{}
		err := b.rest.do(ctx, "GET", "/channels/"+m.ChannelID+"/messages/"+id, nil, r)
		if hasStatus(err, 403, 404) {
			return nil // deleted, or not ours to read
		}
		if err != nil {
			return err
		}
	}
	r.ChannelID = m.ChannelID
	if r.Author == nil || r.ID != id || r.Author.ID == self || r.Type != typeDefault && r.Type != typeReply {
		return nil
	}
	me := user{ID: self}
	kind := chat.MessagePosted
	if b.seen.has(eventKey(kind, *r)) || b.deleted.has(r.ChannelID+"/"+r.ID) {
		return nil
	}
	return b.deliver(ctx, kind, s, *r, silent, me)
}

func (b *Bot) edited(ctx context.Context, m message) error {
	s, err := b.shapeOf(ctx, m.ChannelID)
	if err != nil {
		return err
	}
	self, err := b.identity.self(ctx)
	if err != nil {
		return err
	}
	// An edit concerns what was recorded, or would be now.
	how := b.treat(s, m, self.ID)
	if m.Author == nil || m.Author.ID == self.ID || b.deleted.has(m.ChannelID+"/"+m.ID) {
		return nil
	}
	if how == pass {
		if known, err := b.recorded(ctx, s, m); err != nil || !known {
			return err
		}
	}
	return b.deliver(ctx, chat.MessageEdited, s, m, how, self)
}

// recorded reports whether a message was, by this process or one before it.
func (b *Bot) recorded(ctx context.Context, s shape, m message) (bool, error) {
	if b.seen.has("any/" + m.ChannelID + "/" + m.ID) {
		return true, nil
	}
	if b.c.Messages == nil {
		return false, nil
	}
	p, err := b.placeOf(s)
	if err != nil {
		return false, err
	}
	_, err = b.c.Messages.Message(ctx, p.ID, chat.MessageOf(p.ID, m.ID))
	switch {
	case errors.Is(err, chat.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up edited message: %w", err)
	}
	return true, nil
}

// removed delivers deletions, of unknown messages too: the creation may yet
// come, and must find that it is over.
func (b *Bot) removed(ctx context.Context, channelID string, ids []string) error {
	s, err := b.shapeOf(ctx, channelID)
	if err != nil {
		return err
	}
	p, err := b.placeOf(s)
	if err != nil {
		return err
	}
	for _, id := range ids {
		key := "gone/" + channelID + "/" + id
		if b.seen.has(key) {
			continue
		}
		err := b.c.Sink.Deliver(ctx, chat.Event{Kind: chat.MessageDeleted, Place: p, Message: chat.Message{
			ID: chat.MessageOf(p.ID, id), Place: p.ID, NativeID: id, At: snowflakeTime(id), Deleted: true,
		}})
		if err != nil {
			return fmt.Errorf("deliver deletion: %w", err)
		}
		b.seen.add(key)
	}
	return nil
}

func eventKey(kind chat.EventKind, m message) string {
	key := string(kind) + "/" + m.ChannelID + "/" + m.ID
	if kind == chat.MessageEdited {
		key += "/" + m.revision()
	}
	return key
}

// deliver hands one message over, once.
func (b *Bot) deliver(ctx context.Context, kind chat.EventKind, s shape, m message, how treatment, self user) error {
	key := eventKey(kind, m)
	if b.seen.has(key) {
		return nil
	}
	e, err := b.event(ctx, kind, s, m, self)
	if err != nil {
		return err
	}
	e.Silent = how != answer
	if how == answer && kind == chat.MessagePosted && isStop(e) {
		if err := b.c.Sink.Stop(ctx, e.Place.Conversation()); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
		b.seen.add(key)
		return nil
	}
	if err := b.c.Sink.Deliver(ctx, e); err != nil {
		return fmt.Errorf("deliver message: %w", err)
	}
	b.seen.add(key)
	b.seen.add("any/" + m.ChannelID + "/" + m.ID)
	return nil
}

// isStop: an owner's one word ends the running turn of its conversation.
func isStop(e chat.Event) bool {
	return e.Message.Author.Role == chat.Owner && len(e.Files) == 0 && strings.EqualFold(strings.TrimSpace(e.Message.Text), "stop")
}

func (b *Bot) event(ctx context.Context, kind chat.EventKind, s shape, m message, self user) (chat.Event, error) {
	if m.Author == nil || !isSnowflake(m.ID) {
		return chat.Event{}, fmt.Errorf("a message without its author: %w", errSkip)
	}
	p, err := b.placeOf(s)
	if err != nil {
		return chat.Event{}, err
	}
	author, err := b.actor(ctx, p.Workspace, *m.Author, m.Member)
	if err != nil {
		return chat.Event{}, err
	}
	author.Bot = author.Bot || m.WebhookID != ""
	if author.Bot {
		author.Role = chat.Guest // a webhook borrows any name
	}
	e := chat.Event{Kind: kind, Place: p, Files: b.files(m), Message: chat.Message{
		ID: chat.MessageOf(p.ID, m.ID), Place: p.ID, NativeID: m.ID, Revision: m.revision(),
		Author: author, Text: words(m, self, b.roles.get(s.guild), len(m.Attachments) > 0), At: m.Timestamp,
	}}
	if id := m.repliedTo(); isSnowflake(id) {
		e.Message.ReplyTo = chat.MessageOf(p.ID, id)
	}
	return e, nil
}
