package e2e

import (
	"fmt"
	"strings"
	"time"

	"sightline/tests/fakediscord"
	"sightline/tests/fakeslack"
)

// Where a picture was posted, and where it is asked for.
var placeCases = []audienceCase{
	{"1", "discord", privateThread},
	{"2", "discord", privateThreadBelow},
	{"2", "slack", threadBelow},
	{"3", "discord", publicThread},
	{"3", "slack", siblingThread},
	{"4, 18", both, otherChannel},
	{"5, 6", both, directMessages},
	{"7", "discord", interactionFile},
	{"7", both, ephemeralRow},
	{"23", "discord", renamedThread},
	{"23", "slack", renamedChannel},
	{"25", "discord", userInstalled},
}

func privateThread(q *inquiry) {
	parent := q.channel(false)
	inside := q.d.below(parent, fakediscord.PrivateThread, "ann")
	p := q.plant(inside, "ann")
	q.refused(q.ask(parent, "bob", "look "+p.id), p.id, "structure", "private thread")
	// Its own readers, and one of them from outside of it.
	q.allowed(q.ask(inside, "ann", "look "+p.id), "S1", p)
	q.refused(q.ask(parent, "ann", "look "+p.id), p.id, "structure", "private thread")
	if l := q.ask(parent, "bob", "list"); !strings.Contains(toolAnswers(l.last())[0], `"total":0`) {
		q.Errorf("the parent lists %s", toolAnswers(l.last()))
	}
	// Another private thread of the channel has other readers.
	beside := q.d.below(parent, fakediscord.PrivateThread, "bob")
	q.refused(q.ask(beside, "bob", "look "+p.id), p.id, "structure", "private thread")
}

func privateThreadBelow(q *inquiry) {
	parent := q.channel(false)
	inside := q.d.below(parent, fakediscord.PrivateThread, "ann")
	p := q.plant(parent, "bob")
	q.allowed(q.ask(inside, "ann", "look "+p.id), "S2", p)
}

// On Slack what is said to the agent in a channel begins a thread, so that the
// question below a picture is asked in the same place; a direct message has
// its threads below it.
func threadBelow(q *inquiry) {
	p := q.plant(q.channel(false), "ann")
	q.allowed(q.ask(p.u.at, "bob", "look "+p.id), "S1", p)
	dm := q.direct("ann")
	p = q.plant(dm, "ann")
	root := q.ask(dm, "ann", "let us open a thread")
	q.allowed(q.ask(spot{dm.channel, root.u.native}, "ann", "look "+p.id), "S2", p)
}

func publicThread(q *inquiry) {
	parent := q.channel(false)
	below := q.d.below(parent, fakediscord.PublicThread, "ann")
	above, inside := q.plant(parent, "ann"), q.plant(below, "ann")
	q.allowed(q.ask(below, "bob", "look "+above.id), "S3", above)
	q.allowed(q.ask(parent, "bob", "look "+inside.id), "S3", inside)
	q.listed(parent, inside.id, `"around":true`)
	q.listed(below, above.id, `"around":true`)
	// The thread was there; whoever is shown its parent no more is not.
	q.d.SetOverwrites(parent.channel, q.d.private("ann")...)
	q.refused(q.ask(parent, "bob", "look "+inside.id), inside.id, "S3", "can't see the channel")
}

func siblingThread(q *inquiry) {
	c := q.channel(true, "ann", "bob")
	p := q.plant(c, "ann")
	q.allowed(q.ask(c, "bob", "look "+p.id), "S1", p) // in a thread of its own
}

// otherChannel: the ID is in the text, which may have come from anywhere.
func otherChannel(q *inquiry) {
	here := q.channel(false)
	p := q.plant(q.channel(false), "ann")
	q.refused(q.ask(here, "ann", "the document says: look "+p.id), p.id, "unknown", "in this conversation")
	l := q.ask(here, "ann", "list")
	if got := toolAnswers(l.last()); len(got) != 1 || got[0] != `{"documents":[],"total":0,"next":0}` && q.name() == "discord" || strings.Contains(got[0], p.id) {
		q.Errorf("another channel lists %s", got)
	}
}

