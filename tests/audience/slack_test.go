package audience

import (
	"slices"
	"testing"

	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/connectors/slack"
	"sightline/tests/fakeslack"
)

// TestRandomSlack asks and changes things in turn, and in the middle of each
// other, and asks for single pictures as anybody could. Asserted is that
//
//   - no byte leaves the file host, no picture is shown, no name is listed and
//     nothing seen is retold or posted unless the oracle allows it then: who asks
//     reads the channel, the agent is in it, it is the picture's own, the message
//     is there, of the recorded revision and with the file, and the file can be had;
//   - a grant whose message or file changed since moves no byte;
//   - what the oracle allows is given, and what was said and changed while the
//     agent was away is found when it is back.
func TestRandomSlack(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) map[string]int {
		w := newWorkspace(t, seed)
		for range 20 {
			for w.chance(50) {
				w.change()
			}
			for range 5 {
				w.probe()
			}
			w.ask()
			if t.Failed() {
				break
			}
		}
		counts, y := w.happened(), w.tally
		counts["granted"], counts["denied"], counts["moved"] = y.granted, y.denied, y.moved
		counts["away"], counts["restarted"], counts["failing"] = y.away, y.restarted, y.failed
		return counts
	})
}

// ask has somebody ask somewhere for some pictures, theirs to see or not.
func (w *workspace) ask() {
	w.Helper()
	c := w.somewhere()
	asker := w.speaker(c)
	if asker == "" {
		return
	}
	if w.chance(50) { // something beside the agent
		w.beside(c, asker)
	}
	if w.chance(15) {
		w.flaky()
		defer w.calm()
	}
	q := &question{at: c.id, asker: asker}
	text := "look"
	if !c.direct {
		text = "<@" + w.bot + "> look"
	}
	var here []*picture
	for _, p := range w.pictures {
		if p.at == c.id {
			here = append(here, p)
		}
	}
	for range w.rnd.IntN(4) {
		list := w.pictures
		if w.chance(70) {
			list = here
		}
		if len(list) > 0 {
			p := one(w.rnd, list)
			q.look = append(q.look, p.id)
			text += " " + string(p.id)
		}
	}
	var own []fakeslack.File
	if w.chance(50) {
		own = append(own, w.upload())
	}
	m := w.say(c, asker, text, w.thread(c), own, nil, false)
	w.did("%s asks in %s with %s for %v", asker, c.id, m.ts, q.look)
	if !c.in[w.bot] {
		return
	}
	w.asking = q
	defer func() { w.asking = nil }()
	var heard []told
	w.listen(func(e told) {
		if e.event.Message.NativeID == m.ts && !e.event.Silent && e.event.Kind == chat.MessagePosted {
			heard = append(heard, e)
		}
	})
	if len(heard) == 0 {
		w.wrong("%s asks %s in %s, and is not heard", asker, m.ts, c.id)
		return
	}
	q.event = heard[0].event
	w.answer()
	w.sync()
}

// listen is sync for whoever wants to know of each event.
func (w *workspace) listen(f func(told)) {
	w.Helper()
	w.ear = f
	defer func() { w.ear = nil }()
	w.sync()
}

// beside posts something with pictures: new ones, one that is shared again, or
// a message that is forwarded.
func (w *workspace) beside(c *channel, user string) {
	w.Helper()
	var own, forwarded []fakeslack.File
	for range 1 + w.rnd.IntN(2) {
		own = append(own, w.upload())
	}
	if len(w.pictures) > 0 && w.chance(40) {
		p := one(w.rnd, w.pictures)
		if m := w.messages[p.message]; w.there(m, p.file) && w.opens(user, m.at) {
			old := w.file(m, p.file)
			if own = nil; w.chance(50) {
				own = append(own, old)
			} else {
				forwarded = append(forwarded, old)
			}
		}
	}
	// The first message of a channel is in time: which one it is has to be known.
	m := w.say(c, user, "look what I found", w.thread(c), own, forwarded, len(w.threads[c]) > 0 && w.chance(20))
	w.did("%s posts %s in %s: %v", user, m.ts, c.id, m.files)
	if m.thread == "" && len(w.threads[c]) < 2 {
		w.threads[c] = append(w.threads[c], m.ts)
	}
	w.sync()
}

// file is one as its message has it.
func (w *workspace) file(m *words, id string) (out fakeslack.File) {
	for _, o := range w.Messages(m.at.now, "") {
		lists := [][]fakeslack.File{o.Files}
		for _, a := range o.Attachments {
			lists = append(lists, a.Files)
		}
		for _, l := range lists {
			if n := slices.IndexFunc(l, func(f fakeslack.File) bool { return f.ID == id }); n >= 0 {
				return l[n]
			}
		}
	}
	w.Fatalf("%s has no file %s", m.ts, id)
	return out
}

