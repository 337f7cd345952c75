package e2e

import (
	"strings"
	"testing"
	"time"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
	"sightline/tests/fakeslack"
)

// On Slack a mention opens a thread, and no command can be given there: given
// in the channel, it is about its threads, also when nothing else was ever said
// in the channel.
func TestSlackCommandsReachThreads(t *testing.T) {
	s, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.AddUser(fakeslack.User{ID: "U1", Team: fakeslack.Team, Name: "ann"})
	s.AddChannel(fakeslack.Channel{ID: "C1", IsChannel: true, Members: []string{"U1", fakeslack.BotUser}})
	m, env := fake(t, func(fakemodel.Request) fakemodel.Reply {
		return fakemodel.Reply{Text: "late", Wait: make(chan struct{})}
	})
	p := start(t, home(t), append(env, "SLACK_BOT_TOKEN="+fakeslack.BotToken, "SLACK_APP_TOKEN="+fakeslack.AppToken, "SLACK_API_URL="+s.URL(),
		"SIGHTLINE_OWNERS=slack:"+fakeslack.Team+"/U1")...)
	shot, _ := noise(t, 60, 40, 3)
	asked, err := s.Post(fakeslack.Message{Channel: "C1", User: "U1", Text: "<@" + fakeslack.BotUser + "> look", Files: []fakeslack.File{s.Upload("shot.png", "image/png", shot)}})
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the request", func() bool { return len(m.Requests()) == 1 })
	command := func(text string, want ...string) string {
		t.Helper()
		n := len(s.Responses())
		if err := s.Slash(fakeslack.Team, "U1", "C1", text); err != nil {
			t.Fatal(err)
		}
		wait(t, "an answer to "+text, func() bool { return len(s.Responses()) > n })
		got, _ := s.Responses()[n]["text"].(string)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q, want %q", text, got, w)
			}
		}
		return got
	}
	command("status", "running", "trn_")
	command("stop", "Stopping")
	wait(t, "the end of the turn", func() bool {
		for _, m := range s.Messages("C1", asked.TS) {
			if m.User == fakeslack.BotUser && m.Text == "Stopped." {
				return true
			}
		}
		return false
	})
	// Its row is closed after its last words are out.
	wait(t, "the end of its row", func() bool {
		return query(t, p, `SELECT count(*)::text FROM turn WHERE state = 'running'`) == "0"
	})
	command("stop", "Nothing is running")
	id := listed.FindString(command("attachments", "shot.png", "available"))
	command("trail "+id, "show allowed")
	link := "https://example.slack.com/archives/C1/p" + strings.ReplaceAll(asked.TS, ".", "")
	command("forget "+strings.Replace(link, "C1", "C2", 1), "nothing of that id")
	command("forget "+link, "Forgotten")
	command("attachments", "shot.png", "deleted", "an owner had it forgotten")
}

// On Discord a link is all that most people can copy of a message. It is about a
// thread of the channel where the command is given as it is about the channel,
// and about nothing else.
func TestDiscordCommandsReachThreads(t *testing.T) {
	d := fakediscord.New(t)
	guild := d.AddGuild(d.Owner)
	channel, elsewhere := d.AddChannel(guild), d.AddChannel(guild)
	thread := d.AddThread(channel, 11)
	_, env := fake(t, func(fakemodel.Request) fakemodel.Reply { return fakemodel.Reply{Text: "Seen."} })
	start(t, home(t), append(env, "DISCORD_TOKEN="+d.Token, "DISCORD_API_URL="+d.URL)...)
	shot, _ := noise(t, 60, 40, 3)
	link := map[string]string{}
	for _, at := range []string{channel, thread, elsewhere} {
		m := d.Post(at, d.Owner, fakediscord.Draft{Text: "<@" + d.Bot.ID + "> look", Files: []fakediscord.File{{Name: "shot.png", Type: "image/png", Data: shot}}})
		link[at] = "https://discord.com/channels/" + guild + "/" + at + "/" + m.ID
		wait(t, "an answer", func() bool { return len(d.Said(at)) == 1 })
	}
	command := func(at, want string, words ...string) {
		t.Helper()
		i := d.Interact(at, d.Owner, words[0], words[1:]...)
		select {
		case <-i.Done:
		case <-time.After(patience):
			t.Fatalf("%v is not answered", words)
		}
		if !strings.Contains(i.Content, want) || !i.Ephemeral {
			t.Errorf("%v: %q, want %q", words, i.Content, want)
		}
	}
	command(channel, "nothing of that id", "forget", "target", link[elsewhere])
	command(channel, "Forgotten", "forget", "target", link[thread])
	command(thread, "Forgotten", "forget", "target", "<"+link[channel]+">")
	command(channel, "nothing of that id", "forget", "target", link[thread])
	command(elsewhere, "available", "attachments")
}