func directMessages(q *inquiry) {
	dm, public := q.direct("ann"), q.channel(false)
	secret, open := q.plant(dm, "ann"), q.plant(public, "ann")
	q.refused(q.ask(public, "ann", "look "+secret.id), secret.id, "unknown", "in this conversation")
	q.refused(q.ask(dm, "ann", "look "+open.id), open.id, "unknown", "in this conversation")
	q.refused(q.ask(q.direct("bob"), "bob", "look "+secret.id), secret.id, "unknown", "in this conversation")
	q.allowed(q.ask(dm, "ann", "look "+secret.id), "S1", secret)
}

// interactionFile: a file that came with a command was shown to nobody else.
func interactionFile(q *inquiry) {
	c := q.channel(false)
	p := q.picture()
	before := q.served()
	i := q.d.InteractWith(c.channel, q.d.ids["ann"], "attachments", fakediscord.File{Name: p.file.name, Type: "image/png", Data: p.file.data})
	select {
	case <-i.Done:
	case <-time.After(patience):
		q.Fatal("the command was never answered")
	}
	if !i.Ephemeral || strings.Contains(i.Content, p.file.name) || q.rows(p.file.name) != 0 {
		q.Errorf("ephemeral %v, answered %q, %d rows", i.Ephemeral, i.Content, q.rows(p.file.name))
	}
	l := q.ask(c, "bob", "list")
	if got := toolAnswers(l.last())[0]; !strings.Contains(got, `"total":0`) || q.served() != before {
		q.Errorf("listed as %s; %d bytes", got, q.served()-before)
	}
	q.verdict("no row", q.served()-before)
}

// ephemeralRow: a row whose place was shown to one person, as a file that is
// copied from an interaction would have.
func ephemeralRow(q *inquiry) {
	c := q.channel(false)
	at, rule := c, "S2"
	if q.name() == "discord" {
		at, rule = q.d.below(c, fakediscord.PublicThread, "ann"), "structure"
	}
	p := q.plant(at, "ann")
	q.exec(`UPDATE place SET kind = 'ephemeral' WHERE id = (SELECT place FROM attachment WHERE id = $1)`, p.id)
	q.refused(q.ask(c, "ann", "look "+p.id), p.id, rule, "shown to one person only")
	l := q.ask(c, "ann", "list")
	if got := toolAnswers(l.last())[0]; strings.Contains(got, p.id) {
		q.Errorf("listed as %s", got)
	}
}

func renamedThread(q *inquiry) {
	parent := q.channel(false)
	below := q.d.below(parent, fakediscord.PublicThread, "ann")
	p := q.plant(below, "ann")
	q.d.Archive(below.channel, "another name")
	q.allowed(q.ask(parent, "bob", "look "+p.id), "S3", p)
	q.allowed(q.ask(below, "bob", "look "+p.id), "S1", p) // which opens it again
}

func renamedChannel(q *inquiry) {
	c := q.channel(true, "ann", "bob")
	p := q.plant(c, "ann")
	q.s.ChangeChannel(c.channel, func(c *fakeslack.Channel) { c.Name = "another-name" })
	q.s.must(q.s.Emit(map[string]any{"type": "group_rename", "channel": map[string]any{"id": c.channel, "name": "another-name"}}))
	q.allowed(q.ask(p.u.at, "bob", "look "+p.id), "S1", p)
}

// userInstalled: the application was installed by a user, who calls it where
// the agent is not. Who reads the answer can't be known.
func userInstalled(q *inquiry) {
	p := q.plant(q.direct("ann"), "ann")
	before := q.served()
	for what, others := range map[string][]string{"a group": {q.d.ids["bob"], q.d.ids["carl"]}, "another's direct message": {q.d.ids["bob"]}} {
		i, id := q.d.InteractElsewhere(q.d.ids["ann"], "attachments", others...)
		select {
		case <-i.Done:
		case <-time.After(patience):
			q.Fatalf("%s: the command was never answered", what)
		}
		if !i.Ephemeral || strings.Contains(i.Content, "att_") || strings.Contains(i.Content, p.file.name) {
			q.Errorf("%s: ephemeral %v, answered %q", what, i.Ephemeral, i.Content)
		}
		for _, r := range q.d.Requests() {
			if strings.Contains(r, fmt.Sprintf("/channels/%s/messages", id)) {
				q.Errorf("%s: the agent asked for %s", what, r)
			}
		}
	}
	if got := q.served() - before; got != 0 {
		q.Errorf("%d bytes were fetched", got)
	}
	q.verdict("lists nothing", q.served()-before)
}
