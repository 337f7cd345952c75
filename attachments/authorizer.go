package attachments

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sightline/connectors/chat"
)

// Request says who asks, in which conversation, and where the answer will be
// read. The actor comes from the platform's event.
type Request struct {
	Agent        chat.AgentID
	Actor        chat.Actor
	Conversation chat.ConversationID
	Destination  chat.PlaceID
	Trigger      chat.MessageID
	Turn         chat.TurnID
}

// Config is what an Authorizer needs; all of it but the last three is
// required.
type Config struct {
	Inventory  Inventory
	Visibility map[chat.Platform]Visibility
	// Sources serve one agent on one platform each, with that agent's own
	// credentials.
	Sources  map[chat.AgentID]map[chat.Platform]Source
	MaxBytes int64

	TTL time.Duration    // of a grant; default 2 minutes
	Now func() time.Time // default time.Now
	// Guesses is how many unknown IDs one actor may name in one conversation
	// in ten minutes, and five times as many in all, before everything is
	// refused unseen; default 20.
	Guesses int
}

// Authorizer is the one minter of grants.
type Authorizer struct {
	c Config

	mu      sync.Mutex
	guesses map[string][]time.Time
}

// New validates the configuration. A missing connector is not an error here:
// what it would serve is refused.
func New(c Config) (*Authorizer, error) {
	if c.Inventory == nil {
		return nil, errors.New("attachments: no inventory")
	}
	if c.MaxBytes <= 0 {
		return nil, errors.New("attachments: no byte limit")
	}
	if c.TTL == 0 {
		c.TTL = 2 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Guesses == 0 {
		c.Guesses = 20
	}
	return &Authorizer{c: c, guesses: map[string][]time.Time{}}, nil
}

// Authorize decides whether the request may use the attachment now, and mints
// the grant under ctx. The row comes back with the grant; without one it does
// not come back.
func (a *Authorizer) Authorize(ctx context.Context, r Request, id chat.AttachmentID, action string) (Grant, chat.Attachment, error) {
	use := a.use(r, id, action)
	row, src, msg, d, err := a.decide(ctx, r, id)
	use.SourceEpoch, use.DestEpoch = d.SourceEpoch, d.DestEpoch
	use.Rule, use.Reason = d.Rule, d.Reason
	if err == nil && row.State != chat.FileAvailable {
		err = stateError(row)
		use.Rule, use.Reason = "state", err.Error()
	}
	if err == nil && msg.Deleted {
		err = &StateError{ID: id, State: chat.FileDeleted, Person: messageDeleted}
		use.Rule, use.Reason = "state", err.Error()
	}
	use.Allowed = err == nil
	use.Digest = row.Digest
	// A use that leaves no trail does not happen.
	if rerr := a.c.Inventory.RecordUses(ctx, []chat.Use{use}); rerr != nil {
		return Grant{}, chat.Attachment{}, fmt.Errorf("record use of attachment: %w", rerr)
	}
	if err != nil {
		return Grant{}, chat.Attachment{}, err
	}
	return mint(ctx, row, src, msg, a.c.TTL, a.c.Now), row, nil
}

// decide answers with ErrNotAvailable for all that is not this request's to
// see; other errors mean that it could not be established.
func (a *Authorizer) decide(ctx context.Context, r Request, id chat.AttachmentID) (row chat.Attachment, src chat.Place, msg chat.Message, d Decision, err error) {
	refuse := func(rule, reason string) (chat.Attachment, chat.Place, chat.Message, Decision, error) {
		return chat.Attachment{}, chat.Place{}, chat.Message{}, Refuse(rule, reason), ErrNotAvailable
	}
	if a.tooManyGuesses(r) {
		row, src, msg, d, _ = refuse("guess-limit", "too many unknown attachment ids from this actor")
		return row, src, msg, d, ErrLimited
	}
	if _, perr := chat.ParseAttachmentID(string(id)); perr != nil {
		a.guessed(r)
		return refuse("id", "not the shape of an attachment id")
	}
	row, err = a.c.Inventory.Attachment(ctx, r.Agent, r.Conversation, id)
	if errors.Is(err, chat.ErrNotFound) {
		a.guessed(r)
		return refuse("unknown", "no such attachment for this agent in this conversation or around it")
	}
	if err != nil {
		return row, src, msg, Refuse("store", err.Error()), fmt.Errorf("look up attachment: %w", err)
	}
	// The store filters; the authorizer does not take its word for it.
	if row.ID != id || row.Agent != r.Agent || row.Conversation != r.Conversation && row.Conversation != chat.ConversationOf(r.Agent, row.Place) {
		return refuse("unknown", "the store answered with another row")
	}
	if src, err = a.c.Inventory.Place(ctx, r.Agent, row.Place); err != nil {
		return refuse("place", "the source place is not known: "+err.Error())
	}
	if row.Conversation != r.Conversation {
		home, err := a.c.Inventory.Place(ctx, r.Agent, r.Destination)
		if err != nil {
			return refuse("place", "the destination is not known: "+err.Error())
		}
		if home.Conversation() != r.Conversation || !home.Around(src) {
			return refuse("unknown", "the attachment belongs to another conversation")
		}
	}
	if msg, err = a.c.Inventory.Message(ctx, row.Place, row.Message); err != nil {
		return refuse("message", "the source message is not known: "+err.Error())
	}
	// An empty one would ask about the place as a whole instead.
	if msg.ID == "" || msg.ID != row.Message {
		return refuse("message", "the store answered with another message")
	}
	msg.Deleted = a.Gone(src, msg) // its connector may know before the store
	// A message that is gone has no readers to ask about. Whether the place of
	// the answer may hear that it is gone is asked of its place as a whole.
	subject := msg.ID
	if msg.Deleted || row.State == chat.FileDeleted {
		subject = ""
	}
	if d, err = a.visible(ctx, r, src, subject); err != nil {
		return chat.Attachment{}, chat.Place{}, chat.Message{}, d, err
	}
	return row, src, msg, d, nil
}

// visible asks the source's connector. Anything but a clear yes is
// ErrNotAvailable, with the reason in the decision.
func (a *Authorizer) visible(ctx context.Context, r Request, src chat.Place, m chat.MessageID) (Decision, error) {
	dst, err := a.c.Inventory.Place(ctx, r.Agent, r.Destination)
	if err != nil {
		return Refuse("place", "the destination is not known: "+err.Error()), ErrNotAvailable
	}
	if src.Agent != r.Agent || dst.Agent != r.Agent {
		return Refuse("agent", "source or destination belongs to another agent"), ErrNotAvailable
	}
	if src.Platform != dst.Platform {
		return Refuse("platform", "the destination is on another platform than the source"), ErrNotAvailable
	}
	v := a.c.Visibility[src.Platform]
	if v == nil {
		return Refuse("visibility", "no connector answers for "+string(src.Platform)), ErrNotAvailable
	}
	d, err := v.Decide(ctx, Question{Agent: r.Agent, Actor: r.Actor, Source: src, Message: m, Destination: dst, Trigger: r.Trigger})
	if err != nil {
		return Refuse("doubt", "the audience could not be established: "+err.Error()), ErrDoubt
	}
	switch {
	case d.Allowed():
		return d, nil
	case d.Asker():
		return d, ErrAsker
	}
	return d, ErrNotAvailable
}

// Fetch moves the bytes of one attachment under its grant. The source gets
// the grant and a writer that stops at the cap.
func (a *Authorizer) Fetch(ctx context.Context, g Grant, r Request, id chat.AttachmentID) (Content, error) {
	return a.FetchMax(ctx, g, r, id, a.c.MaxBytes)
}

// Largest is the size of the largest file that Fetch returns.
func (a *Authorizer) Largest() int64 { return a.c.MaxBytes }

// FetchMax is Fetch with a lower or higher cap, for kinds with their own.
func (a *Authorizer) FetchMax(ctx context.Context, g Grant, r Request, id chat.AttachmentID, max int64) (Content, error) {
	if err := g.live(r.Agent, id); err != nil {
		return Content{}, err
	}
	l := g.s.locator
	src := a.c.Sources[r.Agent][l.place.Platform]
	if src == nil {
		return Content{}, fmt.Errorf("no connector of this agent serves %s: %w", l.place.Platform, ErrDenied)
	}
	in := newIntake(min(max, g.s.size))
	w := &capped{in: in, left: max}
	err := src.Fetch(ctx, g, w)
	content := in.done()
	if cerr := ctx.Err(); cerr != nil {
		err = cerr
	}
	use := a.use(r, id, "fetch")
	use.BytesFetched, use.Allowed, use.Rule = w.n, err == nil && !w.over, "grant"
	switch {
	case w.over:
		err = &TooLargeError{ID: id, Limit: max}
		use.Reason = err.Error()
	case err != nil:
		use.Reason = err.Error()
	default:
		use.Digest = content.Digest()
	}
	if ctx.Err() == nil {
		if rerr := a.c.Inventory.RecordUses(ctx, []chat.Use{use}); rerr != nil {
			return Content{}, fmt.Errorf("record fetch of attachment: %w", rerr)
		}
	}
	if err != nil {
		return Content{}, err
	}
	return content, nil
}

// Learn keeps what the bytes under a live grant showed.
func (a *Authorizer) Learn(ctx context.Context, g Grant, r Request, id chat.AttachmentID, f chat.Facts) error {
	if err := g.live(r.Agent, id); err != nil {
		return err
	}
	return a.c.Inventory.Learn(ctx, r.Agent, id, f)
}

func (a *Authorizer) use(r Request, id chat.AttachmentID, action string) chat.Use {
	return chat.Use{
		Turn: r.Turn, Agent: r.Agent, Conversation: r.Conversation, Actor: r.Actor, Attachment: id,
		Destination: r.Destination, Action: action, At: a.c.Now(),
	}
}
