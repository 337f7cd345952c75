package audience

import (
	"slices"

	"sightline/tests/fakeslack"
)

// change does one thing to the workspace, and has the agent hear of it as
// Slack tells: now, late, twice, or never, and then it finds out when its facts
// are as old as they may be, or when it connects again.
func (w *workspace) change() {
	w.Helper()
	if w.chance(8) {
		w.absence()
		return
	}
	if len(w.late) > 0 && w.chance(50) {
		w.rnd.Shuffle(len(w.late), func(i, j int) { w.late[i], w.late[j] = w.late[j], w.late[i] })
		for _, e := range w.late {
			w.emit(e)
		}
		w.did("%d late events came", len(w.late))
		w.late = nil
		for _, m := range w.messages {
			m.late = false
		}
		w.heard()
	}
	c, who, n := w.somewhere(), one(w.rnd, w.people), w.rnd.IntN(kinds)
	if n < ofMessages {
		w.look(c) // so that there is something known, to be forgotten
	}
	w.Double(w.chance(15))
	if w.chance(15) {
		w.flaky()
		defer w.calm()
	}
	w.one(n, c, who)
	if w.chance(10) { // two at once
		w.one(w.rnd.IntN(kinds), w.somewhere(), one(w.rnd, w.people))
	}
	w.Double(false)
	w.heard()
	w.caughtUp()
	if n < ofMessages {
		w.look(c)
	}
}

// heard is sync, after which what became of messages is known where the agent
// was told.
func (w *workspace) heard() {
	w.Helper()
	w.sync()
	for _, m := range w.messages {
		if m.recorded && m.told == m.rev && m.at.in[w.bot] && m.settled < m.rev {
			w.wrong("what became of %s in %s was told, and is not recorded", m.ts, m.at.id)
		}
	}
}

// caughtUp: what became of messages while the agent was not told, it has found
// out by now, where it is.
func (w *workspace) caughtUp() {
	w.Helper()
	for _, m := range w.messages {
		if m.recorded && w.rejoined[m.at] && m.at.in[w.bot] {
			w.eventually("the missed change of "+m.ts+" in "+m.at.id+" is recorded", func() bool { return m.settled == m.rev })
		}
	}
	clear(w.rejoined)
}

// The kinds of change; those of messages are the last.
const (
	ofMessages = 7
	kinds      = 14
)

// absence is a time in which events are lost, that ends with new connections.
func (w *workspace) absence() {
	w.Helper()
	w.sync()
	w.Lose(true)
	w.away = true
	w.did("the agent is away")
	var said []*words
	if c := w.somewhere(); w.chance(50) && !c.shared && c.in[w.bot] {
		w.shares(c)
	}
	for range 1 + w.rnd.IntN(3) {
		w.one(w.rnd.IntN(kinds), w.somewhere(), one(w.rnd, w.people))
		if c := w.somewhere(); w.chance(40) && c.in[w.bot] {
			if u := w.speaker(c); u != "" {
				m := w.say(c, u, "while you were away", w.thread(c), []fakeslack.File{w.upload()}, nil, false)
				w.did("%s said %s in %s", u, m.ts, c.id)
				said = append(said, m)
			}
		}
	}
	w.away = false
	w.Lose(false)
	before := w.Hellos()
	if w.tally.away%2 == 0 {
		w.leave()
		w.enter()
		w.tally.restarted++
		w.did("it is another process")
	} else {
		w.DropSockets()
	}
	w.eventually("both sockets are open again", func() bool { return w.Hellos() >= before+2 })
	w.greet()
	w.tally.away++
	w.did("it is back")
	// What was said and changed where it still is, it has to find. Archives are
	// not looked through for what nobody has recorded.
	for _, m := range said {
		if m.at.in[w.bot] && !m.at.archived && !m.deleted && len(m.files) > 0 && m.rev == 0 {
			w.eventually("the missed message "+m.ts+" is recorded", func() bool { return m.recorded })
		}
	}
	for _, c := range w.channels {
		w.rejoined[c] = true
	}
	w.caughtUp()
}

