package e2e

import (
	"context"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/attachments"
	"sightline/tests/fakemodel"
	"sightline/tests/fakeslack"
)

// audienceStage is one running program with both platforms, on which the
// cases run one after another: bytes are counted for a platform as a whole.
type audienceStage struct {
	m      *fakemodel.Server
	script *script
	home   string
	p      *process
	db     *pgx.Conn
	d      *discordSite
	s      *slackSite
	*tally
}

// tally is shared by all cases of a stage: nothing is named twice.
type tally struct {
	asked int
	seeds uint32
	table []string
}

// open starts the program with these agents (yaml); environment as start's.
func openAudience(t *testing.T, d *discordSite, s *slackSite, agents string, env ...string) *audienceStage {
	a := &audienceStage{script: &script{holds: map[string]hold{}}, home: home(t), d: d, s: s, tally: &tally{}}
	m, model := fake(t, a.script.answer)
	a.m = m
	if err := os.WriteFile(filepath.Join(a.home, "sightline.yaml"), []byte(agents), 0o600); err != nil {
		t.Fatal(err)
	}
	env = append(model, env...)
	env = append(env, "TEST_DISCORD="+d.Token, "TEST_DISCORD_2="+d.SecondToken(), "TEST_SLACK_BOT_2="+fakeslack.SecondToken, "TEST_SLACK_BOT="+fakeslack.BotToken, "TEST_SLACK_APP="+fakeslack.AppToken, "TEST_SLACK_SIGNING="+fakeslack.SigningSecret)
	a.p = start(t, a.home, env...)
	var err error
	if a.db, err = pgx.Connect(t.Context(), a.p.Ready.Database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.db.Close(context.Background()) })
	return a
}

// agentsFile is one agent on both platforms, which answers bots too.
func agentsFile(d *discordSite, s *slackSite) string {
	return fmt.Sprintf(`agents:
  - id: sightline
    web: true
    owners: ["discord:%s", "slack:%s/U1"]
    discord: {token_env: TEST_DISCORD, api_url: %q, answer_bots: true}
    slack: {bot_token_env: TEST_SLACK_BOT, app_token_env: TEST_SLACK_APP, api_url: %q, answer_bots: true}
`, d.ids["ann"], fakeslack.Team, d.URL, s.URL())
}

// inquiry is one case on one platform.
type inquiry struct {
	*audienceStage
	*testing.T
	site
	label string
	agent string // whose turns are looked at
}

// picture is a file that somebody posted, and its row.
type picture struct {
	id   string
	file file
	pix  image.Image
	u    utterance
}

// picture is one of its own: bytes and name occur once.
func (q *inquiry) picture() picture {
	q.seeds++
	data, pix := noise(q, 40+int(q.seeds%7), 30+int(q.seeds%5), 1000+q.seeds)
	return picture{file: file{fmt.Sprintf("shot-%d.png", q.seeds), data}, pix: pix}
}

// plant has somebody show the agent a picture.
func (q *inquiry) plant(at spot, who string) picture {
	q.Helper()
	p := q.picture()
	a := q.ask(at, who, "keep this", p.file)
	if len(a.requests) != 1 || len(a.requests[0].Pictures) != 1 || !samePixels(a.requests[0].Pictures[0].Image, p.pix) {
		q.Fatalf("a new picture: %s after %d requests", a.state, len(a.requests))
	}
	p.u = a.u
	return q.rowed(p)
}

// silently has somebody post a picture beside the agent.
func (q *inquiry) silently(at spot, who string) picture {
	q.Helper()
	p := q.picture()
	p.u = q.post(at, who, "look what I found", false, p.file)
	return q.rowed(p)
}

func (q *inquiry) rowed(p picture) picture {
	q.Helper()
	p.id = q.row(p.file.name)
	return p
}

// row is the ID of the only attachment of that name.
func (q *inquiry) row(name string) (id string) {
	q.Helper()
	wait(q, "a row for "+name, func() bool {
		return q.db.QueryRow(q.Context(), `SELECT id FROM attachment WHERE name = $1 AND agent = $2`, name, q.agent).Scan(&id) == nil
	})
	return id
}

func (q *inquiry) rows(name string) (n int) {
	q.Helper()
	if err := q.db.QueryRow(q.Context(), `SELECT count(*) FROM attachment WHERE name = $1`, name).Scan(&n); err != nil {
		q.Fatal(err)
	}
	return n
}

func (q *inquiry) exec(sql string, args ...any) {
	q.Helper()
	if _, err := q.db.Exec(q.Context(), sql, args...); err != nil {
		q.Fatal(err)
	}
}

// posed is a question that is being answered.
type posed struct {
	name     string
	u        utterance
	from     spot
	requests int
	served   int64
	said     []string
	files    []file
}

