package discord

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

type draft = fakediscord.Draft

func TestWhatIsAnswered(t *testing.T) {
	w := newWorld(t)
	thread := w.AddThread(w.channel, fakediscord.PublicThread, w.alice, w.Bot.ID)
	other := w.AddThread(w.channel, fakediscord.PublicThread, w.alice)
	dm := w.AddDM(w.alice)
	robot := w.AddBot("robot")
	w.run()
	mine, err := w.bot.Post(t.Context(), chat.Reply{Key: "k", Place: chat.NewPlace(agent, Platform, w.guild, w.channel, "", chat.Channel), Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		channel, user string
		d             draft
		want          treatment
		text          string
	}{
		"a mention":                   {w.channel, w.alice, draft{Text: w.at() + " what is this?"}, answer, "what is this?"},
		"a mention in the middle":     {w.channel, w.alice, draft{Text: "hey " + w.at()}, answer, "hey " + w.at()},
		"a bare mention":              {w.channel, w.alice, draft{Text: w.at()}, answer, "@sightline"},
		"a mention with a picture":    {w.channel, w.alice, draft{Text: w.at(), Files: []fakediscord.File{png("a.png")}}, answer, ""},
		"a reply to the agent":        {w.channel, w.alice, draft{Text: "and?", ReplyTo: mine.NativeID}, answer, "and?"},
		"talk":                        {w.channel, w.alice, draft{Text: "hello bob"}, pass, ""},
		"a picture beside":            {w.channel, w.alice, draft{Files: []fakediscord.File{png("b.png")}}, silent, ""},
		"a mention of bob":            {w.channel, w.alice, draft{Text: "<@" + w.bob + "> look", Files: []fakediscord.File{png("b.png")}}, silent, "<@" + w.bob + "> look"},
		"in a thread it is in":        {thread, w.alice, draft{Text: "no mention"}, answer, "no mention"},
		"in a thread it is not in":    {other, w.alice, draft{Text: "no mention"}, pass, ""},
		"a direct message":            {dm, w.alice, draft{Text: "psst"}, answer, "psst"},
		"a direct picture":            {dm, w.alice, draft{Files: []fakediscord.File{png("c.png")}}, answer, ""},
		"a bot's mention":             {w.channel, robot, draft{Text: w.at() + " hi"}, pass, ""},
		"a bot's picture":             {w.channel, robot, draft{Text: w.at() + " hi", Files: []fakediscord.File{png("d.png")}}, silent, "hi"},
		"a webhook's picture":         {w.channel, w.alice, draft{Text: w.at(), Webhook: true, Files: []fakediscord.File{png("e.png")}}, silent, ""},
		"a system message":            {w.channel, w.alice, draft{Text: w.at(), Type: 7}, pass, ""},
		"its own":                     {thread, w.Bot.ID, draft{Text: "mine", Files: []fakediscord.File{png("f.png")}}, pass, ""},
		"a mention of a bot's parrot": {thread, robot, draft{Text: "echo"}, pass, ""},
	} {
		m := w.Post(c.channel, c.user, c.d)
		if c.want == pass {
			w.nothing(c.channel)
			continue
		}
		e := w.next()
		if e.Message.NativeID != m.ID || e.Silent != (c.want == silent) || e.Kind != chat.MessagePosted || e.Message.Text != c.text || len(e.Files) != len(c.d.Files) {
			t.Errorf("%s: %+v", what, e)
		}
		if e.Message.ID != chat.MessageOf(e.Place.ID, m.ID) || e.Place.Conversation() == "" || e.Message.Revision == "" || e.Message.At.IsZero() {
			t.Errorf("%s: names: %+v", what, e)
		}
		if e.Message.Author.Bot != (c.user == robot || c.d.Webhook) || e.Message.Author.Role != chat.Guest {
			t.Errorf("%s: author %+v", what, e.Message.Author)
		}
	}
}

func TestPlaces(t *testing.T) {
	w := newWorld(t)
	public := w.AddThread(w.channel, fakediscord.PublicThread, w.Bot.ID)
	private := w.AddThread(w.channel, fakediscord.PrivateThread, w.Bot.ID, w.alice)
	dm := w.AddDM(w.alice)
	w.run()
	parent := chat.NewPlace(agent, Platform, w.guild, w.channel, "", chat.Channel)
	for channel, want := range map[string]chat.Place{
		w.channel: parent,
		public:    chat.NewPlace(agent, Platform, w.guild, w.channel, public, chat.PublicThread),
		private:   chat.NewPlace(agent, Platform, w.guild, w.channel, private, chat.PrivateThread),
		dm:        chat.NewPlace(agent, Platform, "dm", dm, "", chat.Direct),
	} {
		if want.Thread != "" {
			want.Parent = parent.ID
		}
		w.Post(channel, w.alice, draft{Text: w.at() + " hi"})
		if e := w.next(); e.Place != want {
			t.Errorf("%+v, want %+v", e.Place, want)
		}
	}
}

// A thread that is made while we watch, and left again.
func TestThreadMembership(t *testing.T) {
	w := newWorld(t).run()
	thread := w.AddThread(w.channel, fakediscord.PublicThread, w.alice)
	w.Post(thread, w.alice, draft{Text: "not for the agent"})
	w.nothing(thread)
	w.Dispatch("THREAD_MEMBERS_UPDATE", map[string]any{"id": thread, "guild_id": w.guild, "member_count": 2, "added_members": []any{map[string]any{"user_id": w.Bot.ID}}})
	m := w.Post(thread, w.alice, draft{Text: "now it is"})
	if e := w.next(); e.Message.NativeID != m.ID {
		t.Errorf("%+v", e)
	}
	w.Dispatch("THREAD_MEMBERS_UPDATE", map[string]any{"id": thread, "guild_id": w.guild, "member_count": 1, "removed_member_ids": []any{w.Bot.ID}})
	w.Post(thread, w.alice, draft{Text: "not any more"})
	w.nothing(thread)
}

func TestForward(t *testing.T) {
	w := newWorld(t)
	elsewhere := w.AddChannel(w.guild)
	dm := w.AddDM(w.alice)
	w.run()
	of := w.Post(elsewhere, w.bob, draft{Text: "secret words", Files: []fakediscord.File{png("x.png")}})
	if e := w.next(); !e.Silent {
		t.Fatal("the original started a turn")
	}
	w.Post(dm, w.alice, draft{Forward: &of})
	e := w.next()
	if e.Silent || len(e.Files) != 1 || e.Files[0].Origin != chat.OriginForward || e.Files[0].NativeID == of.Attachments[0].ID || !strings.Contains(e.Message.Text, "secret words") {
		t.Errorf("%+v", e)
	}
	if e.Message.ReplyTo != "" {
		t.Error("a forward is no reply: its original is never followed")
	}
	w.Post(w.channel, w.alice, draft{Forward: &of})
	if e := w.next(); !e.Silent || len(e.Files) != 1 {
		t.Errorf("beside: %+v", e)
	}
}

func TestRepliedTo(t *testing.T) {
	w := newWorld(t)
	old := w.Post(w.channel, w.bob, draft{Text: "look", Files: []fakediscord.File{png("x.png")}}) // before the bot came
	w.run()
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " what is it?", ReplyTo: old.ID})
	first, second := w.next(), w.next()
	if first.Message.NativeID != old.ID || !first.Silent || len(first.Files) != 1 || first.Message.Author.User != w.bob {
		t.Errorf("the source: %+v", first)
	}
	if second.Message.NativeID != m.ID || second.Silent || len(second.Files) != 0 || second.Message.ReplyTo != first.Message.ID {
		t.Errorf("the question: %+v", second)
	}
	// Recorded once, whoever asks again.
	again := w.Post(w.channel, w.alice, draft{Text: w.at() + " and now?", ReplyTo: old.ID})
	if e := w.next(); e.Message.NativeID != again.ID {
		t.Errorf("again: %+v", e)
	}
	w.Delete(old)
	w.next()
	gone := w.Post(w.channel, w.alice, draft{Text: w.at() + " still?", ReplyTo: old.ID})
	if e := w.next(); e.Message.NativeID != gone.ID {
		t.Errorf("a deleted one: %+v", e)
	}
}

