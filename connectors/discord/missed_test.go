package discord

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

// What was recorded before a restart and is edited after it: as new, the
// message would be nobody's business, and its picture would stay.
func TestEditOfWhatAnEarlierProcessRecorded(t *testing.T) {
	w := newWorld(t).run()
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " one", Files: []fakediscord.File{png("a.png")}})
	first := w.next()
	talk := w.Post(w.channel, w.alice, draft{Text: "talk"})
	w.nothing(w.channel)
	w.stop()
	w.run()
	w.Edit(m, "never mind", 0)
	if e := w.next(); e.Kind != chat.MessageEdited || e.Message.ID != first.Message.ID || len(e.Files) != 0 || e.Message.Text != "never mind" {
		t.Errorf("%+v", e)
	}
	w.Edit(talk, "small talk", -1)
	w.nothing(w.channel)
}

// A day of a busy channel is read to its end: what is said next moves the mark
// past whatever was left.
func TestNothingIsLeftOfALongGap(t *testing.T) {
	w := newWorld(t).run()
	w.stop()
	for range 100 * pageSize {
		w.Post(w.channel, w.bob, draft{Text: "talk", Quiet: true})
	}
	want := []string{
		w.Post(w.channel, w.alice, draft{Text: w.at() + " missed", Quiet: true}).ID,
		w.Post(w.channel, w.alice, draft{Text: w.at() + " missed, too", Quiet: true}).ID,
	}
	w.run()
	want = append(want, w.Post(w.channel, w.alice, draft{Text: w.at() + " heard"}).ID)
	for _, id := range want {
		if e := w.next(); e.Message.NativeID != id {
			t.Fatalf("%+v, want %s", e, id)
		}
	}
}

// A gateway of another kind, whose history begins anew with each page.
func TestHistoryThatDoesNotGoOn(t *testing.T) {
	w := newWorld(t).run()
	w.stop()
	for range pageSize {
		w.Post(w.channel, w.bob, draft{Text: "talk", Quiet: true})
	}
	w.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if q := r.URL.Query(); strings.HasSuffix(r.URL.Path, "/messages") && q.Has("after") {
			q.Set("after", "0")
			r.URL.RawQuery = q.Encode()
		}
		return false
	})
	w.run()
	w.nothing(w.channel)
}

// Threads that were archived while nobody listened are listed by nobody.
func TestMissedInAnArchivedThread(t *testing.T) {
	w := newWorld(t)
	thread := w.AddThread(w.channel, fakediscord.PublicThread, w.alice, w.Bot.ID)
	still := w.AddThread(w.channel, fakediscord.PublicThread, w.alice, w.Bot.ID)
	w.run()
	for _, c := range []string{thread, still} {
		w.Post(c, w.alice, draft{Text: "hello"})
		w.next()
	}
	w.stop()
	m := w.Post(thread, w.alice, draft{Text: "are you there?"})
	w.Archive(thread, "done")
	w.Archive(still, "done, too")
	w.run()
	if e := w.next(); e.Message.NativeID != m.ID || e.Silent {
		t.Errorf("%+v", e)
	}
	w.nothing(w.channel)
	if n := w.calls("/channels/" + still + "/messages"); n != 0 {
		t.Errorf("a thread without news was read %d times", n)
	}
}

// A thread comes out of its archive with a word, and does not say that the bot
// is in it.
func TestThreadOutOfItsArchive(t *testing.T) {
	w := newWorld(t)
	mine := w.AddThread(w.channel, fakediscord.PublicThread, w.alice, w.Bot.ID)
	other := w.AddThread(w.channel, fakediscord.PublicThread, w.alice)
	w.run()
	w.stop()
	w.Archive(mine, "mine")
	w.Archive(other, "other")
	w.run()
	m := w.Post(mine, w.alice, draft{Text: "once more"})
	if e := w.next(); e.Message.NativeID != m.ID || e.Silent {
		t.Errorf("%+v", e)
	}
	w.Post(other, w.alice, draft{Text: "not for the agent"})
	w.nothing(other)
}

// What was posted in a private thread before the bot was called into it is of
// the thread that it is asked about (case 9).
func TestCalledIntoAPrivateThread(t *testing.T) {
	w := newWorld(t).run()
	thread := w.AddThread(w.channel, fakediscord.PrivateThread, w.alice)
	picture := w.Post(thread, w.alice, draft{Files: []fakediscord.File{png("a.png")}})
	w.Invite(thread, w.Bot.ID)
	question := w.Post(thread, w.alice, draft{Text: w.at() + " what is it?"})
	for _, id := range []string{picture.ID, question.ID} {
		if e := w.next(); e.Message.NativeID != id || e.Place.Kind != chat.PrivateThread {
			t.Errorf("%+v, want %s", e, id)
		}
	}
	// Where the history is closed, what is heard is answered all the same.
	w.SetRole(w.guild, w.guild, fakediscord.ViewChannel|fakediscord.SendMessages|fakediscord.SendMessagesInThreads)
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/messages") {
			return false
		}
		rw.WriteHeader(http.StatusForbidden)
		return true
	})
	closed := w.AddThread(w.channel, fakediscord.PublicThread, w.alice)
	m := w.Post(closed, w.alice, draft{Text: w.at() + " hi"})
	if e := w.next(); e.Message.NativeID != m.ID {
		t.Errorf("%+v", e)
	}
}

