package checkpoints

import (
	"context"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// around selects the places of a conversation: its own, and its channel and
// that one's threads (chat.Place.Around). $1 is the agent, $2 the conversation.
const around = `(SELECT p.id FROM conversation c JOIN place h ON h.id = c.place AND h.agent = c.agent
		JOIN place p ON p.agent = h.agent AND p.platform = h.platform AND (p.id = h.id OR p.id = h.parent OR p.parent = h.id OR p.parent = h.parent)
	WHERE c.id = $2 AND c.agent = $1)`

// Attachment is a row of this agent, of this conversation or from around it,
// or ErrNotFound.
func (db *DB) Attachment(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, id chat.AttachmentID) (chat.Attachment, error) {
	a, err := one(ctx, db.pool, scanAttachment, `SELECT `+attachmentColumns+` FROM `+attachmentTables+`
		WHERE a.agent = $1 AND a.id = $3 AND (a.conversation = $2 OR a.place IN `+around+`)`, clean(string(agent)), clean(string(conv)), clean(string(id)))
	return a, translate(ctx, "attachment", err)
}

// Place is a place this agent has heard of.
func (db *DB) Place(ctx context.Context, agent chat.AgentID, id chat.PlaceID) (chat.Place, error) {
	p, err := one(ctx, db.pool, scanPlace, `SELECT `+placeColumns+` FROM place p WHERE p.id = $1 AND p.agent = $2`,
		clean(string(id)), clean(string(agent)))
	return p, translate(ctx, "place", err)
}

// Meet makes a place known without a message of it, so that what is around it
// can be looked up. What is known of it already stays.
func (db *DB) Meet(ctx context.Context, p chat.Place) error {
	p, err := cleanPlace(p)
	if err == nil {
		err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			meet(b, p)
			return tx.SendBatch(ctx, b).Close()
		})
	}
	return translate(ctx, "meet place", err)
}

// MessagesCalled are the messages of a conversation, and from around it, that
// have the platform's ID: Slack shows one in its channel and in its thread.
func (db *DB) MessagesCalled(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, native string) ([]chat.MessageID, error) {
	ids, err := many(ctx, db.pool, pgx.RowTo[chat.MessageID], `SELECT m.id FROM message m WHERE m.native_id = $3 AND m.place IN `+around+` ORDER BY m.id`,
		clean(string(agent)), clean(string(conv)), clean(native))
	return ids, translate(ctx, "messages called", err)
}

// Message is a message of the place, as it is now.
func (db *DB) Message(ctx context.Context, place chat.PlaceID, id chat.MessageID) (chat.Message, error) {
	m, err := one(ctx, db.pool, collectMessage, `SELECT `+messageColumns+` FROM message m WHERE m.id = $1 AND m.place = $2`,
		clean(string(id)), clean(string(place)))
	return m, translate(ctx, "message", err)
}

// maxSources bounds how many places are asked about for one listing. What is
// posted in older threads can still be asked for by its ID.
const maxSources = 100

// SourcePlaces are the places with attachments that the conversation may ask
// for: its own first, then those with the newest ones.
func (db *DB) SourcePlaces(ctx context.Context, agent chat.AgentID, conv chat.ConversationID) ([]chat.Place, error) {
	p, err := many(ctx, db.pool, scanPlace, `SELECT `+placeColumns+` FROM place p
		JOIN (SELECT a.place, bool_or(a.conversation = $2) AS own, max(m.at) AS newest FROM attachment a JOIN message m ON m.id = a.message
			WHERE a.agent = $1 AND (a.conversation = $2 OR a.place IN `+around+`) GROUP BY a.place) s ON s.place = p.id
		WHERE p.agent = $1 ORDER BY s.own DESC, s.newest DESC, p.id LIMIT $3`, agent, conv, maxSources)
	return p, translate(ctx, "source places", err)
}

// Attachments pages over the given source places, and over one message
// wherever it is, the conversation's own attachments first, and counts all of
// them.
func (db *DB) Attachments(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, sources []chat.PlaceID, one chat.MessageID, after, limit int) ([]chat.Attachment, int, error) {
	const where = ` WHERE a.agent = $1 AND (a.place = ANY($3) OR a.message = $4) AND (a.conversation = $2 OR a.place IN ` + around + `)`
	from := texts(sources)
	var rows []chat.Attachment
	var total int
	b := &pgx.Batch{}
	b.Queue(`SELECT count(*) FROM attachment a`+where, agent, conv, from, one).QueryRow(func(r pgx.Row) error { return r.Scan(&total) })
	b.Queue(`SELECT `+attachmentColumns+` FROM `+attachmentTables+where+` ORDER BY a.conversation <> $2, CASE WHEN a.conversation = $2 THEN a.ordinal END, am.at, a.id OFFSET $5 LIMIT $6`,
		agent, conv, from, one, max(after, 0), max(limit, 0)).Query(func(r pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(r, scanAttachment)
		return err
	})
	if err := db.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, 0, translate(ctx, "attachments", err)
	}
	return rows, total, nil
}

// MessageAttachments are the attachments of the given messages, by ordinal.
func (db *DB) MessageAttachments(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, msgs []chat.MessageID) ([]chat.Attachment, error) {
	a, err := many(ctx, db.pool, scanAttachment, `SELECT `+attachmentColumns+` FROM `+attachmentTables+`
		WHERE a.agent = $1 AND a.conversation = $2 AND a.message = ANY($3) ORDER BY a.ordinal`, agent, conv, texts(msgs))
	return a, translate(ctx, "attachments of messages", err)
}

// Learn keeps what a fetch showed. The first digest is the one that later
// fetches are compared with, so it stays, and so do the facts that belong to
// it; a deleted file stays deleted.
func (db *DB) Learn(ctx context.Context, agent chat.AgentID, id chat.AttachmentID, f chat.Facts) error {
	tag, err := db.pool.Exec(ctx, `UPDATE attachment SET
			sniffed_type = CASE WHEN $3 <> '' AND coalesce(digest = $7, true) THEN $3 ELSE sniffed_type END,
			width  = CASE WHEN $4 > 0 AND coalesce(digest = $7, true) THEN $4 ELSE width END,
			height = CASE WHEN $5 > 0 AND coalesce(digest = $7, true) THEN $5 ELSE height END,
			size   = CASE WHEN $6 > 0 AND coalesce(digest = $7, true) THEN $6 ELSE size END,
			digest = coalesce(digest, $7),
			state_reason = CASE WHEN $8 = '' OR state = 'deleted' THEN state_reason ELSE $9 END,
			state  = CASE WHEN $8 = '' OR state = 'deleted' THEN state ELSE $8 END
		WHERE id = $1 AND agent = $2`,
		clean(string(id)), clean(string(agent)), label(f.SniffedType), f.Width, f.Height, f.Size, null(f.Digest), f.State, label(f.StateReason))
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNotFound
	}
	return translate(ctx, "learn about attachment", err)
}

func texts[T ~string](s []T) []string {
	out := make([]string, len(s))
	for i, v := range s {
		out[i] = clean(string(v))
	}
	return out
}
