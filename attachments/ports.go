package attachments

import (
	"context"
	"io"

	"sightline/connectors/chat"
)

// Visibility is a connector's knowledge of who can read what, asked afresh
// for every decision. A failed or truncated lookup is an error, never an
// allowance.
type Visibility interface {
	Decide(ctx context.Context, q Question) (Decision, error)
}

// Witness is a Visibility that may have heard of a deletion before the store
// has it: from then on nothing of the message is told, not only not shown.
type Witness interface {
	Gone(source chat.Place, m chat.Message) bool
}

// Question asks whether everyone who could read Destination can also open the
// source message at present: R+(destination) ⊆ R-(source).
type Question struct {
	Agent  chat.AgentID
	Actor  chat.Actor
	Source chat.Place
	// Message is the source message. Empty: the place as a whole is asked
	// about, and no rule that rests on one message can hold.
	Message     chat.MessageID
	Destination chat.Place
	Trigger     chat.MessageID // the message being answered
}

// Decision is a verdict with its rule. The zero value refuses.
type Decision struct {
	allowed     bool
	asker       bool
	Rule        string
	Reason      string // for operators
	SourceEpoch int64
	DestEpoch   int64
}

// Allow is the verdict of a structural rule that holds now.
func Allow(rule string, sourceEpoch, destEpoch int64) Decision {
	return Decision{allowed: true, Rule: rule, SourceEpoch: sourceEpoch, DestEpoch: destEpoch}
}

// Refuse is the verdict when no rule holds; reason names what is missing.
func Refuse(rule, reason string) Decision { return Decision{Rule: rule, Reason: reason} }

// RefuseAsker is the verdict when it is the one who asks that may not read the
// source: others may, and what was made of it is not lost.
func RefuseAsker(rule, reason string) Decision {
	return Decision{asker: true, Rule: rule, Reason: reason}
}

// Allowed reports the verdict.
func (d Decision) Allowed() bool { return d.allowed }

// Asker reports whether it is a refusal of the one who asks alone.
func (d Decision) Asker() bool { return d.asker }

// Source is a connector's way to the bytes of one file. It must take the
// Locator from the Grant (which fails for a grant that is zero, expired or
// for another agent), re-read the source message on the platform with the
// agent's own credentials, and write what the message points to now.
// It returns ErrGone, ErrDenied or ErrUnreachable (wrapped) when it can't.
type Source interface {
	Fetch(ctx context.Context, g Grant, dst io.Writer) error
}

// Inventory is the store of attachment rows and of the trail of their use.
// Every query filters by agent and conversation. A row that is not there is
// chat.ErrNotFound.
//
// A conversation's attachments are those of its own place and of the places
// around it (chat.Place.Around): a channel and its threads. Which of them the
// asker may know of, the connector decides.
type Inventory interface {
	Attachment(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, id chat.AttachmentID) (chat.Attachment, error)
	Place(ctx context.Context, agent chat.AgentID, id chat.PlaceID) (chat.Place, error)
	Message(ctx context.Context, place chat.PlaceID, id chat.MessageID) (chat.Message, error)
	// SourcePlaces are those of these places that have attachments: the
	// conversation's own, then those with the newest, a bounded number.
	SourcePlaces(ctx context.Context, agent chat.AgentID, conv chat.ConversationID) ([]chat.Place, error)
	// Attachments skips the first after of the attachments of the given places,
	// and of one message wherever it is (empty: of none), the conversation's own
	// before those around it and each oldest first, and counts all of them.
	Attachments(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, sources []chat.PlaceID, one chat.MessageID, after, limit int) (rows []chat.Attachment, total int, err error)
	// Learn keeps what a fetch showed. Digest is kept only when none is known.
	Learn(ctx context.Context, agent chat.AgentID, id chat.AttachmentID, f chat.Facts) error
	RecordUses(ctx context.Context, uses []chat.Use) error
}
