package checkpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sightline/connectors/chat"
)

// Driver errors are translated once, here. Callers branch on these.
var (
	// ErrNotFound: no such row for this agent and conversation.
	ErrNotFound = chat.ErrNotFound
	// ErrConflict: the row is there already with other contents; a programming
	// error or a replayed effect, never retried.
	ErrConflict = errors.New("conflicts with what is stored")
	// ErrUnavailable: the database can't be reached or is shutting down;
	// worth a retry.
	ErrUnavailable = errors.New("the database is not available")
	// ErrInvalid: a CHECK or foreign key refused the row; never retried.
	ErrInvalid = errors.New("refused by the database's own checks")
	// ErrStatement is an ErrInvalid that no row is to blame for: the tables are
	// of another version, or not for this user.
	ErrStatement = fmt.Errorf("%w: the statement does not fit its tables", ErrInvalid)
)

// Recorded is what became of an event.
type Recorded struct {
	Conversation chat.ConversationID
	Message      chat.Message
	Attachments  []chat.Attachment
	New          bool // this call wrote the message row
	Tombstone    bool // the message was deleted before or by this event
}

// TurnState is where a turn is. Running turns are those the workflow owns.
//
//	running ──▶ answered
//	   ├──────▶ failed
//	   └──────▶ stopped
type TurnState string

const (
	TurnRunning  TurnState = "running"
	TurnAnswered TurnState = "answered"
	TurnFailed   TurnState = "failed"
	TurnStopped  TurnState = "stopped"
)

// Turn is one answer in the making.
type Turn struct {
	ID           chat.TurnID
	Agent        chat.AgentID
	Conversation chat.ConversationID
	Place        chat.PlaceID // where the answer is posted
	Message      chat.MessageID
	Actor        chat.Actor
	WorkflowID   string
	RunID        string
	State        TurnState
	Reason       string // of a failure, for operators
	StartedAt    time.Time
	FinishedAt   time.Time
	// Stale: it draws on something that is gone by now.
	Stale bool
}

// StepKind is what a step row holds.
type StepKind string

const (
	StepUser      StepKind = "user"      // a message that began or joined the turn: Message names it
	StepAssistant StepKind = "assistant" // Body is the model's message
	StepTool      StepKind = "tool"      // Body is the tool's answer; a Receipt goes with it
)

// Step is one append-only row of a turn's transcript, unique by (turn, seq).
// Body is JSON text without a pixel in it; a CHECK bounds its size.
type Step struct {
	Turn    chat.TurnID
	Seq     int
	Kind    StepKind
	Message chat.MessageID // StepUser
	Body    json.RawMessage
	Digest  string // SHA-256 of Body, set by the store
	At      time.Time
}

// Verdict and Selected are the vocabulary's own.
type (
	Verdict  = chat.Verdict
	Selected = chat.Selected
)

// Receipt is the trusted record of a tool call: written by the dispatcher,
// never by the model.
type Receipt struct {
	Turn     chat.TurnID
	Seq      int // of its StepTool row
	Tool     string
	CallID   string
	Verdict  Verdict
	Reason   string
	Selected []Selected
	// Places are those whose contents the answer told of, besides the selected.
	Places []chat.PlaceID
	At     time.Time
}

// Audit is the pixel-free body of one model request, and what came of it.
type Audit struct {
	Turn         chat.TurnID
	Seq          int // of the StepAssistant row it was made for
	Attempt      int
	Model        string
	Body         json.RawMessage
	Pictures     []Selected
	InputTokens  int64
	OutputTokens int64
	Outcome      string // empty while the call is under way
	Took         time.Duration
	At           time.Time
}

// Post is one reply on its way: the intent is written before the platform is
// called, the native ID after.
type Post struct {
	Key      string
	Turn     chat.TurnID
	Kind     chat.ReplyKind
	Text     string
	NativeID string // empty: not known to be posted
	At       time.Time
	PostedAt time.Time
	Draft    *chat.Draft // that it replaces; nil: none was begun
}

// Draft is a reply that is shown while it is made, under the reply's key.
type Draft struct {
	Key      string
	Turn     chat.TurnID
	First    string // the words that it was begun with
	NativeID string // empty: not known to be out
	Ended    bool   // it may not be shown any more: withdrawn, or the reply itself is on its way
}

// PastTurn is an earlier turn as a prompt retells it.
type PastTurn struct {
	Turn        Turn
	Messages    []chat.Message // what people said in it, in order
	Attachments []chat.Attachment
	Answer      string
}

// Quarantine keeps a picture out of later requests.
type Quarantine struct {
	Digest string
	Model  string // ModelInfo.Key; empty: every model
	Reason string
	At     time.Time
}
