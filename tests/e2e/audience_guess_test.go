package e2e

import (
	"strings"

	"sightline/connectors/chat"
)

// Asking for what was never named.
var guessCases = []audienceCase{
	{"19, 38", both, guessing},
}

// guessing: 20 unknown IDs in ten minutes, and this person is refused unseen
// here. Each is in the trail as it was asked for.
func guessing(q *inquiry) {
	at := q.plant(q.channel(false), "ann").u.at
	p := q.plant(at, "ann")
	one := string(chat.NewAttachmentID())
	q.refused(q.ask(at, "bob", "look "+one), one, "unknown", "no such attachment")
	q.allowed(q.ask(at, "bob", "look "+p.id), "S1", p) // one is a slip

	var ids []string
	for range 19 {
		ids = append(ids, string(chat.NewAttachmentID()))
	}
	a := q.ask(at, "bob", "look "+strings.Join(ids, " "))
	q.told(a)
	if a.bytes != 0 || len(a.last().Pictures) != 0 || strings.Count(strings.Join(toolAnswers(a.last()), ""), "no attachment with that ID is available in this conversation") != 19 {
		q.Errorf("%d bytes, %d pictures; the tool said %q", a.bytes, len(a.last().Pictures), toolAnswers(a.last()))
	}
	for _, id := range ids {
		q.trailed(a, id, "unknown", "no such attachment")
		for _, u := range q.trail(a.turn, id) {
			if u.User == "" {
				q.Errorf("the trail does not say who asked for %s", id)
			}
		}
	}
	q.refused(q.ask(at, "bob", "look "+p.id), p.id, "guess-limit", "too many unknown attachment ids")
	q.allowed(q.ask(at, "ann", "look "+p.id), "S1", p) // somebody else
	other := q.plant(q.channel(false), "ann")          // and somewhere else
	q.allowed(q.ask(other.u.at, "bob", "look "+other.id), "S1", other)
}
