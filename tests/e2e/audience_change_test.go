package e2e

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"sightline/tests/fakediscord"
	"sightline/tests/fakeslack"
)

// What became of the source since it was posted.
var changeCases = []audienceCase{
	{"13", both, deletedMessage},
	{"14", "slack", deletedFile},
	{"15", both, editedFile},
	{"16", "discord", forwardDiscord},
	{"16", "slack", forwardSlack},
	{"17", "slack", sharedTwice},
	{"24", "slack", channelIDChanged},
}

// downloadable: whoever kept the address still gets the file. This is asked by
// the test, after the bytes were counted.
func (q *inquiry) downloadable(url, token string, p picture) {
	q.Helper()
	req, err := http.NewRequestWithContext(q.Context(), http.MethodGet, url, nil)
	if err != nil {
		q.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		q.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != string(p.file.data) {
		q.Fatalf("the file itself is gone (status %d), so that this shows nothing", r.StatusCode)
	}
}

// address is where a message's first file is at present.
func (q *inquiry) address(p picture) (url, token string) {
	q.Helper()
	if q.name() == "slack" {
		return p.u.s.Files[0].URLPrivate, "Bearer " + fakeslack.BotToken
	}
	req, err := http.NewRequestWithContext(q.Context(), http.MethodGet, q.d.URL+"/v10/channels/"+p.u.d.ChannelID+"/messages/"+p.u.native, nil)
	if err != nil {
		q.Fatal(err)
	}
	req.Header.Set("Authorization", "Bot "+q.d.Token)
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		q.Fatal(err)
	}
	defer r.Body.Close()
	var m struct {
		Attachments []struct {
			URL string `json:"url"`
		} `json:"attachments"`
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || len(m.Attachments) != 1 {
		q.Fatalf("read the message: %d, %v", r.StatusCode, err)
	}
	return m.Attachments[0].URL, ""
}

func deletedMessage(q *inquiry) {
	at := q.direct("ann")
	for _, c := range []struct {
		how   func(utterance)
		words string
	}{{q.remove, "message was deleted"}, {q.lose, "the message or its file is no longer there"}} {
		p := q.plant(at, "ann")
		url, token := q.address(p)
		c.how(p.u)
		q.stated(q.ask(at, "ann", "look "+p.id), p.id, c.words)
		q.downloadable(url, token, p)
	}
	// Deleted while the model thinks about it: nothing of the answer is said.
	p := q.plant(at, "ann")
	q.withheld(q.held(at, "ann", "look "+p.id, 1, func() { q.remove(p.u) }), p)
	// In a place around, too, and where it may not be heard of it isn't.
	if q.name() == "discord" {
		parent := q.channel(false)
		inside := q.d.below(parent, fakediscord.PrivateThread, "ann")
		p, hidden := q.plant(parent, "ann"), q.plant(inside, "ann")
		q.remove(p.u)
		q.remove(hidden.u)
		q.stated(q.ask(inside, "ann", "look "+p.id), p.id, "message was deleted")
		q.refused(q.ask(parent, "ann", "look "+hidden.id), hidden.id, "structure", "private thread")
	}
}

func deletedFile(q *inquiry) {
	at := q.direct("ann")
	p := q.plant(at, "ann")
	q.s.must(q.s.DeleteFile(p.u.s.Files[0].ID))
	q.stated(q.ask(at, "ann", "look "+p.id), p.id, "the file was deleted")
	for _, c := range []struct {
		words, late string // as it came, and as it became
		change      func(*fakeslack.File)
	}{
		{"the platform hides the file on its present plan", "", func(f *fakeslack.File) { f.Mode = "hidden_by_limit" }},
		{"the platform denies access to the file", "", func(f *fakeslack.File) { f.FileAccess = "access_denied" }},
		{"the file was deleted", "the message or its file is no longer there", func(f *fakeslack.File) { f.Mode = "tombstone" }},
		{"the file is hosted elsewhere and is never fetched", "", func(f *fakeslack.File) {
			f.Mode, f.IsExternal, f.URLPrivate = "external", true, "https://files.example.com/x.png"
		}},
	} {
		// As it came.
		p := q.picture()
		f := q.s.Upload(p.file.name, "image/png", p.file.data)
		c.change(&f)
		q.s.PutFile(f)
		a := q.prepare(at)
		a.u = q.s.say(q.s.draft(at, "ann", "what is this? #"+a.name+"#", true, f))
		said := q.end(a)
		q.told(said)
		p = q.rowed(p)
		q.nothing(said, p.id)
		if l := line(said.last(), p.id); !strings.Contains(l, "not shown") {
			q.Errorf("%s: the prompt says %q", c.words, l)
		}
		q.stated(q.ask(at, "ann", "look "+p.id), p.id, c.words)

		// Since then, and nobody was told.
		p = q.plant(at, "ann")
		f = p.u.s.Files[0]
		f.Data = p.file.data
		c.change(&f)
		q.s.PutFile(f)
		q.stated(q.ask(at, "ann", "look "+p.id), p.id, "the picture could not be fetched: "+cmp.Or(c.late, c.words))
	}
}

func editedFile(q *inquiry) {
	at := q.direct("ann")
	old, next := q.plant(at, "ann"), q.picture()
	if q.name() == "discord" {
		q.d.Edit(old.u.d, "rather this", 0, fakediscord.File{Name: next.file.name, Type: "image/png", Data: next.file.data})
	} else {
		f := q.s.Upload(next.file.name, "image/png", next.file.data)
		q.s.must(q.s.Edit(at.channel, old.u.native, func(m *fakeslack.Message) { m.Text, m.Files = "rather this", []fakeslack.File{f} }))
	}
	next = q.rowed(next)
	q.stated(q.ask(at, "ann", "look "+old.id), old.id, "it was removed from its message")
	q.allowed(q.ask(at, "ann", "look "+next.id), "S1", next)
	l := toolAnswers(q.ask(at, "ann", "list").last())[0]
	if strings.Count(l, `"state":"deleted"`) != 1 || strings.Count(l, `"state":"available"`) != 1 {
		q.Errorf("listed as %s", l)
	}
}

func forwardDiscord(q *inquiry) {
	a, b := q.channel(true, "ann"), q.channel(false)
	original := q.plant(a, "ann")
	seen := len(q.d.Requests())
	asked := q.prepare(b)
	draft := q.d.draft("what is this? #"+asked.name+"#", true)
	draft.Forward = &original.u.d
	asked.u = q.d.say(b, "ann", draft)
	first := q.end(asked)
	q.told(first)
	copied := q.copyOf(original, asked.u.native)
	if len(first.last().Pictures) != 1 || !samePixels(first.last().Pictures[0].Image, original.pix) || !strings.Contains(first.last().Pictures[0].Label, copied.id) {
		q.Errorf("the forward shows %d pictures", len(first.last().Pictures))
	}
	q.refused(q.ask(b, "bob", "look "+original.id), original.id, "unknown", "in this conversation")
	q.remove(original.u)
	q.allowed(q.ask(b, "bob", "look "+copied.id), "S1", copied)
	for _, r := range q.d.Requests()[seen:] {
		if strings.Contains(r, original.u.native) || strings.Contains(r, "/channels/"+a.channel+"/messages") {
			q.Errorf("the original was followed: %s", r)
		}
	}
}

// copyOf is the row of the copy that a message carries.
func (q *inquiry) copyOf(p picture, native string) picture {
	q.Helper()
	var origin string
	if err := q.db.QueryRow(q.Context(), `SELECT a.id, a.origin FROM attachment a JOIN message m ON m.id = a.message WHERE a.name = $1 AND m.native_id = $2`, p.file.name, native).Scan(&p.id, &origin); err != nil || origin != "forward" {
		q.Fatalf("the row of the copy: origin %q, %v", origin, err)
	}
	return p
}

func forwardSlack(q *inquiry) {
	a, b := q.channel(true, "ann"), q.channel(false)
	original := q.plant(a, "ann")
	asked := q.prepare(b)
	m := q.s.draft(b, "ann", "what is this? #"+asked.name+"#", true)
	m.Attachments = []fakeslack.Share{
		{IsShare: true, FromURL: "https://fake.slack.com/archives/" + a.channel + "/p1", Files: original.u.s.Files},
		{FromURL: "https://example.com/unfurled", Files: []fakeslack.File{q.s.Upload("unfurled.png", "image/png", original.file.data)}},
	}
	before := len(q.reads(a))
	asked.u = q.s.say(m)
	first := q.end(asked)
	q.told(first)
	copied := q.copyOf(original, asked.u.native)
	if len(first.last().Pictures) != 1 || !samePixels(first.last().Pictures[0].Image, original.pix) || q.rows("unfurled.png") != 0 {
		q.Errorf("the forward shows %d pictures; %d rows of the preview", len(first.last().Pictures), q.rows("unfurled.png"))
	}
	q.refused(q.ask(asked.u.at, "bob", "look "+original.id), original.id, "unknown", "in this conversation")
	q.remove(original.u) // the share is a file of this message
	q.allowed(q.ask(asked.u.at, "bob", "look "+copied.id), "S1", copied)
	if n := len(q.reads(a)); n != before {
		q.Errorf("the original's channel was read %d times", n-before)
	}
	// The forward goes, and its copy with it.
	q.remove(asked.u)
	q.stated(q.ask(asked.u.at, "bob", "look "+copied.id), copied.id, "message was deleted")
}

// reads are the looks into a channel's messages.
func (q *inquiry) reads(at spot) (out []fakeslack.Call) {
	for _, m := range []string{"conversations.history", "conversations.replies"} {
		for _, c := range q.s.Calls(m) {
			if c.Form["channel"] == at.channel {
				out = append(out, c)
			}
		}
	}
	return out
}

// sharedTwice: one file of Slack's in two channels is two attachments.
func sharedTwice(q *inquiry) {
	p := q.picture()
	f := q.s.Upload(p.file.name, "image/png", p.file.data)
	share := func() (picture, utterance) {
		a := q.prepare(q.channel(true, "ann", "bob"))
		a.u = q.s.say(q.s.draft(a.from, "ann", "keep this #"+a.name+"#", true, f))
		q.told(q.end(a))
		out := p
		if err := q.db.QueryRow(q.Context(), `SELECT a.id FROM attachment a JOIN message m ON m.id = a.message WHERE a.name = $1 AND m.native_id = $2`, p.file.name, a.u.native).Scan(&out.id); err != nil {
			q.Fatal(err)
		}
		return out, a.u
	}
	inA, a := share()
	inB, b := share()
	if q.rows(p.file.name) != 2 || inA.id == inB.id {
		q.Errorf("%d rows, %s and %s", q.rows(p.file.name), inA.id, inB.id)
	}
	q.refused(q.ask(a.at, "ann", "look "+inB.id), inB.id, "unknown", "in this conversation")
	q.refused(q.ask(b.at, "ann", "look "+inA.id), inA.id, "unknown", "in this conversation")
	q.allowed(q.ask(b.at, "bob", "look "+inB.id), "S1", inB)
	q.remove(b)
	q.stated(q.ask(b.at, "bob", "look "+inB.id), inB.id, "message was deleted")
	q.allowed(q.ask(a.at, "bob", "look "+inA.id), "S1", inA)
}

// channelIDChanged: it happens when a channel is shared with another team.
func channelIDChanged(q *inquiry) {
	c := q.channel(true, "ann", "bob")
	p := q.plant(c, "ann")
	next := q.s.fresh("C")
	a := q.held(p.u.at, "bob", "look "+p.id, 0, func() {
		q.s.must(q.s.Share(c.channel, next))
	})
	q.allowed(a, "S1", p)
	if m := q.s.Messages(next, p.u.at.thread); len(m) == 0 || !strings.Contains(m[len(m)-1].Text, answerTo(a.name)) {
		q.Errorf("the renamed channel has %d messages", len(m))
	}
	// The next message names the new ID, and it is the same conversation.
	q.allowed(q.ask(spot{next, p.u.at.thread}, "bob", "look "+p.id), "S1", p)

	// To an ID that leads nowhere.
	c = q.channel(true, "ann", "bob")
	p = q.plant(c, "ann")
	a = q.held(p.u.at, "bob", "look "+p.id, 0, func() {
		q.s.must(q.s.Emit(map[string]any{"type": "channel_id_changed", "old_channel_id": c.channel, "new_channel_id": "C9999"}))
	})
	q.ended(a, p.id)
	q.trailed(a, p.id, "member", "can't open the channel any more")
}
