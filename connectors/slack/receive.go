package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sightline/connectors/chat"
)

// take looks at one event as it came and puts it in its lane. ack is told
// nil when the event may be acknowledged.
func (b *Bot) take(ctx context.Context, raw []byte, ack func(error)) {
	done := func(err error) {
		if errors.Is(err, chat.ErrUnfit) {
			b.log.Error("an event is lost: the store refuses it again and again", "error", err)
			err = nil // it must not come for ever
		}
		ack(err)
	}
	var d delivery
	if err := json.Unmarshal(raw, &d); err != nil {
		b.unreadable("", "the outer event is not JSON of its kind", err)
		done(nil)
		return
	}
	if d.Type != "event_callback" {
		if d.Type == "app_rate_limited" {
			b.log.Warn("slack holds back events: too many in one hour")
			b.heldBack(ctx)
		}
		done(nil)
		return
	}
	var kind struct {
		Type string          `json:"type"`
		User json.RawMessage `json:"user"` // an ID, in those that are asked for it
	}
	_ = json.Unmarshal(d.Event, &kind)
	if !slices.Contains(read, kind.Type) {
		// Of these no more is read: what is a message's channel or author by ID
		// is an object in some.
		if slices.Contains(changesAudience, kind.Type) {
			b.facts.drop(channelOf(d.Event)) // without one: everything
			if b.invited(ctx, kind.Type, kind.User) {
				b.again(ctx, channelOf(d.Event))
			}
		} else if !slices.Contains(harmless, kind.Type) {
			b.unreadable(channelOf(d.Event), "the event is of an unknown kind: "+kind.Type, nil)
		}
		done(nil)
		return
	}
	var m message
	if err := json.Unmarshal(d.Event, &m); err != nil {
		// One field of an unknown shape must not make Slack send it for ever;
		// the channel, if that much can be read, is known no longer.
		b.unreadable(channelOf(d.Event), "the event has an unknown shape", err)
		done(nil)
		return
	}
	m.Channel = b.facts.canonical(m.Channel)
	switch m.Type {
	case "app_mention":
		b.posted(ctx, m, kindMention, done)
	case "message":
		b.takeMessage(ctx, m, done)
	case "file_deleted":
		b.queue.push(ctx, &job{channel: "", m: &m, run: b.fileDeleted}, done)
	case "channel_id_changed":
		b.renamed(ctx, m, done)
	}
}

// read are the events that say something themselves.
var read = []string{"app_mention", "message", "file_deleted", "channel_id_changed"}

// renamed: a channel has a new ID. It counts at once, since the next event may
// carry it, and is acknowledged when it is kept.
func (b *Bot) renamed(ctx context.Context, m message, done func(error)) {
	if m.OldChannelID == "" || m.NewChannelID == "" {
		b.unreadable("", "a new channel ID without both IDs", nil)
		done(nil)
		return
	}
	first := b.facts.alias(m.OldChannelID, m.NewChannelID)
	b.facts.drop(first)
	b.queue.push(ctx, &job{channel: first, m: &m, run: func(ctx context.Context, _ *job) error {
		return b.saveAlias(ctx, first, m.NewChannelID)
	}}, done)
}

func (b *Bot) saveAlias(ctx context.Context, first, id string) error {
	if b.c.Aliases == nil || first == id {
		return nil
	}
	if err := b.c.Aliases.SetAlias(ctx, b.c.Agent, Alias{First: first, ID: id}); err != nil {
		return fmt.Errorf("slack: keep the new ID of a channel: %w", err)
	}
	return nil
}

// changesAudience are the events after which what is known of a channel is
// asked again.
var changesAudience = []string{
	"member_joined_channel", "member_left_channel", "channel_joined", "channel_left", "group_joined", "group_left",
	"channel_archive", "channel_unarchive", "group_archive", "group_unarchive", "channel_deleted", "group_deleted",
	"channel_shared", "channel_unshared", "channel_created", "channel_rename", "group_rename", "channel_history_changed",
	"group_history_changed", "im_history_changed", "im_created", "im_open", "im_close", "channel_converted_to_private",
	"team_access_granted", "team_access_revoked", "user_change",
}

