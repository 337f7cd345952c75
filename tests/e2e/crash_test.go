package e2e

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/cmd/service"
	"sightline/tests/fakemodel"
)

// crashesVar set to "all" kills every kind of turn at every passage of every
// boundary on every platform; set to a part of a boundary's name, at those.
// Without it the platforms share what none of them has a part in.
const crashesVar = "SIGHTLINE_TEST_CRASHES"

// point is one place of a turn at which the process is killed.
type point struct {
	place, turn, boundary string
	verdict, effects      string
}

// crasher is one program on one platform, which is killed and started again,
// with a conversation for each point.
type crasher struct {
	t      *testing.T
	place  crashPlace
	script *crashScript
	model  *fakemodel.Server
	env    []string
	home   string
	arm    string // file: at which boundary to die
	passed string // file: boundaries that were passed
	p      *process

	mu  sync.Mutex
	now service.Running // what disturbs a turn asks while the next process starts

	older, newer   file
	olderP, newerP image.Image
}

func newCrasher(t *testing.T, place func(*testing.T) crashPlace, m *fakemodel.Server, s *crashScript, env []string) *crasher {
	c := &crasher{t: t, place: place(t), model: m, script: s, home: openHome(t)}
	c.older.name, c.newer.name = "older.png", "newer.png"
	c.older.data, c.olderP = noise(t, 120, 80, 11)
	c.newer.data, c.newerP = noise(t, 100, 70, 12)
	c.arm, c.passed = filepath.Join(c.home, "arm"), filepath.Join(c.home, "passed")
	c.env = append(slices.Clone(env), c.place.env...)
	c.env = append(c.env, armVar+"="+c.arm, boundaryVar+"="+c.passed, "SIGHTLINE_WORKSPACES=on")
	c.start()
	return c
}

