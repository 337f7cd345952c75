package checkpoints

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// BeginTurn stores a running turn, or returns the one that is stored already.
// A turn of the same ID for another message is ErrConflict.
func (db *DB) BeginTurn(ctx context.Context, t Turn) (Turn, error) {
	stored, err := one(ctx, db.pool, scanTurn, `INSERT INTO turn AS t (id, agent, conversation, place, message, actor, workflow_id, run_id,
			state, reason, started_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'running', '', $9)
		ON CONFLICT (id) DO NOTHING RETURNING `+turnColumns,
		t.ID, t.Agent, t.Conversation, t.Place, t.Message, actorJSON(t.Actor), label(t.WorkflowID), label(t.RunID), stamp(t.StartedAt))
	if !errors.Is(err, pgx.ErrNoRows) {
		return stored, translate(ctx, "begin turn", err)
	}
	stored, err = db.turn(ctx, t.ID)
	if err == nil && (stored.Message != t.Message || stored.Agent != t.Agent || stored.Conversation != t.Conversation) {
		return Turn{}, failure("begin turn", ErrConflict, "the turn answers another message")
	}
	return stored, translate(ctx, "begin turn", err)
}

// Turn is one turn, or ErrNotFound.
func (db *DB) Turn(ctx context.Context, id chat.TurnID) (Turn, error) {
	t, err := db.turn(ctx, id)
	return t, translate(ctx, "turn", err)
}

func (db *DB) turn(ctx context.Context, id chat.TurnID) (Turn, error) {
	return one(ctx, db.pool, scanTurn, `SELECT `+turnColumns+` FROM turn t WHERE t.id = $1`, clean(string(id)))
}

// RecentTurns are the latest turns of a conversation and of those around it,
// newest first.
func (db *DB) RecentTurns(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, limit int) ([]Turn, error) {
	t, err := many(ctx, db.pool, scanTurn, `SELECT `+turnColumns+` FROM turn t WHERE t.agent = $1 AND (t.conversation = $2 OR t.place IN `+around+`)
		ORDER BY t.started_at DESC, t.id DESC LIMIT $3`, clean(string(agent)), clean(string(conv)), max(limit, 0))
	return t, translate(ctx, "recent turns", err)
}

// RunningTurns are an agent's unfinished turns, oldest first.
func (db *DB) RunningTurns(ctx context.Context, agent chat.AgentID) ([]Turn, error) {
	t, err := many(ctx, db.pool, scanTurn, `SELECT `+turnColumns+` FROM turn t WHERE t.agent = $1 AND t.state = 'running'
		ORDER BY t.started_at, t.id`, clean(string(agent)))
	return t, translate(ctx, "running turns", err)
}

// FinishTurn ends a running turn. Ending it again the same way changes
// nothing; another way is ErrConflict.
func (db *DB) FinishTurn(ctx context.Context, id chat.TurnID, state TurnState, reason string) error {
	if state == TurnRunning {
		return failure("finish turn", ErrInvalid, "running is not an end")
	}
	tag, err := db.pool.Exec(ctx, `UPDATE turn SET state = $2, reason = $3, finished_at = greatest(now(), started_at)
		WHERE id = $1 AND state = 'running'`, id, state, clip(reason, maxReason))
	if err != nil || tag.RowsAffected() == 1 {
		return translate(ctx, "finish turn", err)
	}
	stored, err := db.turn(ctx, id)
	if err == nil && stored.State != state {
		err = fmt.Errorf("%w: the turn is %s already", ErrConflict, stored.State)
	}
	return translate(ctx, "finish turn", err)
}

// TurnMessages are the messages that began and joined the turn, in order, as
// they are now.
func (db *DB) TurnMessages(ctx context.Context, id chat.TurnID) ([]chat.Message, error) {
	m, err := many(ctx, db.pool, collectMessage, `SELECT `+messageColumns+` FROM step s JOIN message m ON m.id = s.message
		WHERE s.turn = $1 ORDER BY s.seq`, clean(string(id)))
	return m, translate(ctx, "messages of turn", err)
}
