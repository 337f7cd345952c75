package checkpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Summary is what older turns of a conversation come down to. Its label are
// the messages and attachments that it was made of.
type Summary struct {
	Agent        chat.AgentID
	Conversation chat.ConversationID
	Seq          int
	Upto         chat.TurnID // the last turn that it retells
	Turns        int         // how many it retells, those of the summary before included
	Text         string
	Messages     []chat.MessageID
	Attachments  []chat.AttachmentID
	// At is when the reading for it began, by the database's clock (Clock): what
	// went stale since then may be in it. Zero: now.
	At time.Time
}

// Clock is the time by which the database stamps its rows.
func (db *DB) Clock(ctx context.Context) (at time.Time, err error) {
	err = db.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at)
	return at, translate(ctx, "clock", err)
}

// LastSummary is the newest one that holds, or ErrNotFound. One of whose
// sources is gone, or was edited since, holds no more, and says so from then on.
// So does one that retells an answer which went stale: what that was made of
// need not be in the turn's own messages, nor in the summary's label.
func (db *DB) LastSummary(ctx context.Context, agent chat.AgentID, conv chat.ConversationID) (Summary, error) {
	_, err := db.pool.Exec(ctx, `UPDATE summary s SET stale_at = now() WHERE s.agent = $1 AND s.conversation = $2 AND s.stale_at IS NULL AND (
		EXISTS (SELECT 1 FROM json_array_elements_text(s.messages) i JOIN message m ON m.id = i
			WHERE m.deleted_at IS NOT NULL OR m.edited_at > s.at)
		OR EXISTS (SELECT 1 FROM json_array_elements_text(s.attachments) i JOIN attachment a ON a.id = i WHERE a.state = 'deleted')
		OR EXISTS (SELECT 1 FROM turn last JOIN turn t ON t.agent = last.agent AND t.conversation = last.conversation
			AND (t.started_at, t.id) <= (last.started_at, last.id) WHERE last.id = s.upto AND t.stale_at >= s.at))`, agent, conv)
	if err != nil {
		return Summary{}, translate(ctx, "stale summaries", err)
	}
	s, err := one(ctx, db.pool, func(r pgx.CollectableRow) (s Summary, err error) {
		err = r.Scan(&s.Agent, &s.Conversation, &s.Seq, &s.Upto, &s.Turns, &s.Text, &s.Messages, &s.Attachments)
		return s, err
	}, `SELECT agent, conversation, seq, upto, turns, text, messages, attachments FROM summary
		WHERE agent = $1 AND conversation = $2 AND stale_at IS NULL ORDER BY seq DESC LIMIT 1`, agent, conv)
	return s, translate(ctx, "last summary", err)
}

// PutSummary keeps a summary. One that retells the same turns stays as it is.
// An empty label is refused: what is made of nothing known is nobody's to read.
func (db *DB) PutSummary(ctx context.Context, s Summary) error {
	if len(s.Messages) == 0 {
		return failure("put summary", ErrInvalid, "a summary without sources")
	}
	messages, err1 := json.Marshal(s.Messages)
	attachments := []byte("[]")
	var err2 error
	if len(s.Attachments) > 0 {
		attachments, err2 = json.Marshal(s.Attachments)
	}
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("checkpoints: put summary: %w", ErrInvalid)
	}
	var at *time.Time
	if !s.At.IsZero() {
		at = &s.At
	}
	_, err := db.pool.Exec(ctx, `INSERT INTO summary (agent, conversation, seq, upto, turns, text, messages, attachments, at)
		SELECT $1::text, $2::text, coalesce(max(seq), 0) + 1, $3::text, $4, $5, $6, $7, coalesce($8::timestamptz, now()) FROM summary WHERE agent = $1::text AND conversation = $2::text
		HAVING NOT EXISTS (SELECT 1 FROM summary WHERE agent = $1::text AND conversation = $2::text AND upto = $3::text AND stale_at IS NULL)`,
		s.Agent, s.Conversation, s.Upto, s.Turns, clip(clean(s.Text), 65536), string(messages), string(attachments), at)
	return translate(ctx, "put summary", err)
}
