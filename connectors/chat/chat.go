package chat

import (
	"errors"
	"strings"
	"time"
)

// ErrNotFound is how a store says that a row is not there for this agent and
// conversation.
var ErrNotFound = errors.New("not found")

// ErrRefused is how a connector says that the platform refuses something for
// good, a reply to a place that is gone or closed to the agent: trying again
// can't help.
var ErrRefused = errors.New("the platform refuses this for good")

// ErrUnfit is how a sink says that it can't keep an event, whoever tries: it is
// to blame itself, and must not hold up what comes after it.
var ErrUnfit = errors.New("the event can't be kept")

// Role is what an actor may do. The zero value is a stranger: whoever the
// platform did not identify gets nothing that needs a role.
type Role int

const (
	Stranger Role = iota
	Guest
	Owner
)

func (r Role) String() string {
	switch r {
	case Guest:
		return "guest"
	case Owner:
		return "owner"
	}
	return "stranger"
}

// Actor is who did something, as the platform's event says, never as a text
// or a tool argument says.
type Actor struct {
	Platform  Platform `json:"platform"`
	Workspace string   `json:"workspace,omitempty"`
	User      string   `json:"user"`
	Name      string   `json:"name,omitempty"` // for display; decides nothing
	Role      Role     `json:"role"`
	Bot       bool     `json:"bot,omitempty"`
}

// PlaceKind is the shape of a place.
type PlaceKind string

const (
	Channel       PlaceKind = "channel"
	PublicThread  PlaceKind = "public_thread"
	PrivateThread PlaceKind = "private_thread"
	Direct        PlaceKind = "direct"
	GroupDirect   PlaceKind = "group_direct"
	Ephemeral     PlaceKind = "ephemeral"
)

// Place is somewhere messages are posted. Workspace, Channel and Thread are
// the platform's identifiers: only its connector reads them.
type Place struct {
	ID        PlaceID   `json:"id"`
	Agent     AgentID   `json:"agent"`
	Platform  Platform  `json:"platform"`
	Workspace string    `json:"workspace,omitempty"`
	Channel   string    `json:"channel"`
	Thread    string    `json:"thread,omitempty"`
	Parent    PlaceID   `json:"parent,omitempty"`
	Kind      PlaceKind `json:"kind"`
	Epoch     int64     `json:"epoch"` // bumped when who can read it may have changed
}

// NewPlace fills in the ID, which is derived, so that two events from one
// channel always name one place.
func NewPlace(agent AgentID, p Platform, workspace, channel, thread string, kind PlaceKind) Place {
	return Place{
		ID:    PlaceID(derive("plc_", string(agent), string(p), workspace, channel, thread)),
		Agent: agent, Platform: p, Workspace: workspace, Channel: channel, Thread: thread, Kind: kind,
	}
}

// Around reports whether other is this place, its channel, one of its threads
// or another thread of its channel. It says that a picture posted there may be
// asked for here at all; who may see it is the connector's to decide.
func (p Place) Around(other Place) bool {
	if p.ID == "" || other.ID == "" || p.Agent != other.Agent || p.Platform != other.Platform {
		return false
	}
	return p.ID == other.ID || other.ID == p.Parent || other.Parent == p.ID || p.Parent != "" && p.Parent == other.Parent
}

// Conversation names what the place's agent says there.
func (p Place) Conversation() ConversationID { return ConversationOf(p.Agent, p.ID) }

// Message is one platform message. Revision changes with every edit.
type Message struct {
	ID        MessageID
	Place     PlaceID
	NativeID  string
	Revision  string
	Author    Actor
	FromAgent bool // the agent's own words, never an instruction to it
	Text      string
	At        time.Time
	ReplyTo   MessageID // empty: none
	Deleted   bool
}

// Origin is how a file came with its message.
type Origin string

const (
	OriginDirect      Origin = "direct"
	OriginForward     Origin = "forward"
	OriginReplied     Origin = "replied" // of the message this one answers: another source
	OriginInteraction Origin = "interaction"
)

// FileState says whether the platform can still give the file. The zero value
// is not fetchable.
type FileState string

const (
	FileAvailable FileState = "available"
	FileDeleted   FileState = "deleted"
	FileExternal  FileState = "external" // hosted elsewhere: listed, never fetched
	FileHidden    FileState = "hidden"   // the platform's plan hides it
	FileDenied    FileState = "denied"
	FileOversize  FileState = "oversize"
	FileUnread    FileState = "unreadable" // fetched, and not what it claims
)

// File is what a connector knows of an attached file. Sniffed, Width and
// Height are set only by a connector that has read the bytes (the web place);
// others learn them at the first fetch.
type File struct {
	NativeID     string
	Name         string
	DeclaredType string
	SniffedType  string
	Size         int64
	Width        int
	Height       int
	Origin       Origin
	State        FileState
}

// Oversize reports whether a file is larger than what is fetched of its kind:
// picture bytes, or document if that is more and the file is not declared a
// picture. A picture limit of 0 is none.
func (f File) Oversize(picture, document int64) bool {
	limit := picture
	if !strings.HasPrefix(f.DeclaredType, "image/") {
		limit = max(limit, document)
	}
	return picture > 0 && f.Size > limit
}