var harmless = []string{
	"app_home_opened", "assistant_thread_started", "assistant_thread_context_changed", "file_shared", "file_created",
	"file_change", "file_public", "file_unshared", "reaction_added", "reaction_removed", "pin_added", "pin_removed",
	"team_join", "tokens_revoked", "app_uninstalled", "message_metadata_posted",
}

// invited: the event says that the agent itself is in a channel now.
func (b *Bot) invited(ctx context.Context, kind string, user json.RawMessage) bool {
	var id string
	if kind != "member_joined_channel" || json.Unmarshal(user, &id) != nil {
		return false
	}
	self, err := b.introduced(ctx) // known since Run began
	return err == nil && self.User == id
}

// channelOf reads the channel, which some events carry as an ID and others as
// an object.
func channelOf(raw []byte) string {
	var c struct {
		Channel json.RawMessage `json:"channel"`
	}
	_ = json.Unmarshal(raw, &c)
	var id string
	if json.Unmarshal(c.Channel, &id) != nil {
		var o struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(c.Channel, &o)
		id = o.ID
	}
	return id
}

// unreadable: what it said may have been anything, a deletion or a removal
// too.
func (b *Bot) unreadable(channel, what string, err error) {
	b.log.Warn("an event was acknowledged without being understood", "channel", channel, "what", what, "error", err)
	b.facts.drop(channel)
	b.seen.missed()
}

func (b *Bot) takeMessage(ctx context.Context, m message, done func(error)) {
	switch m.Subtype {
	case "", "file_share", "thread_broadcast", "me_message", "bot_message", "file_comment", "file_mention":
		// Slack has sent messages whose files were beside an inner message.
		if m.Message != nil && !m.hasFiles() {
			m.Files, m.Attachments = m.Message.Files, m.Message.Attachments
		}
		b.posted(ctx, m, kindMessage, done)
	case "message_changed":
		b.queue.push(ctx, &job{channel: m.Channel, m: &m, run: b.changed}, done)
	case "message_deleted":
		b.queue.push(ctx, &job{channel: m.Channel, m: &m, run: b.deleted}, done)
	case "channel_join", "channel_leave", "group_join", "group_leave", "channel_archive", "channel_unarchive",
		"channel_convert_to_private", "channel_convert_to_public", "group_archive", "group_unarchive":
		b.facts.drop(m.Channel)
		done(nil)
	default:
		done(nil) // topics, names, pins, reminders: nobody's words to the agent
	}
}

// posted queues a message. Its twin, if it comes in time, joins it. What can't
// be taken is left to Slack, which sends it three times more, and is read from
// history once it can, however long that takes.
func (b *Bot) posted(ctx context.Context, m message, kind int, done func(error)) {
	if m.Channel == "" || m.TS == "" {
		b.unreadable(m.Channel, "a message without channel or ts", nil)
		done(nil)
		return
	}
	key, ts := m.Channel, m.TS
	if m.isReply() {
		key += "/" + m.ThreadTS
	}
	b.queue.push(ctx, &job{key: messageKey(m.Channel, m.TS), channel: m.Channel, m: &m, kinds: kind, run: b.message}, func(err error) {
		if err != nil && passed(err) && ctx.Err() == nil {
			b.gaps.owe(key, ts)
			b.queue.wg.Go(func() { b.fillRest(ctx, false) })
		}
		done(err)
	})
}

