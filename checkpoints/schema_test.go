package checkpoints

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sightline/connectors/chat"
)

// filled has a row in every table.
func filled(t *testing.T) (*DB, Turn) {
	t.Helper()
	db, ctx := open(t), t.Context()
	turn := begun(t, db, "1")
	must[Recorded](t)(db.Record(ctx, posted(room, "2", "t", png("a"))))
	must4[Receipt](t)(db.AppendToolStep(ctx, Step{Turn: turn.ID, Kind: StepTool, Body: json.RawMessage(`1`)}, Receipt{Tool: "t", Verdict: chat.VerdictDone}))
	must[int](t)(db.OpenAudit(ctx, Audit{Turn: turn.ID, Model: "m", Body: json.RawMessage(`{"a":1}`)}))
	must2[Post](t)(db.IntendPost(ctx, Post{Key: "k", Turn: turn.ID, Kind: chat.ReplyAnswer}))
	for _, err := range []error{
		db.RecordUses(ctx, []chat.Use{{Agent: "main"}}),
		db.PutQuarantine(ctx, Quarantine{Digest: strings.Repeat("a", 64)}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return db, turn
}

func TestRowsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	db, turn := filled(t)
	for _, sql := range []string{
		`UPDATE step SET body = '2'`, `UPDATE step SET at = now() WHERE seq = 0`, `DELETE FROM step`, `TRUNCATE step CASCADE`,
		`UPDATE receipt SET verdict = 'refused'`, `DELETE FROM receipt`, `TRUNCATE receipt`,
		`UPDATE use SET allowed = true`, `DELETE FROM use`, `TRUNCATE use`,
		`UPDATE audit SET body = '2'`, `UPDATE audit SET body = '2', outcome = 'x'`, `UPDATE audit SET pictures = '[1]', outcome = 'x'`,
		`UPDATE audit SET model = 'n', outcome = 'x'`, `UPDATE audit SET took_ns = 1`, `DELETE FROM audit`, `TRUNCATE audit`,
		`INSERT INTO step SELECT * FROM step ON CONFLICT (turn, seq) DO UPDATE SET body = '2'`,
	} {
		_, err := db.pool.Exec(t.Context(), sql)
		if err = translate(t.Context(), "rewrite", err); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "_append_only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := db.CloseAudit(t.Context(), turn.ID, 0, 1, "answered", 1, 1, 1); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`UPDATE audit SET outcome = 'other'`, `UPDATE audit SET input_tokens = 9`} {
		if _, err := db.pool.Exec(t.Context(), sql); !errors.Is(translate(t.Context(), "rewrite", err), ErrInvalid) {
			t.Errorf("closed, then %s: %v", sql, err)
		}
	}
	if string(must[[]Step](t)(db.Steps(t.Context(), turn.ID))[0].Body) != "1" {
		t.Error("the step changed")
	}
}

func TestChecksRefuse(t *testing.T) {
	t.Parallel()
	db, _ := filled(t)
	for _, set := range []string{
		`place SET id = 'room'`, `place SET id = 'plc_0000000000000000000000000u'`, `place SET agent = ''`, `place SET platform = 'Dis cord'`,
		`place SET kind = 'cafe'`, `place SET epoch = -1`, `place SET parent = ''`, `place SET channel = repeat('x', 1025)`,
		`conversation SET id = 'plc_00000000000000000000000000'`, `conversation SET last_ordinal = -1`, `conversation SET agent = 'other'`,
		`message SET text = repeat('x', 262145)`, `message SET text = 'x', deleted_at = now()`, `message SET native_id = ''`, `message SET author = '[]'`,
		`message SET reply_to = 'x'`, `message SET place = 'plc_00000000000000000000000000'`,
		`attachment SET id = 'att_short'`, `attachment SET size = -1`, `attachment SET width = -1`, `attachment SET ordinal = 0`, `attachment SET idx = -1`,
		`attachment SET digest = repeat('A', 64)`, `attachment SET digest = repeat('a', 63)`, `attachment SET digest = ''`, `attachment SET state = 'x'`,
		`attachment SET origin = ''`, `attachment SET native_file = ''`, `attachment SET agent = 'other'`, `attachment SET name = repeat('x', 1025)`,
		`turn SET state = 'done'`, `turn SET state = 'failed'`, `turn SET finished_at = now()`, `turn SET reason = repeat('x', 8193)`, `turn SET id = 'x'`,
		`post SET text = repeat('x', 262145)`, `post SET kind = 'joke'`, `post SET native_id = 'x'`, `post SET native_id = '', posted_at = now()`, `post SET key = ''`,
		`quarantine SET digest = 'x'`, `quarantine SET reason = repeat('x', 1025)`,
	} {
		_, err := db.pool.Exec(t.Context(), "UPDATE "+set)
		if err = translate(t.Context(), "x", err); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "constraint") {
			t.Errorf("%s: %v", set, err)
		}
	}
	for _, values := range []string{
		`step SELECT id, -1, 'assistant', NULL, '1', repeat('a', 64), now() FROM turn`,
		`step SELECT id, 9, 'assistant', NULL, NULL, NULL, now() FROM turn`,
		`step SELECT id, 9, 'assistant', message, '1', repeat('a', 64), now() FROM turn`,
		`step SELECT id, 9, 'user', NULL, NULL, NULL, now() FROM turn`,
		`step SELECT id, 9, 'thought', NULL, '1', repeat('a', 64), now() FROM turn`,
		`step SELECT id, 9, 'assistant', NULL, '1', NULL, now() FROM turn`,
		`step SELECT id, 9, 'assistant', NULL, to_json(repeat('x', 1048576)), repeat('a', 64), now() FROM turn`,
		`step VALUES ('trn_00000000000000000000000000', 9, 'assistant', NULL, '1', repeat('a', 64), now())`,
		`receipt SELECT id, 9, 't', '', 'done', '', '[]', now() FROM turn`,
		`receipt SELECT id, 0, 't', '', 'done', '', '{}', now() FROM turn`,
		`receipt SELECT id, 0, '', '', 'done', '', '[]', now() FROM turn`,
		`receipt SELECT id, 0, 't', '', 'done', '', json_build_array(repeat('x', 65536)), now() FROM turn`,
		`audit SELECT id, 9, 0, 'm', '1', '[]', 0, 0, '', 0, now() FROM turn`,
		`audit SELECT id, 9, 1, 'm', '1', '[]', -1, 0, '', 0, now() FROM turn`,
		`audit SELECT id, 9, 1, 'm', to_json(repeat('x', 1048576)), '[]', 0, 0, '', 0, now() FROM turn`,
	} {
		_, err := db.pool.Exec(t.Context(), "INSERT INTO "+values)
		if err = translate(t.Context(), "x", err); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// No column is made for pixels: none is of a binary type, and none of the
// names says that it holds an address.
func TestSchemaHasNoColumnForPixels(t *testing.T) {
	t.Parallel()
	db := open(t)
	var bad []string
	err := db.pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(table_name || '.' || column_name), '{}') FROM information_schema.columns
		WHERE table_schema = 'public' AND (data_type = 'bytea' OR data_type = 'oid' OR column_name ~ '(url|href|path|blob|pixels|data)')`).Scan(&bad)
	if err != nil || len(bad) > 0 {
		t.Errorf("%v, %v", bad, err)
	}
}
