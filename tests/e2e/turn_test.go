package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"sightline/cmd/local/testenv"
	"sightline/connectors/web"
	"sightline/tests/fakemodel"
	"sightline/workflows"
)

// wait polls for something that has no event of its own.
func wait(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("%s: did not happen", what)
}

// steered reports whether a turn that runs was told of another message: from
// then on its next step has it.
func steered(temporal, turn string) bool {
	c, err := client.Dial(client.Options{HostPort: temporal, Logger: silent{}})
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	it := c.GetWorkflowHistory(ctx, turn, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return false
		}
		if e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == workflows.SignalSteer {
			return true
		}
	}
	return false
}

// holding is a model whose first request waits until it is let go.
func holding(release chan struct{}, then func(fakemodel.Request) fakemodel.Reply) func(fakemodel.Request) fakemodel.Reply {
	first := true
	return func(r fakemodel.Request) fakemodel.Reply {
		if first {
			first = false
			a := calls("list_documents", `{}`)(r)
			a.Wait = release
			return a
		}
		return then(r)
	}
}

// A message that arrives while a turn runs joins it at its next step, with
// its picture; one that comes after the last step starts the next turn.
func TestSteering(t *testing.T) {
	m, env := fake(t, nil)
	p := start(t, home(t), env...)
	one, onePix := noise(t, 50, 40, 31)
	two, twoPix := noise(t, 40, 50, 32)
	release := make(chan struct{})
	m.Answer(holding(release, says("both seen")))
	conv, first := send(t, p.Client, "c", "look at this", file{"one.png", one})
	wait(t, "the first request", func() bool { return len(m.Requests()) == 1 })
	_, second := send(t, p.Client, "c", "and at this one", file{"two.png", two})
	wait(t, "the signal to the turn", func() bool { return steered(p.Ready.Temporal, first.Turn) })
	close(release)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, sent := range []web.Sent{first, second} {
		if a, err := p.Client.Wait(ctx, conv, sent, func(string) {}); err != nil || a.Text != "both seen" {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	r := m.Requests()
	if len(r) != 2 {
		t.Fatalf("%d requests, want one turn of two", len(r))
	}
	if len(r[1].Pictures) != 2 || !samePixels(r[1].Pictures[0].Image, onePix) || !samePixels(r[1].Pictures[1].Image, twoPix) {
		t.Errorf("the second request has %d pictures, or others", len(r[1].Pictures))
	}
	if !strings.Contains(r[1].Last("user"), "two.png") && !strings.Contains(r[1].Messages[len(r[1].Messages)-2].Text, "two.png") {
		t.Errorf("the second request lacks the message: %+v", r[1].Messages)
	}
}

// Stop ends a turn whose model hangs, says so, and the next turn works.
func TestStop(t *testing.T) {
	m, env := fake(t, nil)
	p := start(t, home(t), env...)
	m.Answer(func(fakemodel.Request) fakemodel.Reply {
		return fakemodel.Reply{Text: "late", Wait: make(chan struct{})}
	})
	conv, sent := send(t, p.Client, "c", "take your time")
	wait(t, "the request", func() bool { return len(m.Requests()) == 1 })
	began := time.Now()
	if err := p.Client.Stop(context.Background(), conv); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if a, err := p.Client.Wait(ctx, conv, sent, func(string) {}); err != nil || a.State != "stopped" {
		t.Errorf("%+v, %v", a, err)
	}
	t.Logf("stopped after %v", time.Since(began))
	m.Answer(says("works"))
	if a := ask(t, p.Client, "c", "and now?"); a.Text != "works" {
		t.Errorf("%+v", a)
	}
}

// Deleted while the model thinks: the answer that draws on the picture is
// discarded and made anew without it; deleted before it is asked about:
// refused, with no byte fetched; and the model is told of neither's pixels.
func TestDeletedSources(t *testing.T) {
	m, env := fake(t, nil)
	p := start(t, home(t), env...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pic, _ := noise(t, 50, 40, 33)
	m.Answer(says("a secret"))
	conv, old := send(t, p.Client, "c", "keep this", file{"old.png", pic})
	if a, err := p.Client.Wait(ctx, conv, old, func(string) {}); err != nil || a.Text != "a secret" {
		t.Fatalf("%+v, %v", a, err)
	}
	id := attachmentID(m.Requests()[0], "old.png")

	// While it thinks, after it has looked at the older picture.
	release := make(chan struct{})
	m.Answer(steps(calls("view_images", `{"ids":["`+id+`"]}`), func(fakemodel.Request) fakemodel.Reply {
		return fakemodel.Reply{Text: "the secret again", Wait: release}
	}, says("made without it")))
	_, sent := send(t, p.Client, "c", "what was it?")
	wait(t, "the request", func() bool { return len(m.Requests()) == 3 })
	if n := len(m.Requests()[2].Pictures); n != 1 {
		t.Fatalf("the model was shown %d pictures", n)
	}
	if err := p.Client.Delete(ctx, conv, old.Message); err != nil {
		t.Fatal(err)
	}
	close(release)
	a, err := p.Client.Wait(ctx, conv, sent, func(string) {})
	if err != nil || a.State != "answered" || a.Text != "made without it" {
		t.Errorf("%+v, %v", a, err)
	}
	if r := m.Requests(); len(r) != 4 || len(r[3].Pictures) != 0 || strings.Contains(string(r[3].Raw), "secret") {
		t.Errorf("%d requests, the last %s", len(r), r[len(r)-1].Raw)
	}

	// Afterwards it is listed as deleted and never fetched.
	m.Answer(steps(calls("list_documents", `{}`), calls("view_images", `{"ids":["`+id+`"]}`), says("it is gone")))
	if a := ask(t, p.Client, "c", "look once more"); a.Text != "it is gone" {
		t.Errorf("%+v", a)
	}
	r := m.Requests()
	if l := r[len(r)-2].Last("tool"); !strings.Contains(l, `"state":"deleted"`) {
		t.Errorf("listed as %s", l)
	}
	last := r[len(r)-1]
	if !strings.Contains(last.Last("tool"), "deleted") || len(last.Pictures) != 0 {
		t.Errorf("view_images said %s", last.Last("tool"))
	}
	db, err := pgx.Connect(ctx, p.Ready.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	var fetched int64
	if err := db.QueryRow(ctx, `SELECT coalesce(sum(bytes_fetched), 0) FROM use WHERE attachment = $1 AND at > (SELECT deleted_at FROM message WHERE id = $2)`, id, old.Message).Scan(&fetched); err != nil || fetched != 0 {
		t.Errorf("%d bytes were fetched after the deletion, %v", fetched, err)
	}
}

// A long document never makes a long payload: text is rows, and the history
// of a turn with 200 KB of it stays small.
func TestLongTextsAreRows(t *testing.T) {
	m, env := fake(t, says(strings.Repeat("long answer ", 16<<10)))
	p := start(t, home(t), env...)
	a := ask(t, p.Client, "c", strings.Repeat("long question ", 4<<10))
	if a.State != "answered" || len(a.Text) < 190<<10 {
		t.Fatalf("%s, %d bytes", a.State, len(a.Text))
	}
	m.Answer(says("fine"))
	if a := ask(t, p.Client, "c", "and now?"); a.Text != "fine" {
		t.Errorf("%+v", a)
	}
	c, err := client.Dial(client.Options{HostPort: p.Ready.Temporal})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var list *workflowservice.ListWorkflowExecutionsResponse
	wait(t, "a conversation and its two turns", func() bool { // what is listed follows the histories at a distance
		list, err = c.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default"})
		return err != nil || len(list.Executions) >= 3
	})
	if err != nil || len(list.Executions) != 3 {
		t.Fatalf("%d workflows, %v", len(list.GetExecutions()), err)
	}
	for _, e := range list.Executions {
		d, err := c.DescribeWorkflow(context.Background(), e.Execution.WorkflowId, e.Execution.RunId)
		if err != nil || d.RawResponse.WorkflowExecutionInfo.HistorySizeBytes > 20<<10 {
			t.Errorf("%s: history of %d bytes, %v", e.Execution.WorkflowId, d.RawResponse.WorkflowExecutionInfo.HistorySizeBytes, err)
		}
	}
}

// With services of one's own nothing is managed, and the program works the
// same.
func TestServicesOfOnesOwn(t *testing.T) {
	address, namespace := testenv.Temporal(t)
	m, env := fake(t, says("seen"))
	dir := home(t)
	p := start(t, dir, append(env, "DATABASE_URL="+testenv.Postgres(t), "TEMPORAL_ADDRESS="+address, "TEMPORAL_NAMESPACE="+namespace)...)
	pic, pix := noise(t, 50, 40, 81)
	if a := ask(t, p.Client, "c", "what is it?", file{"p.png", pic}); a.Text != "seen" {
		t.Errorf("%+v", a)
	}
	if r := m.Requests(); len(r) != 1 || len(r[0].Pictures) != 1 || !samePixels(r[0].Pictures[0].Image, pix) {
		t.Errorf("%d requests", len(r))
	}
	for _, managed := range []string{"postgres", "temporal"} {
		if _, err := os.Stat(filepath.Join(dir, managed)); err == nil {
			t.Errorf("a %s was started as well", managed)
		}
	}
}

// historiesVar names a folder for the histories of one turn of each shape:
// tests/replay keeps them, and replays them against the code as it is.
const historiesVar = "SIGHTLINE_WRITE_HISTORIES"

func TestWriteHistories(t *testing.T) {
	dir := os.Getenv(historiesVar)
	if dir == "" {
		t.Skip("set " + historiesVar + " to a folder to write the histories that tests/replay keeps")
	}
	sandboxed(t)
	m, env := fake(t, scripted)
	p := start(t, openHome(t), append(env, "SIGHTLINE_WORKSPACES=on")...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pic, _ := noise(t, 50, 40, 41)
	ask(t, p.Client, "tools", "q older", file{"older.png", pic})
	ask(t, p.Client, "tools", "q tools", file{"newer.png", pic})
	m.Answer(steps(calls("workspace_exec", `{"command":"echo once >> /workspace/log.txt"}`), calls("share_file", `{"path":"/workspace/log.txt"}`), says("shared")))
	ask(t, p.Client, "tools", "run something and post it") // the file may be out before the answer
	closed := func() {
		t.Helper()
		wait(t, "the end of the turn", func() bool {
			return query(t, p, `SELECT count(*)::text FROM turn WHERE state = 'running'`) == "0"
		})
	}
	closed()

	m.Answer(func(fakemodel.Request) fakemodel.Reply { return fakemodel.Reply{Status: 401, Error: "no"} })
	ask(t, p.Client, "failed", "fail")

	// during asks something whose n-th request waits until the world changed.
	during := func(conversation, text string, n int, change func(conv string, s web.Sent), replies ...func(fakemodel.Request) fakemodel.Reply) {
		t.Helper()
		release := make(chan struct{})
		held := replies[n]
		replies[n] = func(r fakemodel.Request) fakemodel.Reply {
			a := held(r)
			a.Wait = release
			return a
		}
		m.Answer(steps(replies...))
		before := len(m.Requests())
		conv, sent := send(t, p.Client, conversation, text)
		wait(t, "the request", func() bool { return len(m.Requests()) > before+n })
		change(conv, sent)
		close(release)
		closed()
	}
	during("steered", "one", 0, func(string, web.Sent) {
		send(t, p.Client, "steered", "two")
		wait(t, "the signal to the turn", func() bool {
			return steered(p.Ready.Temporal, query(t, p, `SELECT id FROM turn WHERE state = 'running'`))
		})
	}, calls("list_documents", `{}`), says("both"))
	during("stopped", "wait", 0, func(conv string, _ web.Sent) {
		if err := p.Client.Stop(ctx, conv); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
	}, says("late"))
	during("taken back", "never mind", 0, func(conv string, s web.Sent) {
		if err := p.Client.Delete(ctx, conv, s.Message); err != nil {
			t.Fatal(err)
		}
	}, says("nobody asked"))
	m.Answer(says("kept"))
	conv, old := send(t, p.Client, "discarded", "keep this", file{"older.png", pic})
	if _, err := p.Client.Wait(ctx, conv, old, func(string) {}); err != nil {
		t.Fatal(err)
	}
	during("discarded", "what was it?", 1, func(string, web.Sent) {
		if err := p.Client.Delete(ctx, conv, old.Message); err != nil {
			t.Fatal(err)
		}
	}, views("older.png"), says("what it shows"), says("made without it"))
	if n := query(t, p, `SELECT count(*)::text FROM discard`); n != "1" {
		t.Fatalf("%s answers were discarded", n)
	}
	time.Sleep(2 * time.Second) // turns are closed after their answers are out

	c, err := client.Dial(client.Options{HostPort: p.Ready.Temporal})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Executions {
		h := &historypb.History{}
		it := c.GetWorkflowHistory(ctx, e.Execution.WorkflowId, e.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			ev, err := it.Next()
			if err != nil {
				t.Fatal(err)
			}
			h.Events = append(h.Events, ev)
		}
		b, err := protojson.MarshalOptions{Indent: " "}.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, e.Execution.WorkflowId+".json"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
