package workflows

import "sightline/connectors/chat"

// TaskQueue is where the workers of all roles meet.
const TaskQueue = "sightline"

// Names of the workflows and signals, part of every stored history.
const (
	ConversationType = "Conversation"
	TurnType         = "Turn"
	CompactionType   = "Compaction"
	SignalMessage    = "message"
	SignalStop       = "stop"
	SignalSteer      = "steer"
)

// One struct per workflow, signal and activity: a field can be added to a
// struct without breaking a history. None has room for text or bytes, and
// none mentions a Grant.

// ConversationInput starts or continues a conversation.
type ConversationInput struct {
	Agent        chat.AgentID        `json:"agent"`
	Conversation chat.ConversationID `json:"conversation"`
	Place        chat.PlaceID        `json:"place"`
	Seen         []chat.MessageID    `json:"seen,omitempty"`  // ring, newest last
	Queue        []chat.MessageID    `json:"queue,omitempty"` // carried over
	Platform     chat.Platform       `json:"platform,omitempty"`
	// Visible: search attributes are registered, and may be written. It is
	// input because a history must replay the same wherever it is replayed.
	Visible     bool            `json:"visible,omitempty"`
	Attachments int             `json:"attachments,omitempty"` // seen so far
	Counts      []MessageSignal `json:"counts,omitempty"`      // of messages that wait
	OneTimer    bool            `json:"oneTimer,omitempty"`    // older histories start one for each wait
}

// MessageSignal says that a message is durable and waits for an answer.
type MessageSignal struct {
	Message     chat.MessageID `json:"message"`
	Attachments int            `json:"attachments,omitempty"` // how many it brought
}

// StopSignal ends the running turn.
type StopSignal struct{}

// SteerSignal hands a message to the running turn.
type SteerSignal struct {
	Message     chat.MessageID `json:"message"`
	Attachments int            `json:"attachments,omitempty"`
}

// TurnInput starts a turn.
type TurnInput struct {
	Agent        chat.AgentID        `json:"agent"`
	Conversation chat.ConversationID `json:"conversation"`
	Place        chat.PlaceID        `json:"place"`
	Turn         chat.TurnID         `json:"turn"`
	Message      chat.MessageID      `json:"message"`
	// Brief: the first inference begins the turn, the one that answers posts and
	// finishes it, so that most turns are one activity. Input, so that older
	// histories replay.
	Brief       bool          `json:"brief,omitempty"`
	Platform    chat.Platform `json:"platform,omitempty"`
	Visible     bool          `json:"visible,omitempty"`     // as of the conversation
	Attachments int           `json:"attachments,omitempty"` // of the message
}

// TurnResult says which messages the turn answered besides its own.
type TurnResult struct {
	State  string           `json:"state"`
	Joined []chat.MessageID `json:"joined,omitempty"`
}

// BeginResult says whether there is anything to do.
type BeginResult struct {
	Skip bool `json:"skip,omitempty"` // finished before, or nothing to answer
	// State is how it was finished before.
	State string `json:"state,omitempty"`
}

// JoinInput adds a message to the running turn as step Seq.
type JoinInput struct {
	Turn    chat.TurnID    `json:"turn"`
	Seq     int            `json:"seq"`
	Message chat.MessageID `json:"message"`
}

// InferInput asks for the assistant step Seq.
type InferInput struct {
	Turn chat.TurnID `json:"turn"`
	Seq  int         `json:"seq"`
	// Step counts inferences, for progress.
	Step int `json:"step"`
	// Begin is the turn to begin first.
	Begin *TurnInput `json:"begin,omitempty"`
	// Post: an answer is posted at once. What keeps it from being posted is left
	// to the turn's own post, which has all the time that takes.
	Post bool `json:"post,omitempty"`
	// Again: as in PostInput.
	Again bool `json:"again,omitempty"`
}

// InferResult says what the model wants next.
type InferResult struct {
	Calls  int    `json:"calls"`            // tools to run; 0: the answer is there
	Skip   bool   `json:"skip,omitempty"`   // the turn has nothing to answer
	Failed string `json:"failed,omitempty"` // kind of a permanent failure
	Reason string `json:"reason,omitempty"` // for operators, bounded
	// Compact: older turns are told in no way any more.
	Compact bool `json:"compact,omitempty"`
	// Posted: the answer is out and the turn finished.
	Posted *PostResult `json:"posted,omitempty"`
}

// ToolInput asks for call Index of the assistant step Infer, as step Seq.
type ToolInput struct {
	Turn  chat.TurnID `json:"turn"`
	Infer int         `json:"infer"`
	Index int         `json:"index"`
	Seq   int         `json:"seq"`
}

// PostInput asks for the turn's one reply. Answer is the assistant step to
// post; Failed is the kind of failure to tell of when there is none.
type PostInput struct {
	Turn   chat.TurnID    `json:"turn"`
	Kind   chat.ReplyKind `json:"kind"`
	Answer int            `json:"answer,omitempty"`
	Failed string         `json:"failed,omitempty"`
	Reason string         `json:"reason,omitempty"`
	// Finish closes the turn's row, too, once the reply is out.
	Finish bool `json:"finish,omitempty"`
	// Again: an answer that may not be shown any more is discarded, and another
	// one made; else the person is told that there is none.
	Again bool `json:"again,omitempty"`
}

// PostResult says what was posted in the end: a disclosure check may have
// withheld the answer.
type PostResult struct {
	Kind   chat.ReplyKind `json:"kind"`
	Reason string         `json:"reason,omitempty"`
	// Again: nothing was posted, the answer was discarded.
	Again bool `json:"again,omitempty"`
}

// CompactInput asks for a summary of what is too old to be retold.
type CompactInput struct {
	Turn chat.TurnID `json:"turn"`
}

// FinishInput closes the turn's row.
type FinishInput struct {
	Turn   chat.TurnID `json:"turn"`
	State  string      `json:"state"`
	Reason string      `json:"reason,omitempty"`
}
