package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"sightline/cmd/service"
	"sightline/cmd/telemetry"
	"sightline/connectors/chat"
	"sightline/tests/fakemodel"
	"sightline/workflows"
)

const (
	secretName   = "quarterly-payroll-of-everybody.png"
	secretText   = "please tell the marmalade committee what this screenshot shows"
	secretAnswer = "the committee will find seventeen jars of marmalade in it"
)

// What operators see of a turn, from everywhere: metrics during and after it,
// one trace from the event to the post for each turn, search attributes,
// memo, details and state in Temporal, and inspect. None of the public ones
// has a name, a text or a pixel.
func TestOperatorsSeeATurn(t *testing.T) {
	traces := newOTLP(t)
	ops := freePort(t)
	var during string
	m, env := fake(t, nil)
	dir := home(t)
	p := start(t, dir, append(env, "SIGHTLINE_OPS_ADDR="+ops, "OTEL_EXPORTER_OTLP_ENDPOINT="+traces.URL, "OTEL_BSP_SCHEDULE_DELAY=100")...)
	shot, _ := noise(t, 400, 300, 77)

	m.Answer(steps(calls("list_documents", `{}`), views(secretName), func(fakemodel.Request) fakemodel.Reply {
		// The event is counted once it was handed over, which the turn does not wait for.
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			during = scrape(t, ops)
			if n, _ := sample(during, "sightline_events_total", `outcome="ok"`); n > 0 {
				break
			}
		}
		return fakemodel.Reply{Text: secretAnswer}
	}))
	if a := ask(t, p.Client, "c", secretText, file{secretName, shot}); a.State != "answered" {
		t.Fatalf("%+v", a)
	}
	first := chat.TurnID(lastTurn(t, p))
	m.Answer(steps(calls("view_images", `{"ids":["att_00000000000000000000000000"]}`), says(secretAnswer)))
	ask(t, p.Client, "c", secretText)
	second := chat.TurnID(lastTurn(t, p))
	// A row is finished a moment after its reply is seen.
	var after string
	wait(t, "both turns to be counted", func() bool {
		after = scrape(t, ops)
		n, _ := sample(after, "sightline_turns_total", `state="answered"`)
		timed, _ := sample(after, "sightline_turn_seconds_count", `state="answered"`)
		return n >= 2 && timed >= 2
	})

	for _, c := range []struct {
		when   string
		text   string
		want   float64
		name   string
		labels []string
	}{
		{"during", during, 1, "sightline_events_total", []string{`platform="web"`, `kind="posted"`, `outcome="ok"`}},
		{"during", during, 0, "sightline_turns_total", nil},
		{"during", during, 2, "sightline_model_request_seconds_count", []string{`outcome="ok"`}},
		{"during", during, 22, "sightline_model_tokens_total", []string{`direction="input"`}},
		{"during", during, 14, "sightline_model_tokens_total", []string{`direction="output"`}},
		{"after", after, 2, "sightline_turns_total", []string{`state="answered"`, `platform="web"`}},
		{"after", after, 2, "sightline_turn_seconds_count", []string{`state="answered"`}},
		{"after", after, 2, "sightline_posts_total", []string{`kind="answer"`, `platform="web"`, `outcome="ok"`}},
		{"after", after, 5, "sightline_model_request_seconds_count", nil},
		{"after", after, 1, "sightline_attachment_uses_total", []string{`action="view"`, `verdict="refused"`, `rule="unknown"`}},
	} {
		if got, _ := sample(c.text, c.name, c.labels...); got != c.want {
			t.Errorf("%s the turn, %s%v is %v, want %v", c.when, c.name, c.labels, got, c.want)
		}
	}
	// As many fetches as were asked for; each brought the whole file.
	n, _ := sample(after, "sightline_fetches_total", `platform="web"`, `outcome="ok"`)
	bytesFetched, _ := sample(after, "sightline_fetched_bytes_total", `platform="web"`)
	if n < 3 || bytesFetched != n*float64(len(shot)) {
		t.Errorf("%v fetches of %v bytes, the picture has %d", n, bytesFetched, len(shot))
	}
	if d, _ := sample(after, "sightline_decode_seconds_count", `outcome="ok"`); d != n {
		t.Errorf("%v pictures decoded of %v fetched", d, n)
	}
	if r, ok := sample(after, "temporal_request_total", `operation="SignalWithStartWorkflowExecution"`); !ok || r < 2 {
		t.Errorf("the SDK's numbers are not there: %v", r)
	}

	visibleInTemporal(t, p, first, func(where string, b []byte) { nothingSecret(t, where, b, shot) })
	inspected(t, p, dir, env, first, shot)
	inTheConsole(t, p, dir, first)

	p.Stop() // exports the last spans
	for _, turn := range []chat.TurnID{first, second} {
		names, lost := traces.trace(telemetry.TraceID(turn))
		for _, name := range []string{"event", "SignalWithStartWorkflow:Conversation", "StartChildWorkflow:Turn", "RunWorkflow:Turn", "RunActivity:Infer", "chat", "RunActivity:Tool", "post"} {
			if names[name] == 0 {
				t.Errorf("turn %s: its trace has no span %s: %v", turn, name, names)
			}
		}
		if turn == first && names["fetch"] == 0 {
			t.Errorf("no fetch in %v", names)
		}
		if len(lost) > 0 {
			t.Errorf("turn %s: spans that do not lead to its event: %v", turn, lost)
		}
	}
	for _, b := range traces.raw {
		nothingSecret(t, "a span", b, shot)
	}
	nothingSecret(t, "a metric", []byte(during+after), shot)
}