// one does one thing, to a channel and to somebody if it is of that kind.
func (w *workspace) one(n int, c *channel, who *person) {
	w.Helper()
	switch n {
	case 0, 1:
		w.moves(c, who)
	case 2:
		w.agentMoves(c)
	case 3:
		if !c.direct && !c.group {
			c.private = !c.private
			w.show(c)
			w.did("%s private %v", c.id, c.private)
			w.facts(c, map[string]any{"type": "message", "subtype": map[bool]string{true: "channel_convert_to_private", false: "channel_convert_to_public"}[c.private],
				"channel": c.now, "user": "UANN", "ts": "1.000001", "text": "changed the channel"})
		}
	case 4:
		if !c.direct && !c.group {
			c.archived = !c.archived
			w.show(c)
			w.did("%s archived %v", c.id, c.archived)
			kind := map[bool]string{true: "group_", false: "channel_"}[c.private] + map[bool]string{true: "archive", false: "unarchive"}[c.archived]
			w.facts(c, map[string]any{"type": kind, "channel": c.now, "user": "UANN"})
		}
	case 5:
		w.shares(c)
	case 6:
		w.becomes(who)
	case 7, 8, 9:
		w.deletes(w.message())
	case 10, 11, 12:
		w.edits(w.message())
	case 13:
		w.loses(w.message())
	}
}

func (w *workspace) somewhere() *channel {
	if w.chance(40) {
		return w.home
	}
	return one(w.rnd, w.channels)
}

// facts tells of what is not a message, where the agent is told of it.
func (w *workspace) facts(c *channel, e map[string]any) {
	switch {
	case w.away:
		w.emit(e) // and it is lost
	case c.in[w.bot] && w.chance(50):
		w.emit(e)
	default:
		w.later()
		if w.chance(30) {
			w.late = append(w.late, e)
		}
	}
}

// moves has somebody join or leave.
func (w *workspace) moves(c *channel, p *person) {
	if c.direct || c.group || p.stranger && !c.shared || p.gone {
		return
	}
	c.in[p.id] = !c.in[p.id]
	w.show(c)
	w.did("%s in %s: %v", p.id, c.id, c.in[p.id])
	w.facts(c, map[string]any{"type": map[bool]string{true: "member_joined_channel", false: "member_left_channel"}[c.in[p.id]], "user": p.id, "channel": c.now, "team": fakeslack.Team})
}

// agentMoves removes the agent, or invites it again, of which it is told: in
// between it was told of nothing.
func (w *workspace) agentMoves(c *channel) {
	if c.direct || c.group {
		return
	}
	c.in[w.bot] = !c.in[w.bot]
	w.show(c)
	w.did("the agent in %s: %v", c.id, c.in[w.bot])
	e := map[string]any{"type": "member_joined_channel", "user": w.bot, "channel": c.now, "team": fakeslack.Team}
	if !c.in[w.bot] {
		e = map[string]any{"type": map[bool]string{true: "group_left", false: "channel_left"}[c.private], "channel": c.now, "actor_id": "UANN"}
	}
	if w.away || c.in[w.bot] || w.chance(50) {
		w.emit(e)
	} else {
		w.later()
	}
	if w.rejoined[c] = c.in[w.bot]; w.away || c.in[w.bot] || w.chance(50) {
		return
	}
	for _, p := range w.pictures { // it is out for a moment, and much is deleted
		if m := w.messages[p.message]; m.at == c && !m.deleted && w.chance(50) {
			w.deletes(m)
		}
	}
	w.agentMoves(c)
}

