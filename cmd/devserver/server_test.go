package main

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func dial(t *testing.T, c *child) client.Client {
	t.Helper()
	cl, err := client.Dial(client.Options{HostPort: c.Address, Namespace: c.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func echoBack(_ workflow.Context, in string) (string, error) { return in, nil }

// runEcho runs a workflow that carries a search attribute.
func runEcho(ctx context.Context, t *testing.T, cl client.Client, id string, key temporal.SearchAttributeKeyKeyword, value string) {
	t.Helper()
	w := worker.New(cl, "echo", worker.Options{})
	w.RegisterWorkflow(echoBack)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	run, err := cl.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: "echo", TypedSearchAttributes: temporal.NewSearchAttributes(key.ValueSet(value)),
	}, echoBack, "hello")
	if err != nil {
		t.Fatal(err)
	}
	var out string
	if err := run.Get(ctx, &out); err != nil || out != "hello" {
		t.Fatalf("workflow answered %q, %v", out, err)
	}
}

// awaitCount waits for visibility, which follows the history at a distance.
func awaitCount(ctx context.Context, t *testing.T, cl client.Client, query string, want int64) {
	t.Helper()
	for {
		r, err := cl.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		if r.GetCount() == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s finds %d workflows, want %d", query, r.GetCount(), want)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestServesAndRestartsOnTheSameFile(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "a #b%3F?c")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := start(t, dir, "--namespace", "sightline", "--search-attributes", "Place=Keyword")
	if c.Namespace != "sightline" || c.PID != c.cmd.Process.Pid {
		t.Errorf("ready file says %+v", c.readyFile)
	}
	cl := dial(t, c)
	runEcho(ctx, t, cl, "first", temporal.NewSearchAttributeKeyKeyword("Place"), "here")
	awaitCount(ctx, t, cl, `Place = "here"`, 1)
	if err := c.cmd.Process.Kill(); err != nil { // no orderly stop
		t.Fatal(err)
	}
	_ = c.wait(t)

	// A newer program wants one more attribute, and finds it usable at once.
	c = start(t, dir, "--namespace", "sightline", "--search-attributes", "Place=Keyword,Agent=Keyword")
	cl = dial(t, c)
	runEcho(ctx, t, cl, "second", temporal.NewSearchAttributeKeyKeyword("Agent"), "a1")
	awaitCount(ctx, t, cl, `Agent = "a1"`, 1)
	awaitCount(ctx, t, cl, `Place = "here"`, 1)
	have, err := cl.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: "sightline"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Place", "Agent"} {
		if got := have.GetCustomAttributes()[name]; got != enums.INDEXED_VALUE_TYPE_KEYWORD {
			t.Errorf("search attribute %s is %v", name, got)
		}
	}
	if n := indexCount(t, filepath.Join(dir, "t.db")); n != len(indexes)+1 { // and Place's
		t.Errorf("the table of workflows has %d indexes, want %d and one for its attribute", n, len(indexes))
	}
	if matches, _ := filepath.Glob(filepath.Join(dir, "t.db-wal")); len(matches) != 1 {
		t.Error("the database is not in WAL mode")
	}
	c.stop(t)
}

func indexCount(t *testing.T, db string) (n int) {
	t.Helper()
	store, err := sql.Open("sqlite", "file:"+(&url.URL{Path: db}).EscapedPath()+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.QueryRow(`SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestUIAnswersOnLoopbackNamesOnly(t *testing.T) {
	c := start(t, t.TempDir())
	get := func(path, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequest("GET", c.UI+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if code, _ := get("/", ""); code != 200 {
		t.Errorf("the page answers %d", code)
	}
	for host, want := range map[string]int{"": 200, "localhost:8233": 200, "127.0.0.1": 200, "evil.example": 403, "127.0.0.1.evil.example:80": 403} {
		if code, body := get("/api/v1/namespaces/default", host); code != want {
			t.Errorf("as %q the API answers %d, want %d: %.80s", host, code, want, body)
		}
	}
	c.stop(t)
}
