package web

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sightline/connectors/chat"
)

var (
	errNotFound = errors.New("no such thing here")
	errConflict = errors.New("this key was used for another message")
	errUploads  = errors.New("not all files are unsent uploads of this sender in this conversation")
)

// store is the place's Postgres. Every query names the agent or a
// conversation that was looked up with it.
type store struct {
	pool  *pgxpool.Pool
	agent chat.AgentID
}

type conversation struct {
	ID, Owner, Name string
	CreatedAt       time.Time
}

// kind of a message: a person's, or one of chat.ReplyKind.
const kindPerson = "person"

type message struct {
	Seq       int64
	ID        string
	MessageID chat.MessageID
	Turn      chat.TurnID
	Kind      string
	Author    string
	Revision  int
	Text      string
	At        time.Time
	Deleted   bool
	Uploads   []upload
}

// conversation answers only for the agent's own and the owner's own.
func (s store) conversation(ctx context.Context, owner, id string) (conversation, error) {
	var c conversation
	if !isID(conversationPrefix, id) {
		return c, errNotFound
	}
	err := s.pool.QueryRow(ctx, `select id, owner, name, created_at from web_conversation
		where id = $1 and agent = $2 and owner = $3`, id, s.agent, owner).Scan(&c.ID, &c.Owner, &c.Name, &c.CreatedAt)
	return c, translate("find conversation", err)
}

// listedConversations is how many the side bar has.
const listedConversations = 200

// conversations lists the owner's, the one last used first.
func (s store) conversations(ctx context.Context, owner string) ([]conversation, error) {
	rows, err := s.pool.Query(ctx, `select c.id, c.owner, c.name, c.created_at from web_conversation c
		where c.agent = $1 and c.owner = $2
		order by coalesce((select max(m.at) from web_message m where m.conversation = c.id), c.created_at) desc, c.name
		limit $3`, s.agent, owner, listedConversations)
	if err != nil {
		return nil, translate("list conversations", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c conversation, err error) {
		err = r.Scan(&c.ID, &c.Owner, &c.Name, &c.CreatedAt)
		return c, err
	})
	return list, translate("list conversations", err)
}

// opened lists the owner's, the newest first, without a look at messages.
func (s store) opened(ctx context.Context, owner string, limit int) ([]conversation, error) {
	rows, err := s.pool.Query(ctx, `select id, owner, name, created_at from web_conversation
		where agent = $1 and owner = $2 order by created_at desc, id limit $3`, s.agent, owner, limit)
	if err != nil {
		return nil, translate("list conversations", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c conversation, err error) {
		err = r.Scan(&c.ID, &c.Owner, &c.Name, &c.CreatedAt)
		return c, err
	})
	return list, translate("list conversations", err)
}

// named finds or opens the owner's conversation of that name.
func (s store) named(ctx context.Context, owner, name string) (c conversation, created bool, err error) {
	tag, err := s.pool.Exec(ctx, `insert into web_conversation (id, agent, owner, name) values ($1, $2, $3, $4)
		on conflict (agent, owner, name) do nothing`, newID(conversationPrefix), s.agent, owner, name)
	if err != nil {
		return c, false, translate("open conversation", err)
	}
	err = s.pool.QueryRow(ctx, `select id, owner, name, created_at from web_conversation
		where agent = $1 and owner = $2 and name = $3`, s.agent, owner, name).Scan(&c.ID, &c.Owner, &c.Name, &c.CreatedAt)
	return c, tag.RowsAffected() == 1, translate("open conversation", err)
}

const messageColumns = `seq, id, message_id, turn, kind, author, revision, text, at, deleted_at is not null`

func scanMessage(r pgx.CollectableRow) (m message, err error) {
	err = r.Scan(&m.Seq, &m.ID, &m.MessageID, &m.Turn, &m.Kind, &m.Author, &m.Revision, &m.Text, &m.At, &m.Deleted)
	return m, err
}

// messages are the newest ones that are not deleted, oldest first, with their
// files.
func (s store) messages(ctx context.Context, conv string, limit int) ([]message, error) {
	return s.selectMessages(ctx, `select * from (select `+messageColumns+` from web_message
		where conversation = $1 and deleted_at is null order by seq desc limit $2) t order by seq`, conv, limit)
}

// message answers for a message of the conversation, deleted or not.
func (s store) message(ctx context.Context, conv, id string) (message, error) {
	if !isID(messagePrefix, id) {
		return message{}, errNotFound
	}
	list, err := s.selectMessages(ctx, `select `+messageColumns+` from web_message
		where conversation = $1 and id = $2`, conv, id)
	if err != nil {
		return message{}, err
	}
	if len(list) == 0 {
		return message{}, errNotFound
	}
	return list[0], nil
}

// replyOf finds what the agent said at the end of a turn.
func (s store) replyOf(ctx context.Context, conv string, t chat.TurnID) (message, error) {
	list, err := s.selectMessages(ctx, `select `+messageColumns+` from web_message
		where conversation = $1 and turn = $2 and kind not in ('person', 'beside') order by seq limit 1`, conv, t)
	if err != nil {
		return message{}, err
	}
	if len(list) == 0 {
		return message{}, errNotFound
	}
	return list[0], nil
}

func (s store) selectMessages(ctx context.Context, query string, args ...any) ([]message, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, translate("read messages", err)
	}
	list, err := pgx.CollectRows(rows, scanMessage)
	if err != nil {
		return nil, translate("read messages", err)
	}
	ids := make([]string, len(list))
	at := map[string]int{}
	for i, m := range list {
		ids[i], at[m.ID] = m.ID, i
	}
	ups, err := s.uploadsOf(ctx, ids)
	for _, u := range ups {
		i := at[u.Message]
		list[i].Uploads = append(list[i].Uploads, u)
	}
	return list, err
}

// waiting are the newest messages of people whose own turn has no reply.
// Where nobody can tell which turn a message joined (afterReply), those before
// the last reply are taken to have had a part in it.
func (s store) waiting(ctx context.Context, conv string, afterReply bool) ([]message, error) {
	return s.selectMessages(ctx, `select `+messageColumns+` from web_message m
		where conversation = $1 and kind = 'person' and deleted_at is null
		  and not exists (select 1 from web_message r where r.conversation = $1 and r.turn = m.turn and r.kind not in ('person', 'beside'))
		  and (not $2 or seq > coalesce((select max(seq) from web_message r where r.conversation = $1 and r.kind not in ('person', 'beside')), 0))
		order by seq desc limit 5`, conv, afterReply)
}

// shown are the ids of the newest messages, oldest first.
func (s store) shown(ctx context.Context, conv string, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, `select id from (select id, seq from web_message
		where conversation = $1 and deleted_at is null order by seq desc limit $2) t order by seq`, conv, limit)
	if err != nil {
		return nil, translate("read conversation", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ids, translate("read conversation", err)
}

func (s store) messagesByID(ctx context.Context, conv string, ids []string) ([]message, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.selectMessages(ctx, `select `+messageColumns+` from web_message
		where conversation = $1 and id = any($2) and deleted_at is null order by seq`, conv, ids)
}

// translate is the one place where the driver's errors are read.
func translate(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return errNotFound
	}
	return fmt.Errorf("web: %s: %w", op, err)
}