// shares connects a channel with the other team, which gives it a new ID, or
// ends that, which takes the strangers out.
func (w *workspace) shares(c *channel) {
	if c.direct || c.group {
		return
	}
	if c.shared = !c.shared; c.shared {
		w.serial++
		old := c.now
		c.now = "C9" + c.id[2:] + string(rune('A'+w.serial%26)) + string(rune('A'+w.serial/26%26))
		c.between = append(c.between, c.now)
		w.did("%s is shared, and is %s now", c.id, c.now)
		lose := !c.in[w.bot] && !w.away // nobody tells it
		if lose {
			w.Lose(true)
		}
		if err := w.Share(old, c.now); err != nil {
			w.Fatal(err)
		}
		if lose {
			w.Lose(false)
		}
		w.show(c)
		w.facts(c, map[string]any{"type": "channel_shared", "channel": c.now, "connected_team_id": otherTeam})
		return
	}
	for _, p := range w.people {
		if p.stranger {
			delete(c.in, p.id)
		}
	}
	w.show(c)
	w.did("%s is not shared any more", c.id)
	w.facts(c, map[string]any{"type": "channel_unshared", "channel": c.now, "previously_connected_team_id": otherTeam, "is_ext_shared": false})
}

// becomes changes what somebody is. The app is not told of that.
func (w *workspace) becomes(p *person) {
	switch {
	case p.stranger:
		return
	case w.chance(50):
		p.gone = !p.gone
	default:
		p.guest = !p.guest
	}
	w.AddUser(w.user(p))
	w.did("%s guest %v, gone %v", p.id, p.guest, p.gone)
	if !w.away {
		w.later()
	}
}

// message picks one whose pictures are recorded, where the platform has it.
func (w *workspace) message() *words {
	var list []*words
	for _, p := range w.pictures {
		if m := w.messages[p.message]; !m.deleted && (len(list) == 0 || list[len(list)-1] != m) {
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return one(w.rnd, list[max(0, len(list)-12):])
}

// event tells what became of a message.
func (w *workspace) event(m *words, e map[string]any) {
	w.changed(m)
	switch {
	case !m.at.in[w.bot]: // nobody tells the agent
	case !w.away && w.chance(25):
		w.late, m.late = append(w.late, e), true
	default:
		w.emit(e)
		if !w.away {
			m.told = m.rev
		}
	}
}

func (w *workspace) deletes(m *words) {
	if m == nil {
		return
	}
	e, err := w.Remove(m.at.now, m.ts)
	if err != nil {
		w.Fatal(err)
	}
	m.deleted = true
	w.did("%s of %s is deleted", m.ts, m.at.id)
	w.event(m, e)
}

func (w *workspace) edits(m *words) {
	if m == nil {
		return
	}
	what, n := w.rnd.IntN(3), w.upload()
	e, err := w.Amend(m.at.now, m.ts, func(f *fakeslack.Message) {
		f.Text += "."
		switch what {
		case 0: // without it
			f.Files, f.Attachments, m.files = nil, nil, nil
		case 1: // with another
			f.Files, f.Attachments, m.files = []fakeslack.File{n}, nil, []string{n.ID}
		}
	})
	if err != nil {
		w.Fatal(err)
	}
	w.did("%s of %s is edited, %d", m.ts, m.at.id, what)
	w.event(m, e)
}

// loses deletes a file in all messages that have it, or has the plan hide it.
func (w *workspace) loses(m *words) {
	if m == nil || len(m.files) == 0 || w.lost[m.files[0]] {
		return
	}
	f := m.files[0]
	w.lost[f] = true
	w.did("file %s of %s is lost", f, m.ts)
	if w.chance(50) {
		w.HideFile(f)
		return
	}
	w.emit(w.Purge(f))
}

// speaker is somebody who may post there now.
func (w *workspace) speaker(c *channel) string {
	var list []string
	for _, p := range w.people {
		if c.in[p.id] && !p.gone {
			list = append(list, p.id)
		}
	}
	if c.archived || len(list) == 0 {
		return ""
	}
	return one(w.rnd, list)
}

// thread is one of the channel's few, begun here or before; empty: its top.
func (w *workspace) thread(c *channel) string {
	w.threads[c] = slices.DeleteFunc(w.threads[c], func(ts string) bool { return w.messages[ts].deleted })
	if w.chance(60) || len(w.threads[c]) == 0 {
		return ""
	}
	return one(w.rnd, w.threads[c])
}
