package fakediscord

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// File is what somebody uploads.
type File struct {
	Name, Type string
	Data       []byte
}

// Draft is what somebody says.
type Draft struct {
	Text    string
	Files   []File
	ReplyTo string // a message of the same channel
	Forward *Message
	Webhook bool
	Type    int
	Quiet   bool // no gateway event: it is found in history alone
	Sticker string
	Poll    string // a question with two answers
}

var mention = regexp.MustCompile(`<@!?(\d+)>`)

// Post says something as a user and answers the message.
func (s *Server) Post(channelID, user string, d Draft) Message {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channelID]
	if c == nil {
		s.t.Fatalf("fakediscord: no channel %s", channelID)
	}
	m := s.newMessage(c, s.users[user], d.Text)
	m.Type = d.Type
	for _, f := range d.Files {
		m.Attachments = append(m.Attachments, s.upload(c.ID, f))
	}
	if d.ReplyTo != "" {
		m.Type = 19
		m.MessageReference = &reference{MessageID: d.ReplyTo, ChannelID: c.ID, GuildID: c.GuildID}
	}
	if f := d.Forward; f != nil {
		m.MessageReference = &reference{Type: 1, MessageID: f.ID, ChannelID: f.ChannelID}
		snap := snapshotMessage{Content: f.Content, Timestamp: f.Timestamp, Embeds: []any{}, Mentions: []User{}, MentionRoles: []string{},
			Components: []any{}, Attachments: []Attachment{}, Stickers: f.Stickers}
		for _, a := range f.Attachments {
			// A forward carries copies with ids of their own.
			snap.Attachments = append(snap.Attachments, s.upload(c.ID, File{a.Filename, a.ContentType, s.files[a.path]}))
		}
		m.MessageSnapshots = []snapshot{{snap}}
	}
	if d.Sticker != "" {
		m.Stickers = []sticker{{s.id(), d.Sticker, 1}}
	}
	if d.Poll != "" {
		m.Poll = &poll{Question: pollMedia{d.Poll}, Answers: []pollAnswer{{1, pollMedia{"yes"}}, {2, pollMedia{"no"}}}, LayoutType: 1}
	}
	if d.Webhook {
		m.WebhookID, m.Author.Bot = s.id(), true
	}
	s.add(c, m, !d.Quiet)
	return *m
}

func (s *Server) newMessage(c *channel, author User, text string) *Message {
	m := &Message{ID: s.id(), ChannelID: c.ID, Author: author, Content: text, Timestamp: s.stamp(),
		Mentions: s.mentioned(text), MentionRoles: s.mentionedRoles(c, text), Attachments: []Attachment{}, Embeds: []any{}, Components: []any{}}
	return m
}

var roleMention = regexp.MustCompile(`<@&(\d+)>`)

func (s *Server) mentionedRoles(c *channel, text string) []string {
	out := []string{}
	for _, f := range roleMention.FindAllStringSubmatch(text, -1) {
		if g := s.guilds[c.GuildID]; g != nil && slices.ContainsFunc(g.Roles, func(r *Role) bool { return r.ID == f[1] }) {
			out = append(out, f[1])
		}
	}
	return out
}

func (s *Server) mentioned(text string) []User {
	out := []User{}
	for _, f := range mention.FindAllStringSubmatch(text, -1) {
		if u, ok := s.users[f[1]]; ok {
			out = append(out, u)
		}
	}
	return out
}

func (s *Server) add(c *channel, m *Message, tell bool) {
	if c.archived() {
		c.ThreadMetadata.Archived = false
		opened := s.shown(c)
		opened.Member = nil // an update has no member
		s.dispatch("THREAD_UPDATE", opened, intentGuilds, c)
	}
	s.messages[c.ID] = append(s.messages[c.ID], m)
	c.LastMessageID = &m.ID
	if tell {
		s.dispatch("MESSAGE_CREATE", s.event(m), intentOf(c), c)
	}
}

func (s *Server) upload(channelID string, f File) Attachment {
	a := Attachment{ID: s.id(), Filename: strings.ReplaceAll(f.Name, " ", "_"), ContentType: f.Type, Size: len(f.Data)}
	a.path = fmt.Sprintf("/attachments/%s/%s/%s", channelID, a.ID, a.Filename)
	s.files[a.path], s.types[a.path] = f.Data, f.Type
	return a
}

// event is a message as the gateway tells it.
func (s *Server) event(m *Message) *Message {
	v := s.view(m)
	v.GuildID = s.channels[m.ChannelID].GuildID
	v.Nonce = m.nonce
	return v
}

