package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
	"sightline/tests/fakeslack"
)

// What an answer draws on may change while it is made. Each case would tell
// what it must not if nobody asked again.
func TestWhatAnAnswerDrawsOnChanges(t *testing.T) {
	d, s := newDiscordSite(t), newSlackSite(t)
	stage := openAudience(t, d, s, agentsFile(d, s))
	for _, c := range []struct {
		name string
		on   []site
		run  func(*drawing)
	}{
		{"the audience widens", []site{d}, audienceWidens},
		{"the audience widens around text", []site{d}, audienceWidensAroundText},
		{"the audience widens around a list", []site{d}, audienceWidensAroundList},
		{"the picture is deleted", []site{d, s}, pictureDeleted},
		{"deleted before the next step", []site{d, s}, deletedBeforeNextStep},
		{"the question is deleted", []site{d, s}, questionDeleted},
		{"deleted between turns", []site{d, s}, deletedBetween},
		{"the question is edited", []site{d, s}, questionEdited},
	} {
		for _, on := range c.on {
			t.Run(c.name+"/"+on.name(), func(t *testing.T) {
				c.run(&drawing{inquiry: &inquiry{audienceStage: stage, T: t, site: on, agent: "sightline"}})
			})
		}
	}
	for _, c := range append(d.complaints(), s.complaints()...) {
		t.Errorf("a platform complains: %s", c)
	}
}

// drawing is a case with the model in its own hands.
type drawing struct {
	*inquiry
	from int // requests before
}

const secretOf = "a vermilion secret"

// drew has ann show a picture, of which the agent said something.
func (d *drawing) drew() (at spot, p picture) {
	d.Helper()
	at = d.direct("ann")
	if d.name() == "discord" {
		at = d.channel(false) // where the audience can widen
	}
	d.m.Answer(says(secretOf))
	p = d.picture()
	p.u = d.post(at, "ann", "keep this", true, p.file)
	d.closed(p.u, "answered")
	return p.u.at, d.rowed(p)
}

// closed waits for the turn of a message.
func (d *drawing) closed(u utterance, state string) (turn string) {
	d.Helper()
	var got, reason string
	wait(d, "the end of the turn", func() bool {
		err := d.db.QueryRow(d.Context(), `SELECT t.id, t.state, t.reason FROM turn t JOIN message m ON m.id = t.message WHERE m.native_id = $1`, u.native).Scan(&turn, &got, &reason)
		return err == nil && got != "running"
	})
	if got != state {
		d.Fatalf("the turn is %s (%s), want %s; said %q", got, reason, state, d.said(u.at))
	}
	return turn
}

// asked puts a question to a model that does one thing after the other, and
// changes the world while its n-th reply is held.
func (d *drawing) asked(at spot, text string, n int, change func(u utterance), replies ...func(fakemodel.Request) fakemodel.Reply) utterance {
	d.Helper()
	release := make(chan struct{})
	first := replies[n]
	replies[n] = func(r fakemodel.Request) fakemodel.Reply {
		a := first(r)
		a.Wait = release
		return a
	}
	d.from = len(d.m.Requests())
	d.m.Answer(steps(replies...))
	u := d.post(at, "ann", text, true)
	wait(d, "the request that is held", func() bool { return len(d.requests()) == n+1 })
	change(u)
	d.settle(d.inquiry)
	close(release)
	return u
}

func (d *drawing) requests() []fakemodel.Request { return d.m.Requests()[d.from:] }

// without: the request shows no picture and holds none of these words.
func (d *drawing) without(r fakemodel.Request, words ...string) {
	d.Helper()
	if len(r.Pictures) != 0 {
		d.Errorf("the request shows %d pictures", len(r.Pictures))
	}
	for _, w := range words {
		if strings.Contains(string(r.Raw), w) {
			d.Errorf("the request says %q:\n%s", w, r.Raw)
		}
	}
}

// ends waits for the agent's words in a place, which are these and no more.
func (d *drawing) ends(u utterance, want ...string) {
	d.Helper()
	d.closed(u, "answered")
	if said := d.said(u.at); !slices.Equal(said, want) {
		d.Errorf("said %q, want %q", said, want)
	}
}

func look(id string) func(fakemodel.Request) fakemodel.Reply {
	return calls("view_images", fmt.Sprintf(`{"ids":[%q]}`, id))
}

// widen lets people see the channel who can't read what was said before.
func (d *drawing) widen(at spot) {
	d.d.SetOverwrites(at.channel, fakediscord.Deny(d.d.guild, fakediscord.ReadMessageHistory), fakediscord.Member(d.d.Bot.ID, reads, 0))
}

func audienceWidens(d *drawing) {
	at, p := d.drew()
	u := d.asked(at, "what was it?", 1, func(utterance) { d.widen(at) },
		look(p.id), says("again "+secretOf), says("made without it"))
	d.ends(u, secretOf, "made without it")
	r := d.requests()
	if len(r) != 3 || len(r[1].Pictures) != 1 || !samePixels(r[1].Pictures[0].Image, p.pix) {
		d.Fatalf("%d requests", len(r))
	}
	d.without(r[2], "vermilion", p.file.name)
	if t := d.trail(d.closed(u, "answered"), p.id); !slices.ContainsFunc(t, func(u use) bool {
		return u.Action == "post" && !u.Allowed && strings.Contains(u.Reason, "history")
	}) {
		d.Errorf("the trail says %+v", t)
	}
}