// EventKind is what happened to a message.
type EventKind string

const (
	MessagePosted  EventKind = "posted"
	MessageEdited  EventKind = "edited"
	MessageDeleted EventKind = "deleted"
)

// Event is one thing that happened on a platform, ready to be made durable.
// Message.ID and Message.Place follow from Place and NativeID.
type Event struct {
	Kind    EventKind
	Place   Place
	Message Message
	Files   []File
	// Silent messages are recorded, with their files, and start no turn: what
	// was said beside the agent, or is only referred to.
	Silent bool
}

// Command is an owner's command, as the platform's event has it. Who may run
// it is decided by Actor.Role, again, by whoever runs it.
type Command struct {
	Agent AgentID
	Actor Actor
	Place Place
	Name  string
	Args  []string
}

// Attachment is the metadata row of one file of one message. It holds no
// bytes and no URL.
type Attachment struct {
	ID           AttachmentID
	Agent        AgentID
	Conversation ConversationID
	Place        PlaceID // of its source message
	Message      MessageID
	Ordinal      int // position in the conversation, from 1
	Index        int // position in its message, from 0
	NativeFile   string
	Name         string // as posted: escape before it enters a prompt
	DeclaredType string
	SniffedType  string // empty: never fetched
	Size         int64
	Width        int
	Height       int
	Origin       Origin
	State        FileState
	StateReason  string
	Digest       string // SHA-256, hex, of the first fetch; empty: never fetched
	Author       Actor
	PostedAt     time.Time
}

// Facts is what reading the bytes taught about an attachment.
type Facts struct {
	SniffedType string
	Width       int
	Height      int
	Size        int64
	Digest      string    // kept only when none is known yet
	State       FileState // empty: unchanged
	StateReason string
}

// Use is one line of the operators' trail: one decision about one attachment.
type Use struct {
	Turn         TurnID
	Agent        AgentID
	Conversation ConversationID
	Actor        Actor
	Attachment   AttachmentID // as asked for, even when it names nothing
	Destination  PlaceID
	Action       string // list, view, show, fetch, import ...
	Allowed      bool
	Rule         string // S1, S2 ... or the rule that refused
	Reason       string // for operators
	SourceEpoch  int64
	DestEpoch    int64
	Digest       string
	BytesFetched int64
	At           time.Time
}

// ReplyKind tells an answer from what is said when there is none.
type ReplyKind string

const (
	ReplyAnswer  ReplyKind = "answer"
	ReplyFailure ReplyKind = "failure"
	ReplyStopped ReplyKind = "stopped"
	ReplyBeside  ReplyKind = "beside" // a file, before the answer: it ends no turn
)

// Reply is what the agent posts. Posting the same Key twice posts once.
type Reply struct {
	Key     string
	Turn    TurnID
	Place   Place
	ReplyTo Message
	Kind    ReplyKind
	Text    string
	Files   []ReplyFile
	// Draft is the message that showed the answer while it was made, and that
	// becomes the reply; nil: none was begun.
	Draft *Draft
}

// Posted says where a reply is.
type Posted struct {
	NativeID string
}

// Progress is a passing sign of life of a turn: a step's name, or the answer
// so far. Losing one loses nothing.
type Progress struct {
	Turn  TurnID
	Place Place
	Step  int
	Text  string // what the agent is doing, for a person
	Draft string // the answer so far, if any
}

// Verdict is how a tool call ended.
type Verdict string

const (
	VerdictDone      Verdict = "done"
	VerdictRefused   Verdict = "refused"
	VerdictFailed    Verdict = "failed"
	VerdictUncertain Verdict = "uncertain" // an intent without a known effect
)

// Selected is one picture that a tool call selected or an inference showed,
// named without a pixel of it.
type Selected struct {
	Attachment AttachmentID `json:"attachment"`
	Message    MessageID    `json:"message,omitempty"`
	Digest     string       `json:"digest,omitempty"` // SHA-256 of the original, hex
	Type       string       `json:"type,omitempty"`
	Width      int          `json:"width,omitempty"` // native
	Height     int          `json:"height,omitempty"`
	Region     *[4]int      `json:"region,omitempty"` // x, y, width, height
	Page       int          `json:"page,omitempty"`   // of a PDF, from 1
	// File names a file of the conversation's workspace instead of an
	// attachment; Sources are the attachments that it may have been made of.
	File    string         `json:"file,omitempty"`
	Sources []AttachmentID `json:"sources,omitempty"`
	Reason  string         `json:"reason,omitempty"` // why it is not shown; empty: shown
}

// Workspace is the one that a conversation has now. Its files are the
// sandbox's.
type Workspace struct {
	ID           string
	Agent        AgentID
	Conversation ConversationID
	UsedAt       time.Time
}

// WorkspaceFile is what is known of a file in a workspace: the attachments
// that it may have been made of.
type WorkspaceFile struct {
	Name     string
	Imported bool
	Digest   string // SHA-256, hex; empty: not known
	Sources  []AttachmentID
}
