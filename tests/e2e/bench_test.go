package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sightline/connectors/chat"
	"sightline/tests/fakemodel"
	"sightline/workflows"
)

// The bare cost of a turn is the same workflows on the same server with
// activities that do nothing: what Temporal itself takes for these steps.
type bare struct {
	mu    sync.Mutex
	began map[chat.MessageID]time.Time
	in    []time.Duration // event to infer
	done  chan struct{}
}

// Infer is the one activity of a turn that answers at once: it posts and
// finishes as well, so that of Temporal nothing comes after it.
func (b *bare) Infer(_ context.Context, in workflows.InferInput) (workflows.InferResult, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.in = append(b.in, time.Since(b.began[in.Begin.Message]))
	b.done <- struct{}{}
	return workflows.InferResult{Posted: &workflows.PostResult{Kind: chat.ReplyAnswer}}, nil
}

// run makes one bare turn.
func (b *bare) run(tb testing.TB, c client.Client, n int) {
	m := chat.MessageID(fmt.Sprintf("bare-%d-%d", os.Getpid(), n))
	b.mu.Lock()
	b.began[m] = time.Now()
	b.mu.Unlock()
	in := workflows.ConversationInput{Agent: "bare", Conversation: "bare", Place: "bare", OneTimer: true}
	if _, err := c.SignalWithStartWorkflow(context.Background(), "bare-conversation", workflows.SignalMessage, workflows.MessageSignal{Message: m},
		client.StartWorkflowOptions{ID: "bare-conversation", TaskQueue: "bare"}, workflows.ConversationType, in); err != nil {
		tb.Fatal(err)
	}
	select {
	case <-b.done:
	case <-time.After(patience):
		tb.Fatal("a bare turn did not end")
	}
}

// stamps reads when the program passed a boundary, from its own clock, which
// is this machine's.
func stamps(tb testing.TB, file string) map[string][]time.Time {
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	out := map[string][]time.Time{}
	for s := bufio.NewScanner(f); s.Scan(); {
		name, at, _ := strings.Cut(s.Text(), " ")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		out[name] = append(out[name], time.Unix(0, n))
	}
	return out
}

func quantile(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	d = slices.Clone(d)
	slices.Sort(d)
	return float64(d[min(int(q*float64(len(d))), len(d)-1)].Microseconds()) / 1000
}

// BenchmarkTurnOverhead: event to first model request and model's answer to
// post, with a model that takes no time, beside the bare cost, turn by turn
// in one run.
func BenchmarkTurnOverhead(b *testing.B) {
	_, env := fake(b, says("ok"))
	dir := home(b)
	file := filepath.Join(dir, "boundaries")
	p := start(b, dir, append(env, boundaryVar+"="+file, "SIGHTLINE_LOG_LEVEL=warn")...)
	c, err := client.Dial(client.Options{HostPort: p.Ready.Temporal, DataConverter: workflows.DataConverter(), Logger: silent{}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	w := worker.New(c, "bare", worker.Options{})
	br := &bare{began: map[chat.MessageID]time.Time{}, done: make(chan struct{}, 1)}
	w.RegisterWorkflowWithOptions(workflows.Conversation, workflow.RegisterOptions{Name: workflows.ConversationType})
	w.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnType})
	w.RegisterActivity(br)
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	ask(b, p.Client, "bench", "warm up")
	br.run(b, c, -1)

	n := 0
	for b.Loop() {
		br.run(b, c, n)
		ask(b, p.Client, "bench", fmt.Sprintf("turn %d", n))
		n++
	}
	b.StopTimer()
	time.Sleep(time.Second)
	at := stamps(b, file)
	var in, out []time.Duration
	for i := 1; i < len(at["event.received"]); i++ {
		in = append(in, at["infer.audited"][i].Sub(at["event.received"][i]))
		out = append(out, at["post.sent"][i].Sub(at["infer.model_answered"][i]))
	}
	for _, r := range []struct {
		name       string
		ours, bare []time.Duration
	}{{"event-to-request", in, br.in[1:]}, {"answer-to-post", out, nil}} {
		for _, q := range []float64{0.5, 0.95} {
			b.ReportMetric(quantile(r.ours, q), fmt.Sprintf("p%.0f-%s-ms", q*100, r.name))
			if r.bare != nil {
				b.ReportMetric(quantile(r.bare, q), fmt.Sprintf("p%.0f-%s-bare-ms", q*100, r.name))
			}
		}
	}
	var ours []time.Duration
	for i := range in {
		ours = append(ours, in[i]+out[i])
	}
	bares := br.in[1:]
	b.ReportMetric(quantile(ours, 0.5)/quantile(bares, 0.5), "p50-ratio")
	b.ReportMetric(quantile(ours, 0.95)/quantile(bares, 0.95), "p95-ratio")
}

type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

var _ log.Logger = silent{}

