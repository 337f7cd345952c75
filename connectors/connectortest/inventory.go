package connectortest

import (
	"context"
	"sync"

	"sightline/attachments"
	"sightline/connectors/chat"
)

var _ attachments.Inventory = (*inventory)(nil)

// inventory is a store that believes what it is told: what the connector must
// refuse even if a row says otherwise is told to it.
type inventory struct {
	mu       sync.Mutex
	places   map[chat.PlaceID]chat.Place
	messages map[chat.MessageID]chat.Message
	rows     map[chat.AttachmentID]chat.Attachment
	uses     []chat.Use
}

func newInventory() *inventory {
	return &inventory{
		places: map[chat.PlaceID]chat.Place{}, messages: map[chat.MessageID]chat.Message{},
		rows: map[chat.AttachmentID]chat.Attachment{},
	}
}

func (i *inventory) record(e chat.Event) []chat.Attachment {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.places[e.Place.ID], i.messages[e.Message.ID] = e.Place, e.Message
	var out []chat.Attachment
	for n, f := range e.Files {
		a := chat.Attachment{
			ID: chat.NewAttachmentID(), Agent: e.Place.Agent, Conversation: e.Place.Conversation(), Place: e.Place.ID,
			Message: e.Message.ID, Ordinal: len(i.rows) + 1, Index: n, NativeFile: f.NativeID, Name: f.Name,
			Size: f.Size, Origin: f.Origin, State: f.State, Author: e.Message.Author,
		}
		i.rows[a.ID] = a
		out = append(out, a)
	}
	return out
}

func (i *inventory) Attachment(_ context.Context, agent chat.AgentID, conv chat.ConversationID, id chat.AttachmentID) (chat.Attachment, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, ok := i.rows[id]
	if !ok || a.Agent != agent || a.Conversation != conv {
		return chat.Attachment{}, chat.ErrNotFound
	}
	return a, nil
}

func (i *inventory) Place(_ context.Context, agent chat.AgentID, id chat.PlaceID) (chat.Place, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p, ok := i.places[id]
	if !ok || p.Agent != agent {
		return chat.Place{}, chat.ErrNotFound
	}
	return p, nil
}

func (i *inventory) Message(_ context.Context, place chat.PlaceID, id chat.MessageID) (chat.Message, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m, ok := i.messages[id]
	if !ok || m.Place != place {
		return chat.Message{}, chat.ErrNotFound
	}
	return m, nil
}

func (i *inventory) SourcePlaces(_ context.Context, agent chat.AgentID, conv chat.ConversationID) ([]chat.Place, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []chat.Place
	for _, p := range i.places {
		if p.Agent == agent && p.Conversation() == conv {
			out = append(out, p)
		}
	}
	return out, nil
}

func (i *inventory) Attachments(_ context.Context, agent chat.AgentID, conv chat.ConversationID, _ []chat.PlaceID, _ chat.MessageID, _, _ int) ([]chat.Attachment, int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []chat.Attachment
	for _, a := range i.rows {
		if a.Agent == agent && a.Conversation == conv {
			out = append(out, a)
		}
	}
	return out, len(out), nil
}

func (i *inventory) Learn(context.Context, chat.AgentID, chat.AttachmentID, chat.Facts) error {
	return nil
}

func (i *inventory) RecordUses(_ context.Context, uses []chat.Use) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.uses = append(i.uses, uses...)
	return nil
}
