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
	var sources []chat.PlaceID
	for _, p := range places {
		_, err := a.visible(ctx, r, p, "")
		if err != nil && r.Trigger != "" {
			_, err = a.visible(ctx, r, p, r.Trigger)
		}
		if err == nil {
			known[p.ID] = p
			sources = append(sources, p.ID)
		}
	}
	if len(sources) == 0 {
		return Page{}, nil
	}
	rows, total, err := a.c.Inventory.Attachments(ctx, r.Agent, r.Conversation, sources, after, limit)
	if err != nil {
		return Page{}, fmt.Errorf("list attachments: %w", err)
	}
	page := Page{Total: total}
	if len(rows) > 0 && len(rows) == limit {
		page.Next = after + len(rows)
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
