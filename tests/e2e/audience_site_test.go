package e2e

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"sightline/tests/fakediscord"
	"sightline/tests/fakeslack"
)

// spot is where something is said. On Slack a thread is one of a channel; on
// Discord it is a channel of its own.
type spot struct{ channel, thread string }

// utterance is a message of a person.
type utterance struct {
	at     spot // the conversation that it belongs to
	native string
	d      fakediscord.Message
	s      fakeslack.Message
}

// site is one platform with its people: ann, who owns the agent, bob and carl.
type site interface {
	name() string
	// channel is a fresh one that these people read, a private one alone.
	channel(private bool, people ...string) spot
	direct(who string) spot
	// post says something there, to the agent or beside it.
	post(at spot, who, text string, to bool, files ...file) utterance
	remove(u utterance)
	// lose removes without the agent being told.
	lose(u utterance)
	// settle returns once the agent has heard of what happened so far.
	settle(q *inquiry)
	said(at spot) []string // by the agent
	served() int64         // bytes of files that left the platform
	complaints() []string
}

func mimeOf(name string) string {
	switch path.Ext(name) {
	case ".jpg":
		return "image/jpeg"
	case ".html":
		return "text/html"
	}
	return "image/png"
}

type discordSite struct {
	*fakediscord.Server
	t      *testing.T
	guild  string
	beacon spot
	ids    map[string]string
	gone   []utterance // removed since it was settled
}

func newDiscordSite(t *testing.T) *discordSite {
	d := &discordSite{Server: fakediscord.New(t), t: t, ids: map[string]string{}}
	for _, n := range []string{"ann", "bob", "carl"} {
		d.ids[n] = d.AddUser(n)
	}
	d.guild = d.AddGuild(d.ids["ann"], d.ids["bob"], d.ids["carl"])
	d.beacon = d.channel(false)
	return d
}

func (d *discordSite) name() string { return "discord" }

// reads is what a member of a private channel is granted.
const reads = fakediscord.ViewChannel | fakediscord.SendMessages | fakediscord.ReadMessageHistory

func (d *discordSite) private(people ...string) []fakediscord.Overwrite {
	list := []fakediscord.Overwrite{fakediscord.Deny(d.guild, fakediscord.ViewChannel), fakediscord.Member(d.Bot.ID, reads, 0)}
	for _, p := range people {
		list = append(list, fakediscord.Member(d.ids[p], reads, 0))
	}
	return list
}

func (d *discordSite) channel(private bool, people ...string) spot {
	if private {
		return spot{channel: d.AddChannel(d.guild, d.private(people...)...)}
	}
	return spot{channel: d.AddChannel(d.guild)}
}

// below is a thread with the agent in it.
func (d *discordSite) below(at spot, kind int, people ...string) spot {
	members := []string{d.Bot.ID}
	for _, p := range people {
		members = append([]string{d.ids[p]}, members...)
	}
	return spot{channel: d.AddThread(at.channel, kind, members...)}
}

func (d *discordSite) direct(who string) spot { return spot{channel: d.AddDM(d.ids[who])} }

func (d *discordSite) draft(text string, to bool, files ...file) fakediscord.Draft {
	if to {
		text = "<@" + d.Bot.ID + "> " + text
	}
	draft := fakediscord.Draft{Text: text}
	for _, f := range files {
		draft.Files = append(draft.Files, fakediscord.File{Name: f.name, Type: mimeOf(f.name), Data: f.data})
	}
	return draft
}

func (d *discordSite) post(at spot, who, text string, to bool, files ...file) utterance {
	return d.say(at, who, d.draft(text, to, files...))
}

func (d *discordSite) say(at spot, who string, draft fakediscord.Draft) utterance {
	m := d.Post(at.channel, d.ids[who], draft)
	return utterance{at: at, native: m.ID, d: m}
}

func (d *discordSite) remove(u utterance) {
	d.Delete(u.d)
	d.gone = append(d.gone, u)
}

func (d *discordSite) lose(u utterance) {
	d.Lose(true)
	d.Delete(u.d)
	d.Lose(false)
}

// settle: events are read in their order, so once the last one is recorded all
// others were read. That is enough for what is known of channels and people; a
// message's own end is recorded in its channel's turn, beside the others'.
func (d *discordSite) settle(q *inquiry) {
	q.Helper()
	q.silently(d.beacon, "carl")
	for _, u := range d.gone {
		wait(q, "the deletion of "+u.native, func() bool {
			var done bool
			err := q.db.QueryRow(q.Context(), `SELECT coalesce(bool_and(deleted_at IS NOT NULL), false) FROM message WHERE native_id = $1`, u.native).Scan(&done)
			return err == nil && done
		})
	}
	d.gone = nil
}