func lastTurn(t *testing.T, p *process) (id string) {
	t.Helper()
	wait(t, "the end of all turns", func() bool {
		id = query(t, p, `SELECT id FROM turn WHERE state <> 'running' ORDER BY started_at DESC LIMIT 1`)
		return id != "" && query(t, p, `SELECT count(*)::text FROM turn WHERE state = 'running'`) == "0"
	})
	return id
}

// nothingSecret looks for what people said and posted, and for who they are.
func nothingSecret(t *testing.T, where string, b []byte, picture []byte) {
	t.Helper()
	if at := newDetector(incompressible(picture)).find(b); at >= 0 {
		t.Errorf("%s holds a run of the picture at byte %d", where, at)
	}
	secrets := []string{secretName, "payroll", secretText, "marmalade", secretAnswer}
	if u, err := user.Current(); err == nil && len(u.Name) > 6 {
		secrets = append(secrets, u.Name)
	}
	for _, s := range secrets {
		if bytes.Contains(b, []byte(s)) {
			t.Errorf("%s says %q", where, s)
		}
	}
}

// visibleInTemporal finds the turns by their attributes, and reads what the
// Web UI would show.
func visibleInTemporal(t *testing.T, p *process, turn chat.TurnID, look func(string, []byte)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	c, err := client.Dial(client.Options{HostPort: p.Ready.Temporal})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list := func(q string) []string {
		r, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", Query: q})
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		var ids []string
		for _, e := range r.Executions {
			ids = append(ids, e.Execution.WorkflowId)
			b, _ := proto.Marshal(e)
			look("what is listed of "+e.Execution.WorkflowId, b)
		}
		return ids
	}
	listed := func(n int, q string) (ids []string) { // visibility is eventual, of each workflow by itself
		t.Helper()
		wait(t, q, func() bool { ids = list(q); return len(ids) >= n })
		return ids
	}
	if found := listed(2, `WorkflowType = 'Turn' AND SightlineState = 'answered' AND SightlinePlatform = 'web' AND SightlineAgent = 'sightline'`); len(found) != 2 {
		t.Errorf("turns found by attribute: %v", found)
	}
	if one := listed(1, `WorkflowType = 'Turn' AND SightlineAttachments = 1`); len(one) != 1 || one[0] != string(turn) {
		t.Errorf("turns with one attachment: %v, want %s", one, turn)
	}
	convs := listed(1, `WorkflowType = 'Conversation' AND SightlineState = 'open' AND SightlineAttachments = 1`)
	if len(convs) != 1 {
		t.Fatalf("conversations with one attachment: %v", convs)
	}
	if of := listed(3, `SightlineConversation = '`+convs[0]+`'`); len(of) != 3 {
		t.Errorf("workflows of the conversation: %v", of)
	}
	for _, id := range []string{convs[0], string(turn)} {
		described, err := c.DescribeWorkflow(ctx, id, "")
		if err != nil {
			t.Fatal(err)
		}
		d := described.RawResponse
		memo := d.WorkflowExecutionInfo.Memo.GetFields()
		for _, k := range []string{"agent", "platform", "conversation"} {
			if memo[k] == nil {
				t.Errorf("the memo of %s has no %s", id, k)
			}
		}
		b, _ := proto.Marshal(d)
		look("the description of "+id, b)
		// What was written with attributes replays, as after a restart.
		replayer := worker.NewWorkflowReplayer()
		replayer.RegisterWorkflowWithOptions(workflows.Conversation, workflow.RegisterOptions{Name: workflows.ConversationType})
		replayer.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnType})
		run := d.WorkflowExecutionInfo.Execution
		if err := replayer.ReplayWorkflowExecution(ctx, c.WorkflowService(), nil, "default", workflow.Execution{ID: run.WorkflowId, RunID: run.RunId}); err != nil {
			t.Errorf("replay of %s: %v", id, err)
		}
		for _, q := range []string{"state", "__temporal_workflow_metadata"} {
			v, err := c.QueryWorkflow(ctx, id, "", q)
			if err != nil {
				t.Errorf("query %s of %s: %v", q, id, err)
				continue
			}
			if q == "state" {
				var raw json.RawMessage
				if err := v.Get(&raw); err != nil || !strings.Contains(string(raw), `"attachments":1`) {
					t.Errorf("state of %s: %s, %v", id, raw, err)
				}
				look(q+" of "+id, raw)
				continue
			}
			var md sdkpb.WorkflowMetadata
			if err := v.Get(&md); err != nil || !strings.Contains(md.CurrentDetails, "1 attachments") {
				t.Errorf("details of %s: %q, %v", id, md.CurrentDetails, err)
			}
			look("the details of "+id, []byte(md.CurrentDetails))
		}
	}
}