func TestEditsAndDeletions(t *testing.T) {
	w := newWorld(t).run()
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " one", Files: []fakediscord.File{png("a.png"), png("b.png")}})
	first := w.next()
	w.Unfurl(m)
	w.nothing(w.channel)
	if slices.ContainsFunc(w.Requests(), func(r string) bool { return strings.HasSuffix(r, "/messages/"+m.ID) }) {
		t.Error("a preview was looked up")
	}
	w.Edit(m, w.at()+" two", 1)
	e := w.next()
	if e.Kind != chat.MessageEdited || e.Message.ID != first.Message.ID || e.Message.Text != "two" || len(e.Files) != 1 || e.Message.Revision == first.Message.Revision {
		t.Errorf("edit: %+v", e)
	}
	// The file is gone from a message that nobody is mentioned in any more.
	w.Edit(m, "three", 0)
	if e := w.next(); e.Kind != chat.MessageEdited || len(e.Files) != 0 {
		t.Errorf("second edit: %+v", e)
	}
	talk := w.Post(w.channel, w.alice, draft{Text: "talk"})
	w.Edit(talk, "small talk", -1)
	w.nothing(w.channel)
	w.Delete(m)
	if e := w.next(); e.Kind != chat.MessageDeleted || !e.Message.Deleted || e.Message.ID != first.Message.ID || e.Message.Text != "" {
		t.Errorf("deletion: %+v", e)
	}
	// A creation that comes after its deletion.
	w.Repeat(m)
	w.nothing(w.channel)

	x, y := w.Post(w.channel, w.alice, draft{Text: w.at() + " x"}), w.Post(w.channel, w.alice, draft{Text: w.at() + " y"})
	w.next()
	w.next()
	w.Delete(x, y)
	if a, b := w.next(), w.next(); a.Kind != chat.MessageDeleted || b.Kind != chat.MessageDeleted || a.Message.NativeID != x.ID || b.Message.NativeID != y.ID {
		t.Errorf("bulk: %+v %+v", a, b)
	}
}