// changed delivers an edit of a message that the agent knows of.
func (b *Bot) changed(ctx context.Context, j *job) error {
	m := j.m.Message
	if m == nil || m.TS == "" {
		b.unreadable(j.channel, "an edit without its message", nil)
		return nil
	}
	if err := b.named(ctx, j); err != nil {
		return err
	}
	m.Channel = j.channel
	if m.Subtype == "tombstone" { // what is left of a message with replies
		j.m.DeletedTS = m.TS
		return b.deleted(ctx, j)
	}
	self, err := b.me(ctx)
	if err != nil {
		return err
	}
	if self.wrote(m) {
		return nil
	}
	info, err := b.facts.get(ctx, j.channel, kindAge)
	if err != nil {
		return err
	}
	old, known := b.seen.get(j.channel, m.TS)
	if known && old.revision == m.revision() && old.text == m.Text {
		return nil // a preview of a link was added
	}
	if known && editedLater(old.revision, m.revision()) {
		return nil // a late copy of an earlier edit
	}
	places, err := b.placesOf(ctx, self, info, m, old)
	if was := j.m.Previous; err == nil && len(places) == 0 && was != nil {
		// What made it the agent's business may be what the edit took away.
		was.Channel, was.TS, was.ThreadTS = m.Channel, m.TS, m.ThreadTS
		places, err = b.placesOf(ctx, self, info, was, old)
	}
	if err != nil {
		return err
	}
	for _, p := range places {
		if err := b.deliver(ctx, self, p, info, m, chat.MessageEdited, false); err != nil {
			return err
		}
	}
	return nil
}

// placesOf are those that a message was delivered in, or else the one where
// it belongs, if that is any of the agent's.
func (b *Bot) placesOf(ctx context.Context, self identity, i channelInfo, m *message, old record) ([]chat.Place, error) {
	var out []chat.Place
	for _, e := range old.events {
		out = append(out, e.Place)
	}
	if len(out) > 0 {
		return out, nil
	}
	out, err := b.recorded(ctx, []chat.Place{b.home(self, i, m, true), b.home(self, i, m, false)}, m.TS)
	if err != nil || len(out) > 0 {
		return out, err
	}
	if ok, err := b.belongs(ctx, self, i, m); err != nil || !ok {
		return nil, err
	}
	return []chat.Place{b.home(self, i, m, self.called(m))}, nil
}

// recorded are those of the places in which an earlier process delivered a
// message. What made it the agent's business an edit may have taken away since.
func (b *Bot) recorded(ctx context.Context, places []chat.Place, ts string) (out []chat.Place, err error) {
	if b.c.Messages == nil {
		return nil, nil
	}
	for n, p := range places {
		if n > 0 && p.ID == places[0].ID {
			continue
		}
		switch _, err := b.c.Messages.Message(ctx, p.ID, chat.MessageOf(p.ID, ts)); {
		case errors.Is(err, chat.ErrNotFound):
		case err != nil:
			return nil, fmt.Errorf("slack: look up a changed message: %w", err)
		default:
			out = append(out, p)
		}
	}
	return out, nil
}

// belongs: a message that is not remembered is the agent's business if it was
// said to the agent or where the agent is, or brought files.
func (b *Bot) belongs(ctx context.Context, self identity, i channelInfo, m *message) (bool, error) {
	if i.IsIM || self.called(m) || m.hasFiles() {
		return true, nil
	}
	if m.ThreadTS == "" {
		return false, nil
	}
	return b.takesPart(ctx, self, m.Channel, m.ThreadTS, m.TS)
}

