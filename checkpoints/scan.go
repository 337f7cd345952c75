package checkpoints

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Columns are named one by one, never with a star: a later migration may add
// some without breaking statements that are already prepared.

const placeColumns = `p.id, p.agent, p.platform, p.workspace, p.channel, p.thread, coalesce(p.parent, ''), p.kind, p.epoch`

func scanPlace(r pgx.CollectableRow) (p chat.Place, err error) {
	err = r.Scan(&p.ID, &p.Agent, &p.Platform, &p.Workspace, &p.Channel, &p.Thread, &p.Parent, &p.Kind, &p.Epoch)
	return p, err
}

const messageColumns = `m.id, m.place, m.native_id, m.revision, m.author, m.from_agent, m.text, m.at, coalesce(m.reply_to, ''),
	m.deleted_at IS NOT NULL`

func scanMessage(r pgx.CollectableRow, m *chat.Message, more ...any) error {
	to := append([]any{&m.ID, &m.Place, &m.NativeID, &m.Revision, &m.Author, &m.FromAgent, &m.Text, &m.At, &m.ReplyTo, &m.Deleted}, more...)
	err := r.Scan(to...)
	m.At = m.At.UTC()
	return err
}

func collectMessage(r pgx.CollectableRow) (m chat.Message, err error) {
	err = scanMessage(r, &m)
	return m, err
}

const (
	attachmentColumns = `a.id, a.agent, a.conversation, a.place, a.message, a.ordinal, a.idx, a.native_file, a.name, a.declared_type,
		a.sniffed_type, a.size, a.width, a.height, a.origin, a.state, a.state_reason, coalesce(a.digest, ''), am.author, am.at`
	attachmentTables = `attachment a JOIN message am ON am.id = a.message`
)

func scanAttachment(r pgx.CollectableRow) (a chat.Attachment, err error) {
	err = r.Scan(&a.ID, &a.Agent, &a.Conversation, &a.Place, &a.Message, &a.Ordinal, &a.Index, &a.NativeFile, &a.Name, &a.DeclaredType,
		&a.SniffedType, &a.Size, &a.Width, &a.Height, &a.Origin, &a.State, &a.StateReason, &a.Digest, &a.Author, &a.PostedAt)
	a.PostedAt = a.PostedAt.UTC()
	return a, err
}

const turnColumns = `t.id, t.agent, t.conversation, t.place, t.message, t.actor, t.workflow_id, t.run_id, t.state, t.reason,
	t.started_at, t.finished_at, t.stale_at IS NOT NULL`

func scanTurn(r pgx.CollectableRow) (t Turn, err error) {
	var finished *time.Time
	err = r.Scan(&t.ID, &t.Agent, &t.Conversation, &t.Place, &t.Message, &t.Actor, &t.WorkflowID, &t.RunID, &t.State, &t.Reason,
		&t.StartedAt, &finished, &t.Stale)
	t.StartedAt, t.FinishedAt = t.StartedAt.UTC(), utc(finished)
	return t, err
}

const stepColumns = `s.turn, s.seq, s.kind, coalesce(s.message, ''), s.body::text, coalesce(s.digest, ''), s.at`

func scanStep(r pgx.CollectableRow) (s Step, err error) {
	var body *string
	err = r.Scan(&s.Turn, &s.Seq, &s.Kind, &s.Message, &body, &s.Digest, &s.At)
	if body != nil {
		s.Body = []byte(*body)
	}
	s.At = s.At.UTC()
	return s, err
}

const receiptColumns = `r.turn, r.seq, r.tool, r.call_id, r.verdict, r.reason, r.selected, r.places, r.at`

func scanReceipt(r pgx.CollectableRow) (c Receipt, err error) {
	err = r.Scan(&c.Turn, &c.Seq, &c.Tool, &c.CallID, &c.Verdict, &c.Reason, &c.Selected, &c.Places, &c.At)
	c.At = c.At.UTC()
	return c, err
}

const postColumns = `o.key, o.turn, o.kind, o.text, coalesce(o.native_id, ''), o.at, o.posted_at,
	(SELECT d.first FROM draft d WHERE d.key = o.key), (SELECT d.native_id FROM draft d WHERE d.key = o.key)`

func scanPost(r pgx.CollectableRow) (p Post, err error) {
	var posted *time.Time
	var first, draft *string
	err = r.Scan(&p.Key, &p.Turn, &p.Kind, &p.Text, &p.NativeID, &p.At, &posted, &first, &draft)
	if first != nil {
		p.Draft = &chat.Draft{First: *first}
		if draft != nil {
			p.Draft.NativeID = *draft
		}
	}
	p.At, p.PostedAt = p.At.UTC(), utc(posted)
	return p, err
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// one and many run a query whose rows are scanned by hand.
func one[T any](ctx context.Context, q querier, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		var zero T
		return zero, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

func many[T any](ctx context.Context, q querier, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}
