package checkpoints

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sightline/connectors/chat"
)

// What operators ask. Every query here reads; none is bound to one
// conversation, so nothing of it may reach a model or a place.

// OpenToRead connects as someone who only looks: nothing is migrated, and the
// server itself refuses every write.
func OpenToRead(ctx context.Context, url string, log *slog.Logger) (*DB, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	config, err := poolConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, translate(ctx, "open", err)
	}
	db := &DB{pool: pool, log: log}
	if err := db.await(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return db, nil
}

// ConversationRow is a conversation in figures.
type ConversationRow struct {
	ID           chat.ConversationID
	Agent        chat.AgentID
	Place        chat.Place
	Messages     int
	Attachments  int
	Turns        int
	LastTurn     chat.TurnID // the newest; empty: none
	LastState    TurnState
	LastActivity time.Time // when that began; zero: none
}

const conversationRow = `SELECT c.id, c.agent, ` + placeColumns + `,
		(SELECT count(*) FROM message m WHERE m.conversation = c.id),
		(SELECT count(*) FROM attachment a WHERE a.conversation = c.id AND a.agent = c.agent),
		(SELECT count(*) FROM turn t WHERE t.conversation = c.id AND t.agent = c.agent),
		coalesce(l.id, ''), coalesce(l.state, ''), coalesce(l.started_at, 'epoch')
	FROM conversation c JOIN place p ON p.id = c.place AND p.agent = c.agent
	LEFT JOIN LATERAL (SELECT t.id, t.state, t.started_at FROM turn t WHERE t.agent = c.agent AND t.conversation = c.id
		ORDER BY t.started_at DESC, t.id DESC LIMIT 1) l ON true`

func scanConversation(r pgx.CollectableRow) (c ConversationRow, err error) {
	p := &c.Place
	err = r.Scan(&c.ID, &c.Agent, &p.ID, &p.Agent, &p.Platform, &p.Workspace, &p.Channel, &p.Thread, &p.Parent, &p.Kind, &p.Epoch,
		&c.Messages, &c.Attachments, &c.Turns, &c.LastTurn, &c.LastState, &c.LastActivity)
	c.LastActivity = c.LastActivity.UTC()
	if c.LastTurn == "" {
		c.LastActivity = time.Time{}
	}
	return c, err
}

// InspectConversation is one conversation of the agent, or of any when that is
// empty, or ErrNotFound.
func (db *DB) InspectConversation(ctx context.Context, agent chat.AgentID, id chat.ConversationID) (ConversationRow, error) {
	c, err := one(ctx, db.pool, scanConversation, conversationRow+` WHERE c.id = $1 AND ($2 = '' OR c.agent = $2)`, clean(string(id)), clean(string(agent)))
	return c, translate(ctx, "inspect conversation", err)
}

// RecentConversations are the agent's with the newest turns, at most limit.
func (db *DB) RecentConversations(ctx context.Context, agent chat.AgentID, limit int) ([]ConversationRow, error) {
	c, err := many(ctx, db.pool, scanConversation, conversationRow+` WHERE c.agent = $1
		ORDER BY l.started_at DESC NULLS LAST, c.id LIMIT $2`, clean(string(agent)), max(limit, 0))
	return c, translate(ctx, "recent conversations", err)
}

// NewestAttachments are a conversation's own, the newest first.
func (db *DB) NewestAttachments(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, limit int) ([]chat.Attachment, error) {
	a, err := many(ctx, db.pool, scanAttachment, `SELECT `+attachmentColumns+` FROM `+attachmentTables+`
		WHERE a.agent = $1 AND a.conversation = $2 ORDER BY a.ordinal DESC LIMIT $3`, clean(string(agent)), clean(string(conv)), max(limit, 0))
	return a, translate(ctx, "newest attachments", err)
}

// InspectAttachment is one attachment of the agent, or of any when that is
// empty, or ErrNotFound.
func (db *DB) InspectAttachment(ctx context.Context, agent chat.AgentID, id chat.AttachmentID) (chat.Attachment, error) {
	a, err := one(ctx, db.pool, scanAttachment, `SELECT `+attachmentColumns+` FROM `+attachmentTables+`
		WHERE a.id = $1 AND ($2 = '' OR a.agent = $2)`, clean(string(id)), clean(string(agent)))
	return a, translate(ctx, "inspect attachment", err)
}

// TurnUses is the trail of one turn, oldest first: every decision that was
// made for it, also about what does not exist.
func (db *DB) TurnUses(ctx context.Context, agent chat.AgentID, turn chat.TurnID) ([]chat.Use, error) {
	u, err := many(ctx, db.pool, scanUse, `SELECT u.turn, u.agent, u.conversation, u.actor, u.attachment, u.destination, u.action, u.allowed,
			u.rule, u.reason, u.source_epoch, u.dest_epoch, coalesce(u.digest, ''), u.bytes_fetched, u.at
		FROM use u WHERE u.turn = $1 AND u.agent = $2 ORDER BY u.at, u.seq`, label(string(turn)), label(string(agent)))
	return u, translate(ctx, "uses of turn", err)
}

// ModelCall is an audit without its body.
type ModelCall struct {
	Audit
	BodyBytes int64
}

// ModelCalls are the requests of a turn, in order, without their bodies: those
// are up to a megabyte each, and say what people said.
func (db *DB) ModelCalls(ctx context.Context, turn chat.TurnID) ([]ModelCall, error) {
	c, err := many(ctx, db.pool, func(r pgx.CollectableRow) (c ModelCall, err error) {
		var took int64
		err = r.Scan(&c.Turn, &c.Seq, &c.Attempt, &c.Model, &c.BodyBytes, &c.Pictures, &c.InputTokens, &c.OutputTokens, &c.Outcome, &took, &c.At)
		c.Took, c.At = time.Duration(took), c.At.UTC()
		return c, err
	}, `SELECT a.turn, a.seq, a.attempt, a.model, octet_length(a.body::text), a.pictures, a.input_tokens, a.output_tokens, a.outcome, a.took_ns, a.at
		FROM audit a WHERE a.turn = $1 ORDER BY a.seq, a.attempt`, clean(string(turn)))
	return c, translate(ctx, "model calls", err)
}