// deleted delivers a deletion, also of a message that has not come yet: it
// then stays deleted. The ts that counts is the deleted one; the event's own
// is that of the deletion.
func (b *Bot) deleted(ctx context.Context, j *job) error {
	ts, prev := j.m.DeletedTS, j.m.Previous
	if ts == "" && prev != nil {
		ts = prev.TS
	}
	if ts == "" {
		b.unreadable(j.channel, "a deletion that names no message", nil)
		return nil
	}
	if err := b.named(ctx, j); err != nil {
		return err
	}
	self, err := b.me(ctx)
	if err != nil {
		return err
	}
	old, _ := b.seen.get(j.channel, ts)
	if old.deleted {
		return nil
	}
	gone := &message{Channel: j.channel, TS: ts}
	if prev != nil {
		gone.User, gone.BotID, gone.Text, gone.ThreadTS = prev.User, prev.BotID, prev.Text, prev.ThreadTS
		gone.Files, gone.Attachments = prev.Files, prev.Attachments
	}
	if self.wrote(gone) {
		return nil
	}
	info, err := b.facts.get(ctx, j.channel, kindAge)
	if code := codeOf(err); code == "channel_not_found" {
		info, err = channelInfo{}, nil // the agent is out; the deletion still counts
	}
	if err != nil {
		return err
	}
	// Of a message that nothing is known of both places learn that it is over.
	places := []chat.Place{b.home(self, info, gone, true), b.home(self, info, gone, false)}
	if prev != nil || len(old.events) > 0 {
		if places, err = b.placesOf(ctx, self, info, gone, old); err != nil {
			return err
		}
	} else if places[0].ID == places[1].ID {
		places = places[:1]
	}
	for _, p := range places {
		if err := b.deliver(ctx, self, p, info, gone, chat.MessageDeleted, false); err != nil {
			return err
		}
	}
	// Whether it was anybody's business or not: it will not be read any more.
	old, _ = b.seen.get(j.channel, ts)
	old.channel, old.ts, old.deleted, old.gone = j.channel, ts, true, true
	b.seen.keep(old)
	return nil
}

// fileDeleted delivers the messages that the file was in, with its state.
func (b *Bot) fileDeleted(ctx context.Context, j *job) error {
	for _, r := range b.seen.withFile(j.m.FileID) {
		for _, e := range r.events {
			e.Kind = chat.MessageEdited
			e.Files = slices.Clone(e.Files)
			for n := range e.Files {
				if e.Files[n].NativeID == j.m.FileID {
					e.Files[n].State = chat.FileDeleted
				}
			}
			if err := b.c.Sink.Deliver(ctx, e); err != nil {
				return err
			}
			r = r.with(e)
		}
		b.seen.keep(r)
	}
	if b.c.WithFile == nil {
		return nil
	}
	list, err := b.c.WithFile(ctx, j.m.FileID)
	if err != nil {
		return fmt.Errorf("slack: look for the messages of a deleted file: %w", err)
	}
	for _, r := range list {
		if err := b.fileLost(ctx, j.m.FileID, r); err != nil {
			return err
		}
	}
	return nil
}

// fileLost delivers, without a deleted file, a message that is not remembered.
func (b *Bot) fileLost(ctx context.Context, id string, r Recorded) error {
	self, err := b.me(ctx)
	if err != nil {
		return err
	}
	channel := b.facts.canonical(r.Channel)
	info, err := b.facts.get(ctx, channel, kindAge)
	if err != nil {
		return b.unreachable(err)
	}
	p := b.place(self, channel, r.Thread, info)
	old, _ := b.seen.get(channel, r.TS)
	if was, ok := old.in(p.ID); ok && slices.ContainsFunc(was.Files, func(f chat.File) bool { return f.NativeID == id && f.State == chat.FileDeleted }) {
		return nil // it was remembered, and is told
	}
	m, err := b.read(ctx, channel, r.TS, r.Thread)
	if err != nil {
		return b.unreachable(err)
	}
	if m == nil {
		return b.confirm(ctx, self, info, channel, r)
	}
	purge := func(list []file) { // history may show it as it was for a moment
		for n := range list {
			if list[n].ID == id {
				list[n].Mode = "tombstone"
			}
		}
	}
	purge(m.Files)
	for _, a := range m.Attachments {
		purge(a.Files)
	}
	return b.deliver(ctx, self, p, info, m, chat.MessageEdited, false)
}