// discordgo dispatches what it could decode of an event, and an update's
// author may be missing: neither decides anything here.
func TestPartialEvents(t *testing.T) {
	w := newWorld(t).run()
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " one", Files: []fakediscord.File{png("a.png")}})
	w.next()
	before := w.bot.facts.epochOf(w.guild)
	// A field of another type: the message is read again from its channel.
	m2 := w.Post(w.channel, w.alice, draft{Text: w.at() + " two", Files: []fakediscord.File{png("b.png")}, Quiet: true})
	w.Dispatch("MESSAGE_CREATE", map[string]any{"id": m2.ID, "channel_id": w.channel, "guild_id": w.guild, "author": map[string]any{"id": w.alice},
		"content": w.at(), "attachments": "none", "type": 0})
	if e := w.next(); e.Message.NativeID != m2.ID || len(e.Files) != 1 || e.Message.Text != "two" {
		t.Errorf("reread: %+v", e)
	}
	if w.bot.facts.epochOf(w.guild) == before {
		t.Error("an event that can't be read left the facts alone")
	}
	// An update without its author.
	w.Dispatch("MESSAGE_UPDATE", map[string]any{"id": m.ID, "channel_id": w.channel, "guild_id": w.guild, "edited_timestamp": "2030-01-01T00:00:00.000000+00:00"})
	w.nothing(w.channel) // read again, it is what it was
	w.PartialUpdates = true
	w.Edit(m, w.at()+" edited", 0)
	if e := w.next(); e.Kind != chat.MessageEdited || e.Message.NativeID != m.ID || e.Message.Text != "edited" || e.Message.Author.User != w.alice || len(e.Files) != 0 {
		t.Errorf("a partial edit: %+v", e)
	}
	w.Dispatch("MESSAGE_CREATE", map[string]any{"id": "", "channel_id": w.channel})
	w.Dispatch("MESSAGE_CREATE", "words")
	w.Dispatch("MESSAGE_DELETE", map[string]any{"id": "../x", "channel_id": w.channel})
	w.nothing(w.channel)
}

func TestOneEventForOneMessage(t *testing.T) {
	w := newWorld(t).run()
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " one"})
	w.next()
	w.Repeat(m)
	w.Repeat(m)
	w.nothing(w.channel)
}