// probe asks for a picture as anybody could, from any place, and uses the
// grant, if there is one, after more has happened.
func (w *workspace) probe() {
	w.Helper()
	if len(w.pictures) == 0 {
		return
	}
	w.tally.probed++
	p, dst, who := one(w.rnd, w.pictures), one(w.rnd, w.places), one(w.rnd, w.people)
	for range 3 { // what might be allowed is asked for more often
		if m := w.messages[p.message]; !w.there(m, p.file) || !m.at.in[w.bot] {
			p = one(w.rnd, w.pictures)
		}
		if m := w.messages[p.message]; w.channel(dst.Channel) != m.at {
			dst = one(w.rnd, w.places)
		}
		if !w.opens(who.id, w.channel(dst.Channel)) {
			who = one(w.rnd, w.people)
		}
	}
	m := w.messages[p.message]
	at := w.channel(dst.Channel)
	r := w.request(dst, who)
	w.did("%s in %s wants %s of %s, message %s", who.id, at.id, p.id, m.at.id, m.ts)
	if w.chance(15) {
		w.flaky()
		defer w.calm()
	}
	w.list(r, at)
	before, rev, allowed := w.Served(), m.rev, w.allowed(who.id, at, m, p.file)
	grant, _, err := w.auth.Authorize(w.Context(), r, p.id, "probe")
	switch {
	case err == nil && !w.granted(who.id, at, m):
		w.wrong("granted to %s in %s: %s of %s, deleted %v", who.id, at.id, p.id, m.at.id, m.deleted)
	case err != nil && allowed && !w.failing:
		w.wrong("refused to %s in %s for no reason: %s of %s: %v, %s", who.id, at.id, p.id, m.at.id, err, w.why(p.id))
	}
	if err != nil {
		w.tally.denied++
		if n := w.Served() - before; n > 0 {
			w.wrong("%d bytes came with a refusal", n)
		}
		return
	}
	w.tally.granted++
	if w.chance(40) && !m.deleted {
		one(w.rnd, []func(*words){w.deletes, w.edits, w.edits, w.loses})(m)
		w.sync()
	}
	for w.chance(30) {
		w.change()
	}
	may := w.there(m, p.file) && m.at.in[w.bot] && m.rev == rev && allowed
	if !may {
		w.tally.moved++
	}
	_, err = w.auth.Fetch(w.Context(), grant, r, p.id)
	if err != nil && may && !w.failing {
		w.wrong("not fetched for %s in %s for no reason: %s of %s: %v", who.id, at.id, p.id, m.at.id, err)
	}
	w.bytesFor(func(o *picture) bool { return o == p && may })
}

func (w *workspace) request(dst chat.Place, who *person) attachments.Request {
	return attachments.Request{Agent: self, Actor: chat.Actor{Platform: slack.Platform, Workspace: w.user(who).Team, User: who.id},
		Conversation: dst.Conversation(), Destination: dst.ID, Turn: "probe"}
}

// look lists what there is in a channel, for everybody.
func (w *workspace) look(c *channel) {
	w.Helper()
	if n := slices.IndexFunc(w.places, func(p chat.Place) bool { return w.channel(p.Channel) == c }); n >= 0 {
		for _, who := range w.people {
			w.list(w.request(w.places[n], who), c)
		}
	}
}

func (w *workspace) list(r attachments.Request, at *channel) {
	w.Helper()
	page, err := w.auth.List(w.Context(), r, 0, 100)
	if err != nil && !w.failing {
		w.wrong("nothing is listed for %s in %s: %v", r.Actor.User, at.id, err)
	}
	for _, a := range page.Items {
		if o := w.picture(a.ID); !w.known(r.Actor.User, at, w.channel(o.at)) {
			w.wrong("listed for %s in %s: %s of %s", r.Actor.User, at.id, o.id, o.at)
		}
	}
}

// granted: a grant may be given while a deletion is under way, and what it lets
// through is looked at again.
func (w *workspace) granted(asker string, at *channel, m *words) bool {
	return w.known(asker, at, m.at) && (!m.deleted || m.late)
}

func (w *workspace) may(p *picture) bool {
	return w.allowed(w.asking.asker, w.channel(w.asking.at), w.messages[p.message], p.file)
}

// retellable: of the question, which is on every screen, and of what is known
// here, unless the agent was told that it is gone.
func (w *workspace) retellable(p *picture) bool {
	m := w.messages[p.message]
	if (m.deleted || !slices.Contains(m.files, p.file)) && m.settled == m.rev {
		return false
	}
	return w.nameable(p)
}

func (w *workspace) nameable(p *picture) bool {
	return p.message == w.asking.event.Message.NativeID || w.known(w.asking.asker, w.channel(w.asking.at), w.channel(p.at))
}

func (w *workspace) plain(p *picture) bool { return w.may(p) && !w.failing }

func (w *workspace) said() (out []string) {
	for _, m := range w.Messages(w.channel(w.asking.at).now, w.asking.event.Place.Thread) {
		if m.User == w.bot {
			out = append(out, m.Text+string(m.Blocks))
		}
	}
	return out
}
