package checkpoints

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Record makes one platform event durable: its place, its message and the
// metadata of its files. The same event may come twice, and events may come in
// any order.
//
//	            Posted            Edited              Deleted
//	absent      insert, New       insert, New         insert a tombstone
//	live        merge new files   text, files as now  deleted, text dropped
//	deleted     stays deleted     stays deleted       stays deleted
//
// A platform's own order of edits can't be read from their revisions, so of two
// edits the one that arrives last is kept; whoever fetches compares the
// revision with the platform's.
func (db *DB) Record(ctx context.Context, e chat.Event) (Recorded, error) {
	e, err := cleanEvent(e)
	if err != nil {
		return Recorded{}, translate(ctx, "record event", err)
	}
	var done change
	err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		before, err := lockConversation(ctx, tx, e)
		if err != nil {
			return err
		}
		done = decide(before, e)
		return done.write(ctx, tx)
	})
	if err != nil {
		return Recorded{}, translate(ctx, "record event", err)
	}
	return Recorded{
		Conversation: done.conversation,
		Message:      done.message.Message,
		Attachments:  done.attachments,
		New:          done.inserted && !done.message.Deleted,
		Tombstone:    done.message.Deleted,
	}, nil
}

// known is what the store holds of an event's message before the event.
type known struct {
	lastOrdinal int
	message     *storedMessage // nil: none
	attachments []chat.Attachment
}

type storedMessage struct {
	chat.Message
	edited bool
}

