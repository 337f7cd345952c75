package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/tests/fakemodel"
)

// chaosVar is how long TestChaos goes on on each platform; the default keeps
// the suite short, and a minute is what the issue asks for.
const chaosVar = "SIGHTLINE_TEST_CHAOS"

// unruly is a platform whose connections are in a test's hands.
type unruly struct {
	name   string
	env    []string
	places int
	// ordered: events come in the order in which they were sent.
	ordered bool
	// post says something to the agent. With late its event comes only when
	// that is called, if it comes at all.
	post func(place int, text string, late bool, files ...file) posted
	// lose throws events away, until the link is made to start anew.
	lose, anew func()
	faults     []fault
	calm       func() // ends whatever a fault began
	said       func() []string
	served     func() int64
	complaints func() []string
}

type posted struct {
	native string
	edit   func(text string)
	remove func()
	again  func() // its event, once more
}

type fault struct {
	name string
	do   func()
}

// plan is one message of the storm and what became of it.
type plan struct {
	posted
	tag       string
	place     int
	final     string
	blind     bool // no event of it as it was before its edit ever came
	picture   bool
	edited    bool
	deleted   bool
	unseen    bool // deleted before anything of it could come
	deletable time.Time
}

// tagForm is what no identifier looks like.
var tagForm = regexp.MustCompile(`#[0-9]+\.v[0-9]`)

// TestChaos: people go on posting, editing and deleting while the connection
// drops, resumes, refuses and starts anew. Every message is answered once,
// nothing is lost or doubled, and what the store has at the end is what the
// platform has.
func TestChaos(t *testing.T) {
	length := 15 * time.Second
	if s := os.Getenv(chaosVar); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, make := range []func(*testing.T) unruly{unrulyDiscord, unrulySlack} {
		u := make(t)
		t.Run(u.name, func(t *testing.T) { storm(t, u, length) })
	}
}

// answersTags is a model that answers every tag of its request that the agent
// has not answered yet, and says how many pictures the request carries. What
// was answered it asks the platform: an answer may leave the context when
// something that it drew on is deleted.
func answersTags(said func() []string) func(fakemodel.Request) fakemodel.Reply {
	return func(r fakemodel.Request) fakemodel.Reply {
		done := map[string]bool{}
		for _, tag := range tagForm.FindAllString(strings.Join(said(), " "), -1) {
			done[tagged(tag)] = true
		}
		var open []string
		for _, m := range r.Messages {
			for _, tag := range tagForm.FindAllString(m.Text, -1) {
				open = slices.DeleteFunc(open, func(o string) bool { return tagged(o) == tagged(tag) })
				if m.Role == "user" && !done[tagged(tag)] {
					open = append(open, tag)
				}
			}
		}
		return fakemodel.Reply{Text: fmt.Sprintf("answers %s with %d pictures", strings.Join(open, " "), len(r.Pictures))}
	}
}

// tagged is a tag without its version.
func tagged(tag string) string {
	id, _, _ := strings.Cut(tag, ".")
	return id
}

