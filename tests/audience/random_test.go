package audience

import (
	"testing"
)

// turns is how many questions are asked in one world.
const turns = 40

// TestRandom asks and changes things in turn, and in the middle of each other.
func TestRandom(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) map[string]int {
		w := newWorld(t, seed)
		for range turns {
			for w.chance(40) {
				w.change()
			}
			w.ask()
			if t.Failed() {
				break
			}
		}
		if v := w.Violations(); len(v) > 0 {
			t.Errorf("the platform complains: %v", v)
		}
		counts := w.happened()
		counts["away"], counts["restarted"], counts["failing"] = w.tally.away, w.tally.restarted, w.tally.failed
		return counts
	})
}

// ask has somebody ask somewhere for some pictures, theirs to see or not.
func (w *world) ask() {
	w.Helper()
	at := w.rooms[0]
	if w.chance(35) {
		at = one(w.rnd, w.rooms)
	}
	asker := one(w.rnd, w.all)
	if at.inside != nil {
		asker = w.all[0]
	}
	if w.chance(30) { // something beside the agent
		w.post(at, asker, "look what I found", 1+w.rnd.IntN(2), "")
	}
	q := &question{at: at.id, asker: asker}
	text := "<@" + w.me() + "> look"
	replyTo := ""
	for range w.rnd.IntN(4) {
		if len(w.pictures) > 0 {
			p := one(w.rnd, w.pictures)
			q.look = append(q.look, p.id)
			text += " " + string(p.id)
			if p.at == at.id && !p.gone && w.chance(50) {
				replyTo = p.message
			}
		}
	}
	e, heard := w.post(at, asker, text, w.rnd.IntN(2), replyTo)
	if !heard {
		return
	}
	q.event = e.event
	if w.chance(15) {
		w.flaky()
		defer w.calm()
	}
	w.asking = q
	w.did("%s asks in %s for %v", asker, at.id, q.look)
	w.answer()
	w.asking = nil
}

// may: the picture may be shown for the question, now.
func (w *world) may(p *picture) bool {
	q := w.asking
	if p.gone {
		return false
	}
	return p.message == q.event.Message.NativeID && w.sees(w.me(), w.room(p.at)) || w.known(w.room(q.at), w.room(p.at))
}

// nameable: that the picture is or was there may be said. The question was on
// every screen, with its files' names.
func (w *world) nameable(p *picture) bool {
	return p.message == w.asking.event.Message.NativeID || w.known(w.room(w.asking.at), w.room(p.at))
}

// plain: nothing stands against the picture, and the product has a rule for it.
func (w *world) plain(p *picture) bool {
	q := w.asking
	return w.may(p) && !w.failing && q.at == p.at && w.room(q.at).top().kind == open && !w.forgetful && w.sees(q.asker, w.room(q.at))
}

// retellable: once the agent is told that a picture is gone, what was seen in
// it is over, too.
func (w *world) retellable(p *picture) bool { return !w.told[p.message] && w.nameable(p) }

func (w *world) said() (out []string) {
	for _, m := range w.Said(w.asking.at) {
		out = append(out, m.Content)
	}
	return out
}
