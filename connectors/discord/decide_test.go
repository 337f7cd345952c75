package discord

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

const (
	see     = fakediscord.ViewChannel
	history = fakediscord.ReadMessageHistory
)

// said posts a picture and answers its event.
func (w *world) said(channel string) chat.Event { return w.saidBy(w.alice, channel) }

func (w *world) saidBy(user, channel string) chat.Event {
	w.t.Helper()
	w.Post(channel, user, draft{Text: w.at(), Files: []fakediscord.File{png("a.png")}})
	return w.next()
}

func (w *world) ask(src chat.Event, dst chat.Place, trigger chat.MessageID) (attachments.Decision, error) {
	return w.bot.Decide(w.t.Context(), attachments.Question{
		Agent: agent, Actor: src.Message.Author, Source: src.Place, Message: src.Message.ID, Destination: dst, Trigger: trigger,
	})
}

func (w *world) expect(what string, src chat.Event, dst chat.Place, rule string) {
	w.t.Helper()
	d, err := w.ask(src, dst, "another")
	switch {
	case rule == "" && (d.Allowed() || err == nil && d.Reason == ""):
		w.t.Errorf("%s: %+v, %v, want a refusal with its reason", what, d, err)
	case rule != "" && (err != nil || !d.Allowed() || d.Rule != rule):
		w.t.Errorf("%s: %+v, %v, want %s", what, d, err, rule)
	}
}

// bothWays: what channels are is asked for one by one, or for all of a server.
func bothWays(t *testing.T, f func(*testing.T, *world)) {
	for _, bulk := range []bool{false, true} {
		t.Run(fmt.Sprint("bulk=", bulk), func(t *testing.T) {
			w := newWorld(t)
			w.bulk = bulk
			f(t, w)
		})
	}
}

func TestAudienceRules(t *testing.T) { bothWays(t, audienceRules) }

func audienceRules(t *testing.T, w *world) {
	public := w.AddThread(w.channel, fakediscord.PublicThread, w.Bot.ID)
	second := w.AddThread(w.channel, fakediscord.PublicThread, w.Bot.ID)
	private := w.AddThread(w.channel, fakediscord.PrivateThread, w.Bot.ID, w.alice)
	private2 := w.AddThread(w.channel, fakediscord.PrivateThread, w.Bot.ID, w.alice)
	elsewhere := w.AddChannel(w.guild)
	guild2 := w.AddGuild(w.alice)
	foreign := w.AddChannel(guild2)
	dm, dm2 := w.AddDM(w.alice), w.AddDM(w.bob)
	w.run()
	w.until("both guilds are marked", func() bool { _, ok := w.bot.marks.get(guildKey(guild2)); return ok })
	at := map[string]chat.Event{}
	names := map[string]string{"channel": w.channel, "public": public, "second": second, "private": private, "private2": private2,
		"elsewhere": elsewhere, "foreign": foreign, "dm": dm, "dm2": dm2}
	for name, id := range names {
		who := w.alice
		if id == dm2 {
			who = w.bob
		}
		at[name] = w.saidBy(who, id)
	}
	allowed := map[[2]string]string{
		{"channel", "private"}: "S2", {"channel", "private2"}: "S2",
		{"channel", "public"}: "S3", {"channel", "second"}: "S3", {"public", "channel"}: "S3", {"second", "channel"}: "S3",
	}
	for src := range names {
		for dst := range names {
			want := allowed[[2]string{src, dst}]
			if src == dst {
				want = "S1"
			}
			w.expect(src+" to "+dst, at[src], at[dst].Place, want)
		}
	}
	// A thread that claims another parent, or to be public.
	forged := chat.NewPlace(agent, Platform, w.guild, elsewhere, private, chat.PrivateThread)
	w.expect("a thread under another channel", at["elsewhere"], forged, "")
	open := chat.NewPlace(agent, Platform, w.guild, w.channel, private, chat.PublicThread)
	e := at["private"]
	e.Place = open
	w.expect("a private thread under a public one's kind", e, at["channel"].Place, "")
}

