package discord

import "sync"

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
	n  map[string]int
	// counted are the messages already counted, so that a retry is none.
	counted map[string]string
}

const longestStreak = 3

// allow says whether a message may be answered as far as loops go: a person's
// always, a bot's when configured and not after three bots in a row.
func (k *streaks) allow(m message, bot, answerBots bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n == nil {
		k.n, k.counted = map[string]int{}, map[string]string{}
	}
	if !bot {
		delete(k.n, m.ChannelID)
		delete(k.counted, m.ChannelID)
		return true
	}
	if k.counted[m.ChannelID] != m.ID {
		k.counted[m.ChannelID] = m.ID
		k.n[m.ChannelID]++
	}
	return answerBots && k.n[m.ChannelID] <= longestStreak
}
