package attachments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sightline/connectors/chat"
)

// Grant is the authority to fetch one attachment, once authorized, within one
// activity. Only an Authorizer makes one that works: its fields are
// unexported, its zero value opens nothing, it refuses to be marshalled, and
// it dies with the context it was minted under or at its expiry, whichever
// is first.
type Grant struct{ s *seal }

type seal struct {
	attachment chat.AttachmentID
	agent      chat.AgentID
	locator    Locator
	size       int64 // as the platform said: a hint for the buffer, no bound
	expires    time.Time
	done       <-chan struct{} // of the minting context: the activity's end
	now        func() time.Time
}

// Locator is what a connector needs to find a file on its platform. It comes
// out of a live Grant and from nowhere else.
type Locator struct {
	place    chat.Place
	message  string
	revision string
	file     string
	origin   chat.Origin
}

func (l Locator) Place() chat.Place   { return l.place }
func (l Locator) Message() string     { return l.message } // the platform's message ID
func (l Locator) Revision() string    { return l.revision }
func (l Locator) File() string        { return l.file } // the platform's file ID
func (l Locator) Origin() chat.Origin { return l.origin }

// live is the only check of a grant, used by everything that opens one.
func (g Grant) live(agent chat.AgentID, id chat.AttachmentID) error {
	s := g.s
	if s == nil || s.agent == "" || s.agent != agent || s.attachment == "" || s.attachment != id {
		return ErrGrant
	}
	select {
	case <-s.done:
		return ErrGrant
	default:
	}
	if !s.now().Before(s.expires) {
		return ErrGrant
	}
	return nil
}

// Locator opens the grant for a connector that serves agent.
func (g Grant) Locator(agent chat.AgentID) (Locator, error) {
	if g.s == nil {
		return Locator{}, ErrGrant
	}
	if err := g.live(agent, g.s.attachment); err != nil {
		return Locator{}, err
	}
	return g.s.locator, nil
}

var errSealed = errors.New("attachments: a grant is never serialized")

func (Grant) String() string               { return "[grant]" }
func (Grant) GoString() string             { return "[grant]" }
func (Grant) Format(f fmt.State, _ rune)   { fmt.Fprint(f, "[grant]") }
func (Grant) LogValue() slog.Value         { return slog.StringValue("[grant]") }
func (Grant) MarshalJSON() ([]byte, error) { return nil, errSealed }
func (*Grant) UnmarshalJSON([]byte) error  { return errSealed }
func (Grant) MarshalText() ([]byte, error) { return nil, errSealed }
func (*Grant) UnmarshalText([]byte) error  { return errSealed }
func (Grant) MarshalBinary() ([]byte, error) {
	return nil, errSealed
}
func (*Grant) UnmarshalBinary([]byte) error { return errSealed }
func (Grant) GobEncode() ([]byte, error)    { return nil, errSealed }
func (*Grant) GobDecode([]byte) error       { return errSealed }

func mint(ctx context.Context, a chat.Attachment, p chat.Place, m chat.Message, ttl time.Duration, now func() time.Time) Grant {
	return Grant{&seal{
		attachment: a.ID, agent: a.Agent, size: a.Size, expires: now().Add(ttl), done: ctx.Done(), now: now,
		locator: Locator{place: p, message: m.NativeID, revision: m.Revision, file: a.NativeFile, origin: a.Origin},
	}}
}