func (c *crasher) start() {
	c.p = start(c.t, c.home, c.env...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.p.Ready
}

func (c *crasher) ready() service.Running {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *crasher) write(file, s string) {
	if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// count asks the program's database for one number; -1: it can't be asked.
func (c *crasher) count(sql string, args ...any) (n int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := pgx.Connect(ctx, c.ready().Database)
	if err != nil {
		return -1
	}
	defer db.Close(ctx)
	if db.QueryRow(ctx, sql, args...).Scan(&n) != nil {
		return -1
	}
	return n
}

// turn is the one that a question began, "" while it can't be told.
func (c *crasher) turn(q string) (id string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := pgx.Connect(ctx, c.ready().Database)
	if err != nil {
		return ""
	}
	defer db.Close(ctx)
	if db.QueryRow(ctx, `SELECT t.id FROM turn t JOIN message m ON m.id = t.message WHERE m.text LIKE '%' || $1 AND m.text NOT LIKE '%and ' || $1`, q).Scan(&id) != nil {
		return ""
	}
	return id
}

func (c *crasher) await(what string, f func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if f() {
			return true
		}
	}
	c.t.Errorf("%s: %s: did not happen", c.place.name, what)
	return false
}

// run asks a question that is killed at a boundary ("": nowhere), and says
// what came of it.
func (c *crasher) run(turn crashTurn, boundary string) (p point) {
	p = point{place: c.place.name, turn: turn.name, boundary: boundary}
	q := fmt.Sprintf("q %s at_%s_%s", turn.name, cmp.Or(boundary, "none"), c.place.name)
	name := "crash " + q
	d := c.place.open(c.p, name)
	older := d.say("q older picture", c.older)
	if !c.await("the turn before", func() bool { return slices.Equal(d.said(), []string{"kept"}) }) ||
		!c.await("its end", func() bool { return c.count(`SELECT count(*) FROM turn WHERE state = 'running'`) == 0 }) {
		p.verdict = "the turn before never ended"
		return p
	}
	c.write(c.passed, "")
	c.write(c.arm, boundary)
	done := make(chan struct{})
	d.say(q, c.newer)
	go func() {
		defer close(done)
		if turn.disturb != nil {
			turn.disturb(c, d, q, older)
		}
	}()
	if boundary != "" {
		select {
		case <-c.p.exited:
		case <-time.After(patience):
			p.verdict = "the process was never killed: the boundary was not passed"
			c.write(c.arm, "")
			return p
		}
		c.write(c.arm, "")
		// A disturbance that was cut short has to be through before the next
		// process, whose turn it would disturb.
		c.start()
	}
	<-done
	p.verdict, p.effects = c.outcome(d, turn, q)
	return p
}

// outcome waits for the end of the turn and counts what there is of it.
func (c *crasher) outcome(d dialog, turn crashTurn, q string) (verdict, effects string) {
	answered := func() (n int) {
		for _, s := range d.said() {
			if strings.HasPrefix(s, "answer to "+q) {
				n++
			}
		}
		return n
	}
	const of = ` FROM turn t JOIN message m ON m.id = t.message WHERE m.text LIKE '%' || $1 AND m.text NOT LIKE '%and ' || $1`
	if !c.await("the end of "+q, func() bool {
		return answered() > 0 && c.count(`SELECT count(*)`+of+` AND t.state <> 'running'`, q) == 1
	}) {
		return fmt.Sprintf("never ended; said %q", d.said()), ""
	}
	time.Sleep(500 * time.Millisecond)                                                  // for what should not come
	words := slices.DeleteFunc(d.said(), func(s string) bool { return s == "log.txt" }) // what a file goes by
	if len(words) != 2 || words[0] != "kept" || answered() != 1 {
		return fmt.Sprintf("said %q", d.said()), ""
	}
	if n := c.count(`SELECT count(*)`+of+` AND t.state = 'answered'`, q); n != 1 {
		return fmt.Sprintf("%d turns are answered", n), ""
	}
	if n := c.count(`SELECT count(*) FROM post p JOIN turn t ON t.id = p.turn JOIN message m ON m.id = t.message WHERE m.text LIKE '%' || $1`, q); n != 1 {
		return fmt.Sprintf("%d posts", n), ""
	}
	if v := c.pixels(q, turn.name == "widened" || turn.name == "discarded"); v != "" {
		return v, ""
	}
	switch turn.name {
	case "joined":
		if n := c.count(`SELECT count(*) FROM step s JOIN message m ON m.id = s.message WHERE m.text LIKE '%' || $1`, q); n != 2 {
			return fmt.Sprintf("%d messages in the turn", n), ""
		}
	case "whole":
		return c.effects(d, q)
	}
	return "", ""
}

// effects counts what the tools changed: never twice, and left out only where
// the model was told that it is not known, and looked.
func (c *crasher) effects(d dialog, q string) (verdict, effects string) {
	lines := 0
	err := filepath.WalkDir(filepath.Join(c.home, "workspaces"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "log.txt" {
			return err
		}
		b, err := os.ReadFile(path)
		lines += strings.Count(string(b), q+"\n")
		return err
	})
	if err != nil {
		return err.Error(), ""
	}
	uncertain := func(tool string) int {
		return c.count(`SELECT count(*) FROM receipt r JOIN turn t ON t.id = r.turn JOIN message m ON m.id = t.message
			WHERE m.text LIKE '%' || $1 AND r.verdict = 'uncertain' AND r.tool = $2`, q, tool)
	}
	run, share, shared := uncertain("workspace_exec"), uncertain("share_file"), len(d.shared())
	switch {
	case lines != 1:
		return fmt.Sprintf("the command took effect %d times", lines), ""
	case shared > 1, shared == 0 && share != 1:
		return fmt.Sprintf("%d files were posted", shared), ""
	}
	effects = fmt.Sprintf("1 line, %d file", shared)
	if run+share > 0 {
		effects += "; uncertain once, looked at"
	}
	if run+share > 1 {
		return fmt.Sprintf("%d calls are uncertain", run+share), effects
	}
	return "", effects
}

// learn is what an undisturbed turn of each kind passes, in order.
func (c *crasher) learn() map[string][]string {
	out := map[string][]string{}
	for _, turn := range crashTurns {
		if turn.places != "" && !strings.Contains(turn.places, c.place.name) {
			continue
		}
		if p := c.run(turn, ""); p.verdict != "" {
			c.t.Errorf("%s: the %s turn, undisturbed: %s", c.place.name, turn.name, p.verdict)
			return out
		}
		b, err := os.ReadFile(c.passed)
		if err != nil {
			c.t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if n, _, _ := strings.Cut(line, " "); n != "" {
				out[turn.name] = append(out[turn.name], n)
			}
		}
	}
	return out
}

// again are the boundaries that are worth a second kill: the tool after which
// the pixels change, and what has an effect.
var again = []string{"tool.settled#2", "infer.model_answered#2", "tool.ran#3", "tool.settled#3", "tool.intended#2", "tool.effect#2"}

// points are where to kill on a platform. first: no other platform is killed
// at this boundary yet.
func points(place string, turn crashTurn, passed []string, seen map[string]bool) (out []point) {
	only := os.Getenv(crashesVar)
	all := only != ""
	n := map[string]int{}
	for _, b := range passed {
		n[b]++
		at := b
		if n[b] > 1 {
			at = fmt.Sprintf("%s#%d", b, n[b])
		}
		if all && only != "all" && !strings.Contains(at, only) {
			continue
		}
		// What a platform has a part in is killed at on each.
		own := turn.name == "whole" && (strings.HasPrefix(b, "event.") || strings.HasPrefix(b, "post.") || strings.HasPrefix(b, "draft."))
		if n[b] > 1 && !all && !slices.Contains(again, at) || !all && !own && seen[at] {
			continue
		}
		seen[at] = true
		out = append(out, point{place: place, turn: turn.name, boundary: at})
	}
	return out
}

// Killed at every boundary of a turn, wherever that is in the code: exactly
// one answer, the right pixels in every request, no effect twice and no
// message lost. The list is what whole turns pass, so that a new boundary is
// killed at without being named here; one that none of them passes is noticed
// here, by the list of all of them that tests/rules holds against the code.
func TestKilledAtEveryBoundary(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes: each kill costs a heartbeat timeout")
	}
	sandboxed(t)
	s := &crashScript{}
	m, env := fake(t, s.answer)

	// One turn of each kind on each platform, to learn their boundaries.
	passed := make([]map[string][]string, len(crashPlaces))
	own := make([]*crasher, len(crashPlaces))
	var wg sync.WaitGroup
	for i := range crashPlaces {
		wg.Go(func() {
			own[i] = newCrasher(t, crashPlaces[i], m, s, env)
			passed[i] = own[i].learn()
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	learned := map[string]bool{}
	seen := map[string]bool{}
	var todo []point
	for i, c := range own {
		for _, turn := range crashTurns {
			for _, b := range passed[i][turn.name] {
				learned[b] = true
			}
			todo = append(todo, points(c.place.name, turn, passed[i][turn.name], seen)...)
		}
	}
	asListed(t, learned)

	// Mostly waiting: a few programs at once, each with its own everything.
	k := &kills{todo: todo}
	for i := range 4 {
		wg.Go(func() {
			var c *crasher
			if i < len(own) {
				c = own[i]
			}
			k.work(c, func(place string) *crasher {
				for j, o := range own {
					if o.place.name == place {
						return newCrasher(t, crashPlaces[j], m, s, env)
					}
				}
				return nil
			})
		})
	}
	wg.Wait()
	if len(k.done) != len(todo) {
		t.Errorf("%d of %d points were tried", len(k.done), len(todo))
	}
	k.table(t, todo)
}

// asListed holds what was learned against the list that tests/rules holds
// against the code.
func asListed(t *testing.T, learned map[string]bool) {
	t.Helper()
	const file = "testdata/boundaries.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(slices.Sorted(maps.Keys(learned)), "\n") + "\n"
	if got != string(b) {
		t.Errorf("the turns pass other boundaries than %s lists; these should be in it:\n%s", file, got)
	}
}

// kills are shared out among the workers.
type kills struct {
	mu   sync.Mutex
	todo []point
	done []point
}

// take prefers the platform whose program the worker has.
func (k *kills) take(place string) (point, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.todo) == 0 {
		return point{}, false
	}
	i := max(0, slices.IndexFunc(k.todo, func(p point) bool { return p.place == place }))
	p := k.todo[i]
	k.todo = slices.Delete(slices.Clone(k.todo), i, i+1)
	return p, true
}

func (k *kills) work(c *crasher, open func(string) *crasher) {
	for {
		place := ""
		if c != nil {
			place = c.place.name
		}
		p, ok := k.take(place)
		if !ok {
			return
		}
		if p.place != place {
			if c != nil {
				c.p.Stop()
			}
			c = open(p.place)
		}
		turn := crashTurns[slices.IndexFunc(crashTurns, func(t crashTurn) bool { return t.name == p.turn })]
		r := c.run(turn, p.boundary)
		k.mu.Lock()
		k.done = append(k.done, r)
		k.mu.Unlock()
	}
}

func (k *kills) table(t *testing.T, order []point) {
	var table strings.Builder
	for _, want := range order {
		for _, p := range k.done {
			if p.place != want.place || p.turn != want.turn || p.boundary != want.boundary {
				continue
			}
			v := "one answer, right pixels"
			if p.effects != "" {
				v += ", " + p.effects
			}
			if p.verdict != "" {
				v = "WRONG: " + p.verdict
				t.Errorf("%s, %s turn, killed at %s: %s", p.place, p.turn, p.boundary, p.verdict)
			}
			fmt.Fprintf(&table, "\n%-8s %-10s %-24s %s", p.place, p.turn, p.boundary, v)
		}
	}
	t.Logf("killed at %d points%s", len(k.done), table.String())
}
