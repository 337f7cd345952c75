package discord

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"strings"

	"sightline/connectors/chat"
)

// actor is who the platform says it is.
func (b *Bot) actor(ctx context.Context, workspace string, u user, m *member) (chat.Actor, error) {
	owner, err := b.identity.owner(ctx, u.ID)
	if err != nil {
		if errors.Is(err, errNetwork) || hasStatus(err, http.StatusTooManyRequests) || ended(err) {
			return chat.Actor{}, err // it passes, and an owner is no guest until then
		}
		b.log.Warn("who owns the agent can't be established; nobody does", "error", err)
	}
	a := chat.Actor{Platform: Platform, Workspace: workspace, User: u.ID, Role: chat.Guest, Bot: u.Bot}
	if owner && !u.Bot {
		a.Role = chat.Owner
	}
	a.Name = u.Username
	if u.GlobalName != "" {
		a.Name = u.GlobalName
	}
	if m != nil && m.Nick != "" {
		a.Name = m.Nick
	}
	a.Name = oneLine(a.Name, 80)
	return a, nil
}

// files lists what a message carries, forwarded copies included. A forward's
// original is never followed: these are this message's own copies.
func (b *Bot) files(m message) (out []chat.File) {
	add := func(list []attachment, o chat.Origin) {
		for _, a := range list {
			f := chat.File{NativeID: a.ID, Name: fileName(a), DeclaredType: a.ContentType, Size: a.Size, Origin: o, State: chat.FileAvailable}
			if f.Oversize(b.c.MaxBytes, b.c.MaxDocument) {
				f.State = chat.FileOversize
			}
			out = append(out, f)
		}
	}
	add(m.Attachments, chat.OriginDirect)
	for _, s := range m.MessageSnapshots {
		add(s.Message.Attachments, chat.OriginForward)
	}
	return out
}

// fileName prefers the title, which keeps what the file name drops: anything
// but ASCII. The title has no extension.
func fileName(a attachment) string {
	if a.Title == "" {
		return a.Filename
	}
	ext := path.Ext(a.Filename)
	if strings.HasSuffix(strings.ToLower(a.Title), strings.ToLower(ext)) {
		return a.Title
	}
	return a.Title + ext
}

// words are a message's text without the mention that only addresses us. A
// message that says nothing else keeps a name, since it still asks.
func words(m message, self user, role string, files bool) string {
	text := m.Content
	for _, at := range []string{"<@" + self.ID + ">", "<@!" + self.ID + ">", "<@&" + role + ">"} {
		text = strings.TrimPrefix(strings.TrimSpace(text), at)
	}
	text = strings.TrimSpace(text)
	stuck := func(list []sticker) {
		for _, s := range list {
			text = strings.TrimSpace(text + "\n\n(a sticker, which can't be opened: " + oneLine(s.Name, 40) + ")")
		}
	}
	stuck(m.Stickers)
	if len(m.Poll) > 0 && string(m.Poll) != "null" {
		var p poll
		_ = json.Unmarshal(m.Poll, &p) // that there is one is said at least
		list := []string{oneLine(p.Question.Text, 300)}
		for _, a := range p.Answers {
			list = append(list, "- "+oneLine(a.Media.Text, 100))
		}
		text = strings.TrimSpace(text + "\n\n(a poll) " + strings.Join(list, "\n"))
	}
	for _, s := range m.MessageSnapshots {
		if s.Message.Content != "" {
			text = strings.TrimSpace(text + "\n\n(forwarded) " + s.Message.Content)
		}
		stuck(s.Message.Stickers)
	}
	if text == "" && !m.files() && len(m.MessageSnapshots) > 0 {
		return "(forwarded: a message without words or files)"
	}
	if text == "" && !files && m.Content != "" {
		return "@" + oneLine(self.Username, 40)
	}
	return text
}
