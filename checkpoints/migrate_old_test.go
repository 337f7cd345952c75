package checkpoints

import (
	"fmt"
	"io/fs"
	"log/slog"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"

	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
)

// What a database of the first version held, by hand: the program's own
// writers know newer columns.
const firstRows = `
INSERT INTO place (id, agent, platform, workspace, channel, thread, kind, epoch) VALUES ('%[1]s', 'main', 'discord', 'w', 'room', '', 'channel', 1);
INSERT INTO conversation (id, agent, place, last_ordinal) VALUES ('%[2]s', 'main', '%[1]s', 1);
INSERT INTO message (id, conversation, place, native_id, revision, author, from_agent, text, at) VALUES ('%[3]s', '%[2]s', '%[1]s', '1', 'r1', '{"user":"u1"}', false, 'hello', now());
INSERT INTO attachment (id, agent, conversation, place, message, ordinal, idx, native_file, name, declared_type, sniffed_type, size, width, height, origin, state, state_reason)
	VALUES ('%[5]s', 'main', '%[2]s', '%[1]s', '%[3]s', 1, 0, 'f', 'a.png', 'image/png', '', 10, 0, 0, 'direct', 'available', '');
INSERT INTO turn (id, agent, conversation, place, message, actor, workflow_id, run_id, state, reason, started_at, finished_at)
	VALUES ('%[4]s', 'main', '%[2]s', '%[1]s', '%[3]s', '{"user":"u1"}', 'w', 'r', 'answered', '', now() - interval '1 hour', now());
INSERT INTO step (turn, seq, kind, message, at) VALUES ('%[4]s', 0, 'user', '%[3]s', now());
INSERT INTO step (turn, seq, kind, body, digest, at) VALUES ('%[4]s', 1, 'tool', '{}', repeat('a', 64), now());
INSERT INTO receipt (turn, seq, tool, call_id, verdict, reason, selected, at) VALUES ('%[4]s', 1, 'view_images', 'c', 'done', '', '[{"attachment":"%[5]s"}]', now());
INSERT INTO audit (turn, seq, attempt, model, body, pictures, input_tokens, output_tokens, outcome, took_ns, at) VALUES ('%[4]s', 2, 1, 'm', '{}', '[{"attachment":"%[5]s"}]', 1, 1, 'ok', 1, now());
INSERT INTO post (key, turn, kind, text, native_id, at, posted_at) VALUES ('k', '%[4]s', 'answer', 'an answer', 'n', now(), now());
INSERT INTO use (turn, agent, conversation, actor, attachment, destination, action, allowed, rule, reason, source_epoch, dest_epoch, bytes_fetched, at)
	VALUES ('%[4]s', 'main', '%[2]s', '{"user":"u1"}', '%[5]s', '%[1]s', 'view', true, 'S1', '', 1, 1, 0, now());
`

// Whatever version filled a database, the newest one opens it, loses nothing,
// and works with what is there.
func TestMigratePopulated(t *testing.T) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(files); n++ {
		t.Run(files[n-1], func(t *testing.T) {
			t.Parallel()
			ctx, url := t.Context(), testenv.Postgres(t)
			old := fstest.MapFS{}
			for _, f := range files[:n] {
				b, err := fs.ReadFile(migrations, f)
				if err != nil {
					t.Fatal(err)
				}
				old[f[len("migrations/"):]] = &fstest.MapFile{Data: b}
			}
			pool, err := pgxpool.New(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if err := (&DB{pool: pool, log: slog.New(slog.DiscardHandler)}).Migrate(ctx, "sightline", old); err != nil {
				t.Fatal(err)
			}
			message := chat.MessageOf(room.ID, "1")
			id := chat.NewAttachmentID()
			turn := chat.TurnOf(message)
			if _, err := pool.Exec(ctx, fmt.Sprintf(firstRows, room.ID, room.Conversation(), message, turn, id)); err != nil {
				t.Fatal(err)
			}

			db := openAt(t, url)
			past, older, err := db.History(ctx, "main", room.Conversation(), "", 9)
			if err != nil || older != 0 || len(past) != 1 || past[0].Answer != "an answer" || len(past[0].Attachments) != 1 || past[0].Turn.Stale {
				t.Errorf("history %+v, %v", past, err)
			}
			if a := must[chat.Attachment](t)(db.Attachment(ctx, "main", room.Conversation(), id)); a.Name != "a.png" || a.State != chat.FileAvailable {
				t.Errorf("attachment %+v", a)
			}
			if r := must[[]Receipt](t)(db.Receipts(ctx, turn)); len(r) != 1 || r[0].Selected[0].Attachment != id || len(r[0].Places) != 0 {
				t.Errorf("receipts %+v", r)
			}
			// What is new works on what is old.
			must[int](t)(db.Forget(ctx, "main", room.Conversation(), "", id))
			if got := must[Turn](t)(db.Turn(ctx, turn)); !got.Stale {
				t.Errorf("an old turn does not follow its sources: %+v", got)
			}
		})
	}
}