func TestBotsAnswerEachOtherOnlySoLong(t *testing.T) {
	w := newWorld(t)
	w.change = func(c *Config) { c.AnswerBots = true }
	robot := w.AddBot("robot")
	w.run()
	for range 6 {
		w.Post(w.channel, robot, draft{Text: w.at() + " echo"})
	}
	for i := range longestStreak {
		if e := w.next(); !e.Message.Author.Bot || e.Silent {
			t.Errorf("%d: %+v", i, e)
		}
	}
	w.nothing(w.channel) // a person speaks: the streak ends
	w.Post(w.channel, robot, draft{Text: w.at() + " again"})
	if e := w.next(); !e.Message.Author.Bot {
		t.Errorf("%+v", e)
	}
}

// A message that comes again counts once, whatever came between.
func TestBotStreakWithRepeats(t *testing.T) {
	var k streaks
	said := func(id string, bot, want bool) {
		t.Helper()
		if k.allow(message{ID: id, ChannelID: "1"}, bot, true) != want {
			t.Errorf("%s: allowed %v", id, !want)
		}
	}
	for _, id := range []string{"101", "102", "101", "103", "102"} {
		said(id, true, true)
	}
	said("104", true, false)
	said("101", true, true)
	said("99", false, true) // again, and older than all of it
	said("104", true, false)
	said("102", false, true)
	for _, id := range []string{"103", "104", "105"} {
		said(id, true, true)
	}
	said("106", true, false)
}

func TestRoles(t *testing.T) {
	w := newWorld(t).run()
	role := func(user string) chat.Role {
		w.Post(w.channel, user, draft{Text: w.at() + " hi"})
		return w.next().Message.Author.Role
	}
	if role(w.Owner) != chat.Owner || role(w.alice) != chat.Guest {
		t.Error("the application's owner owns, others don't")
	}
	w.stop()
	w.Team = []string{w.bob}
	w.run()
	if role(w.bob) != chat.Owner || role(w.Owner) != chat.Guest {
		t.Error("accepted team members own, invited ones don't")
	}
	w.stop()
	w.change = func(c *Config) { c.Owners = []string{w.alice} }
	w.run()
	if role(w.alice) != chat.Owner || role(w.bob) != chat.Guest {
		t.Error("a configured owner wins")
	}
}

func TestNothingIsForgottenBeforeItIsDurable(t *testing.T) {
	w := newWorld(t).run()
	fails := 0
	w.sink.failing(func(chat.Event) error {
		if fails++; fails <= 2 {
			return errors.New("no database")
		}
		return nil
	})
	a, b := w.Post(w.channel, w.alice, draft{Text: w.at() + " a"}), w.Post(w.channel, w.alice, draft{Text: w.at() + " b"})
	if x, y := w.next(), w.next(); x.Message.NativeID != a.ID || y.Message.NativeID != b.ID {
		t.Errorf("out of order: %s %s", x.Message.NativeID, y.Message.NativeID)
	}
	// Killed while the sink fails: the next start reads it again.
	w.sink.failing(func(chat.Event) error { return errors.New("no database") })
	c := w.Post(w.channel, w.alice, draft{Text: w.at() + " c"})
	w.until("the failure is logged", func() bool { return strings.Count(w.log.String(), "not delivered yet") > 2 })
	w.stop()
	w.sink.failing(nil)
	w.run()
	if e := w.next(); e.Message.NativeID != c.ID {
		t.Errorf("after the restart: %+v", e)
	}
}

// What the store can't keep, whoever tries, holds up nothing.
func TestAnEventThatCantBeKept(t *testing.T) {
	w := newWorld(t).run()
	var tried atomic.Int32
	away := 3 // before that: it is waited for, however long
	w.sink.failing(func(e chat.Event) error {
		if e.Message.Text != "bad" {
			return nil
		}
		if away--; away > 0 {
			return errors.New("no database")
		}
		tried.Add(1)
		return fmt.Errorf("record event: %w", chat.ErrUnfit)
	})
	w.Post(w.channel, w.alice, draft{Text: w.at() + " bad"})
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " good"})
	if e := w.next(); e.Message.NativeID != m.ID {
		t.Errorf("%+v", e)
	}
	if n := tried.Load(); n != unfitTries || !strings.Contains(w.log.String(), "an event is lost") {
		t.Errorf("tried %d times; log:\n%s", n, w.log)
	}
}

