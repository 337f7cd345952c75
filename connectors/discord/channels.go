package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"sightline/connectors/chat"
)

// shape is what a channel is, which decides how a message there is named and
// whether it is answered. Who may read it is asked live, never here.
type shape struct {
	id, guild, parent string
	kind              int
	joined            bool // a thread that the bot takes part in
}

func (s shape) thread() bool { return s.kind >= threadAnnouncement && s.kind <= threadPrivate }

// ownRoles are the roles that Discord makes for the bot, one in each guild. It
// bears the bot's name, and whoever mentions it means the bot.
type ownRoles struct {
	mu sync.Mutex
	m  map[string]string
}

// note reads it from a guild's own event; where that can't be, there is none.
func (k *ownRoles) note(guildID, self string, raw json.RawMessage) {
	var g struct {
		Roles []struct {
			ID   string `json:"id"`
			Tags struct {
				BotID string `json:"bot_id"`
			} `json:"tags"`
		} `json:"roles"`
	}
	if json.Unmarshal(raw, &g) != nil || self == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range g.Roles {
		if r.Tags.BotID == self && isSnowflake(r.ID) {
			if k.m == nil {
				k.m = map[string]string{}
			}
			k.m[guildID] = r.ID
		}
	}
}

func (k *ownRoles) get(guildID string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.m[guildID]
}

// channels remembers shapes.
type channels struct {
	mu sync.Mutex
	m  map[string]shape
}

const rememberedChannels = 50_000

func newChannels() *channels { return &channels{m: map[string]shape{}} }

func (k *channels) put(c channel, self string) shape {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := shape{id: c.ID, guild: c.GuildID, parent: c.ParentID, kind: c.Type}
	s.joined = c.thread() && (c.joined() || c.OwnerID == self || k.m[c.ID].joined)
	if len(k.m) >= rememberedChannels {
		clear(k.m)
	}
	k.m[c.ID] = s
	return s
}

func (k *channels) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.m)
}

func (k *channels) get(id string) (shape, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.m[id]
	return s, ok
}

func (k *channels) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.m, id)
}

// join notes that the bot entered or left a thread.
func (k *channels) join(id string, in bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s, ok := k.m[id]; ok {
		s.joined = in
		k.m[id] = s
	}
}

// shapeOf asks the platform only about channels it has not told us of.
func (b *Bot) shapeOf(ctx context.Context, id string) (shape, error) {
	if s, ok := b.channels.get(id); ok {
		return s, nil
	}
	if !isSnowflake(id) {
		return shape{}, fmt.Errorf("a channel without an id: %w", errSkip)
	}
	var c channel
	if err := b.rest.do(ctx, "GET", "/channels/"+id, nil, &c); err != nil {
		return shape{}, err
	}
	return b.channels.put(c, b.identity.id()), nil
}

// placeOf names a channel or thread as the rest of the program knows it.
func (b *Bot) placeOf(s shape) (chat.Place, error) {
	named := func(workspace, channel, thread string, kind chat.PlaceKind) chat.Place {
		return chat.NewPlace(b.c.Agent, Platform, workspace, channel, thread, kind)
	}
	switch s.kind {
	case channelDirect:
		return named(directWorkspace, s.id, "", chat.Direct), nil
	case channelGroupDirect:
		return named(directWorkspace, s.id, "", chat.GroupDirect), nil
	case channelText, channelAnnouncement, channelVoice, channelStage:
		return named(s.guild, s.id, "", chat.Channel), nil
	case threadAnnouncement, threadPublic, threadPrivate:
		kind := chat.PublicThread
		if s.kind == threadPrivate {
			kind = chat.PrivateThread
		}
		p := named(s.guild, s.parent, s.id, kind)
		p.Parent = named(s.guild, s.parent, "", chat.Channel).ID
		return p, nil
	}
	return chat.Place{}, fmt.Errorf("channels of type %d are not known: %w", s.kind, errSkip)
}

// native is the channel or thread that a place names, if the place is one
// that this connector would name so.
func (b *Bot) native(p chat.Place) (string, bool) {
	if p.Agent != b.c.Agent || p.Platform != Platform || !isSnowflake(p.Channel) || p.Thread != "" && !isSnowflake(p.Thread) ||
		p.Workspace != directWorkspace && !isSnowflake(p.Workspace) || p.Workspace == directWorkspace && p.Thread != "" {
		return "", false
	}
	if p.ID != chat.NewPlace(p.Agent, Platform, p.Workspace, p.Channel, p.Thread, p.Kind).ID {
		return "", false
	}
	if p.Thread != "" {
		return p.Thread, true
	}
	return p.Channel, true
}