func storm(t *testing.T, u unruly, length time.Duration) {
	m, env := fake(t, answersTags(u.said))
	p := start(t, home(t), append(env, u.env...)...)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &tempest{t: t, u: u, rnd: rand.New(rand.NewPCG(seed, 1)), done: map[string]int{}}
	s.pic, _ = noise(t, 40, 30, 7)

	db, err := pgx.Connect(context.Background(), p.Ready.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	// A direct conversation that nothing was ever heard of can't be looked for,
	// so each place is heard of once before anything is disturbed.
	for range u.places {
		s.step()
	}
	wait(t, "something of each place", func() bool {
		var n int
		if err := db.QueryRow(context.Background(), `SELECT count(DISTINCT place) FROM message`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n >= u.places
	})

	var faults sync.WaitGroup
	stop := make(chan struct{})
	faults.Go(func() { s.disturb(stop, rand.New(rand.NewPCG(seed, 2))) })
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Duration(100+s.rnd.IntN(200)) * time.Millisecond) {
		s.step()
	}
	close(stop)
	faults.Wait()
	u.calm()
	s.mu.Lock()
	s.tidy(time.Time{})
	s.mu.Unlock()
	u.anew()

	s.settle(db)
	s.refused(m, db)
	if c := u.complaints(); len(c) > 0 {
		t.Errorf("the platform complains: %v", c)
	}
	t.Logf("%d messages; faults %v", len(s.plans), s.done)
}

type tempest struct {
	t   *testing.T
	u   unruly
	rnd *rand.Rand
	pic []byte

	mu    sync.Mutex // events are lost all or none of a step
	blind bool
	plans []*plan
	done  map[string]int
}

// disturb does one fault after another. Some pass in silence: events are lost,
// and the platform makes the connection start anew.
func (s *tempest) disturb(stop chan struct{}, rnd *rand.Rand) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(300+rnd.IntN(1200)) * time.Millisecond):
		}
		if n := rnd.IntN(len(s.u.faults) + 1); n < len(s.u.faults) {
			s.done[s.u.faults[n].name]++
			s.u.faults[n].do()
			continue
		}
		s.done["events lost"]++
		s.blinded(true)
		time.Sleep(time.Duration(500+rnd.IntN(1000)) * time.Millisecond)
		s.blinded(false)
	}
}

func (s *tempest) blinded(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind = yes; yes {
		s.u.lose()
		return
	}
	// Nothing that is under way may be between the two.
	s.u.anew()
}

// step is what people do at one time.
func (s *tempest) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.plans)
	p := &plan{tag: fmt.Sprintf("#%d", n), place: n % s.u.places, picture: s.rnd.IntN(4) == 0, blind: s.blind}
	p.final = p.tag + ".v1"
	var files []file
	if p.picture {
		files = append(files, file{fmt.Sprintf("picture%d.png", n), s.pic})
	}
	late := s.rnd.IntN(8) == 0
	p.posted = s.u.post(p.place, p.final, late, files...)
	s.plans = append(s.plans, p)
	change := func(p *plan) {
		p.final, p.edited = p.tag+".v2", true
		p.edit(p.final)
	}
	switch s.rnd.IntN(8) {
	case 0: // at once: its event has hardly been read
		p.blind = p.blind || late && s.u.ordered
		change(p)
	case 1:
		p.unseen, p.deleted = p.blind || late && s.u.ordered, true
		p.remove()
	case 2:
		p.deletable = time.Now().Add(time.Duration(s.rnd.IntN(3000)) * time.Millisecond)
	case 3:
		p.again()
	}
	if late { // out of order: what happened to it came first
		p.again()
	}
	if o := s.plans[s.rnd.IntN(n+1)]; s.rnd.IntN(4) == 0 && !o.edited && !o.deleted {
		o.blind = false
		change(o)
	}
	s.tidy(time.Now())
}

// tidy deletes what is due; at the end all of it.
func (s *tempest) tidy(now time.Time) {
	for _, p := range s.plans {
		if !p.deletable.IsZero() && !p.deleted && (now.IsZero() || now.After(p.deletable)) {
			p.deleted = true
			p.remove()
		}
	}
}

// settle waits until all is answered and stored as it is on the platform, and
// then for what may be doubled.
func (s *tempest) settle(db *pgx.Conn) {
	t := s.t
	t.Helper()
	var wrong []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if wrong = s.wrong(db, false); len(wrong) == 0 {
			break
		}
	}
	time.Sleep(3 * time.Second)
	if wrong = s.wrong(db, true); len(wrong) > 0 {
		t.Errorf("%d are wrong:\n%s", len(wrong), strings.Join(wrong[:min(20, len(wrong))], "\n"))
	}
}