// Nothing was looked at: what was said before is what the answer draws on.
func audienceWidensAroundText(d *drawing) {
	at, p := d.drew()
	u := d.asked(at, "what was it?", 0, func(utterance) { d.widen(at) }, says("again "+secretOf), says("made without it"))
	d.ends(u, secretOf, "made without it")
	r := d.requests()
	if len(r) != 2 || !strings.Contains(string(r[0].Raw), secretOf) {
		d.Fatalf("%d requests", len(r))
	}
	d.without(r[1], "vermilion", p.file.name)
}

// The names of a list are the place's too.
func audienceWidensAroundList(d *drawing) {
	at, p := d.drew()
	u := d.asked(at, "what is there?", 1, func(utterance) { d.widen(at) },
		calls("list_documents", `{}`), says("a picture named "+p.file.name), says("made without it"))
	d.ends(u, secretOf, "made without it")
	r := d.requests()
	if len(r) != 3 || !strings.Contains(r[1].Last("tool"), p.file.name) {
		d.Fatalf("%d requests", len(r))
	}
	d.without(r[2], "vermilion", p.file.name)
}

// (a) The answer is made anew, without the picture.
func pictureDeleted(d *drawing) {
	at, p := d.drew()
	u := d.asked(at, "what was it?", 1, func(utterance) { d.remove(p.u) },
		look(p.id), says("again "+secretOf), says("made without it"))
	d.ends(u, secretOf, "made without it")
	r := d.requests()
	if len(r) != 3 || len(r[1].Pictures) != 1 {
		d.Fatalf("%d requests", len(r))
	}
	d.without(r[2], "vermilion", p.file.name)
}

// What was said of it in the turn goes too, before the next inference.
func deletedBeforeNextStep(d *drawing) {
	at, p := d.drew()
	u := d.asked(at, "what was it?", 1, func(utterance) { d.remove(p.u) }, look(p.id), func(r fakemodel.Request) fakemodel.Reply {
		a := calls("list_documents", `{"limit":1}`)(r)
		a.Text = "it seems to be " + secretOf
		return a
	}, says("made without it"))
	d.ends(u, secretOf, "made without it")
	r := d.requests()
	if len(r) < 3 || len(r[1].Pictures) != 1 {
		d.Fatalf("%d requests", len(r))
	}
	for _, r := range r[2:] {
		d.without(r, "vermilion")
		for _, m := range r.Messages {
			if m.Role == "tool" && strings.Contains(m.Text, `"selected":[{`) {
				d.Errorf("the tool still says %s", m.Text)
			}
		}
	}
}

// (b) Whoever takes a question back wants no answer to it.
func questionDeleted(d *drawing) {
	at, _ := d.drew()
	u := d.asked(at, "what was it?", 0, func(u utterance) { d.remove(u) }, says("again "+secretOf))
	d.closed(u, "stopped")
	// The same before the answer is made: the model is asked no more.
	v := d.asked(at, "and now?", 0, func(v utterance) { d.remove(v) }, calls("list_documents", `{}`), says("again "+secretOf))
	d.closed(v, "stopped")
	if n := len(d.requests()); n != 1 {
		d.Errorf("%d requests for a question that is gone", n)
	}
	if said := d.said(at); !slices.Equal(said, []string{secretOf}) {
		d.Errorf("said %q", said)
	}
}

// (c) What drew on it leaves the prompts, and its name is not one of what can
// be opened.
func deletedBetween(d *drawing) {
	at, p := d.drew()
	d.m.Answer(says("it was mentioned"))
	d.closed(d.post(at, "ann", "say that again", true), "answered")
	d.remove(p.u)
	d.settle(d.inquiry)
	u := d.asked(at, "what was it?", 0, func(utterance) {}, says("nothing is known of it"))
	d.ends(u, secretOf, "it was mentioned", "nothing is known of it")
	d.without(d.requests()[0], "vermilion", "it was mentioned", p.id)
}

// An edit is seen by the next inference.
func questionEdited(d *drawing) {
	at := d.direct("ann")
	u := d.asked(at, "the first wording", 0, func(u utterance) { d.edit(u, "the second wording") },
		calls("list_documents", `{}`), says("answered"))
	d.ends(u, "answered")
	r := d.requests()
	if len(r) != 2 || !strings.Contains(string(r[0].Raw), "first wording") || !strings.Contains(string(r[1].Raw), "second wording") {
		d.Fatalf("%d requests, the last %s", len(r), r[len(r)-1].Raw)
	}
	d.without(r[1], "first wording")
}

func (d *drawing) edit(u utterance, text string) {
	if d.name() == "discord" {
		d.d.Edit(u.d, "<@"+d.d.Bot.ID+"> "+text, -1)
		// What settles waits for no edit.
		wait(d, "the edit of "+u.native, func() bool {
			var now string
			err := d.db.QueryRow(d.Context(), `SELECT text FROM message WHERE native_id = $1`, u.native).Scan(&now)
			return err == nil && strings.Contains(now, text)
		})
		return
	}
	d.s.must(d.s.Edit(u.s.Channel, u.native, func(m *fakeslack.Message) { m.Text = text }))
}