// Whoever has left, or lost the channel, is looked nothing up for, though
// their message came before. Others are unaffected by an uploader who left.
func TestWhoAsksHasToReadTheChannel(t *testing.T) { bothWays(t, whoAsksHasToReadTheChannel) }

func whoAsksHasToReadTheChannel(t *testing.T, w *world) {
	now := newClock()
	w.change = func(c *Config) { c.Now = now.now }
	role := w.AddRole(w.guild, 0, w.bob)
	dm := w.AddDM(w.bob)
	w.run()
	posted, asked, direct := w.saidBy(w.alice, w.channel), w.saidBy(w.bob, w.channel), w.saidBy(w.bob, dm)
	ask := func(who chat.Event) func() (attachments.Decision, error) {
		return func() (attachments.Decision, error) {
			return w.bot.Decide(t.Context(), attachments.Question{Agent: agent, Actor: who.Message.Author, Source: posted.Place,
				Message: posted.Message.ID, Destination: posted.Place, Trigger: who.Message.ID})
		}
	}
	soon := func(what string, ask func() (attachments.Decision, error), allowed bool) {
		t.Helper()
		var d attachments.Decision
		var err error
		for range 200 {
			if d, err = ask(); err == nil && d.Allowed() == allowed {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil || d.Allowed() != allowed || !allowed && (d.Reason == "" || !d.Asker()) {
			t.Errorf("%s: %+v, %v, want allowed %v", what, d, err, allowed)
		}
	}
	soon("a member", ask(asked), true)
	w.SetOverwrites(w.channel, fakediscord.Deny(role, see))
	soon("who can't see the channel any more", ask(asked), false)
	soon("who still can", ask(posted), true)
	w.SetOverwrites(w.channel)
	soon("who can again", ask(asked), true)
	w.Leave(w.guild, w.bob)
	now.later(factsLife) // no event tells of it
	soon("who has left", ask(asked), false)
	w.Leave(w.guild, w.alice)
	now.later(factsLife)
	other := asked
	other.Message.Author = chat.Actor{Platform: Platform, User: w.Owner, Role: chat.Guest}
	soon("somebody else, after the uploader left", ask(other), true)
	for what, who := range map[string]chat.Actor{"nobody": {}, "of another platform": {Platform: "x", User: w.Owner}, "no id": {Platform: Platform, User: "../x"}} {
		q := other
		q.Message.Author = who
		if d, err := ask(q)(); d.Allowed() || err == nil && d.Reason == "" {
			t.Errorf("%s: %+v, %v", what, d, err)
		}
	}
	// A stranger in somebody's direct conversation.
	if d, err := w.bot.Decide(t.Context(), attachments.Question{Agent: agent, Actor: posted.Message.Author, Source: direct.Place,
		Message: direct.Message.ID, Destination: direct.Place}); d.Allowed() || err == nil && d.Reason == "" {
		t.Errorf("a stranger in a direct conversation: %+v, %v", d, err)
	}
}

// discordgo's own computation ignores the parent's overwrites for threads.
func TestHistoryHasToBeUniversal(t *testing.T) { bothWays(t, historyHasToBeUniversal) }

func historyHasToBeUniversal(t *testing.T, w *world) {
	role := w.AddRole(w.guild, 0, w.bob)
	thread := w.AddThread(w.channel, fakediscord.PublicThread, w.Bot.ID)
	w.run()
	// Bob asks: he has the role.
	src, inThread := w.saidBy(w.bob, w.channel), w.saidBy(w.bob, thread)
	w.SetOverwrites(w.channel, fakediscord.Deny(role, history))
	w.expectSoon("without history", src, src.Place, "")
	w.expect("thread, without the parent's history", inThread, inThread.Place, "")
	w.expect("S3 without history", src, inThread.Place, "")
	if d, err := w.ask(src, src.Place, src.Message.ID); err != nil || !d.Allowed() {
		t.Errorf("the message that is being answered: %+v, %v", d, err)
	}
	if d, _ := w.ask(src, inThread.Place, src.Message.ID); d.Allowed() {
		t.Error("the trigger of another place was allowed")
	}
	// A command answers no message: nothing is the message being answered.
	whole := attachments.Question{Agent: agent, Actor: src.Message.Author, Source: src.Place, Destination: src.Place}
	if d, err := w.bot.Decide(t.Context(), whole); d.Allowed() || err == nil && d.Reason == "" {
		t.Errorf("the place as a whole: %+v, %v", d, err)
	}
	w.SetOverwrites(w.channel, fakediscord.Deny(w.guild, see), fakediscord.Member(w.Bot.ID, see, 0), fakediscord.Allow(role, see))
	w.expectSoon("private, with history", src, src.Place, "S1")
	w.SetRole(w.guild, w.guild, see|fakediscord.SendMessages)
	w.expectSoon("@everyone without history", src, src.Place, "")
}

// expectSoon waits for the event that drops the facts, not for their age.
func (w *world) expectSoon(what string, src chat.Event, dst chat.Place, rule string) {
	w.t.Helper()
	for range 200 {
		if d, err := w.ask(src, dst, "another"); err == nil && d.Allowed() == (rule != "") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.expect(what, src, dst, rule)
}

func TestFactsAreLiveAndShared(t *testing.T) {
	w := newWorld(t)
	now := newClock()
	w.change = func(c *Config) { c.Now = now.now }
	w.run()
	src := w.said(w.channel)
	asked := func() (n int) {
		for _, r := range w.Requests() {
			if strings.HasPrefix(r, "GET /guilds/"+w.guild) {
				n++
			}
		}
		return n
	}
	done := make(chan bool)
	for range 20 {
		go func() { w.expect("many at once", src, src.Place, "S1"); done <- true }()
	}
	for range 20 {
		<-done
	}
	if n := asked(); n != 2 { // its roles, and the one who asks
		t.Errorf("asked %d times", n)
	}
	now.later(factsLife)
	w.expect("later", src, src.Place, "S1")
	if n := asked(); n != 4 {
		t.Errorf("facts of 30 s ago were used: asked %d times", n)
	}
	for kind, data := range map[string]map[string]any{
		"GUILD_ROLE_UPDATE": {"guild_id": w.guild, "role": map[string]any{}}, "GUILD_MEMBER_REMOVE": {"guild_id": w.guild},
		"CHANNEL_UPDATE": {"id": w.channel, "guild_id": w.guild, "type": 0}, "THREAD_MEMBERS_UPDATE": {"id": w.channel, "guild_id": w.guild},
	} {
		before := w.bot.facts.epochOf(w.guild)
		w.Dispatch(kind, data)
		w.until(kind+" drops the facts", func() bool { return w.bot.facts.epochOf(w.guild) > before })
	}
	before := w.bot.facts.epochOf(w.guild)
	w.Forget()
	w.until("a reconnection drops the facts", func() bool { return w.bot.facts.epochOf(w.guild) > before })
}

// A server in which people talk everywhere is asked for all of its channels, and
// costs no more requests than a quiet one.
func TestManyChannelsAreAskedForTogether(t *testing.T) {
	w := newWorld(t)
	now := newClock()
	w.change = func(c *Config) { c.Now = now.now }
	var channels []string
	for range 40 {
		channels = append(channels, w.AddChannel(w.guild))
	}
	w.run()
	var said []chat.Event
	for _, c := range channels {
		said = append(said, w.said(c))
	}
	asked := func(path string) (n int) {
		for _, r := range w.Requests() {
			if strings.HasPrefix(r, "GET "+path) && !strings.Contains(r, "/messages") {
				n++
			}
		}
		return n
	}
	one := asked("/channels/") // the connector may have asked what a channel is
	for range 2 {
		for _, e := range said {
			w.expect("one of many", e, e.Place, "S1")
		}
	}
	if n := asked("/channels/") - one; n != manyChannels {
		t.Errorf("%d channels were asked for one by one, want %d", n, manyChannels)
	}
	if n := asked("/guilds/" + w.guild + "/channels"); n != 1 {
		t.Errorf("all were asked for %d times", n)
	}
	// It is no older for that, nor wider.
	w.SetOverwrites(channels[39], fakediscord.Member(w.Bot.ID, 0, see))
	w.expectSoon("lost to the bot alone", said[39], said[39].Place, "")
	w.expect("not lost", said[38], said[38].Place, "S1")
	before := asked("/guilds/" + w.guild + "/channels")
	now.later(factsLife)
	w.expect("later", said[38], said[38].Place, "S1")
	if asked("/guilds/"+w.guild+"/channels")+asked("/channels/")-one-manyChannels == before {
		t.Error("facts of 30 s ago were used")
	}
}

// An answer that was on its way when the permissions changed is about the
// time before.
func TestAnswersOnTheirWayAreDropped(t *testing.T) { bothWays(t, answersOnTheirWayAreDropped) }

func answersOnTheirWayAreDropped(t *testing.T, w *world) {
	var once sync.Once
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) (done bool) {
		if !strings.Contains(r.URL.Path, "/guilds/"+w.guild) {
			return false
		}
		once.Do(func() {
			old := httptest.NewRecorder()
			w.Answer(old, r)
			before := w.bot.facts.epochOf(w.guild)
			w.SetRole(w.guild, w.guild, see)
			w.until("the change is known", func() bool { return w.bot.facts.epochOf(w.guild) > before })
			_, _ = rw.Write(old.Body.Bytes())
			done = true
		})
		return done
	})
	w.run()
	src := w.said(w.channel)
	w.expect("changed meanwhile", src, src.Place, "")
}

func TestDoubtRefuses(t *testing.T) { bothWays(t, doubtRefuses) }

func doubtRefuses(t *testing.T, w *world) {
	dm := w.AddDM(w.alice)
	var now atomic.Pointer[func(*http.Request) bool] // what is asked ahead may still be under way
	breaks := func(f func(*http.Request) bool) { now.Store(&f) }
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if f := now.Load(); f == nil || !(*f)(r) {
			return false
		}
		rw.WriteHeader(500)
		return true
	})
	w.run()
	src, direct := w.said(w.channel), w.said(dm)
	breaks(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/guilds/") })
	if d, err := w.ask(src, src.Place, "x"); err == nil || d.Allowed() {
		t.Errorf("no roles: %+v, %v", d, err)
	}
	breaks(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/channels/"+dm) })
	if d, err := w.ask(direct, direct.Place, "x"); err == nil || d.Allowed() {
		t.Errorf("no channel: %+v, %v", d, err)
	}
	breaks(func(*http.Request) bool { return false })
	w.expect("again", src, src.Place, "S1")
	// Roles that leave @everyone out are no roles.
	if _, err := historyIsUniversal(guild{ID: "1", Roles: []role{{ID: "2"}}}, nil); err == nil {
		t.Error("a truncated list of roles was believed")
	}
	for _, raw := range []string{`{"id":"1"}`, `{"id":"1","permissions":""}`, `{"id":"1","permissions":"x"}`, `{"id":"1","permissions":null}`} {
		var r role
		if json.Unmarshal([]byte(raw), &r) == nil {
			t.Errorf("a role without permissions was believed: %s", raw)
		}
	}
	for _, raw := range []string{`{"id":"1","type":0,"allow":"1"}`, `{"id":"1","allow":"1","deny":"1"}`} {
		var o overwrite
		if json.Unmarshal([]byte(raw), &o) == nil {
			t.Errorf("half an overwrite was believed: %s", raw)
		}
	}
	// The agent is shut out.
	w.SetOverwrites(w.channel, fakediscord.Deny(w.guild, see))
	w.expectSoon("shut out", src, src.Place, "")
	w.bot.c.Messages = nil
	w.expect("no store", direct, direct.Place, "")
}

// A deletion counts from its arrival, before the store knows.
func TestDeletionCountsAtOnce(t *testing.T) {
	w := newWorld(t).run()
	src := w.said(w.channel)
	w.sink.failing(func(chat.Event) error { return chat.ErrNotFound })
	w.Delete(fakediscord.Message{ID: src.Message.NativeID, ChannelID: w.channel})
	w.expectSoon("deleted", src, src.Place, "")
	w.sink.failing(nil)
	w.next()
}
