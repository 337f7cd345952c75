package checkpoints

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// staleTurns marks what draws on a message or attachments that are gone: the
// turns that had them (or quoted the message, whose answer they began with), of
// the conversation and of those around it, and, since
// an answer is made of all that was said before it, every later turn of the
// same conversation. $1 is the agent, $2 the conversation of what is gone.
const staleTurns = `WITH used AS (
	SELECT t.conversation, min(t.started_at) AS since FROM turn t
	WHERE t.agent = $1 AND (t.conversation = $2 OR t.place IN ` + around + `) AND (
		EXISTS (SELECT FROM step s JOIN message m ON m.id = s.message WHERE s.turn = t.id AND (m.id = $3 OR m.reply_to = $3))
		OR EXISTS (SELECT FROM audit u, json_array_elements(u.pictures) i WHERE u.turn = t.id
			AND (i->>'attachment' = ANY($4) OR EXISTS (SELECT FROM json_array_elements_text(coalesce(i->'sources', '[]')) o WHERE o = ANY($4))))
		OR EXISTS (SELECT FROM receipt r, json_array_elements(r.selected) i WHERE r.turn = t.id
			AND (i->>'attachment' = ANY($4) OR EXISTS (SELECT FROM json_array_elements_text(coalesce(i->'sources', '[]')) o WHERE o = ANY($4)))))
	GROUP BY t.conversation)
	UPDATE turn t SET stale_at = now() FROM used WHERE t.conversation = used.conversation AND t.agent = $1
		AND t.started_at >= used.since AND t.stale_at IS NULL`

// lose marks what draws on what a change takes away.
func (c *change) lose(b *pgx.Batch, agent chat.AgentID) {
	message := chat.MessageID("")
	if c.updated && c.message.Deleted {
		message = c.message.ID
	}
	var gone []string
	for _, f := range c.files {
		if a := c.attachments[f.at]; !f.insert && a.State == chat.FileDeleted {
			gone = append(gone, string(a.ID))
		}
	}
	if message != "" || len(gone) > 0 {
		b.Queue(staleTurns, agent, c.conversation, string(message), gone)
	}
}

// Discard writes down that the answer of a step is not posted, and why. The
// turn is as new from then on: its next answer is made without it.
func (db *DB) Discard(ctx context.Context, turn chat.TurnID, seq int, reason string) error {
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO discard (turn, seq, reason) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, turn, seq, label(reason)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE turn SET stale_at = NULL WHERE id = $1`, turn)
		return err
	})
	return translate(ctx, "discard answer", err)
}

// Discarded is the last step of a turn whose answer was discarded; -1: none.
func (db *DB) Discarded(ctx context.Context, turn chat.TurnID) (int, error) {
	var seq int
	err := db.pool.QueryRow(ctx, `SELECT coalesce(max(seq), -1) FROM discard WHERE turn = $1`, turn).Scan(&seq)
	return seq, translate(ctx, "discarded answers", err)
}

// Label is what an assistant step draws on.
type Label struct {
	Attachments []chat.AttachmentID
	Places      []chat.PlaceID
}

// PutLabel keeps the label of a step, before the step itself: one without a
// label would be made of nothing known.
func (db *DB) PutLabel(ctx context.Context, turn chat.TurnID, seq int, l Label) error {
	attachments, err1 := json.Marshal(append([]chat.AttachmentID{}, l.Attachments...))
	places, err2 := json.Marshal(append([]chat.PlaceID{}, l.Places...))
	if err := errors.Join(err1, err2); err != nil {
		return failure("put label", ErrInvalid, "it is not JSON")
	}
	_, err := db.pool.Exec(ctx, `INSERT INTO provenance (turn, seq, attachments, places) VALUES ($1, $2, $3, $4)
		ON CONFLICT (turn, seq) DO UPDATE SET attachments = excluded.attachments, places = excluded.places, at = now()`,
		turn, seq, string(attachments), string(places))
	return translate(ctx, "put label", err)
}

// Labels are those of a turn's steps.
func (db *DB) Labels(ctx context.Context, turn chat.TurnID) (map[int]Label, error) {
	out := map[int]Label{}
	rows, err := db.pool.Query(ctx, `SELECT seq, attachments, places FROM provenance WHERE turn = $1`, turn)
	if err != nil {
		return nil, translate(ctx, "labels of turn", err)
	}
	var seq int
	var l Label
	_, err = pgx.ForEachRow(rows, []any{&seq, &l.Attachments, &l.Places}, func() error {
		out[seq] = Label{Attachments: slices.Clone(l.Attachments), Places: slices.Clone(l.Places)}
		return nil
	})
	return out, translate(ctx, "labels of turn", err)
}

// Terms are the places that each turn's tools told of, and those of the
// attachments that its answers draw on: a picture that was looked at by its ID
// is of a place just as one from a list is.
func (db *DB) Terms(ctx context.Context, turns []chat.TurnID) (map[chat.TurnID][]chat.PlaceID, error) {
	out := map[chat.TurnID][]chat.PlaceID{}
	rows, err := db.pool.Query(ctx, `SELECT r.turn, p FROM receipt r, json_array_elements_text(r.places) p WHERE r.turn = ANY($1)
		UNION SELECT o.turn, a.place FROM provenance o, json_array_elements_text(o.attachments) i JOIN attachment a ON a.id = i WHERE o.turn = ANY($1)`, texts(turns))
	if err != nil {
		return nil, translate(ctx, "terms of turns", err)
	}
	var turn chat.TurnID
	var place chat.PlaceID
	_, err = pgx.ForEachRow(rows, []any{&turn, &place}, func() error {
		out[turn] = append(out[turn], place)
		return nil
	})
	return out, translate(ctx, "terms of turns", err)
}