func (d *discordSite) said(at spot) (out []string) {
	for _, m := range d.Said(at.channel) {
		out = append(out, m.Content)
	}
	return out
}

func (d *discordSite) served() int64        { return d.Served() }
func (d *discordSite) complaints() []string { return d.Violations() }

type slackSite struct {
	*fakeslack.Server
	t      *testing.T
	ids    map[string]string
	serial int
}

func newSlackSite(t *testing.T) *slackSite {
	f, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	s := &slackSite{Server: f, t: t, ids: map[string]string{"ann": "U1", "bob": "U2", "carl": "U3"}}
	for n, id := range s.ids {
		s.AddUser(fakeslack.User{ID: id, Team: fakeslack.Team, Name: n})
	}
	return s
}

func (s *slackSite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *slackSite) name() string { return "slack" }

func (s *slackSite) fresh(prefix string) string {
	s.serial++
	return fmt.Sprintf("%s%04d", prefix, s.serial)
}

func (s *slackSite) members(people []string) []string {
	out := []string{fakeslack.BotUser}
	for _, p := range people {
		out = append(out, s.ids[p])
	}
	return out
}

func (s *slackSite) channel(private bool, people ...string) spot {
	id := s.fresh("C")
	if len(people) == 0 {
		people = []string{"ann", "bob", "carl"}
	}
	s.AddChannel(fakeslack.Channel{ID: id, IsChannel: !private, IsPrivate: private, Members: s.members(people)})
	return spot{channel: id}
}

func (s *slackSite) direct(who string) spot {
	id := s.fresh("D")
	s.AddChannel(fakeslack.Channel{ID: id, IsIM: true, User: s.ids[who], Members: s.members([]string{who})})
	return spot{channel: id}
}

// draft is a message that is not sent yet.
func (s *slackSite) draft(at spot, who, text string, to bool, files ...fakeslack.File) fakeslack.Message {
	if to {
		text = "<@" + fakeslack.BotUser + "> " + text
	}
	return fakeslack.Message{Channel: at.channel, ThreadTS: at.thread, User: s.ids[who], Text: text, Files: files}
}

func (s *slackSite) post(at spot, who, text string, to bool, files ...file) utterance {
	var up []fakeslack.File
	for _, f := range files {
		up = append(up, s.Upload(f.name, mimeOf(f.name), f.data))
	}
	return s.say(s.draft(at, who, text, to, up...))
}

func (s *slackSite) say(m fakeslack.Message) utterance {
	m, err := s.Post(m)
	s.must(err)
	return uttered(m)
}

// uttered: what is said in a channel begins a thread.
func uttered(m fakeslack.Message) utterance {
	u := utterance{at: spot{m.Channel, m.ThreadTS}, native: m.TS, s: m}
	if m.ThreadTS == "" && m.Channel[0] != 'D' {
		u.at.thread = m.TS
	}
	return u
}

func (s *slackSite) remove(u utterance) { s.must(s.Delete(u.s.Channel, u.native)) }

func (s *slackSite) lose(u utterance) {
	_, err := s.Remove(u.s.Channel, u.native)
	s.must(err)
}

// become changes a channel and says so with the subtype of a message.
func (s *slackSite) become(at spot, subtype string, f func(*fakeslack.Channel)) {
	s.ChangeChannel(at.channel, f)
	s.must(s.Emit(map[string]any{"type": "message", "subtype": subtype, "channel": at.channel, "user": "U1", "ts": "1700000000.000001", "text": ""}))
}

// settle: an event is acknowledged once it has had its effect.
func (s *slackSite) settle(q *inquiry) {
	wait(q, "the acknowledgement of every event", func() bool { return s.Open() == 0 })
}

func (s *slackSite) said(at spot) (out []string) {
	for _, m := range s.Messages(at.channel, at.thread) {
		if m.User == fakeslack.BotUser {
			out = append(out, m.Text)
		}
	}
	return out
}

func (s *slackSite) served() int64        { return s.Served() }
func (s *slackSite) complaints() []string { return s.AckPayloads() }

var _ = []site{(*discordSite)(nil), (*slackSite)(nil)}

// without leaves out what was there before.
func without(all, before []string) []string {
	return slices.Clone(all[min(len(before), len(all)):])
}
