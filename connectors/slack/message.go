package slack

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sightline/connectors/chat"
)

var errNotYet = errors.New("slack: the message is not in the history yet")

// message decides what a posted message is to the agent, and delivers it.
func (b *Bot) message(ctx context.Context, j *job) error {
	self, err := b.me(ctx)
	if err != nil {
		return err
	}
	if err := b.named(ctx, j); err != nil {
		return err
	}
	m, mention, _ := j.snapshot()
	if self.wrote(&m) {
		b.threads.join(m.Channel, m.thread())
		b.seen.mark(m.Channel, m.TS)
		return nil
	}
	info, err := b.facts.get(ctx, m.Channel, kindAge)
	if err != nil {
		return err
	}
	mention = mention || self.called(&m)
	if mention && !info.IsIM || m.Subtype == "file_share" {
		if err := b.complete(ctx, j, info); err != nil {
			return err
		}
		m, _, _ = j.snapshot()
	}
	if err := b.addressed(ctx, self, info, &m, mention); err != nil {
		return err
	}
	b.seen.mark(m.Channel, m.TS)
	return nil
}

// complete makes sure of a message's files. A mention comes as two events,
// either of which may lack them; a lone one without files is read again, and
// a message that is not there yet is waited for, since "missing" is not "no
// files".
func (b *Bot) complete(ctx context.Context, j *job, info channelInfo) error {
	m, _, whole := j.snapshot()
	if m.hasFiles() || whole {
		return nil
	}
	twins := false
	if !info.IsIM {
		t := time.NewTimer(b.twinWait)
		defer t.Stop()
		select {
		case <-j.twin:
			twins = true
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if m, _, whole = j.snapshot(); m.hasFiles() || whole || twins && m.Subtype != "file_share" {
		return nil
	}
	found, err := b.awaited(ctx, &m)
	switch {
	case codeOf(err) == "missing_scope":
		b.log.Warn("a message is taken as its event has it, because it can't be read again", "channel", m.Channel, "error", err)
		return nil
	case err != nil:
		return err
	}
	j.mu.Lock()
	j.m.merge(found)
	j.mu.Unlock()
	return nil
}

func (b *Bot) awaited(ctx context.Context, m *message) (*message, error) {
	for _, wait := range b.rereads {
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
		found, err := b.read(ctx, m.Channel, m.TS, m.ThreadTS)
		if err != nil || found != nil {
			return found, err
		}
		if old, ok := b.seen.get(m.Channel, m.TS); ok && old.gone {
			return m, nil
		}
	}
	return nil, errNotYet
}

// read reads one message as it is now; nil if it is not there. Replies are
// not in a channel's history, and the thread's first message comes along with
// every reply, so the ts decides which one is meant.
func (b *Bot) read(ctx context.Context, channel, ts, thread string) (*message, error) {
	in := url.Values{"channel": {b.facts.present(channel)}, "latest": {ts}, "oldest": {ts}, "inclusive": {"true"}}
	method := "conversations.history"
	if thread != "" && thread != ts {
		method = "conversations.replies"
		in.Set("ts", thread)
		in.Set("limit", "5")
	} else {
		in.Set("limit", "1")
	}
	var a struct {
		Messages []message `json:"messages"`
	}
	_, err := b.api.call(ctx, method, in, &a)
	switch codeOf(err) {
	case "thread_not_found", "message_not_found":
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for n := range a.Messages {
		if m := &a.Messages[n]; m.TS == ts && m.Subtype != "tombstone" {
			m.Channel = channel
			return m, nil
		}
	}
	return nil, nil
}

// home is the place of a message: its thread, or what it was posted in. Words
// to the agent at the top of a channel are answered in the thread below, and
// belong to it; in a direct message they belong to the direct message.
func (b *Bot) home(self identity, i channelInfo, m *message, called bool) chat.Place {
	switch {
	case m.isReply():
		return b.place(self, m.Channel, m.ThreadTS, i)
	case called && !i.IsIM:
		return b.place(self, m.Channel, m.thread(), i)
	}
	return b.place(self, m.Channel, "", i)
}

// addressed sorts out: words to the agent start a turn, files beside them are
// recorded, and the rest is not the agent's business.
func (b *Bot) addressed(ctx context.Context, self identity, i channelInfo, m *message, mention bool) error {
	p := b.home(self, i, m, mention)
	bot := m.isBot()
	if !bot {
		b.threads.person(p.Channel, p.Thread, m.TS)
	}
	to := mention || i.IsIM
	if !to && m.isReply() {
		to = m.ParentUser != "" && m.ParentUser == self.User
		if !to {
			var err error
			if to, err = b.takesPart(ctx, self, m.Channel, m.ThreadTS, m.TS); err != nil {
				return err
			}
		}
	}
	if !to {
		return b.beside(ctx, self, p, i, m)
	}
	late := b.threads.get(p.Channel, p.Thread).last > m.TS
	b.threads.update(p.Channel, p.Thread, func(s *threadState) {
		if p.Thread != "" {
			s.known, s.part = true, true
		}
		s.last = max(s.last, m.TS)
	})
	if m.isReply() && p.Thread != "" {
		if err := b.takeInventory(ctx, self, p, i, m.TS); err != nil {
			return err
		}
	}
	if bot && !(b.c.AnswerBots && b.threads.answersBot(p.Channel, p.Thread, m.TS) &&
		(m.isReply() || b.threads.answersBot(p.Channel, "", m.TS))) {
		return b.beside(ctx, self, p, i, m)
	}
	if b.isStop(self, m) {
		if old, _ := b.seen.get(m.Channel, m.TS); late || old.stopped {
			return nil // it was meant for what ran then
		}
		if err := b.c.Sink.Stop(ctx, p.Conversation()); err != nil {
			return err
		}
		b.seen.keep(record{channel: m.Channel, ts: m.TS, revision: m.revision(), text: m.Text, stopped: true})
		return nil
	}
	return b.deliver(ctx, self, p, i, m, chat.MessagePosted, false)
}

// beside records, in silence, a message that was not said to the agent, for
// its files. One that started a turn before is no news.
func (b *Bot) beside(ctx context.Context, self identity, p chat.Place, i channelInfo, m *message) error {
	if old, _ := b.seen.get(m.Channel, m.TS); !m.hasFiles() || len(old.asked) > 0 {
		return nil
	}
	return b.deliver(ctx, self, p, i, m, chat.MessagePosted, true)
}

func (m *message) isBot() bool { return m.BotID != "" || m.Subtype == "bot_message" || m.User == "" }

// isStop: an owner's one word ends the running turn of its conversation.
func (b *Bot) isStop(self identity, m *message) bool {
	return !m.hasFiles() && strings.EqualFold(self.heard(m), "stop") &&
		b.role(self, m.team(self), m.User, m.isBot()) == chat.Owner
}

// team is the author's. Messages of one's own team often name none.
func (m *message) team(self identity) string {
	for _, t := range []string{m.UserTeam, m.SourceTeam, m.Team} {
		if t != "" {
			return t
		}
	}
	return self.Team
}

// deliver hands one event over, once for each revision of a message.
func (b *Bot) deliver(ctx context.Context, self identity, p chat.Place, i channelInfo, m *message, kind chat.EventKind, silent bool) error {
	old, known := b.seen.get(m.Channel, m.TS)
	if old.gone && kind != chat.MessageDeleted {
		return nil
	}
	// An edit may be heard of before the message that it edits: it is that one
	// that starts the turn, whatever it says itself.
	asked := slices.Contains(old.asked, p.ID)
	if was, ok := old.in(p.ID); ok && kind == chat.MessagePosted && (silent || asked) &&
		(old.revision == m.revision() || len(was.Files) >= len(m.Files)+len(m.forwarded())) {
		return nil
	}
	p.Epoch = b.facts.epoch(p.Channel)
	e := chat.Event{Kind: kind, Place: p, Silent: silent, Message: chat.Message{
		ID: chat.MessageOf(p.ID, m.TS), Place: p.ID, NativeID: m.TS, Revision: m.revision(), At: stamp(m.TS),
		Author: b.author(ctx, self, i, m), Deleted: kind == chat.MessageDeleted,
	}}
	if kind != chat.MessageDeleted {
		e.Message.Text = self.heard(m)
		var err error
		if e.Files, err = b.filesOf(ctx, m); err != nil {
			return fmt.Errorf("slack: describe files of message: %w", err)
		}
	}
	// Known before it is delivered: a turn that starts at once may ask for it,
	// and what is deleted is refused from here on.
	now := old.with(e)
	now.channel, now.ts, now.revision, now.text, now.live = m.Channel, m.TS, e.Message.Revision, m.Text, b.c.Now()
	if editedLater(old.revision, now.revision) {
		now.revision, now.text = old.revision, old.text
	}
	now.gone = old.gone || e.Message.Deleted
	if kind == chat.MessagePosted && !silent && !asked {
		now.asked = append(slices.Clone(old.asked), p.ID)
	}
	b.seen.keep(now)
	// What this one would seem to say was heard before it has to be noted first.
	err := b.gaps.keep(ctx)
	if err == nil {
		err = b.c.Sink.Deliver(ctx, e)
	}
	if err != nil {
		old.channel, old.ts = m.Channel, m.TS
		b.seen.restore(old, known)
		return fmt.Errorf("slack: deliver event: %w", err)
	}
	return nil
}

func (b *Bot) author(ctx context.Context, self identity, i channelInfo, m *message) chat.Actor {
	a := chat.Actor{Platform: Platform, Workspace: m.team(self), User: m.User, Bot: m.isBot()}
	if i.IsExtShared && m.UserTeam == "" && m.SourceTeam == "" && m.Team == "" {
		a.Workspace = "" // in a shared channel, whose team is not said is not known
	}
	if a.Bot {
		a.Name = m.Username
		if a.User == "" {
			a.User = m.BotID
		}
	} else {
		a.Name = b.names.get(ctx, b.api, m.User)
	}
	a.Role = b.role(self, a.Workspace, a.User, a.Bot)
	return a
}

// plain is a message's text without the call to the agent and without Slack's
// escapes.
func plain(self identity, text string) string {
	return strings.TrimSpace(html.UnescapeString(strings.ReplaceAll(text, "<@"+self.User+">", "")))
}

// heard is what a message says, with the words that it forwards. One that says
// nothing but the agent's name keeps it, since it still asks.
func (s identity) heard(m *message) string {
	text := plain(s, m.Text)
	for _, a := range m.Attachments {
		words := a.Text
		if words == "" && len(a.Files) == 0 {
			words = a.Fallback
		}
		if words = strings.TrimSpace(html.UnescapeString(words)); a.IsShare && words != "" {
			text = strings.TrimSpace(text + "\n\n(forwarded) " + words)
		}
	}
	if text == "" && !m.hasFiles() && s.called(m) {
		return "@" + s.Name
	}
	return text
}

// names are for display. One that can't be had now is left out.
type names struct {
	mu sync.Mutex
	m  map[string]string
}

func (n *names) get(ctx context.Context, api *client, user string) string {
	if user == "" {
		return ""
	}
	n.mu.Lock()
	name, ok := n.m[user]
	n.mu.Unlock()
	if ok {
		return name
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var a struct {
		User struct {
			Name     string `json:"name"`
			RealName string `json:"real_name"`
			Profile  struct {
				Display string `json:"display_name"`
			} `json:"profile"`
		} `json:"user"`
	}
	if _, err := api.once(ctx, api.token, "users.info", url.Values{"user": {user}}, &a); err != nil {
		return ""
	}
	for _, s := range []string{a.User.Profile.Display, a.User.RealName, a.User.Name} {
		if name == "" {
			name = s
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.m) > 10_000 {
		clear(n.m)
	}
	n.m[user] = name
	return name
}
