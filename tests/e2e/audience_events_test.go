package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"sightline/tests/fakediscord"
	"sightline/tests/fakeslack"
)

// How a message comes, from the field: late, twice, in pieces, out of order.
var inputCases = []audienceCase{
	{"in 4, 34", "slack", mentionInTwo},
	{"in 34", "discord", toldTwice},
	{"in 5", "slack", notYetInHistory},
	{"in 9", both, earlierReply},
	{"in 12", "discord", repliedTo},
	{"in 13", both, pictureAlone},
	{"in 15", both, deletedFirst},
}

// retryCases come before all others: a connection that is made anew reads the
// last minutes again.
var retryCases = []audienceCase{
	{"in 33", both, onlyTheRetry},
}

var echoCases = []audienceCase{
	{"in 35", both, echo},
}

func (q *inquiry) get(url string) (int, error) {
	r, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	return r.StatusCode, r.Body.Close()
}

// once: the question began one turn, which is over and answered once.
func (q *inquiry) once(a answered) {
	q.Helper()
	time.Sleep(300 * time.Millisecond) // what is doubled would come now
	var turns int
	if err := q.db.QueryRow(q.Context(), `SELECT count(*) FROM turn t JOIN message m ON m.id = t.message WHERE m.native_id = $1`, a.u.native).Scan(&turns); err != nil {
		q.Fatal(err)
	}
	if said := q.said(a.u.at); turns != 1 || len(q.m.Requests()) != a.posed.requests+len(a.requests) || strings.Count(strings.Join(said, "\n"), answerTo(a.name)) != 1 {
		q.Errorf("%d turns, %d requests more, said %q", turns, len(q.m.Requests())-a.posed.requests-len(a.requests), said)
		for _, r := range q.m.Requests()[a.posed.requests+len(a.requests):] {
			q.Logf("also asked: %q", r.Last("user"))
		}
	}
}

// mentionInTwo: Slack tells of a mention twice, and either event may lack the
// files.
func mentionInTwo(q *inquiry) {
	for _, first := range []string{"message", "app_mention"} {
		for _, bare := range []string{"message", "app_mention"} {
			p := q.picture()
			c := q.channel(false)
			a := q.prepare(c)
			m := q.s.Store(q.s.draft(c, "ann", fmt.Sprintf("what is this? #%s#", a.name), true, q.s.Upload(p.file.name, "image/png", p.file.data)))
			a.u = uttered(m)
			events := q.s.EventsOf(m)
			if events[0]["type"] != first {
				events[0], events[1] = events[1], events[0]
			}
			for i, e := range events {
				if e["type"] == bare {
					e = maps.Clone(e)
					delete(e, "files")
					delete(e, "subtype")
				}
				q.s.must(q.s.Emit(e)) // each with an event ID of its own
				if i == 0 {
					time.Sleep(20 * time.Millisecond)
				}
			}
			done := q.end(a)
			q.shown(done, p)
			q.once(done)
		}
	}
}

func toldTwice(q *inquiry) {
	p, at := q.picture(), q.channel(false)
	a := q.begin(at, "ann", "what is this?", p.file)
	q.d.Repeat(a.u.d)
	done := q.end(a)
	q.d.Repeat(a.u.d)
	q.shown(done, p)
	q.once(done)
}

// notYetInHistory: an event without files, of a message that can't be read
// yet. "Not there" is not "no files".
func notYetInHistory(q *inquiry) {
	p, c := q.picture(), q.channel(false)
	a := q.prepare(c)
	m := q.s.Store(q.s.draft(c, "ann", fmt.Sprintf("what is this? #%s#", a.name), true, q.s.Upload(p.file.name, "image/png", p.file.data)))
	a.u = uttered(m)
	q.s.HideFor(m.TS, 2)
	e := q.s.EventsOf(m)[1]
	delete(e, "files")
	q.s.must(q.s.Emit(e))
	done := q.end(a)
	q.shown(done, p)
	q.once(done)
}

// earlierReply: the picture is in the second reply of a thread, and the agent
// is called in the third.
func earlierReply(q *inquiry) {
	c := q.channel(false)
	var at spot
	if q.name() == "discord" {
		// The thread is nobody's business to the agent until it is called.
		at = spot{channel: q.d.AddThread(c.channel, fakediscord.PublicThread, q.d.ids["ann"])}
		q.post(at, "ann", "a riddle", false)
	} else {
		at = q.post(c, "ann", "a riddle", false).at
	}
	q.post(at, "bob", "no idea", false)
	p := q.picture()
	if q.name() == "discord" {
		q.post(at, "bob", "this one", false, p.file)
	} else { // of which the agent hears in the thread alone
		q.s.Store(q.s.draft(at, "bob", "this one", false, q.s.Upload(p.file.name, "image/png", p.file.data)))
	}
	a := q.ask(at, "ann", "list")
	p = q.rowed(p)
	if got := toolAnswers(a.last())[0]; !strings.Contains(got, p.id) || !strings.Contains(got, `"viewable":true`) {
		q.Errorf("listed as %s", got)
	}
	q.allowed(q.ask(at, "ann", "look "+p.id), "S1", p)
}

