package checkpoints

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// open gives a test its own migrated database.
func open(t testing.TB) *DB {
	t.Helper()
	return openAt(t, testenv.Postgres(t))
}

func openAt(t testing.TB, url string) *DB {
	t.Helper()
	db, err := Open(t.Context(), url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var (
	alice = chat.Actor{Platform: "discord", Workspace: "w", User: "u1", Name: "Alice", Role: chat.Owner}
	room  = chat.NewPlace("main", "discord", "w", "room", "", chat.Channel)
	then  = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
)

func posted(p chat.Place, native, text string, files ...chat.File) chat.Event {
	return chat.Event{Kind: chat.MessagePosted, Place: p, Files: files,
		Message: chat.Message{NativeID: native, Revision: "r1", Author: alice, Text: text, At: then}}
}

func edited(p chat.Place, native, revision, text string, files ...chat.File) chat.Event {
	e := posted(p, native, text, files...)
	e.Kind, e.Message.Revision = chat.MessageEdited, revision
	return e
}

func deleted(p chat.Place, native string) chat.Event {
	return chat.Event{Kind: chat.MessageDeleted, Place: p, Message: chat.Message{NativeID: native}}
}

func png(native string) chat.File {
	return chat.File{NativeID: native, Name: native + ".png", DeclaredType: "image/png", Size: 10, State: chat.FileAvailable}
}

// begun is a running turn that answers a new message.
func begun(t testing.TB, db *DB, native string) Turn {
	t.Helper()
	r := must[Recorded](t)(db.Record(t.Context(), posted(room, native, "hello "+native)))
	return must[Turn](t)(db.BeginTurn(t.Context(), turnFor(r)))
}

func turnFor(r Recorded) Turn {
	return Turn{ID: chat.TurnOf(r.Message.ID), Agent: "main", Conversation: r.Conversation, Place: r.Message.Place,
		Message: r.Message.ID, Actor: alice, WorkflowID: "wf", RunID: "run", StartedAt: then}
}

// race runs f n times at once and gives all results.
func race[T any](t testing.TB, n int, f func(i int) (T, error)) []T {
	t.Helper()
	out, errs := make([]T, n), make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			out[i], errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func count(t testing.TB, db *DB, table string) (n int) {
	t.Helper()
	if err := db.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// states tells a message's files as "native:state".
func states(as []chat.Attachment) (out []string) {
	for _, a := range as {
		out = append(out, fmt.Sprintf("%s:%s", a.NativeFile, a.State))
	}
	return out
}
