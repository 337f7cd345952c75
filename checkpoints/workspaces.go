package checkpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/chat"
)

// Workspace and WorkspaceFile are the vocabulary's own.
type (
	Workspace     = chat.Workspace
	WorkspaceFile = chat.WorkspaceFile
)

const workspaceColumns = `w.id, w.agent, w.conversation, w.used_at`

func scanWorkspace(r pgx.CollectableRow) (w Workspace, err error) {
	err = r.Scan(&w.ID, &w.Agent, &w.Conversation, &w.UsedAt)
	w.UsedAt = w.UsedAt.UTC()
	return w, err
}

// UseWorkspace is the conversation's workspace, made under the given ID where
// there is none, and notes that it is in use.
func (db *DB) UseWorkspace(ctx context.Context, agent chat.AgentID, conv chat.ConversationID, fresh string) (Workspace, error) {
	w, err := one(ctx, db.pool, scanWorkspace, `INSERT INTO workspace AS w (id, agent, conversation) VALUES ($1, $2, $3)
		ON CONFLICT (agent, conversation) WHERE removed_at IS NULL DO UPDATE SET used_at = now() RETURNING `+workspaceColumns, fresh, agent, conv)
	return w, translate(ctx, "use workspace", err)
}

// LiveWorkspaces are those that were not removed.
func (db *DB) LiveWorkspaces(ctx context.Context) ([]Workspace, error) {
	w, err := many(ctx, db.pool, scanWorkspace, `SELECT `+workspaceColumns+` FROM workspace w WHERE w.removed_at IS NULL ORDER BY w.used_at`)
	return w, translate(ctx, "live workspaces", err)
}

// RetireWorkspace notes that a workspace is gone, unless it was used since.
// The row goes first: whoever asks from here on gets a fresh one.
func (db *DB) RetireWorkspace(ctx context.Context, id string, usedAt time.Time) (retired bool, err error) {
	tag, err := db.pool.Exec(ctx, `UPDATE workspace SET removed_at = now() WHERE id = $1 AND removed_at IS NULL AND used_at <= $2`, id, usedAt)
	return err == nil && tag.RowsAffected() == 1, translate(ctx, "retire workspace", err)
}

// WorkspaceFiles is what is known of the files of a workspace.
func (db *DB) WorkspaceFiles(ctx context.Context, id string) ([]WorkspaceFile, error) {
	f, err := many(ctx, db.pool, func(r pgx.CollectableRow) (f WorkspaceFile, err error) {
		err = r.Scan(&f.Name, &f.Imported, &f.Digest, &f.Sources)
		return f, err
	}, `SELECT name, imported, coalesce(digest, ''), sources FROM workspace_file WHERE workspace = $1 ORDER BY name`, id)
	return f, translate(ctx, "workspace files", err)
}

// PutWorkspaceFiles keeps what is known of files, in place of what was.
func (db *DB) PutWorkspaceFiles(ctx context.Context, id string, files []WorkspaceFile) error {
	b := &pgx.Batch{}
	for _, f := range files {
		sources := f.Sources
		if sources == nil {
			sources = []chat.AttachmentID{}
		}
		j, err := json.Marshal(sources)
		if err != nil {
			return fmt.Errorf("checkpoints: put workspace files: %w", ErrInvalid)
		}
		b.Queue(`INSERT INTO workspace_file (workspace, name, imported, digest, sources) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (workspace, name) DO UPDATE SET imported = excluded.imported, digest = excluded.digest, sources = excluded.sources, at = now()`,
			id, clean(f.Name), f.Imported, null(f.Digest), string(j))
	}
	if b.Len() == 0 {
		return nil
	}
	return translate(ctx, "put workspace files", db.pool.SendBatch(ctx, b).Close())
}

// DropWorkspaceFiles forgets files that are gone.
func (db *DB) DropWorkspaceFiles(ctx context.Context, id string, names []string) error {
	_, err := db.pool.Exec(ctx, `DELETE FROM workspace_file WHERE workspace = $1 AND name = ANY($2)`, id, texts(names))
	return translate(ctx, "drop workspace files", err)
}

// DropWorkspaceSources takes sources out of the row of one name. What another
// process added to it stays.
func (db *DB) DropWorkspaceSources(ctx context.Context, id, name string, lost []chat.AttachmentID) error {
	_, err := db.pool.Exec(ctx, `UPDATE workspace_file SET at = now(), sources = coalesce(
			(SELECT json_agg(s.id ORDER BY s.n) FROM json_array_elements_text(sources) WITH ORDINALITY s(id, n) WHERE s.id <> ALL($3)), '[]')
		WHERE workspace = $1 AND name = $2`, id, clean(name), texts(lost))
	return translate(ctx, "drop workspace sources", err)
}

// GoneSources are the deleted ones of the sources in the rows of this name, by
// live workspace. What the platform withholds, or what isn't known here, is not
// deleted.
func (db *DB) GoneSources(ctx context.Context, name string) (map[string][]chat.AttachmentID, error) {
	out := map[string][]chat.AttachmentID{}
	rows, err := db.pool.Query(ctx, `SELECT w.id, a.id FROM workspace w JOIN workspace_file f ON f.workspace = w.id AND f.name = $1
			CROSS JOIN json_array_elements_text(f.sources) s(id)
			JOIN attachment a ON a.id = s.id AND a.agent = w.agent JOIN message m ON m.id = a.message
		WHERE w.removed_at IS NULL AND (a.state = 'deleted' OR m.deleted_at IS NOT NULL) ORDER BY w.id, a.id`, clean(name))
	if err != nil {
		return nil, translate(ctx, "gone sources", err)
	}
	var id string
	var source chat.AttachmentID
	_, err = pgx.ForEachRow(rows, []any{&id, &source}, func() error {
		out[id] = append(out[id], source)
		return nil
	})
	if err != nil {
		return nil, translate(ctx, "gone sources", err)
	}
	return out, nil
}
