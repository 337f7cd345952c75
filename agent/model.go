package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

// Role is who a transcript message is from.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one transcript message: text and tool calls only. It is what a
// step row holds, so it has no place for a picture.
type Message struct {
	Role   Role       `json:"role"`
	Text   string     `json:"text,omitempty"`
	Calls  []ToolCall `json:"calls,omitempty"`   // assistant
	CallID string     `json:"call_id,omitempty"` // tool: the call it answers
	// Opaque is what the same adapter must send back with this message
	// (reasoning items). Never pictures.
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// ToolCall is the model's wish, not yet checked by anybody.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // as the model wrote it; may be no JSON at all
}

// ToolSpec is what the model is told of a tool.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema
}

// ShownPicture is a picture of this one request, with the text that goes
// right before it. It never outlives the inference.
type ShownPicture struct {
	ID      chat.AttachmentID
	Label   string
	Digest  string // of the original, SHA-256 hex
	Picture visual.Picture
}

// ModelRequest is one inference.
type ModelRequest struct {
	Instructions string
	Messages     []Message
	Tools        []ToolSpec
	// Pictures are sent as parts of one user message after the transcript,
	// each after its label.
	Pictures []ShownPicture
	// Key names this inference in logs and, where the provider has one, its
	// idempotency header.
	Key string
}

// Usage is what the provider counted.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// ModelResponse is a whole answer; Message.Role is RoleAssistant and it has
// text, calls or both.
type ModelResponse struct {
	Message Message
	Usage   Usage
	Model   string // as the provider names it
	Finish  string // stop, tool_calls, length, content_filter
}

// Vision is whether a model sees pictures. The zero value is unknown.
type Vision int

const (
	VisionUnknown Vision = iota
	VisionYes
	VisionNo
)

func (v Vision) String() string {
	switch v {
	case VisionYes:
		return "yes"
	case VisionNo:
		return "no"
	}
	return "unknown"
}

// Capability is a Vision with where it is known from.
type Capability struct {
	Vision Vision
	Source string // operator, metadata, observed, table, none
	Detail string
	At     time.Time
}

// Limits are a model's own limits on the pictures of one request; zero means
// that none is known.
type Limits struct {
	Formats       []visual.Format
	MaxPictures   int
	MaxEdge       int
	ManyPictures  int   // with more pictures than this ...
	ManyMaxEdge   int   // ... each edge is at most this
	MaxImageBytes int64 // of one picture as sent, before base64
	MaxBytes      int64 // of all pictures of a request, before base64
	Source        string
}

// Target is what a picture must fit, in a request of that many.
func (l Limits) Target(pictures int) visual.Target {
	t := visual.Target{Formats: l.Formats, MaxEdge: l.MaxEdge, MaxBytes: l.MaxImageBytes}
	if l.ManyPictures > 0 && pictures > l.ManyPictures && l.ManyMaxEdge > 0 {
		t.MaxEdge = l.ManyMaxEdge
	}
	return t
}

// ModelInfo is what is known of the model without asking it anything.
type ModelInfo struct {
	Name       string // for people and operators: model, API and host
	Key        string // (base URL, API, model): what capability and quarantine are keyed on
	Capability Capability
	Limits     Limits
	Offline    bool
}

// Model is the port to a language model. Generate reports the answer so far
// through draft, which may be nil and must not block. Temporal owns retries:
// Generate tries once.
type Model interface {
	Info(ctx context.Context) ModelInfo
	Generate(ctx context.Context, r ModelRequest, draft func(text string)) (ModelResponse, error)
}

// ErrorKind is why a model gave no answer.
type ErrorKind string

const (
	ErrRateLimited  ErrorKind = "rate_limited"
	ErrUnavailable  ErrorKind = "unavailable" // 5xx, network, timeout
	ErrAuth         ErrorKind = "auth"
	ErrNoVision     ErrorKind = "no_vision"     // names the modality
	ErrBadPicture   ErrorKind = "bad_picture"   // a picture was rejected
	ErrTooLong      ErrorKind = "too_long"      // context or request size
	ErrBadRequest   ErrorKind = "bad_request"   // any other 4xx
	ErrEmptyAnswer  ErrorKind = "empty_answer"  // neither text nor calls
	ErrContentGuard ErrorKind = "content_guard" // the provider's filter
)

// ModelError is the typed error of Generate. Neither sentence quotes a URL, a
// key or a body.
type ModelError struct {
	Kind       ErrorKind
	Permanent  bool // trying the same request again can't help
	RetryAfter time.Duration
	Picture    int // index into ModelRequest.Pictures, -1 when not named
	Person     string
	Operator   string
}

func (e *ModelError) Error() string { return fmt.Sprintf("model: %s: %s", e.Kind, e.Operator) }