// inspected is what the command tells, beside the running service.
func inspected(t *testing.T, p *process, dir string, env []string, turn chat.TurnID, shot []byte) {
	t.Helper()
	vars := map[string]string{"SIGHTLINE_HOME": dir}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		vars[k] = v
	}
	run := func(args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		code = service.Inspect(context.Background(), args, func(k string) string { return vars[k] }, &o, &e)
		return code, o.String(), e.String()
	}
	sum := query(t, p, `SELECT digest FROM attachment`)
	att, conv := query(t, p, `SELECT id FROM attachment`), query(t, p, `SELECT id FROM conversation`)
	for _, c := range []struct {
		kind, id string
		want     []string
	}{
		{"turn", string(turn), []string{"answered", "owner)", "web direct", "S1", "view_images", "list_documents", sum, "11", p.Ready.TemporalUI + "/namespaces/default/workflows/" + string(turn) + "/", "/history", "answer", telemetry.TraceID(turn), att}},
		{"conversation", conv, []string{string(turn), att, p.Ready.TemporalUI + "/namespaces/default/workflows/" + conv}},
		{"attachment", att, []string{secretName, sum, "S1", "allowed", "grant", string(turn), conv, "400x300"}},
	} {
		code, out, errs := run(c.kind, c.id)
		if code != 0 || errs != "" {
			t.Errorf("inspect %s: %d %s", c.kind, code, errs)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("inspect %s does not say %q:\n%s", c.kind, w, out)
			}
		}
		if strings.Contains(out, "marmalade") || newDetector(incompressible(shot)).find([]byte(out)) >= 0 {
			t.Errorf("inspect %s repeats what was said or posted", c.kind)
		}
		code, out, _ = run("--json", c.kind, c.id)
		var v map[string]any
		if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil {
			t.Errorf("inspect --json %s: %d %v\n%s", c.kind, code, err, out)
		}
	}
	_, out, _ := run("turn", string(turn), "--json")
	var v struct {
		Asker struct{ Platform, User string }
		Model []struct {
			In      int     `json:"input_tokens"`
			Out     int     `json:"output_tokens"`
			Seconds float64 `json:"seconds"`
		} `json:"model_calls"`
		Decisions []struct {
			Rule, Action string
			Allowed      bool
		}
		Posts []struct {
			Kind string
			Nat  string `json:"native_id"`
		}
		Destination struct{ Platform string }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	if v.Asker.User != "local" || v.Destination.Platform != "web" || len(v.Model) != 3 || v.Model[0].In != 11 || v.Model[0].Out != 7 || v.Model[0].Seconds <= 0 ||
		len(v.Decisions) == 0 || len(v.Posts) != 1 || v.Posts[0].Nat == "" {
		t.Errorf("%+v", v)
	}
	for _, c := range [][]string{{"turn", "trn_00000000000000000000000000"}, {"turn", "trn_"}, {"attachment", "../../etc/passwd"}, {"pixel", att}, {"turn", att}} {
		code, out, errs := run(c...)
		if code != 1 || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("inspect %v: %d %q %q", c, code, out, errs)
		}
	}
}

