package checkpoints

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// History retells the finished turns of a conversation that began before the
// given one (the empty ID: all of them), the latest maxTurns of them, oldest
// first, and says how many older ones there are.
//
// A deleted message comes with Deleted and no text, and so does what the agent
// said when that was deleted, or drew on something that is: Answer is empty. Three round trips, however many
// turns.
func (db *DB) History(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, before chat.TurnID, maxTurns int) (turns []PastTurn, older int, err error) {
	turns, older, err = db.history(ctx, agent, conv, before, max(maxTurns, 0))
	if err != nil {
		return nil, 0, translate(ctx, "history", err)
	}
	return turns, older, nil
}

func (db *DB) history(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, before chat.TurnID, maxTurns int) ([]PastTurn, int, error) {
	const past = ` FROM turn t WHERE t.agent = $1 AND t.conversation = $2 AND t.state <> 'running' AND (t.started_at, t.id) < ($3, $4)`
	until, id := any("infinity"), ""
	if before != "" {
		t, err := db.turn(ctx, before)
		if err != nil {
			return nil, 0, err
		}
		if t.Agent != agent || t.Conversation != conv {
			return nil, 0, fmt.Errorf("%w: the turn is of another conversation", ErrNotFound)
		}
		until, id = t.StartedAt, string(t.ID)
	}
	var total int
	var found []Turn
	b := &pgx.Batch{}
	b.Queue(`SELECT count(*)`+past, agent, conv, until, id).QueryRow(func(r pgx.Row) error { return r.Scan(&total) })
	b.Queue(`SELECT `+turnColumns+past+` ORDER BY t.started_at DESC, t.id DESC LIMIT $5`, agent, conv, until, id, maxTurns).
		Query(func(r pgx.Rows) (err error) {
			found, err = pgx.CollectRows(r, scanTurn)
			return err
		})
	if err := db.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, 0, err
	}
	slices.Reverse(found)
	turns, err := db.retell(ctx, found)
	return turns, max(total-len(found), 0), err
}

// retell fills in what was said in the turns.
func (db *DB) retell(ctx context.Context, found []Turn) ([]PastTurn, error) {
	turns := make([]PastTurn, len(found))
	at := map[chat.TurnID]*PastTurn{}
	ids := make([]string, len(found))
	stale := map[chat.TurnID]bool{}
	for i, t := range found {
		turns[i].Turn = t
		stale[t.ID] = t.Stale
		at[t.ID], ids[i] = &turns[i], string(t.ID)
	}
	if len(found) == 0 {
		return turns, nil
	}
	b := &pgx.Batch{}
	b.Queue(`SELECT `+messageColumns+`, s.turn FROM step s JOIN message m ON m.id = s.message
		WHERE s.turn = ANY($1) ORDER BY s.turn, s.seq`, ids).Query(func(r pgx.Rows) error {
		for r.Next() {
			var m chat.Message
			var turn chat.TurnID
			if err := scanMessage(r, &m, &turn); err != nil {
				return err
			}
			at[turn].Messages = append(at[turn].Messages, m)
		}
		return r.Err()
	})
	b.Queue(`SELECT `+attachmentColumns+`, s.turn FROM step s JOIN attachment a ON a.message = s.message JOIN message am ON am.id = a.message
		WHERE s.turn = ANY($1) AND a.agent = $2 ORDER BY s.turn, a.ordinal`, ids, found[0].Agent).Query(func(r pgx.Rows) error {
		for r.Next() {
			var turn chat.TurnID
			a, err := scanAttachment(withColumn{r, &turn})
			if err != nil {
				return err
			}
			at[turn].Attachments = append(at[turn].Attachments, a)
		}
		return r.Err()
	})
	// What was never posted was never said; what was deleted is said no more.
	b.Queue(`SELECT o.turn, string_agg(o.text, E'\n' ORDER BY o.at, o.key) FROM post o JOIN turn t ON t.id = o.turn
		LEFT JOIN message m ON m.place = t.place AND m.native_id = o.native_id
		WHERE o.turn = ANY($1) AND o.kind = 'answer' AND o.posted_at IS NOT NULL AND m.deleted_at IS NULL GROUP BY o.turn`, ids).
		Query(func(r pgx.Rows) error {
			for r.Next() {
				var turn chat.TurnID
				var answer string
				if err := r.Scan(&turn, &answer); err != nil {
					return err
				}
				if !stale[turn] {
					at[turn].Answer = answer
				}
			}
			return r.Err()
		})
	if err := db.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	return turns, nil
}

// withColumn scans a row that has one more column than the scanner knows.
type withColumn struct {
	pgx.CollectableRow
	last any
}

func (w withColumn) Scan(to ...any) error { return w.CollectableRow.Scan(append(to, w.last)...) }