// All channels are told with their last message. Asking for what is closed is
// an invalid request each time, and ten thousand of them ban the address.
func TestClosedChannelsAreNotAsked(t *testing.T) {
	w := newWorld(t)
	hidden := w.AddChannel(w.guild, fakediscord.Deny(w.guild, fakediscord.ViewChannel))
	mute := w.AddChannel(w.guild, fakediscord.Deny(w.guild, fakediscord.ReadMessageHistory))
	opened := w.AddChannel(w.guild, fakediscord.Deny(w.guild, fakediscord.ViewChannel), fakediscord.Member(w.Bot.ID, fakediscord.ViewChannel, 0))
	w.run()
	w.stop()
	for _, c := range []string{hidden, mute} {
		w.Post(c, w.alice, draft{Text: w.at() + " hi", Quiet: true})
	}
	m := w.Post(opened, w.alice, draft{Text: w.at() + " hi", Quiet: true})
	w.run()
	if e := w.next(); e.Message.NativeID != m.ID {
		t.Errorf("%+v", e)
	}
	w.nothing(w.channel)
	for _, c := range []string{hidden, mute} {
		if n := w.calls("/channels/" + c); n != 0 {
			t.Errorf("a closed channel was asked for %d times", n)
		}
	}
	// It is opened: what was said there before is an old story, what is said
	// since is found.
	w.stop()
	w.SetOverwrites(hidden)
	m = w.Post(hidden, w.alice, draft{Text: w.at() + " can you read this?", Quiet: true})
	w.run()
	if e := w.next(); e.Message.NativeID != m.ID {
		t.Errorf("%+v", e)
	}
	w.nothing(w.channel)
}

// Taken out of a server and let in again: what was said while it was away is
// not its business, and what was said since, and missed, is.
func TestLetInAgain(t *testing.T) {
	w := newWorld(t).run()
	quiet := w.AddChannel(w.guild)
	w.Post(w.channel, w.alice, draft{Text: w.at() + " before"})
	w.next()
	w.stop()
	for _, c := range []string{w.channel, quiet} {
		w.Post(c, w.alice, draft{Text: w.at() + " where did it go?", Quiet: true})
	}
	time.Sleep(2 * time.Millisecond)
	w.Rejoin(w.guild)
	time.Sleep(2 * time.Millisecond)
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " welcome back", Quiet: true})
	w.run()
	if e := w.next(); e.Message.NativeID != m.ID {
		t.Errorf("%+v", e)
	}
	w.nothing(w.channel)
	w.nothing(quiet)
}

// What was deleted while it was out of a server is found when it is let in
// again, by a process that went on all the time.
func TestDeletedWhileOut(t *testing.T) {
	w, k := newWorld(t), &book{}
	w.change = func(c *Config) { c.Recent = k.recent }
	w.run()
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " look", Files: []fakediscord.File{png("a.png")}})
	e := w.next()
	k.keep(e, w.channel)
	w.Lose(true)
	w.Delete(m)
	w.Lose(false)
	time.Sleep(2 * time.Millisecond)
	w.Rejoin(w.guild)
	if g := w.next(); g.Kind != chat.MessageDeleted || g.Message.ID != e.Message.ID {
		t.Errorf("%+v", g)
	}
	w.nothing(w.channel)
}

// A creation that can't be read is read from the channel; that it was edited
// meanwhile makes it no edit.
func TestUnreadableAndEditedSince(t *testing.T) {
	w := newWorld(t).run()
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " one", Quiet: true})
	w.Lose(true)
	w.Edit(m, w.at()+" two", -1)
	w.Lose(false)
	w.Dispatch("MESSAGE_CREATE", map[string]any{"id": m.ID, "channel_id": w.channel, "guild_id": w.guild, "attachments": "none"})
	if e := w.next(); e.Kind != chat.MessagePosted || e.Message.NativeID != m.ID || e.Message.Text != "two" || e.Silent {
		t.Errorf("%+v", e)
	}
}

// A sticker is a picture to whoever sends it: that it came is said, with a name
// that stays on its line.
func TestSticker(t *testing.T) {
	w := newWorld(t)
	dm := w.AddDM(w.alice)
	w.run()
	of := w.Post(dm, w.alice, draft{Sticker: "a\nsmall cat"})
	w.Post(dm, w.alice, draft{Forward: &of})
	for range 2 {
		if e := w.next(); e.Silent || !strings.Contains(e.Message.Text, "a small cat") || strings.Contains(e.Message.Text, "\n") {
			t.Errorf("%+v", e)
		}
	}
}

// An owner is no guest because Discord has no time to say who owns the agent.
func TestOwnerWhileLimited(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.until("it is known who owns it", func() bool { return w.calls("/oauth2/applications/@me") > 0 })
	w.bot.identity.asking <- struct{}{}
	w.bot.identity.app = "" // ten minutes later
	<-w.bot.identity.asking
	for i := range 2 {
		w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/oauth2/applications/@me") {
				return false
			}
			rw.Header().Set("Retry-After", fmt.Sprint(120))
			rw.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		_, err := w.bot.actor(t.Context(), w.guild, user{ID: w.Owner}, nil)
		if err == nil || !hasStatus(err, http.StatusTooManyRequests) && !errors.Is(err, errNetwork) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
