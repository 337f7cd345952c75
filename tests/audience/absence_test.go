package audience

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sightline/checkpoints"
	"sightline/connectors/chat"
	"sightline/connectors/discord"
)

// absence is a time in which events are lost, that ends with a new session, of
// the same process or of another.
func (w *world) absence() {
	w.Helper()
	w.sync()
	w.away = true
	w.Lose(true)
	w.did("the agent is away")
	var said []*room
	var posts []string
	for range 1 + w.rnd.IntN(3) {
		w.one()
		if at := one(w.rnd, w.rooms); w.chance(40) && w.recalls(w.me(), at) {
			e, _ := w.post(at, w.owner, "<@"+w.me()+"> while you were away", 1, "")
			said, posts = append(said, at), append(posts, e.event.Message.NativeID)
			w.did("%s is posted in %s", e.event.Message.NativeID, at.id)
		}
	}
	w.away = false
	if w.tally.away%2 == 0 {
		w.leave()
		w.Lose(false)
		w.enter()
		w.tally.restarted++
		w.did("it is another process")
	} else {
		_, before, _ := w.Connections()
		w.Lose(false)
		w.Forget()
		for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
			if _, now, _ := w.Connections(); now > before {
				break
			}
			if time.Now().After(end) {
				w.Fatal("the agent never came back")
			}
		}
	}
	w.tally.away++
	for n, at := range said {
		if w.recalls(w.me(), at) {
			w.wait(func() bool { return w.heardOf(posts[n]) })
		}
	}
	w.sync()
	w.did("it is back")
	// What became of messages where the agent could not look, it has found out by
	// now, where it can.
	for _, p := range w.pictures {
		if p.gone && !w.told[p.message] && w.recalls(w.me(), w.room(p.at)) {
			w.tally.missed++
			w.wait(func() bool { return w.told[p.message] })
		}
	}
}

// wait takes events until something is so.
func (w *world) wait(so func() bool) {
	w.Helper()
	if !so() {
		w.until(func(told) bool { return so() })
	}
}

// heardOf: a picture of the message is recorded.
func (w *world) heardOf(message string) bool {
	return slices.ContainsFunc(w.pictures, func(p *picture) bool { return p.message == message })
}

func (w *world) noted(e told) {
	at := cmp.Or(e.event.Place.Thread, e.event.Place.Channel)
	if at != w.marker {
		w.keep(at, e)
	}
	if e.event.Kind != chat.MessagePosted {
		w.told[e.event.Message.NativeID] = true
	}
}

// flaky has some of the next requests fail. What they were for has to come out
// all the same, but for what somebody waits for now.
func (w *world) flaky() {
	status := one(w.rnd, []int{500, 502, 503})
	left := &atomic.Int32{}
	left.Store(int32(1 + w.rnd.IntN(3)))
	w.did("%d requests fail with %d", left.Load(), status)
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/gateway") || left.Add(-1) < 0 {
			return false
		}
		rw.WriteHeader(status)
		return true
	})
	w.failing = true
	w.tally.failed++
}

func (w *world) calm() {
	w.Intercept(nil)
	w.failing = false
}

// What the service makes of the store for the connector.

func (w *world) recent(ctx context.Context) (out []discord.Recorded, err error) {
	rows, err := w.db.RecentMessages(ctx, self, discord.Platform, 2000)
	for _, r := range rows {
		m := discord.Recorded{Workspace: r.Scope, Channel: cmp.Or(r.Thread, r.Channel), Message: r.Message, Revision: r.Revision}
		if r.Thread != "" {
			m.Parent = r.Channel
		}
		out = append(out, m)
	}
	return out, err
}

type discordMarks struct{ db *checkpoints.DB }

func (d discordMarks) Marks(ctx context.Context, agent chat.AgentID) (out []discord.Mark, err error) {
	rows, err := d.db.Marks(ctx, agent, discord.Platform)
	for _, r := range rows {
		out = append(out, discord.Mark{Guild: r.Scope, Channel: r.Channel, Message: r.Message})
	}
	return out, err
}

func (d discordMarks) SetMark(ctx context.Context, agent chat.AgentID, m discord.Mark) error {
	return d.db.SetMark(ctx, agent, discord.Platform, checkpoints.Mark{Scope: m.Guild, Channel: m.Channel, Message: m.Message})
}