// BenchmarkStoredPerStep: bytes of history and of checkpoint rows for one
// step, with a small and a large picture in the turn.
func BenchmarkStoredPerStep(b *testing.B) {
	for _, size := range []struct {
		name string
		w, h int
	}{{"10KB", 60, 50}, {"4MB", 1250, 1000}} {
		b.Run(size.name, func(b *testing.B) {
			_, env := fake(b, steps(calls("list_documents", `{}`), calls("list_documents", `{}`), calls("list_documents", `{}`), calls("list_documents", `{}`), says("ok")))
			p := start(b, home(b), env...)
			pic, _ := noise(b, size.w, size.h, 51)
			// A size, not a time: one turn tells it.
			ask(b, p.Client, "c", "q", file{"p.png", pic})
			time.Sleep(time.Second) // the turn is closed after its answer is out
			history, rows, n := stored(b, p)
			b.ReportMetric(float64(history)/float64(n), "history-B/step")
			b.ReportMetric(float64(rows)/float64(n), "checkpoint-B/step")
		})
	}
}

func stored(b *testing.B, p *process) (history, rows int64, steps int) {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, p.Ready.Database)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close(ctx)
	var turn string
	if err := db.QueryRow(ctx, `SELECT id FROM turn ORDER BY started_at DESC LIMIT 1`).Scan(&turn); err != nil {
		b.Fatal(err)
	}
	if err := db.QueryRow(ctx, `SELECT (SELECT count(*) FROM step WHERE turn = $1),
		(SELECT sum(pg_column_size(s.*)) FROM step s WHERE turn = $1)
		+ (SELECT coalesce(sum(pg_column_size(r.*)), 0) FROM receipt r WHERE turn = $1)
		+ (SELECT sum(pg_column_size(a.*)) FROM audit a WHERE turn = $1)
		+ (SELECT sum(pg_column_size(u.*)) FROM use u WHERE turn = $1)`, turn).Scan(&steps, &rows); err != nil {
		b.Fatal(err)
	}
	c, err := client.Dial(client.Options{HostPort: p.Ready.Temporal, Logger: silent{}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	d, err := c.DescribeWorkflow(ctx, turn, "")
	if err != nil {
		b.Fatal(err)
	}
	return d.RawResponse.WorkflowExecutionInfo.HistorySizeBytes, rows, steps
}

// BenchmarkService: how long a second start takes to be ready, and what the
// service itself occupies, idle and at its peak on one conversation with
// pictures of the largest sizes.
func BenchmarkService(b *testing.B) {
	_, env := fake(b, func(r fakemodel.Request) fakemodel.Reply { return fakemodel.Reply{Text: "ok"} })
	dir := home(b)
	start(b, dir, env...).Stop()
	for b.Loop() {
		began := time.Now()
		p := start(b, dir, env...)
		b.ReportMetric(time.Since(began).Seconds(), "second-start-s")
		time.Sleep(2 * time.Second)
		b.ReportMetric(resident(b, p, "VmRSS"), "idle-MB")
		big, _ := noise(b, 1500, 1300, 61) // close to 8 MiB as posted
		for i := range 3 {
			ask(b, p.Client, "c", fmt.Sprint(i), file{"1.png", big}, file{"2.png", big}, file{"3.png", big}, file{"4.png", big})
		}
		b.ReportMetric(resident(b, p, "VmHWM"), "peak-MB")
		p.Stop()
	}
}

func resident(b *testing.B, p *process, field string) float64 {
	s, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		b.Skip("no /proc on this system")
	}
	for _, l := range strings.Split(string(s), "\n") {
		if rest, ok := strings.CutPrefix(l, field+":"); ok {
			var kb float64
			_, _ = fmt.Sscan(rest, &kb)
			return kb / 1024
		}
	}
	return 0
}

// processor is the time that each part has taken so far: the service, the
// Temporal server and Postgres beneath it, and the test with its fakes.
func processor(b *testing.B, p *process) map[string]time.Duration {
	b.Helper()
	type stat struct {
		name   string
		parent int
		took   time.Duration
	}
	all := map[int]stat{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		s, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		// A name may hold spaces and brackets; what follows its last one has none.
		head, rest, ok := cutLast(string(s), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 15 {
			continue
		}
		pid, name, _ := strings.Cut(head, " (")
		n, _ := strconv.Atoi(pid)
		st := stat{name: name}
		st.parent, _ = strconv.Atoi(fields[1])
		for _, ticks := range fields[11:15] { // its own, and those of its children that ended
			t, _ := strconv.ParseInt(ticks, 10, 64)
			st.took += time.Duration(t) * time.Second / 100
		}
		all[n] = st
	}
	if len(all) == 0 {
		b.Skip("no /proc on this system")
	}
	out := map[string]time.Duration{"fakes": all[os.Getpid()].took}
	for pid, st := range all {
		name := ""
		for at := pid; at != 0 && name == ""; at = all[at].parent {
			switch {
			case at == p.cmd.Process.Pid && pid == at:
				name = "service"
			case at == p.cmd.Process.Pid && strings.HasPrefix(st.name, "postgres"):
				name = "postgres"
			case at == p.cmd.Process.Pid:
				name = "temporal"
			}
		}
		if name != "" {
			out[name] += st.took
		}
	}
	return out
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// reportProcessor is what each part took for one of n.
func reportProcessor(b *testing.B, before, after map[string]time.Duration, n int) {
	total := time.Duration(0)
	for name, took := range after {
		took -= before[name]
		total += took
		b.ReportMetric(float64(took.Microseconds())/1000/float64(n), name+"-cpu-ms/op")
	}
	b.ReportMetric(float64(total.Microseconds())/1000/float64(n), "all-cpu-ms/op")
}