// view is a message as the bot may read it, with fresh URLs.
func (s *Server) view(m *Message) *Message {
	v := *m
	v.Attachments = s.signed(m.Attachments)
	v.MessageSnapshots = slices.Clone(m.MessageSnapshots)
	for i := range v.MessageSnapshots {
		v.MessageSnapshots[i].Message.Attachments = s.signed(m.MessageSnapshots[i].Message.Attachments)
	}
	mine := m.Author.ID == s.Bot.ID || s.channels[m.ChannelID].GuildID == "" ||
		slices.ContainsFunc(m.Mentions, func(u User) bool { return u.ID == s.Bot.ID })
	if !mine && (s.HideContent || s.PortalIntents&intentMessageContent == 0) {
		v.Content, v.Attachments, v.Embeds, v.Components = "", []Attachment{}, []any{}, []any{}
		v.MessageSnapshots = nil
		v.Poll = nil
	}
	if r := m.MessageReference; r != nil && r.Type == 0 {
		if of := s.find(r.ChannelID, r.MessageID); of != nil {
			v.ReferencedMessage = s.view(of)
			v.ReferencedMessage.ReferencedMessage = nil
		}
	}
	return &v
}

func (s *Server) signed(list []Attachment) []Attachment {
	out := slices.Clone(list)
	for i := range out {
		out[i].URL = s.sign(out[i].path)
		out[i].ProxyURL = out[i].URL
	}
	return out
}

func (s *Server) find(channelID, id string) *Message {
	for _, m := range s.messages[channelID] {
		if m.ID == id && !m.deleted {
			return m
		}
	}
	return nil
}

// Edit changes a message's text and keeps only the first n of its files
// (-1: all).
func (s *Server) Edit(m Message, text string, keep int, more ...File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.find(m.ChannelID, m.ID)
	of.Content, of.Mentions = text, s.mentioned(text)
	if keep >= 0 {
		of.Attachments = slices.Clone(of.Attachments[:keep])
	}
	for _, f := range more {
		of.Attachments = append(of.Attachments, s.upload(m.ChannelID, f))
	}
	at := s.stamp()
	of.EditedTimestamp = &at
	c := s.channels[m.ChannelID]
	if s.PartialUpdates {
		s.dispatch("MESSAGE_UPDATE", map[string]any{"id": m.ID, "channel_id": c.ID, "guild_id": c.GuildID, "content": text, "edited_timestamp": at}, intentOf(c), c)
		return
	}
	s.dispatch("MESSAGE_UPDATE", s.event(of), intentOf(c), c)
}

// Unfurl sends the update that a link preview causes: nothing was edited.
func (s *Server) Unfurl(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[m.ChannelID]
	s.dispatch("MESSAGE_UPDATE", map[string]any{"id": m.ID, "channel_id": m.ChannelID, "guild_id": c.GuildID, "embeds": []any{}}, intentOf(c), c)
}

// Delete removes messages of one channel, more than one in bulk. Their files
// stay downloadable as long as a URL lives.
func (s *Server) Delete(list ...Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[list[0].ChannelID]
	var ids []string
	for _, m := range list {
		if of := s.find(c.ID, m.ID); of != nil {
			of.deleted = true
		}
		ids = append(ids, m.ID)
	}
	if len(ids) == 1 {
		s.dispatch("MESSAGE_DELETE", map[string]any{"id": ids[0], "channel_id": c.ID, "guild_id": c.GuildID}, intentOf(c), c)
		return
	}
	s.dispatch("MESSAGE_DELETE_BULK", map[string]any{"ids": ids, "channel_id": c.ID, "guild_id": c.GuildID}, intentOf(c), c)
}

// Repeat sends a message's creation event once more.
func (s *Server) Repeat(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[m.ChannelID]
	for _, of := range s.messages[m.ChannelID] {
		if of.ID == m.ID {
			s.dispatch("MESSAGE_CREATE", s.event(of), intentOf(c), c)
		}
	}
}

// Said are the bot's own posts in a channel, oldest first.
func (s *Server) Said(channelID string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.messages[channelID] {
		if m.Author.ID == s.Bot.ID && !m.deleted {
			out = append(out, *m)
		}
	}
	return out
}

// Versions are the texts that the bot's posts of a channel ever had, in order,
// those of deleted posts too.
func (s *Server) Versions(channelID string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages[channelID] {
		if m.Author.ID == s.Bot.ID {
			out = append(append(out, m.versions...), m.Content)
		}
	}
	return out
}

// Data is what was uploaded as an attachment.
func (s *Server) Data(a Attachment) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.files[a.path])
}

// Later moves the platform's clock: URLs and nonces expire.
func (s *Server) Later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += d
}

// Served is how many bytes of files went out.
func (s *Server) Served() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// Violations are requests that should not have been made.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Requests are all API requests so far, "METHOD path".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Typing counts typing indicators in a channel.
func (s *Server) Typing(channelID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.typing[channelID]
}