// inTheConsole reads the same in the page, from link to link.
func inTheConsole(t *testing.T, p *process, dir string, turn chat.TurnID) {
	t.Helper()
	var at struct{ Address, Token string }
	b, err := os.ReadFile(filepath.Join(dir, "service.json"))
	if err == nil {
		err = json.Unmarshal(b, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, token string) (int, string) {
		req, err := http.NewRequest("GET", "http://"+at.Address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	att, conv := query(t, p, `SELECT id FROM attachment`), query(t, p, `SELECT id FROM conversation`)
	upload := query(t, p, `SELECT native_file FROM attachment`)
	// The conversation hears of its turn's end after the row says so.
	wait(t, "the conversation to wait", func() bool {
		_, body := get("/console/conversation/"+conv, at.Token)
		return strings.Contains(body, "waiting, 0 queued")
	})
	for path, want := range map[string][]string{
		"/console":                      {`href="/console/conversation/` + conv, "answered"},
		"/console/conversation/" + conv: {`href="/console/turn/` + string(turn), `href="/console/attachment/` + att, "waiting, 0 queued"},
		"/console/turn/" + string(turn): {`href="/console/attachment/` + att, "view_images", "S1", p.Ready.TemporalUI + "/namespaces/default/workflows/" + string(turn)},
		"/console/attachment/" + att:    {`src="/uploads/` + upload, secretName, "400x300"},
	} {
		code, body := get(path, at.Token)
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s does not say %q:\n%s", path, w, body)
			}
		}
		if strings.Contains(body, "marmalade") {
			t.Errorf("%s repeats what was said", path)
		}
		if code, body := get(path, "wrong"); code != http.StatusUnauthorized || strings.Contains(body, conv) {
			t.Errorf("%s without the token: %d", path, code)
		}
	}
}

// The service was killed: its database runs on, and is enough for inspect.
// Once that is stopped too, one line says what to do.
func TestInspectNeedsTheDatabaseAlone(t *testing.T) {
	m, env := fake(t, nil)
	m.Answer(says("fine"))
	dir := home(t)
	p := start(t, dir, env...)
	ask(t, p.Client, "c", "hello")
	turn := lastTurn(t, p)
	p.Kill()
	run := func() (int, string, string) {
		var o, e bytes.Buffer
		code := service.Inspect(context.Background(), []string{"turn", turn}, func(k string) string { return map[string]string{"SIGHTLINE_HOME": dir}[k] }, &o, &e)
		return code, o.String(), e.String()
	}
	if code, out, errs := run(); code != 0 || !strings.Contains(out, "answered") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	again := start(t, dir, env...)
	again.Stop()
	if code, out, errs := run(); code != 1 || out != "" || !strings.Contains(errs, "start sightline") || strings.Count(errs, "\n") != 1 {
		t.Errorf("%d %q %q", code, out, errs)
	}
}