// answered is how a question ended.
type answered struct {
	posed
	turn, state, reason string
	requests            []fakemodel.Request
	said                []string
	bytes               int64
}

// last is the request after the tools.
func (a answered) last() fakemodel.Request {
	if len(a.requests) == 0 {
		return fakemodel.Request{}
	}
	return a.requests[len(a.requests)-1]
}

func (q *inquiry) prepare(at spot) posed {
	if q.name() == "slack" { // whose connections are two
		q.settle(q)
	}
	q.asked++
	return posed{
		name: fmt.Sprintf("q%d", q.asked), from: at, requests: len(q.m.Requests()), served: q.served(), said: q.said(at),
	}
}

func (q *inquiry) ask(at spot, who, text string, files ...file) answered {
	q.Helper()
	return q.end(q.begin(at, who, text, files...))
}

func (q *inquiry) begin(at spot, who, text string, files ...file) posed {
	q.Helper()
	return q.send(q.prepare(at), who, text, files...)
}

func (q *inquiry) send(a posed, who, text string, files ...file) posed {
	a.u, a.files = q.post(a.from, who, fmt.Sprintf("%s #%s#", text, a.name), true, files...), files
	return a
}

// held asks with the model kept at a step, so that change finds the turn in
// the middle.
func (q *inquiry) held(at spot, who, text string, step int, change func()) answered {
	q.Helper()
	a := q.prepare(at)
	h := q.script.keep(a.name, step)
	a = q.send(a, who, text)
	select {
	case <-h.arrived:
	case <-time.After(patience):
		q.Fatal("the model was never asked")
	}
	change()
	q.settle(q)
	close(h.release)
	return q.end(a)
}

// end waits for the turn of the question.
func (q *inquiry) end(a posed) answered {
	q.Helper()
	out := answered{posed: a}
	wait(q, "the end of the turn for "+a.name, func() bool {
		err := q.db.QueryRow(q.Context(), `SELECT t.id, t.state, t.reason FROM turn t JOIN message m ON m.id = t.message WHERE m.native_id = $1 AND t.agent = $2`,
			a.u.native, q.agent).Scan(&out.turn, &out.state, &out.reason)
		return err == nil && out.state != "running"
	})
	out.requests = q.m.Requests()[a.requests:]
	out.bytes = q.served() - a.served
	out.said = without(q.said(a.u.at), nil)
	if a.u.at == a.from {
		out.said = without(out.said, a.said)
	}
	return out
}

// told: the person got exactly this question's answer.
func (q *inquiry) told(a answered) {
	q.Helper()
	if a.state != "answered" || len(a.said) != 1 || !strings.Contains(a.said[0], answerTo(a.name)) {
		q.Errorf("the turn is %s (%s), and the platform was told %q", a.state, a.reason, a.said)
	}
}

// use is one row of the trail.
type use struct {
	Action, Rule, Reason, User string
	Allowed                    bool
	Bytes                      int64
}

// trail is what a turn's rows say of an attachment.
func (q *inquiry) trail(turn, id string) []use {
	q.Helper()
	rows, err := q.db.Query(q.Context(), `SELECT action, rule, reason, actor->>'user', allowed, bytes_fetched FROM use WHERE turn = $1 AND attachment = $2 ORDER BY seq`, turn, id)
	if err != nil {
		q.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[use])
	if err != nil {
		q.Fatal(err)
	}
	return out
}

// row of the summary.
func (q *inquiry) verdict(what string, bytes int64) {
	q.table = append(q.table, fmt.Sprintf("%-12s %-8s %-44s %7d bytes", q.label, q.name(), what, bytes))
}

// allowed: the tool selected the pictures, the next request shows them pixel
// by pixel, each was fetched for the tool and for the request and not once
// more, and the trail names the rule for every use.
func (q *inquiry) allowed(a answered, rule string, pictures ...picture) {
	q.Helper()
	q.told(a)
	var want int64
	for _, p := range pictures {
		want += 2 * int64(len(p.file.data))
	}
	for _, f := range a.files { // shown by themselves, before the tool
		want += int64(len(f.data))
	}
	if len(a.requests) != 2 || len(a.last().Pictures) != len(pictures) {
		q.Fatalf("%d requests, the last with %d pictures; the tool said %q, the trail %+v", len(a.requests), len(a.last().Pictures), toolAnswers(a.last()), q.trail(a.turn, pictures[0].id))
	}
	for i, p := range pictures {
		if !samePixels(a.last().Pictures[i].Image, p.pix) || !strings.Contains(a.last().Pictures[i].Label, p.id) {
			q.Errorf("picture %d is not %s", i, p.file.name)
		}
		done := map[string]bool{}
		for _, u := range q.trail(a.turn, p.id) {
			if done[u.Action] = true; !u.Allowed || u.Action != "fetch" && u.Rule != rule {
				q.Errorf("the trail says %+v, want %s", u, rule)
			}
		}
		for _, action := range []string{"view", "show", "fetch", "post"} {
			if !done[action] {
				q.Errorf("the trail of %s has no %s", p.id, action)
			}
		}
	}
	if a.bytes != want {
		q.Errorf("%d bytes were fetched, want %d", a.bytes, want)
	}
	q.verdict("allowed by "+rule, a.bytes)
}

