package discord

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The platform's JSON, as far as it is read here. Every id is a snowflake.

type user struct {
	ID         string `json:"id"`
	Username   string `json:"username"`
	GlobalName string `json:"global_name"`
	Bot        bool   `json:"bot"`
}

type attachment struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	Title       string `json:"title"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	Width       int    `json:"width"`
	Height      int    `json:"height"`
	URL         string `json:"url"`
}

// sticker is a small picture of Discord's own or of a server's: no file of the
// message, and none that the agent can fetch.
type sticker struct {
	Name string `json:"name"`
}

// poll is a question that a message puts to all, in place of words. It is read
// apart: a poll of a new kind must not fail its message.
type poll struct {
	Question pollText `json:"question"`
	Answers  []struct {
		Media pollText `json:"poll_media"`
	} `json:"answers"`
}

type pollText struct {
	Text string `json:"text"`
}

type messageReference struct {
	Type      int    `json:"type"`
	MessageID string `json:"message_id"`
	ChannelID string `json:"channel_id"`
}

const (
	typeDefault = 0
	typeReply   = 19

	referenceForward = 1
)

type message struct {
	ID                string            `json:"id"`
	ChannelID         string            `json:"channel_id"`
	GuildID           string            `json:"guild_id"`
	Author            *user             `json:"author"` // nil in partial updates
	WebhookID         string            `json:"webhook_id"`
	Member            *member           `json:"member"`
	Content           string            `json:"content"`
	Timestamp         time.Time         `json:"timestamp"`
	EditedTimestamp   *time.Time        `json:"edited_timestamp"`
	Mentions          []user            `json:"mentions"`
	MentionRoles      []string          `json:"mention_roles"`
	Attachments       []attachment      `json:"attachments"`
	Embeds            []json.RawMessage `json:"embeds"`
	Components        []json.RawMessage `json:"components"`
	Stickers          []sticker         `json:"sticker_items"`
	Poll              json.RawMessage   `json:"poll"`
	Type              int               `json:"type"`
	MessageReference  *messageReference `json:"message_reference"`
	ReferencedMessage *message          `json:"referenced_message"`
	MessageSnapshots  []struct {
		Message struct {
			Content     string       `json:"content"`
			Attachments []attachment `json:"attachments"`
			Stickers    []sticker    `json:"sticker_items"`
		} `json:"message"`
	} `json:"message_snapshots"`
}

type member struct {
	User  *user    `json:"user"`
	Nick  string   `json:"nick"`
	Roles []string `json:"roles"`
}

// revision changes with every edit, and with the set of files, whatever the
// platform says about edits.
func (m *message) revision() string {
	h := sha256.New()
	for _, a := range m.Attachments {
		fmt.Fprintf(h, "d%s,", a.ID)
	}
	for _, s := range m.MessageSnapshots {
		for _, a := range s.Message.Attachments {
			fmt.Fprintf(h, "s%s,", a.ID)
		}
	}
	at := int64(0)
	if m.EditedTimestamp != nil {
		at = m.EditedTimestamp.UnixMicro()
	}
	return strconv.FormatInt(at, 10) + "." + hex.EncodeToString(h.Sum(nil)[:8])
}

func (m *message) files() bool {
	if len(m.Attachments) > 0 {
		return true
	}
	for _, s := range m.MessageSnapshots {
		if len(s.Message.Attachments) > 0 {
			return true
		}
	}
	return false
}

func (m *message) forward() bool {
	return m.MessageReference != nil && m.MessageReference.Type == referenceForward
}

// repliedTo is the message of the same channel that this one answers.
func (m *message) repliedTo() string {
	r := m.MessageReference
	if m.Type != typeReply || r == nil || r.Type != 0 || r.ChannelID != "" && r.ChannelID != m.ChannelID {
		return ""
	}
	return r.MessageID
}

type overwrite struct {
	ID          string
	Type        int // 0 role, 1 member
	Allow, Deny permissions
}

// Channel types that are read here.
const (
	channelText          = 0
	channelDirect        = 1
	channelVoice         = 2
	channelGroupDirect   = 3
	channelAnnouncement  = 5
	threadAnnouncement   = 10
	threadPublic         = 11
	threadPrivate        = 12
	channelStage         = 13
	channelForum         = 15
	channelMedia         = 16
	memberOverwrite      = 1
	maximumSnowflakeSize = 20
)

type channel struct {
	ID            string          `json:"id"`
	Type          int             `json:"type"`
	GuildID       string          `json:"guild_id"`
	ParentID      string          `json:"parent_id"`
	OwnerID       string          `json:"owner_id"`
	Recipients    []user          `json:"recipients"` // of a direct conversation, without the bot
	LastMessageID string          `json:"last_message_id"`
	Overwrites    []overwrite     `json:"permission_overwrites"`
	Member        json.RawMessage `json:"member"` // there if the bot is in the thread
}

func (c *channel) thread() bool { return c.Type >= threadAnnouncement && c.Type <= threadPrivate }

func (c *channel) joined() bool { return len(c.Member) > 0 && string(c.Member) != "null" }

type role struct {
	ID          string
	Permissions permissions
}

type guild struct {
	ID      string `json:"id"`
	OwnerID string `json:"owner_id"`
	Roles   []role `json:"roles"`
}

// A role or an overwrite that leaves its permissions out is no role with none.
var errIncomplete = errors.New("permissions are missing")

func (r *role) UnmarshalJSON(b []byte) error {
	var v struct {
		ID          string       `json:"id"`
		Permissions *permissions `json:"permissions"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if v.ID == "" || v.Permissions == nil {
		return errIncomplete
	}
	*r = role{v.ID, *v.Permissions}
	return nil
}

func (o *overwrite) UnmarshalJSON(b []byte) error {
	var v struct {
		ID    string       `json:"id"`
		Type  *int         `json:"type"`
		Allow *permissions `json:"allow"`
		Deny  *permissions `json:"deny"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if v.ID == "" || v.Type == nil || v.Allow == nil || v.Deny == nil {
		return errIncomplete
	}
	*o = overwrite{v.ID, *v.Type, *v.Allow, *v.Deny}
	return nil
}

// permissions travel as decimal strings.
type permissions uint64

const (
	permAdministrator permissions = 1 << 3
	permView          permissions = 1 << 10
	permSend          permissions = 1 << 11
	permReadHistory   permissions = 1 << 16
	permSendInThreads permissions = 1 << 38
	everyPermission               = ^permissions(0)
)

func (p *permissions) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseUint(strings.Trim(string(b), `"`), 10, 64)
	if err != nil {
		return fmt.Errorf("permissions are no number")
	}
	*p = permissions(n)
	return nil
}

// isSnowflake keeps anything but an id out of request paths.
func isSnowflake(s string) bool {
	if s == "" || len(s) > maximumSnowflakeSize {
		return false
	}
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return true
}

// newer compares snowflakes, which are numbers and ordered by time.
func newer(a, b string) bool {
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

const discordEpoch = 1420070400000 // ms

func snowflakeTime(id string) time.Time {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(n>>22) + discordEpoch)
}
