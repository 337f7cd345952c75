package discord

import (
	"slices"
	"sync"
)

// treatment is what becomes of a message.
type treatment int

const (
	pass   treatment = iota // not recorded
	silent                  // recorded with its files, starts no turn
	answer
)

// treat decides by the event alone, never by words.
func (b *Bot) treat(s shape, m message, self string) treatment {
	if m.Author == nil || m.Author.ID == self || m.Type != typeDefault && m.Type != typeReply {
		return pass
	}
	b.noticeHidden(s, m, self)
	addressed := s.kind == channelDirect || s.thread() && s.joined
	// A person who types the agent's name is offered its role as well.
	if own := b.roles.get(s.guild); own != "" {
		addressed = addressed || slices.Contains(m.MentionRoles, own)
	}
	for _, u := range m.Mentions {
		addressed = addressed || u.ID == self
	}
	if r := m.ReferencedMessage; r != nil && m.repliedTo() != "" && r.Author != nil && r.Author.ID == self {
		addressed = true
	}
	bot := m.Author.Bot || m.WebhookID != ""
	allowed := !bot
	if !bot || addressed {
		allowed = b.streaks.allow(m, bot, b.c.AnswerBots)
	}
	if addressed && allowed {
		return answer
	}
	if m.files() {
		return silent
	}
	return pass
}

// noticeHidden: an ordinary message never is empty in every way, unless the
// platform empties it for the want of an intent.
func (b *Bot) noticeHidden(s shape, m message, self string) {
	if s.guild == "" || m.Type != typeDefault || m.Content != "" || m.files() || m.forward() ||
		len(m.Embeds)+len(m.Components)+len(m.Stickers)+len(m.Poll) > 0 {
		return
	}
	for _, u := range m.Mentions {
		if u.ID == self {
			return
		}
	}
	b.hidden.Do(func() {
		b.log.Error("discord sends messages without their text and files: " + fixContent)
	})
}

const fixContent = "switch on Message Content Intent on the developer portal's Bot page and start again"

// streaks keep bots from answering each other for ever.
type streaks struct {
	mu sync.Mutex
	// m are, by channel, the messages of bots since a person spoke there, the
	// first few of them: one that comes again, at any time, counts once.
	m map[string][]string
}

const longestStreak = 3

// allow says whether a message may be answered as far as loops go: a person's
// always, a bot's when configured and not after three bots in a row.
func (k *streaks) allow(m message, bot, answerBots bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = map[string][]string{}
	}
	if !bot {
		// What bots said after it counts on: it may come late, or again.
		if k.m[m.ChannelID] = slices.DeleteFunc(k.m[m.ChannelID], func(id string) bool { return !newer(id, m.ID) }); len(k.m[m.ChannelID]) == 0 {
			delete(k.m, m.ChannelID)
		}
		return true
	}
	l := k.m[m.ChannelID]
	if !slices.Contains(l, m.ID) && len(l) < longestStreak {
		l = append(l, m.ID)
		k.m[m.ChannelID] = l
	}
	return answerBots && slices.Contains(l, m.ID)
}
