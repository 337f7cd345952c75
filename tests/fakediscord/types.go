package fakediscord

// Permission bits, as documented.
const (
	Administrator         int64 = 1 << 3
	ViewChannel           int64 = 1 << 10
	SendMessages          int64 = 1 << 11
	AttachFiles           int64 = 1 << 15
	ReadMessageHistory    int64 = 1 << 16
	ManageThreads         int64 = 1 << 34
	SendMessagesInThreads int64 = 1 << 38

	everything = ViewChannel | SendMessages | AttachFiles | ReadMessageHistory | SendMessagesInThreads
)

// Channel types, as documented.
const (
	GuildText     = 0
	DM            = 1
	PublicThread  = 11
	PrivateThread = 12
)

// User is a person, a bot or a webhook.
type User struct {
	ID            string  `json:"id"`
	Username      string  `json:"username"`
	Discriminator string  `json:"discriminator"`
	GlobalName    *string `json:"global_name"`
	Avatar        *string `json:"avatar"`
	Bot           bool    `json:"bot,omitempty"`
	PublicFlags   int     `json:"public_flags"`
	Flags         int     `json:"flags"`
	PrimaryGuild  *string `json:"primary_guild"`
}

// tags of a role say whose it is: Discord makes one for each bot of a guild.
type tags struct {
	BotID string `json:"bot_id"`
}

// Role is a guild's role; the one with the guild's id is @everyone.
type Role struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Permissions string `json:"permissions"`
	Position    int    `json:"position"`
	Color       int    `json:"color"`
	Hoist       bool   `json:"hoist"`
	Managed     bool   `json:"managed"`
	Tags        *tags  `json:"tags,omitempty"`
	Mentionable bool   `json:"mentionable"`
	Flags       int    `json:"flags"`
	Colors      colors `json:"colors"`

	Icon         *string `json:"icon"`
	UnicodeEmoji *string `json:"unicode_emoji"`
}

type colors struct {
	Primary   int  `json:"primary_color"`
	Secondary *int `json:"secondary_color"`
	Tertiary  *int `json:"tertiary_color"`
}

// Overwrite changes a channel's permissions for a role (type 0) or a member (1).
type Overwrite struct {
	ID    string `json:"id"`
	Type  int    `json:"type"`
	Allow string `json:"allow"`
	Deny  string `json:"deny"`
}

type threadMetadata struct {
	Archived            bool   `json:"archived"`
	AutoArchiveDuration int    `json:"auto_archive_duration"`
	ArchiveTimestamp    string `json:"archive_timestamp"`
	Locked              bool   `json:"locked"`
}

type threadMember struct {
	ID            string `json:"id"`
	UserID        string `json:"user_id"`
	JoinTimestamp string `json:"join_timestamp"`
	Flags         int    `json:"flags"`
}

type channel struct {
	ID             string          `json:"id"`
	Type           int             `json:"type"`
	GuildID        string          `json:"guild_id,omitempty"`
	Name           string          `json:"name,omitempty"`
	ParentID       *string         `json:"parent_id,omitempty"`
	LastMessageID  *string         `json:"last_message_id"`
	Position       int             `json:"position"`
	Overwrites     []Overwrite     `json:"permission_overwrites,omitzero"`
	OwnerID        string          `json:"owner_id,omitempty"`
	ThreadMetadata *threadMetadata `json:"thread_metadata,omitempty"`
	Member         *threadMember   `json:"member,omitempty"`
	Recipients     []User          `json:"recipients,omitempty"`
	MemberCount    *int            `json:"member_count,omitempty"`
	MessageCount   *int            `json:"message_count,omitempty"`
	TotalSent      *int            `json:"total_message_sent,omitempty"`
	Flags          int             `json:"flags"`

	members map[string]bool
}

func (c *channel) thread() bool { return c.Type >= 10 && c.Type <= 12 }

func (c *channel) archived() bool { return c.thread() && c.ThreadMetadata.Archived }

type guild struct {
	ID       string
	Name     string
	Owner    string
	Roles    []*Role
	Members  map[string][]string // user to roles
	Features []string
	Joined   string // when the bot came
}

// Attachment is a file as the API shows it.
type Attachment struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	Title       string `json:"title,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Size        int    `json:"size"`
	URL         string `json:"url"`
	ProxyURL    string `json:"proxy_url"`

	path string
}

type reference struct {
	Type      int    `json:"type"`
	MessageID string `json:"message_id,omitempty"`
	ChannelID string `json:"channel_id,omitempty"`
	GuildID   string `json:"guild_id,omitempty"`
}

type sticker struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	FormatType int    `json:"format_type"`
}

type pollMedia struct {
	Text string `json:"text"`
}

type pollAnswer struct {
	AnswerID  int       `json:"answer_id"`
	PollMedia pollMedia `json:"poll_media"`
}

type poll struct {
	Question         pollMedia    `json:"question"`
	Answers          []pollAnswer `json:"answers"`
	Expiry           *string      `json:"expiry"`
	AllowMultiselect bool         `json:"allow_multiselect"`
	LayoutType       int          `json:"layout_type"`
}

type snapshot struct {
	Message snapshotMessage `json:"message"`
}

type snapshotMessage struct {
	Type            int          `json:"type"`
	Content         string       `json:"content"`
	Timestamp       string       `json:"timestamp"`
	EditedTimestamp *string      `json:"edited_timestamp"`
	Attachments     []Attachment `json:"attachments"`
	Embeds          []any        `json:"embeds"`
	Mentions        []User       `json:"mentions"`
	MentionRoles    []string     `json:"mention_roles"`
	Components      []any        `json:"components"`
	Flags           int          `json:"flags"`
	Stickers        []sticker    `json:"sticker_items,omitempty"`
}

// Message is a message as the API shows it.
type Message struct {
	ID                string       `json:"id"`
	ChannelID         string       `json:"channel_id"`
	GuildID           string       `json:"guild_id,omitempty"`
	Author            User         `json:"author"`
	Content           string       `json:"content"`
	Timestamp         string       `json:"timestamp"`
	EditedTimestamp   *string      `json:"edited_timestamp"`
	TTS               bool         `json:"tts"`
	MentionEveryone   bool         `json:"mention_everyone"`
	Mentions          []User       `json:"mentions"`
	MentionRoles      []string     `json:"mention_roles"`
	Attachments       []Attachment `json:"attachments"`
	Embeds            []any        `json:"embeds"`
	Components        []any        `json:"components"`
	Pinned            bool         `json:"pinned"`
	Type              int          `json:"type"`
	Flags             int          `json:"flags"`
	WebhookID         string       `json:"webhook_id,omitempty"`
	MessageReference  *reference   `json:"message_reference,omitempty"`
	ReferencedMessage *Message     `json:"referenced_message,omitempty"`
	MessageSnapshots  []snapshot   `json:"message_snapshots,omitempty"`
	Stickers          []sticker    `json:"sticker_items,omitempty"`
	Poll              *poll        `json:"poll,omitempty"`
	Nonce             string       `json:"nonce,omitempty"`

	nonce    string
	deleted  bool
	versions []string // the contents before, oldest first
}
