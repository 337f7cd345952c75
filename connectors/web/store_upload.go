package web

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

type upload struct {
	ID           string
	Conversation string
	Message      string // empty: not sent yet
	Name         string
	DeclaredType string
	SniffedType  string
	Size         int64
	Width        int // upright
	Height       int
	Note         string // why it is not shown as a picture; empty: it is
}

const uploadColumns = `u.id, u.conversation, coalesce(u.message, ''), u.name, u.declared_type, u.sniffed_type, u.size, u.width, u.height, u.note`

func scanUpload(r pgx.CollectableRow) (u upload, err error) {
	err = r.Scan(&u.ID, &u.Conversation, &u.Message, &u.Name, &u.DeclaredType, &u.SniffedType, &u.Size, &u.Width, &u.Height, &u.Note)
	return u, err
}

func (s store) selectUploads(ctx context.Context, query string, args ...any) ([]upload, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, translate("read uploads", err)
	}
	list, err := pgx.CollectRows(rows, scanUpload)
	return list, translate("read uploads", err)
}

func (s store) addUpload(ctx context.Context, owner string, u upload) error {
	_, err := s.pool.Exec(ctx, `insert into web_upload
		(id, conversation, owner, name, declared_type, sniffed_type, size, width, height, note)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		u.ID, u.Conversation, owner, u.Name, u.DeclaredType, u.SniffedType, u.Size, u.Width, u.Height, u.Note)
	return translate("store upload", err)
}

// stored is how many bytes a conversation's files take.
func (s store) stored(ctx context.Context, conv string) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `select coalesce(sum(size), 0)::bigint from web_upload
		where conversation = $1 and removed_at is null`, conv).Scan(&n)
	return n, translate("measure uploads", err)
}

func (s store) uploadsOf(ctx context.Context, messages []string) ([]upload, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	return s.selectUploads(ctx, `select `+uploadColumns+` from web_upload u
		where u.message = any($1) order by u.message, u.position`, messages)
}

// readable finds a file that its owner may look at: unsent, or of a message
// that is still there.
func (s store) readable(ctx context.Context, owner, id string) (upload, error) {
	if !isID(uploadPrefix, id) {
		return upload{}, errNotFound
	}
	return first(s.selectUploads(ctx, `select `+uploadColumns+` from web_upload u
		join web_conversation c on c.id = u.conversation
		left join web_message m on m.id = u.message
		where u.id = $1 and c.agent = $2 and c.owner = $3 and u.owner = $3
		  and u.removed_at is null and m.deleted_at is null`, id, s.agent, owner))
}

// live finds a file as its message has it now.
func (s store) live(ctx context.Context, conv, native, revision, id string) (upload, error) {
	if !isID(uploadPrefix, id) {
		return upload{}, errNotFound
	}
	return first(s.selectUploads(ctx, `select `+uploadColumns+` from web_upload u
		join web_message m on m.id = u.message
		join web_conversation c on c.id = m.conversation
		where u.id = $1 and m.id = $2 and m.revision::text = $3 and c.id = $4 and c.agent = $5
		  and u.removed_at is null and m.deleted_at is null`, id, native, revision, conv, s.agent))
}

// lives reports whether a message is there now.
func (s store) lives(ctx context.Context, conv string, m chat.MessageID) (ok bool, err error) {
	err = s.pool.QueryRow(ctx, `select exists (select 1 from web_message m
		join web_conversation c on c.id = m.conversation
		where m.message_id = $1 and c.id = $2 and c.agent = $3 and m.deleted_at is null)`, m, conv, s.agent).Scan(&ok)
	return ok, translate("read message", err)
}

// dropUnsent forgets one unsent upload.
func (s store) dropUnsent(ctx context.Context, conv, owner, id string) error {
	tag, err := s.pool.Exec(ctx, `update web_upload set removed_at = now()
		where id = $1 and conversation = $2 and owner = $3 and message is null and removed_at is null`, id, conv, owner)
	if err == nil && tag.RowsAffected() == 0 {
		return errNotFound
	}
	return translate("remove upload", err)
}

// dropStale forgets unsent uploads made before t.
func (s store) dropStale(ctx context.Context, t time.Time) (int64, error) {
	tag, err := s.pool.Exec(ctx, `update web_upload u set removed_at = now() from web_conversation c
		where c.id = u.conversation and c.agent = $2 and u.message is null and u.removed_at is null and u.created_at < $1`, t, s.agent)
	return tag.RowsAffected(), translate("sweep uploads", err)
}

// kept tells which of the ids still have a use for their file.
func (s store) kept(ctx context.Context, ids []string) (map[string]bool, error) {
	rows, err := s.pool.Query(ctx, `select id from web_upload where id = any($1) and removed_at is null`, ids)
	if err != nil {
		return nil, translate("sweep uploads", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	keep := make(map[string]bool, len(list))
	for _, id := range list {
		keep[id] = true
	}
	return keep, translate("sweep uploads", err)
}

func first(list []upload, err error) (upload, error) {
	if err != nil {
		return upload{}, err
	}
	if len(list) == 0 {
		return upload{}, errNotFound
	}
	return list[0], nil
}
