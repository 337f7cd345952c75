package audience

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"sightline/agent/agenttest"
	"sightline/connectors/chat"
	"sightline/connectors/discord"
	"sightline/tests/fakediscord"
)

// world is a server of Discord's, the agent on it, and the oracle beside both.
type world struct {
	*driver
	*fakediscord.Server
	people
	guild     string
	blindRole string
	rooms     []*room // three channels, then the threads of the first
	marker    string
	posts     map[string]fakediscord.Message
	// told are messages of which the agent has recorded what became of them.
	told    map[string]bool
	away    bool // events are lost
	failing bool // calls are
	tally   struct{ away, restarted, failed, missed int }
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{Server: fakediscord.New(t), posts: map[string]fakediscord.Message{}, told: map[string]bool{}}
	w.driver = newDriver(t, seed, w)
	var names []string
	for _, n := range []string{"ann", "bob", "dora"} {
		names = append(names, w.AddUser(n))
	}
	w.people = people{bot: w.Server.Bot.ID, owner: w.Owner, all: names, absent: map[string]bool{}, blind: names[2]}
	w.guild = w.AddGuild(names...)
	w.blindRole = w.AddRole(w.guild, 0, w.blind)
	for range 3 {
		w.rooms = append(w.rooms, &room{id: w.AddChannel(w.guild)})
	}
	a := w.rooms[0]
	w.rooms = append(w.rooms, &room{id: w.AddThread(a.id, fakediscord.PublicThread, w.me()), parent: a},
		&room{id: w.AddThread(a.id, fakediscord.PrivateThread, w.me(), names[0]), parent: a, inside: []string{w.me(), names[0]}})
	w.marker = w.AddChannel(w.guild)
	w.note = w.noted
	w.drain = func() {
		for {
			select {
			case e := <-w.sink.got:
				w.noted(e)
			default:
				return
			}
		}
	}
	w.join(discord.Platform, func() connector {
		bot, err := discord.New(discord.Config{Agent: self, Token: w.Token, APIURL: w.URL, Sink: w.sink, Messages: w.db, Marks: discordMarks{w.db},
			Recent: w.recent, Log: slog.New(slog.NewTextHandler(w.log, nil)), Now: w.now, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return bot
	})
	w.sync()
	return w
}

// me is the agent's user, which the server and the connection beside it hide.
func (w *world) me() string { return w.people.bot }

// room is the one of an ID.
func (w *world) room(id string) *room {
	return w.rooms[slices.IndexFunc(w.rooms, func(r *room) bool { return r.id == id })]
}

// sync returns once the agent was told of all that happened before: its events
// come in order.
func (w *world) sync() {
	w.Helper()
	m := w.Post(w.marker, w.people.owner, fakediscord.Draft{Text: "<@" + w.me() + "> marker"})
	w.until(func(e told) bool { return e.event.Message.NativeID == m.ID })
}

// post has somebody say something with pictures. It answers false where the
// agent hears nothing of it.
func (w *world) post(at *room, user, text string, files int, replyTo string) (told, bool) {
	w.Helper()
	d := fakediscord.Draft{Text: text, ReplyTo: replyTo}
	for range files {
		n := len(w.pictures) + len(d.Files)
		data := agenttest.PNG(w, 8+n, 8, uint8(n))
		d.Files = append(d.Files, fakediscord.File{Name: fmt.Sprintf("shot-%d.png", n), Type: "image/png", Data: data})
	}
	m := w.Post(at.id, user, d)
	w.posts[m.ID] = m
	if w.away || !w.sees(w.me(), at) {
		return told{event: chat.Event{Message: chat.Message{NativeID: m.ID}}}, false
	}
	return w.until(func(e told) bool { return e.event.Message.NativeID == m.ID }), true
}

// change does one thing to the world, and has the agent hear of it as far as
// the platform tells.
func (w *world) change() {
	w.Helper()
	if w.chance(10) {
		w.absence()
		return
	}
	if w.chance(20) {
		w.flaky()
		defer w.calm()
	}
	w.one()
	w.sync()
}

func (w *world) one() {
	w.Helper()
	c := w.rooms[w.rnd.IntN(3)]
	switch w.rnd.IntN(6) {
	case 0, 1:
		c.kind = open
		if w.chance(60) {
			c.kind = layout(w.rnd.IntN(int(layouts)))
		}
		c.some = nil
		for _, u := range w.all {
			if w.chance(60) {
				c.some = append(c.some, u)
			}
		}
		w.SetOverwrites(c.id, c.overwrites(w.guild, w.blindRole, w.me())...)
		w.did("channel %s is %d for %v", c.id, c.kind, c.some)
	case 2:
		w.forgetful = !w.forgetful
		bits := int64(reads)
		if w.forgetful {
			bits &^= fakediscord.ReadMessageHistory
		}
		w.SetRole(w.guild, w.guild, bits)
		w.did("forgetful %v", w.forgetful)
	case 3:
		u := one(w.rnd, w.all[:2]) // the blind one keeps the role
		w.absent[u] = !w.absent[u]
		if w.absent[u] {
			w.Leave(w.guild, u)
		} else {
			w.Join(w.guild, u)
		}
		if w.chance(50) { // told, or found out as late as may be
			w.Dispatch("GUILD_MEMBER_REMOVE", map[string]any{"guild_id": w.guild, "user": map[string]any{"id": u, "username": "x"}})
		} else {
			w.later()
		}
		w.did("%s absent %v", u, w.absent[u])
	case 4:
		w.lose(func(p *picture) { w.Delete(w.posts[p.message]) }, true)
	case 5:
		w.lose(func(p *picture) { w.Edit(w.posts[p.message], "without it", 0) }, false)
	}
}

// lose takes a picture away, with its whole message, where the agent hears of
// it or not.
func (w *world) lose(how func(*picture), deleted bool) {
	var there []*picture
	for _, p := range w.pictures {
		if !p.gone && (w.sees(w.me(), w.room(p.at)) || w.chance(30)) {
			there = append(there, p)
		}
	}
	if len(there) == 0 {
		return
	}
	p := one(w.rnd, there)
	how(p)
	for _, o := range w.pictures {
		o.gone = o.gone || o.message == p.message
	}
	w.did("%s gone, deleted %v", p.id, deleted)
	if !w.away && w.sees(w.me(), w.room(p.at)) {
		w.until(func(e told) bool { return e.event.Message.NativeID == p.message })
	}
}