// repliedTo: what is answered is another source: offered, and not shown by
// itself.
func repliedTo(q *inquiry) {
	at, p := q.channel(false), q.picture()
	draft := q.d.draft("", false, p.file)
	draft.Quiet = true // the agent hears of it through the reply alone
	p.u = q.d.say(at, "bob", draft)
	a := q.prepare(at)
	reply := q.d.draft("what is this? #"+a.name+"#", true)
	reply.ReplyTo = p.u.native
	a.u = q.d.say(at, "ann", reply)
	done := q.end(a)
	q.shown(done)
	p = q.rowed(p)
	if text := done.last().Last("user"); !strings.Contains(text, "In reply to a message of bob") || !strings.Contains(text, "("+p.id+")") {
		q.Errorf("the model is told %q", text)
	}
	q.allowed(q.ask(at, "ann", "look "+p.id), "S1", p)
}

func pictureAlone(q *inquiry) {
	at, p := q.direct("ann"), q.picture()
	a := q.prepare(at)
	a.name = ""
	a.u = q.post(at, "ann", "", false, p.file)
	q.shown(q.end(a), p)
}

// deletedFirst: the deletion is told before the message is. Nobody answers it,
// and its picture is nobody's.
func deletedFirst(q *inquiry) {
	at, p := q.direct("ann"), q.picture()
	a := q.prepare(at)
	text := fmt.Sprintf("what is this? #%s#", a.name)
	if q.name() == "discord" {
		draft := q.d.draft(text, true, p.file)
		draft.Quiet = true
		u := q.d.say(at, "ann", draft)
		q.remove(u)
		q.d.Repeat(u.d)
	} else {
		m := q.s.Store(q.s.draft(at, "ann", text, true, q.s.Upload(p.file.name, "image/png", p.file.data)))
		created := q.s.EventsOf(m)[0]
		deleted, err := q.s.Remove(m.Channel, m.TS)
		q.s.must(err)
		q.s.must(q.s.Emit(deleted))
		time.Sleep(20 * time.Millisecond)
		q.s.must(q.s.Emit(created))
	}
	l := q.ask(at, "ann", "list") // in the same lane, after it
	q.told(l)
	if got := toolAnswers(l.last())[0]; !strings.Contains(got, `"documents":[]`) || l.bytes != 0 {
		q.Errorf("listed as %s; %d bytes", got, l.bytes)
	}
	if said := strings.Join(q.said(at), "\n"); strings.Contains(said, answerTo(a.name)) {
		q.Errorf("said %q", said)
	}
	q.verdict("stays deleted", q.served()-a.served)
}

// onlyTheRetry: the first event of a message is lost with its connection.
func onlyTheRetry(q *inquiry) {
	p, at := q.picture(), q.direct("ann")
	if q.name() == "discord" {
		q.d.Drop()
	} else {
		q.s.RetryEvery(100 * time.Millisecond)
		defer q.s.RetryEvery(time.Second)
		q.s.CutAfterNext(1)
	}
	done := q.ask(at, "ann", "what is this?", p.file)
	q.shown(done, p)
	q.once(done)
	wait(q, "the connection", func() bool {
		if q.name() == "discord" {
			return q.d.Sessions()[0] == 1
		}
		return q.s.Open() == 0
	})
}

// echo: another bot repeats whatever the agent says. Bots are answered here,
// and two of them don't go on for ever.
func echo(q *inquiry) {
	at := q.ask(q.channel(false), "ann", "hello").u.at
	var repeat func(text string)
	limit := 0
	if q.name() == "discord" {
		bot := q.d.AddBot("parrot")
		limit = 3
		repeat = func(text string) {
			q.d.Post(at.channel, bot, fakediscord.Draft{Text: "<@" + q.d.Bot.ID + "> " + text})
		}
	} else {
		q.s.AddUser(fakeslack.User{ID: "U0PARROT", Team: fakeslack.Team, Name: "parrot", IsBot: true})
		limit = 5
		repeat = func(text string) {
			m := q.s.draft(at, "", text, true)
			m.User, m.BotID = "U0PARROT", "B0PARROT"
			q.s.say(m)
		}
	}
	heard := 0
	for heard <= limit { // the other bot's last word is answered by nobody
		wait(q, "an answer to an echo", func() bool { return len(q.said(at)) > heard })
		repeat(q.said(at)[heard])
		heard++
	}
	for quiet := time.Now(); time.Since(quiet) < 1500*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		said := q.said(at)
		for ; heard < len(said); heard++ {
			repeat(said[heard])
			quiet = time.Now()
		}
		if heard > 20 {
			q.Fatal("they go on")
		}
	}
	if heard < 2 || heard > limit+1 {
		q.Errorf("%d answers, want some, and at most %d", heard, limit+1)
	}
	// A person is answered as ever.
	q.told(q.ask(at, "ann", "and now?"))
	q.verdict(fmt.Sprintf("%d echoes answered", heard-1), 0)
}