func (s *tempest) wrong(db *pgx.Conn, whole bool) (out []string) {
	answers, texts := map[string][]string{}, map[string][]string{}
	idle, gone := 0, 0 // answers to nothing; deleted messages
	for _, text := range s.u.said() {
		if !strings.HasPrefix(text, "answers ") && whole {
			out = append(out, fmt.Sprintf("the agent said %q", text))
		}
		tags := tagForm.FindAllString(text, -1)
		if len(tags) == 0 {
			idle++
		}
		for _, tag := range tags {
			answers[tagged(tag)] = append(answers[tagged(tag)], tag)
			texts[tagged(tag)] = append(texts[tagged(tag)], text)
		}
	}
	type row struct {
		text    string
		deleted bool
	}
	rows := map[string]row{}
	list, err := db.Query(context.Background(), `SELECT native_id, text, deleted_at IS NOT NULL FROM message WHERE NOT from_agent`)
	if err != nil {
		s.t.Fatal(err)
	}
	for list.Next() {
		var native string
		var r row
		if err := list.Scan(&native, &r.text, &r.deleted); err != nil {
			s.t.Fatal(err)
		}
		rows[native] = r
	}
	if list.Err() != nil {
		s.t.Fatal(list.Err())
	}
	for _, p := range s.plans {
		say := func(format string, args ...any) {
			out = append(out, fmt.Sprintf("%s in place %d, native %s, edited %v, deleted %v, its first event lost %v: ",
				p.tag, p.place, p.native, p.edited, p.deleted, p.blind)+fmt.Sprintf(format, args...))
		}
		a, r := answers[p.tag], rows[p.native]
		if p.deleted {
			gone++
		}
		switch {
		case len(a) > 1:
			say("answered %d times: %q", len(a), texts[p.tag])
		case p.deleted && p.unseen && len(a) > 0:
			say("answered although it was gone before anything of it came")
		case !p.deleted && len(a) == 0:
			say("never answered")
		case p.blind && p.edited && len(a) > 0 && a[0] != p.final:
			say("answered as %s, which it was no longer when it came", a[0])
		}
		switch _, stored := rows[p.native]; {
		case p.deleted && stored && (!r.deleted || r.text != ""):
			say("it is deleted, and stored as %q", r.text)
		case !p.deleted && r.deleted:
			say("stored as deleted")
		case !p.deleted && !strings.Contains(r.text, p.final):
			say("stored as %q", r.text)
		}
	}
	// A message may be deleted while it is being answered, and no other turn
	// has nothing to say.
	if idle > gone {
		out = append(out, fmt.Sprintf("%d turns answered nothing; %d messages were deleted", idle, gone))
	}
	return out
}

// refused: a picture whose message was deleted is refused, and no byte of it
// moves.
func (s *tempest) refused(m *fakemodel.Server, db *pgx.Conn) {
	t := s.t
	t.Helper()
	var gone []*plan
	for _, p := range s.plans {
		if p.deleted && p.picture {
			gone = append(gone, p)
		}
	}
	slices.SortFunc(gone, func(a, b *plan) int { return cmp.Compare(b.tag, a.tag) })
	for _, p := range gone {
		var id string
		if db.QueryRow(context.Background(), `SELECT a.id FROM attachment a JOIN message m ON m.id = a.message WHERE m.native_id = $1`, p.native).Scan(&id) != nil {
			continue // nothing of it ever came
		}
		before, n := s.u.served(), len(m.Requests())
		m.Answer(steps(calls("view_images", fmt.Sprintf(`{"ids":[%q]}`, id)), says("answers nothing")))
		s.u.post(p.place, "show me that again", false)
		wait(t, "the answer about a deleted picture", func() bool { return slices.Contains(s.u.said(), "answers nothing") })
		last := m.Requests()[len(m.Requests())-1]
		if len(m.Requests()) < n+2 || len(last.Pictures) > 0 || s.u.served() != before {
			t.Errorf("deleted %s: %d pictures, %d bytes: %s", p.tag, len(last.Pictures), s.u.served()-before, last.Last("tool"))
		}
		return
	}
}