// refused: to the letter what an unknown ID gets, no picture, no byte, and a
// trail that names rule and reason.
func (q *inquiry) refused(a answered, id, rule, reason string) {
	q.Helper()
	q.told(a)
	if said := toolAnswers(a.last()); len(a.requests) != 2 || len(said) != 1 || said[0] != uniform(id) {
		q.Errorf("%d requests; the tool said %q", len(a.requests), said)
	}
	q.nothing(a, id)
	q.trailed(a, id, rule, reason)
	q.verdict("refused by "+rule, a.bytes)
}

// stated: it belongs here, so that its state may be named.
func (q *inquiry) stated(a answered, id, words string) {
	q.Helper()
	q.told(a)
	said := strings.Join(toolAnswers(a.last()), "\n")
	if len(a.requests) != 2 || !strings.HasPrefix(said, `{"selected":[],`) || !strings.Contains(said, words) || strings.Contains(said, attachments.ErrNotAvailable.Error()) {
		q.Errorf("%d requests; the tool said %q, want %q", len(a.requests), said, words)
	}
	q.nothing(a, id)
	q.verdict("refused: "+words, a.bytes)
}

// nothing of it was shown or fetched.
func (q *inquiry) nothing(a answered, id string) {
	q.Helper()
	for i, r := range a.requests {
		if len(r.Pictures) != 0 {
			q.Errorf("request %d has %d pictures", i, len(r.Pictures))
		}
	}
	if a.bytes != 0 {
		q.Errorf("%d bytes were fetched", a.bytes)
	}
	for _, u := range q.trail(a.turn, id) {
		if u.Bytes != 0 || u.Action == "show" || u.Action == "post" {
			q.Errorf("the trail says %+v", u)
		}
	}
}

// trailed: the tool's look is in the trail, refused for this.
func (q *inquiry) trailed(a answered, id, rule, reason string) {
	q.Helper()
	t := q.trail(a.turn, id)
	if !slices.ContainsFunc(t, func(u use) bool { return u.Action == "view" }) {
		q.Errorf("the trail of %s has no look: %+v", id, t)
	}
	for _, u := range t {
		if u.Allowed || u.Rule != rule || !strings.Contains(u.Reason, reason) {
			q.Errorf("the trail says %+v, want a refusal by %s for %q", u, rule, reason)
		}
	}
}

// ended: nobody could be told, and the turn says so and is over.
func (q *inquiry) ended(a answered, id string) {
	q.Helper()
	if a.state != "failed" || a.reason == "" || len(a.said) != 0 {
		q.Errorf("the turn is %s (%s), and the platform was told %q", a.state, a.reason, a.said)
	}
	q.nothing(a, id)
	q.verdict("refused, nobody told", a.bytes)
}

// withheld: it was seen, and what was made of it is not said. Whoever asked is
// told so, or gets an answer that was made without it.
func (q *inquiry) withheld(a answered, p picture) {
	q.Helper()
	if len(a.said) != 1 || strings.Contains(a.said[0], heldBack) || !strings.Contains(a.said[0], "withheld") && !strings.Contains(a.said[0], answerTo(a.name)) {
		q.Errorf("the turn is %s (%s), and the platform was told %q", a.state, a.reason, a.said)
	}
	if len(a.requests) < 2 || len(a.requests[1].Pictures) != 1 || !samePixels(a.requests[1].Pictures[0].Image, p.pix) {
		q.Fatalf("%d requests: it was never seen, so that this shows nothing", len(a.requests))
	}
	for _, r := range a.requests[2:] {
		if len(r.Pictures) != 0 || strings.Contains(strings.Join(toolAnswers(r), ""), `"sha256"`) {
			q.Errorf("made anew with %d pictures; the tool said %q", len(r.Pictures), toolAnswers(r))
		}
	}
	if a.bytes != 2*int64(len(p.file.data)) || len(a.requests) == 2 && a.state != "failed" {
		q.Errorf("the turn is %s after %d requests and %d bytes", a.state, len(a.requests), a.bytes)
	}
	q.verdict("withheld", a.bytes)
}
