package web

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// draft is what a person sends.
type draft struct {
	Key     string
	Text    string
	Uploads []string
}

// send writes the message and hands it its files, all or nothing. The same
// key finds the message it wrote before.
func (s store) send(ctx context.Context, c conversation, place chat.PlaceID, author string, d draft) (string, error) {
	id := newID(messagePrefix)
	mid := chat.MessageOf(place, id)
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into web_message (id, conversation, message_id, turn, kind, author, text, client_key)
			values ($1, $2, $3, $4, 'person', $5, $6, $7) on conflict (conversation, author, client_key) do nothing`,
			id, c.ID, mid, chat.TurnOf(mid), author, d.Text, d.Key)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errConflict
		}
		for i, up := range d.Uploads {
			tag, err := tx.Exec(ctx, `update web_upload set message = $1, position = $2
				where id = $3 and conversation = $4 and owner = $5 and message is null and removed_at is null`,
				id, i, up, c.ID, author)
			if err != nil {
				return err
			}
			if tag.RowsAffected() != 1 {
				return errUploads
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errConflict):
		return s.sent(ctx, c, author, d)
	case errors.Is(err, errUploads):
		return "", errUploads
	case err != nil:
		return "", translate("send message", err)
	}
	return id, nil
}

// sent is the message that a key wrote, if it was this very one.
func (s store) sent(ctx context.Context, c conversation, author string, d draft) (string, error) {
	list, err := s.selectMessages(ctx, `select `+messageColumns+` from web_message
		where conversation = $1 and author = $2 and client_key = $3`, c.ID, author, d.Key)
	if err != nil {
		return "", err
	}
	if len(list) != 1 {
		return "", errNotFound
	}
	var ups []string
	for _, u := range list[0].Uploads {
		ups = append(ups, u.ID)
	}
	if list[0].Text != d.Text || !slices.Equal(ups, d.Uploads) {
		return "", errConflict
	}
	return list[0].ID, nil
}

// delete marks a person's message, and what came with it, as gone; it says
// which files are to be removed. Deleting twice is deleting once.
func (s store) delete(ctx context.Context, conv, author, id string) ([]string, error) {
	var ups []string
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `update web_message set deleted_at = coalesce(deleted_at, now())
			where id = $1 and conversation = $2 and author = $3 and kind = 'person'`, id, conv, author)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return pgx.ErrNoRows
		}
		rows, err := tx.Query(ctx, `update web_upload set removed_at = coalesce(removed_at, now())
			where message = $1 returning id`, id)
		if err != nil {
			return err
		}
		ups, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return ups, translate("delete message", err)
}

// pending are a conversation's events that the sink has not taken yet, in
// order. A message deleted before it was handed over is only a deletion.
func (s store) pending(ctx context.Context, conv string) ([]message, error) {
	return s.selectMessages(ctx, `select `+messageColumns+` from web_message
		where conversation = $1 and kind = 'person'
		  and ((deleted_at is null and posted_delivered_at is null)
		    or (deleted_at is not null and deleted_delivered_at is null))
		order by seq limit 100`, conv)
}

// unsettled are the conversations that have pending events.
func (s store) unsettled(ctx context.Context) ([]conversation, error) {
	rows, err := s.pool.Query(ctx, `select c.id, c.owner, c.name, c.created_at from web_conversation c
		where c.agent = $1 and exists (select 1 from web_message m where m.conversation = c.id and m.kind = 'person'
		  and ((m.deleted_at is null and m.posted_delivered_at is null)
		    or (m.deleted_at is not null and m.deleted_delivered_at is null)))`, s.agent)
	if err != nil {
		return nil, translate("find undelivered messages", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c conversation, err error) {
		err = r.Scan(&c.ID, &c.Owner, &c.Name, &c.CreatedAt)
		return c, err
	})
	return list, translate("find undelivered messages", err)
}

func (s store) delivered(ctx context.Context, m message) error {
	column := "posted_delivered_at"
	if m.Deleted {
		column = "deleted_delivered_at"
	}
	_, err := s.pool.Exec(ctx, `update web_message set `+column+` = now() where id = $1`, m.ID)
	return translate("mark message delivered", err)
}

// replied finds what the key said before.
func (s store) replied(ctx context.Context, conv, key string) (id string, err error) {
	err = s.pool.QueryRow(ctx, `select id from web_message where reply_key = $1 and conversation = $2`, key, conv).Scan(&id)
	return id, translate("find reply", err)
}

// reply writes what the agent says, with its files, once for each key.
func (s store) reply(ctx context.Context, conv string, r chat.Reply, files []upload) (string, error) {
	fresh := newID(messagePrefix)
	wrote := false
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into web_message (id, conversation, message_id, turn, kind, author, text, reply_key)
			select $1, c.id, $2, $3, $4, 'agent', $5, $6 from web_conversation c where c.id = $7 and c.agent = $8
			on conflict (reply_key) do nothing`,
			fresh, chat.MessageOf(r.Place.ID, fresh), r.Turn, r.Kind, r.Text, r.Key, conv, s.agent)
		if err != nil {
			return err
		}
		if wrote = tag.RowsAffected() == 1; !wrote {
			return nil
		}
		for i, u := range files {
			// The conversation's owner may open them.
			_, err := tx.Exec(ctx, `insert into web_upload
				(id, conversation, owner, message, position, name, declared_type, sniffed_type, size, width, height, note)
				select $1, c.id, c.owner, $2, $3, $4, '', $5, $6, $7, $8, $9 from web_conversation c where c.id = $10
				on conflict (id) do nothing`,
				u.ID, fresh, i, u.Name, u.SniffedType, u.Size, u.Width, u.Height, u.Note, conv)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", translate("post reply", err)
	}
	if wrote {
		return fresh, nil
	}
	// Either the key was posted before, or there is no such conversation.
	return s.replied(ctx, conv, r.Key)
}