// lockConversation makes sure of place and conversation and takes the
// conversation's row lock. Everything after it in this transaction is alone in
// the conversation, so it may read, decide and write.
func lockConversation(ctx context.Context, tx pgx.Tx, e chat.Event) (known, error) {
	p, conv := e.Place, e.Place.Conversation()
	b := &pgx.Batch{}
	meet(b, p)
	b.Queue(`UPDATE place SET parent = coalesce($3, parent), kind = $4, epoch = greatest($5, epoch)
		WHERE id = $1 AND agent = $2 AND (kind <> $4 OR epoch < $5 OR parent IS DISTINCT FROM coalesce($3, parent))`,
		p.ID, p.Agent, null(p.Parent), p.Kind, p.Epoch)
	var k known
	b.Queue(`SELECT last_ordinal FROM conversation WHERE id = $1 FOR NO KEY UPDATE`, conv).QueryRow(func(r pgx.Row) error {
		return r.Scan(&k.lastOrdinal)
	})
	b.Queue(`SELECT `+messageColumns+`, m.edited_at IS NOT NULL FROM message m WHERE m.id = $1`, e.Message.ID).Query(func(r pgx.Rows) error {
		for r.Next() {
			var m storedMessage
			if err := scanMessage(r, &m.Message, &m.edited); err != nil {
				return err
			}
			k.message = &m
		}
		return r.Err()
	})
	b.Queue(`SELECT `+attachmentColumns+` FROM `+attachmentTables+` WHERE a.agent = $1 AND a.message = $2 ORDER BY a.ordinal`,
		p.Agent, e.Message.ID).Query(func(r pgx.Rows) (err error) {
		k.attachments, err = pgx.CollectRows(r, scanAttachment)
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return known{}, err
	}
	return k, nil
}

// meet makes sure of a place's row and its conversation's.
func meet(b *pgx.Batch, p chat.Place) {
	// Without a conflict target: a place has two unique keys, and an arbiter
	// for one would leave racing first events to fail on the other.
	b.Queue(`INSERT INTO place (id, agent, platform, workspace, channel, thread, parent, kind, epoch)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
		p.ID, p.Agent, p.Platform, p.Workspace, p.Channel, p.Thread, null(p.Parent), p.Kind, p.Epoch)
	b.Queue(`INSERT INTO conversation (id, agent, place) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, p.Conversation(), p.Agent, p.ID)
}

// write stores a change. Rows that are as they were are not written.
func (c *change) write(ctx context.Context, tx pgx.Tx) error {
	b := &pgx.Batch{}
	m := c.message
	switch {
	case c.inserted:
		b.Queue(`INSERT INTO message (id, conversation, place, native_id, revision, author, from_agent, text, at, reply_to, edited_at, deleted_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CASE WHEN $11 THEN now() END, CASE WHEN $12 THEN now() END)`,
			m.ID, c.conversation, m.Place, m.NativeID, m.Revision, actorJSON(m.Author), m.FromAgent, m.Text, m.At, null(m.ReplyTo), m.edited, m.Deleted)
	case c.updated:
		b.Queue(`UPDATE message SET revision = $2, text = $3,
				edited_at  = CASE WHEN $4 THEN now() ELSE edited_at END,
				deleted_at = CASE WHEN $5 THEN coalesce(deleted_at, now()) END
			WHERE id = $1`, m.ID, m.Revision, m.Text, m.edited, m.Deleted)
	}
	added := 0
	for _, f := range c.files {
		a := c.attachments[f.at]
		if !f.insert {
			b.Queue(`UPDATE attachment SET idx = $2, state = $3, state_reason = $4 WHERE id = $1`, a.ID, a.Index, a.State, a.StateReason)
			continue
		}
		added++
		b.Queue(`INSERT INTO attachment (id, agent, conversation, place, message, ordinal, idx, native_file, name, declared_type,
				sniffed_type, size, width, height, origin, state, state_reason)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
			a.ID, a.Agent, a.Conversation, a.Place, a.Message, a.Ordinal, a.Index, a.NativeFile, a.Name, a.DeclaredType,
			a.SniffedType, a.Size, a.Width, a.Height, a.Origin, a.State, a.StateReason)
	}
	if added > 0 {
		b.Queue(`UPDATE conversation SET last_ordinal = last_ordinal + $2 WHERE id = $1`, c.conversation, added)
	}
	c.lose(b, c.agent)
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
}

// cleanEvent makes every string of the event one that can be stored, before
// anything is derived from it, and derives the message's identity.
func cleanEvent(e chat.Event) (chat.Event, error) {
	var err error
	if e.Place, err = cleanPlace(e.Place); err != nil {
		return e, err
	}
	p, m := e.Place, &e.Message
	m.NativeID = clean(m.NativeID)
	if m.NativeID == "" {
		return e, fmt.Errorf("%w: the event names no message", ErrInvalid)
	}
	m.ID, m.Place = chat.MessageOf(p.ID, m.NativeID), p.ID
	m.Revision, m.Text, m.Author, m.At = label(m.Revision), bounded(m.Text), cleanActor(m.Author), stamp(m.At)
	switch e.Kind {
	case chat.MessagePosted, chat.MessageEdited:
		m.Deleted = false
	case chat.MessageDeleted:
		m.Deleted, m.Text, e.Files = true, "", nil
	default:
		return e, fmt.Errorf("%w: the event is of no known kind", ErrInvalid)
	}
	files := make([]chat.File, len(e.Files))
	for i, f := range e.Files {
		files[i] = cleanFile(f)
	}
	e.Files = files
	return e, nil
}

func cleanPlace(p chat.Place) (chat.Place, error) {
	p.Workspace, p.Channel, p.Thread = clean(p.Workspace), clean(p.Channel), clean(p.Thread)
	p.Epoch = max(p.Epoch, 0)
	if p.ID == "" || p.Agent == "" {
		return p, fmt.Errorf("%w: the event names no place", ErrInvalid)
	}
	return p, nil
}

func cleanFile(f chat.File) chat.File {
	f.NativeID, f.Name, f.DeclaredType, f.SniffedType = clean(f.NativeID), label(f.Name), label(f.DeclaredType), label(f.SniffedType)
	f.Size, f.Width, f.Height = max(f.Size, 0), max(f.Width, 0), max(f.Height, 0)
	if f.Origin == "" {
		f.Origin = chat.OriginDirect
	}
	return f
}
