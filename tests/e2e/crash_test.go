package e2e

import (
	"context"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/web"
	"sightline/tests/fakemodel"
)

// The turn that is killed: it looks at its own picture, lists, looks at an
// older one, answers. What the model does follows from the transcript alone,
// so that a request made twice is answered the same.
func scripted(r fakemodel.Request) fakemodel.Reply {
	tools := 0
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "assistant" && len(r.Messages[i].Calls) == 0 {
			break
		}
		if r.Messages[i].Role == "tool" {
			tools++
		}
	}
	switch {
	case strings.Contains(question(r), "older"):
		return fakemodel.Reply{Text: "kept"}
	case tools == 0:
		return calls("list_documents", `{}`)(r)
	case tools == 1:
		return views("older.png")(r)
	}
	return fakemodel.Reply{Text: "answer to " + question(r)}
}

// question is the first line of the newest message with a question in it.
func question(r fakemodel.Request) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if line, _, _ := strings.Cut(r.Messages[i].Text, "\n"); r.Messages[i].Role == "user" && strings.HasPrefix(line, "q ") {
			return line
		}
	}
	return ""
}

// point is one place of a turn at which the process is killed.
type point struct {
	boundary string
	verdict  string
}

// crasher kills and restarts one program on one state directory, again and
// again, a conversation for each point.
type crasher struct {
	t      *testing.T
	home   string
	env    []string
	model  *fakemodel.Server
	older  file
	newer  file
	olderP image.Image
	newerP image.Image
}

func newCrasher(t *testing.T, m *fakemodel.Server, env []string) *crasher {
	c := &crasher{t: t, home: home(t), env: env, model: m}
	c.older.name, c.newer.name = "older.png", "newer.png"
	c.older.data, c.olderP = noise(t, 120, 80, 11)
	c.newer.data, c.newerP = noise(t, 100, 70, 12)
	return c
}