func TestOrderPerChannel(t *testing.T) {
	w := newWorld(t)
	var channels []string
	for range 5 {
		channels = append(channels, w.AddChannel(w.guild))
	}
	w.run()
	for i := range 40 {
		w.Post(channels[i%5], w.alice, draft{Text: fmt.Sprintf("%s %03d", w.at(), i)})
	}
	last := map[string]string{}
	for range 40 {
		e := w.next()
		if e.Message.Text <= last[e.Place.Channel] {
			t.Errorf("%s after %s", e.Message.Text, last[e.Place.Channel])
		}
		last[e.Place.Channel] = e.Message.Text
	}
}

func TestMissingContentIsSaid(t *testing.T) {
	w := newWorld(t)
	w.HideContent = true
	w.run()
	w.Post(w.channel, w.alice, draft{Text: "look", Files: []fakediscord.File{png("a.png")}})
	w.until("it is said", func() bool { return strings.Contains(w.log.String(), "Message Content Intent") })
}

func TestFileNames(t *testing.T) {
	for want, a := range map[string]attachment{
		"x.png":       {Filename: "x.png"},
		"Ünïcode.png": {Filename: "ncode.png", Title: "Ünïcode"},
		"whole.PNG":   {Filename: "whole.png", Title: "whole.PNG"},
	} {
		if got := fileName(a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOversizeIsListed(t *testing.T) {
	w := newWorld(t)
	w.change = func(c *Config) { c.MaxBytes, c.MaxDocument = 10, 20 }
	w.run()
	w.Post(w.channel, w.alice, draft{Text: w.at(), Files: []fakediscord.File{
		png("long.png"), {Name: "s", Data: []byte("x")}, // a document may be larger than a picture
		{Name: "a.pdf", Type: "application/pdf", Data: make([]byte, 15)}, {Name: "b.pdf", Type: "application/pdf", Data: make([]byte, 21)},
	}})
	e := w.next()
	for n, want := range []chat.FileState{chat.FileOversize, chat.FileAvailable, chat.FileAvailable, chat.FileOversize} {
		if e.Files[n].State != want {
			t.Errorf("%+v, want %s", e.Files[n], want)
		}
	}
}

// An owner's one word ends the running turn; it is no question. A guest's is.
func TestOwnersWordStops(t *testing.T) {
	w := newWorld(t).run()
	for _, text := range []string{"stop", " STOP "} {
		w.Post(w.channel, w.Owner, draft{Text: w.at() + text})
		conv := chat.NewPlace(agent, Platform, w.guild, w.channel, "", chat.Channel).Conversation()
		w.until("the stop", func() bool { return w.sink.stopped(conv) == 1 })
	}
	w.Post(w.channel, w.Owner, draft{Text: w.at() + "stop it"})
	if e := w.next(); e.Message.Text != "stop it" || e.Silent {
		t.Errorf("an owner's words: %+v", e)
	}
	w.Post(w.channel, w.Owner, draft{Text: w.at() + "stop", Files: []fakediscord.File{png("a.png")}})
	if e := w.next(); len(e.Files) != 1 {
		t.Errorf("with a picture: %+v", e)
	}
	w.Post(w.channel, w.alice, draft{Text: w.at() + "stop"})
	if e := w.next(); e.Message.Text != "stop" {
		t.Errorf("a guest's: %+v", e)
	}
}

// Nobody lists direct conversations: the first words of one that fell into a
// gap are found with the next.
func TestFirstDirectMessageInAGap(t *testing.T) {
	w := newWorld(t).run()
	w.until("the start is marked", func() bool { _, ok := w.bot.marks.get(guildKey("")); return ok })
	dm := w.AddDM(w.alice)
	w.Post(dm, w.alice, draft{Text: "lost", Quiet: true})
	w.Post(dm, w.alice, draft{Text: "heard"})
	for _, want := range []string{"lost", "heard"} {
		if e := w.next(); e.Message.Text != want || e.Silent {
			t.Fatalf("%+v, want %q", e, want)
		}
	}
	w.Post(dm, w.alice, draft{Text: "more"})
	if e := w.next(); e.Message.Text != "more" {
		t.Errorf("%+v", e)
	}
	if got := w.bot.marks.direct(); len(got) != 1 || got[0] != dm {
		t.Errorf("direct conversations: %v", got)
	}
}
