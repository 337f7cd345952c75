package attachments

import (
	"context"
	"errors"
	"fmt"

	"sightline/connectors/chat"
)

// messageDeleted is what the store says of a file, too, whose message is gone:
// it must not depend on the moment.
const messageDeleted = "its message was deleted"

// Screen asks of many attachments at once whether words that draw on them may
// still be used here, and answers with those that may not, and why. It mints
// nothing. Each is asked about by its place as a whole: that its message is
// there is the store's to say, and a Witness's, as deletions are told and
// fetches look again.
func (a *Authorizer) Screen(ctx context.Context, r Request, ids []chat.AttachmentID, action string) (map[chat.AttachmentID]string, error) {
	out := map[chat.AttachmentID]string{}
	places := map[chat.PlaceID]error{}
	var uses []chat.Use
	for _, id := range ids {
		if _, asked := out[id]; asked {
			continue
		}
		rule, reason, err := a.screen(ctx, r, id, places)
		if err != nil {
			return nil, err
		}
		if reason == "" {
			continue
		}
		out[id] = reason
		u := a.use(r, id, action)
		u.Rule, u.Reason = rule, reason
		uses = append(uses, u)
	}
	if len(uses) > 0 {
		if err := a.c.Inventory.RecordUses(ctx, uses); err != nil {
			return nil, fmt.Errorf("record what was screened out: %w", err)
		}
	}
	return out, nil
}

// Gone reports whether a message of a place is deleted, as the store has it or
// as its connector has heard.
func (a *Authorizer) Gone(place chat.Place, m chat.Message) bool {
	w, ok := a.c.Visibility[place.Platform].(Witness)
	return m.Deleted || ok && w.Gone(place, m)
}

// screen gives the rule and the reason of a refusal.
func (a *Authorizer) screen(ctx context.Context, r Request, id chat.AttachmentID, places map[chat.PlaceID]error) (rule, reason string, err error) {
	row, err := a.c.Inventory.Attachment(ctx, r.Agent, r.Conversation, id)
	switch {
	case errors.Is(err, chat.ErrNotFound):
		return "unknown", "no such attachment for this agent in this conversation or around it", nil
	case err != nil:
		return "", "", fmt.Errorf("look up attachment: %w", err)
	case row.State == chat.FileDeleted:
		return "state", "it was deleted", nil
	}
	msg, err := a.c.Inventory.Message(ctx, row.Place, row.Message)
	switch {
	case errors.Is(err, chat.ErrNotFound), err == nil && msg.Deleted:
		return "state", messageDeleted, nil
	case err != nil:
		return "", "", fmt.Errorf("look up source message: %w", err)
	}
	switch src, err := a.c.Inventory.Place(ctx, r.Agent, row.Place); {
	case errors.Is(err, chat.ErrNotFound):
		return "place", "its place is not known", nil
	case err != nil:
		return "", "", fmt.Errorf("look up source place: %w", err)
	case a.Gone(src, msg):
		return "state", messageDeleted, nil
	}
	// The message being answered is on every screen, whatever holds for its
	// place as a whole.
	if row.Message == r.Trigger && row.Place == r.Destination {
		return "", "", nil
	}
	known, asked := places[row.Place]
	if !asked {
		known = a.Known(ctx, r, row.Place, "context")
		if known != nil && !errors.Is(known, ErrNotAvailable) {
			return "", "", known
		}
		places[row.Place] = known
	}
	if known != nil {
		return "place", "its place may not be known of here now", nil
	}
	return "", "", nil
}
