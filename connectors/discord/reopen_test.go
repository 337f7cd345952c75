package discord

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

func (w *world) shuts(channel string) bool {
	w.bot.shut.mu.Lock()
	defer w.bot.shut.mu.Unlock()
	return w.bot.shut.m[channel]
}

// A thread that the agent can't see when it comes is listed nowhere. What
// became of its messages is found when its channel is opened.
func TestThreadOutOfSight(t *testing.T) {
	w, k := newWorld(t), &book{}
	w.change = func(c *Config) { c.Recent = k.recent }
	thread := w.AddThread(w.channel, fakediscord.PublicThread, w.alice, w.Bot.ID)
	w.run()
	m := w.Post(thread, w.alice, draft{Text: "one"})
	e := w.next()
	k.keep(e, thread)
	w.SetOverwrites(w.channel, fakediscord.Deny(w.guild, fakediscord.ViewChannel))
	w.stop()
	w.run()
	w.until("it knows that the thread is shut", func() bool { return w.shuts(thread) })
	w.Delete(m)
	w.SetOverwrites(w.channel)
	if got := w.next(); got.Kind != chat.MessageDeleted || got.Message.ID != e.Message.ID {
		t.Errorf("%+v", got)
	}
}

// A process that loses its connection while it looks at a guild looks again
// when it has it back.
func TestLooksAgainAfterItsConnectionWasAnothers(t *testing.T) {
	w, k := newWorld(t), &book{}
	w.change = func(c *Config) { c.Recent = k.recent }
	w.make().lookPause = time.Hour
	w.rerun()
	w.until("the guild is marked", func() bool { _, ok := w.bot.marks.get(guildKey(w.guild)); return ok })
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " one"})
	e := w.next()
	k.keep(e, w.channel)
	w.SetOverwrites(w.channel, fakediscord.Deny(w.guild, fakediscord.ViewChannel))
	w.until("it knows that the channel is shut", func() bool { return w.shuts(w.channel) })
	w.stop()
	w.bot.lookPause = 50 * time.Millisecond
	w.rerun()
	w.until("it was compared", func() bool { return w.calls("/channels/"+w.channel+"/messages") > 0 })
	w.Delete(m)
	w.SetOverwrites(w.channel)
	if got := w.next(); got.Kind != chat.MessageDeleted || got.Message.ID != e.Message.ID {
		t.Errorf("%+v", got)
	}
}

// What a guild's permissions are may not be to be had; its messages are heard
// meanwhile, whatever lane they are in.
func TestALookHoldsUpNobody(t *testing.T) {
	w, k := newWorld(t), &book{}
	w.change = func(c *Config) { c.Recent = k.recent }
	var channels []string
	for range 40 { // in all of the lanes
		channels = append(channels, w.AddChannel(w.guild))
	}
	w.run()
	w.Post(w.channel, w.alice, draft{Text: w.at() + " one"})
	k.keep(w.next(), w.channel)
	var tried atomic.Int32
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/guilds/"+w.guild+"/members/"+w.Bot.ID) {
			return false
		}
		tried.Add(1)
		rw.WriteHeader(http.StatusOK)
		_, _ = rw.Write([]byte(`{"roles": 5}`))
		return true
	})
	w.SetOverwrites(channels[0], fakediscord.Deny(w.guild, fakediscord.ViewChannel))
	w.until("it was tried again", func() bool { return tried.Load() > 1 })
	for _, c := range channels[1:] {
		w.Post(c, w.alice, draft{Text: w.at() + " look"})
	}
	for range channels[1:] {
		w.next()
	}
}

// What became of a private thread's messages while the agent was out of it, it
// looks for when it is in again.
func TestBackInAThread(t *testing.T) {
	w, k := newWorld(t), &book{}
	w.change = func(c *Config) { c.Recent = k.recent }
	thread := w.AddThread(w.channel, fakediscord.PrivateThread, w.alice, w.Bot.ID)
	w.run()
	m := w.Post(thread, w.alice, draft{Text: "one"})
	e := w.next()
	k.keep(e, thread)
	w.Expel(thread, w.Bot.ID)
	w.Delete(m)
	w.nothing(w.channel)
	w.Invite(thread, w.Bot.ID)
	if got := w.next(); got.Kind != chat.MessageDeleted || got.Message.ID != e.Message.ID {
		t.Errorf("%+v", got)
	}
	if w.shuts(thread) {
		t.Error("it is not shut any more")
	}
}
