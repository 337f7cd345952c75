package attachments

import (
	"context"
	"fmt"

	"sightline/connectors/chat"
)

// Page is one page of what the conversation holds and the destination may
// know of: a file name discloses too.
type Page struct {
	Items []chat.Attachment
	Total int
	Next  int // pass as after for the next page; 0: this is the last
	// Places are those that the items were posted in, and those that Total
	// counts: what is made of this page is for their readers alone. A place that
	// counts for the message being answered alone is not among them, since
	// whoever reads the answer has that message.
	Places []chat.PlaceID
}

// Known asks whether the destination may still know of what a place holds, as
// a whole: what was listed from it shapes words that name no attachment.
func (a *Authorizer) Known(ctx context.Context, r Request, place chat.PlaceID, action string) error {
	use := a.use(r, "", action)
	src, err := a.c.Inventory.Place(ctx, r.Agent, place)
	d := Refuse("place", "the source place is not known")
	if err != nil {
		err = ErrNotAvailable
	} else {
		// Not for the message being answered, as List does: that one is on every
		// screen, and nothing else of its place need be.
		d, err = a.visible(ctx, r, src, "")
	}
	use.Allowed, use.Rule, use.Reason = err == nil, d.Rule, string(place)+" as a whole: "+d.Reason
	use.SourceEpoch, use.DestEpoch = d.SourceEpoch, d.DestEpoch
	if err == nil {
		return nil // asked before every inference: only refusals are worth a row
	}
	if rerr := a.c.Inventory.RecordUses(ctx, []chat.Use{use}); rerr != nil {
		return fmt.Errorf("record use of place: %w", rerr)
	}
	return err
}

// List pages through the inventory: the conversation's own attachments, then
// those around it, each in the order of posting. A source place counts when it
// is allowed as a whole, or for the message being answered (a command answers
// none); single messages of it may still be refused, and then count for
// nothing.
func (a *Authorizer) List(ctx context.Context, r Request, after, limit int) (Page, error) {
	places, err := a.c.Inventory.SourcePlaces(ctx, r.Agent, r.Conversation)
	if err != nil {
		return Page{}, fmt.Errorf("list attachments: %w", err)
	}
	known := map[chat.PlaceID]chat.Place{}
	var whole []chat.PlaceID
	var one chat.MessageID
	for _, p := range places {
		_, err := a.visible(ctx, r, p, "")
		if err == nil {
			whole = append(whole, p.ID)
		} else if r.Trigger != "" {
			if _, err = a.visible(ctx, r, p, r.Trigger); err == nil {
				one = r.Trigger // how much else its place holds is not to be known
			}
		}
		if err == nil {
			known[p.ID] = p
		}
	}
	if len(known) == 0 {
		return Page{}, nil
	}
	rows, total, err := a.c.Inventory.Attachments(ctx, r.Agent, r.Conversation, whole, one, after, limit)
	if err != nil {
		return Page{}, fmt.Errorf("list attachments: %w", err)
	}
	page := Page{Total: total, Places: whole}
	if next := after + len(rows); len(rows) > 0 && next < total {
		page.Next = next
	}
	uses := make([]chat.Use, 0, len(rows))
	for i, row := range rows {
		row.Ordinal = after + i + 1 // in the list, which is what the asker sees
		subject := row.Message
		if row.State == chat.FileDeleted {
			subject = "" // as in decide
		} else if subject == "" {
			return Page{}, fmt.Errorf("list attachments: %s names no message", row.ID)
		}
		d, err := a.visible(ctx, r, known[row.Place], subject)
		u := a.use(r, row.ID, "list")
		u.Allowed, u.Rule, u.Reason, u.Digest = err == nil, d.Rule, d.Reason, row.Digest
		u.SourceEpoch, u.DestEpoch = d.SourceEpoch, d.DestEpoch
		uses = append(uses, u)
		if err != nil {
			page.Total--
			continue
		}
		page.Items = append(page.Items, row)
	}
	if err := a.c.Inventory.RecordUses(ctx, uses); err != nil {
		return Page{}, fmt.Errorf("record listing: %w", err)
	}
	return page, nil
}
