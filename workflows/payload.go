package workflows

import "sightline/connectors/chat"

// TaskQueue is where the workers of all roles meet.
const TaskQueue = "sightline"

// Names of the workflows and signals, part of every stored history.
const (
	ConversationType = "Conversation"
	TurnType         = "Turn"
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
}

// MessageSignal says that a message is durable and waits for an answer.
type MessageSignal struct {
	Message chat.MessageID `json:"message"`
}

// StopSignal ends the running turn.
type StopSignal struct{}

// SteerSignal hands a message to the running turn.
type SteerSignal struct {
	Message chat.MessageID `json:"message"`
}

// TurnInput starts a turn.
type TurnInput struct {
	Agent        chat.AgentID        `json:"agent"`
	Conversation chat.ConversationID `json:"conversation"`
	Place        chat.PlaceID        `json:"place"`
	Turn         chat.TurnID         `json:"turn"`
	Message      chat.MessageID      `json:"message"`
}

// TurnResult says which messages the turn answered besides its own.
type TurnResult struct {
	State  string           `json:"state"`
	Joined []chat.MessageID `json:"joined,omitempty"`
}

// BeginResult says whether there is anything to do.
type BeginResult struct {
	Skip bool `json:"skip,omitempty"` // finished before, or nothing to answer
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
}

// InferResult says what the model wants next.
type InferResult struct {
	Calls  int    `json:"calls"`            // tools to run; 0: the answer is there
	Failed string `json:"failed,omitempty"` // kind of a permanent failure
	Reason string `json:"reason,omitempty"` // for operators, bounded
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
}

// PostResult says what was posted in the end: a disclosure check may have
// withheld the answer.
type PostResult struct {
	Kind   chat.ReplyKind `json:"kind"`
	Reason string         `json:"reason,omitempty"`
}

// FinishInput closes the turn's row.
type FinishInput struct {
	Turn   chat.TurnID `json:"turn"`
	State  string      `json:"state"`
	Reason string      `json:"reason,omitempty"`
}