// run kills the program at one boundary and says what came of the turn.
func (c *crasher) run(boundary string) (verdict string) {
	name := "at " + boundary
	p := start(c.t, c.home, c.env...)
	if a := ask(c.t, p.Client, name, "q older "+name, c.older); a.Text != "kept" {
		return fmt.Sprintf("the turn before: %+v", a)
	}
	p.Stop()
	p = start(c.t, c.home, append(c.env, crashVar+"="+boundary)...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	type outcome struct {
		a   web.Answer
		err error
	}
	done := make(chan outcome, 1)
	question := "q " + name
	client := p.Client // it outlasts the restart; p becomes another process
	go func() {
		var o outcome
		var conv web.Conversation
		var u web.Upload
		var s web.Sent
		if conv, o.err = client.Conversation(ctx, name); o.err == nil {
			if u, o.err = client.Upload(ctx, conv.ID, c.newer.name, c.newer.data); o.err == nil {
				if s, o.err = client.Send(ctx, conv.ID, web.Draft{Key: web.NewKey(), Text: question, Uploads: []string{u.ID}}); o.err == nil {
					o.a, o.err = client.Wait(ctx, conv.ID, s, func(string) {})
				}
			}
		}
		done <- o
	}()
	var early *outcome
	select {
	case <-p.exited:
	case o := <-done:
		// Boundaries after the post: the answer is out before the end.
		early = &o
		select {
		case <-p.exited:
		case <-time.After(30 * time.Second):
			return "the process was never killed: the boundary was not passed"
		}
	case <-ctx.Done():
		return "the process was never killed"
	}
	p = start(c.t, c.home, c.env...)
	defer p.Stop()
	o := early
	if o == nil {
		select {
		case x := <-done:
			o = &x
		case <-ctx.Done():
			return "no answer after the restart"
		}
	}
	if o.err != nil || o.a.Text != "answer to "+question {
		return fmt.Sprintf("answer %+v, error %v", o.a, o.err)
	}
	if v := c.settled(ctx, p.Ready.Database, question); v != "" {
		return v
	}
	return c.pixels(question)
}

// settled waits for the turn to be closed and counts what there is of it.
func (c *crasher) settled(ctx context.Context, database, question string) string {
	db, err := pgx.Connect(ctx, database)
	if err != nil {
		return err.Error()
	}
	defer db.Close(ctx)
	var turns, answers, posts, steps int
	for {
		err = db.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM turn WHERE message = m.message_id AND state = 'answered'),
			(SELECT count(*) FROM web_message r WHERE r.conversation = m.conversation AND r.kind <> 'person' AND r.text = 'answer to ' || m.text),
			(SELECT count(*) FROM post p JOIN turn t ON t.id = p.turn WHERE t.message = m.message_id),
			(SELECT count(*) FROM step s JOIN turn t ON t.id = s.turn WHERE t.message = m.message_id)
			FROM web_message m WHERE m.text = $1`, question).Scan(&turns, &answers, &posts, &steps)
		if err != nil {
			return err.Error()
		}
		if turns == 1 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Sprintf("the turn was never closed: %d turns, %d answers", turns, answers)
		case <-time.After(100 * time.Millisecond):
		}
	}
	// user, assistant, tool, assistant, tool, assistant
	if answers != 1 || posts != 1 || steps != 6 {
		return fmt.Sprintf("%d answers, %d posts, %d steps", answers, posts, steps)
	}
	return ""
}

// pixels checks every request of the turn, repeated ones too.
func (c *crasher) pixels(q string) string {
	n := 0
	for _, r := range c.model.Requests() {
		if question(r) != q {
			continue
		}
		n++
		want := c.newerP
		if strings.Contains(r.Last("tool"), `"selected"`) && r.Messages[len(r.Messages)-2].Role == "tool" {
			want = c.olderP
		}
		if len(r.Pictures) != 1 || !samePixels(r.Pictures[0].Image, want) {
			return fmt.Sprintf("request %d has %d pictures, or others than it should", n, len(r.Pictures))
		}
	}
	if n < 3 {
		return fmt.Sprintf("only %d requests", n)
	}
	return ""
}

// Killed at every boundary of a turn, wherever that is in the code: exactly
// one answer, and the right pixels in every request. The list is what one
// whole turn passes, so a new boundary is killed at without being named here.
func TestKilledAtEveryBoundary(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes: each kill costs a heartbeat timeout")
	}
	m, env := fake(t, scripted)

	// One whole turn, to learn its boundaries.
	first := newCrasher(t, m, env)
	file := filepath.Join(first.home, "boundaries")
	p := start(t, first.home, env...)
	ask(t, p.Client, "learn", "q older", first.older)
	p.Stop()
	p = start(t, first.home, append(env, boundaryVar+"="+file)...)
	if a := ask(t, p.Client, "learn", "q learn", first.newer); a.Text != "answer to q learn" {
		t.Fatalf("%+v", a)
	}
	// The answer is out before the turn is closed.
	var b []byte
	for end := time.Now().Add(patience); !strings.Contains(string(b), "finish.written") && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		b, _ = os.ReadFile(file)
	}
	p.Stop()
	var names []string
	seen := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		n, _, _ := strings.Cut(line, " ")
		seen[n]++
		if seen[n] == 1 {
			names = append(names, n)
		}
	}
	// The second tool is the one after which the pixels change.
	for _, again := range []string{"tool.settled", "infer.model_answered"} {
		if seen[again] > 1 {
			names = append(names, again+"#2")
		}
	}
	for _, must := range []string{"event.recorded", "event.signalled", "begin.step_written", "show.authorized", "show.fetched", "show.decoded",
		"infer.audited", "infer.model_answered", "infer.step_written", "view.fetched", "tool.settled", "tool.settled#2", "post.intended", "post.sent", "post.settled", "finish.written"} {
		if !slices.Contains(names, must) {
			t.Errorf("the turn does not pass %s; it passes %v", must, names)
		}
	}

	// Mostly waiting: a few programs at once, each with its own everything.
	work := make(chan string, len(names))
	for _, n := range names {
		work <- n
	}
	close(work)
	var mu sync.Mutex
	var points []point
	var wg sync.WaitGroup
	for i := range 4 {
		c := first
		if i > 0 {
			c = newCrasher(t, m, env)
		}
		wg.Go(func() {
			for n := range work {
				v := c.run(n)
				mu.Lock()
				points = append(points, point{n, v})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(points) != len(names) {
		t.Errorf("%d of %d boundaries were tried", len(points), len(names))
	}
	sort.SliceStable(points, func(i, j int) bool {
		return slices.Index(names, points[i].boundary) < slices.Index(names, points[j].boundary)
	})
	var table strings.Builder
	for _, p := range points {
		v := p.verdict
		if v == "" {
			v = "one answer, right pixels"
		} else {
			t.Errorf("killed at %s: %s", p.boundary, v)
		}
		fmt.Fprintf(&table, "\n%-24s %s", p.boundary, v)
	}
	t.Log("killed at" + table.String())
}
