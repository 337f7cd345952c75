package slack

import (
	"testing"
	"time"

	"sightline/tests/fakeslack"
)

// Case 35: two bots that answer each other end.
func TestBotLoopEnds(t *testing.T) {
	s := open(t, func(c *Config) { c.AnswerBots = true }).run()
	root := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("start")})
	s.event()
	echo := func(n int) (answered int) {
		for range n {
			s.post(fakeslack.Message{Channel: "C1", BotID: "B9", User: "UB9", Text: "echo", ThreadTS: root.TS})
		}
		m := s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: "a person", ThreadTS: root.TS})
		for {
			e := s.event()
			if e.Message.NativeID == m.TS {
				return answered
			}
			answered++
		}
	}
	if n := echo(loopLimit + 3); n != loopLimit {
		t.Errorf("%d of a bot's messages were answered", n)
	}
	if n := echo(1); n != 1 {
		t.Errorf("after a person spoke %d were answered", n)
	}
}

// Case 35, where the other bot calls at the top of the channel each time, and
// so in a thread of its own. A message that Slack sends again counts once.
func TestBotLoopEndsInAChannel(t *testing.T) {
	s := open(t, func(c *Config) { c.AnswerBots = true }).run()
	s.fake.RetryEvery(50 * time.Millisecond)
	call := func(n int) (answered int) {
		for range n {
			s.post(fakeslack.Message{Channel: "C1", BotID: "B9", User: "UB9", Text: mention("echo")})
		}
		for ; len(s.sink.got) > 0; answered++ {
			s.event()
		}
		return answered
	}
	s.sink.failing(3)
	if n := call(1); n != 1 {
		t.Errorf("%d answers after Slack sent it again", n)
	}
	if n := call(loopLimit + 2); n != loopLimit-1 {
		t.Errorf("%d of a bot's messages were answered", n+1)
	}
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: "a person, to nobody"})
	if n := call(1); n != 1 {
		t.Errorf("after a person spoke %d were answered", n)
	}
}

// Slack sends again what was answered late, after newer messages, too.
func TestBotLoopWithLateRepeats(t *testing.T) {
	k := newThreads(10)
	bot := func(ts string, want bool) {
		t.Helper()
		if k.answersBot("C1", "1.0", ts) != want {
			t.Errorf("%s: answered %v", ts, !want)
		}
	}
	for _, ts := range []string{"2.1", "2.2", "2.1", "2.3", "2.2", "2.4", "2.1", "2.5"} {
		bot(ts, true)
	}
	bot("2.6", false)
	bot("2.1", true)
	k.person("C1", "1.0", "1.9") // again, and older than all of it
	bot("2.6", false)
	k.person("C1", "1.0", "2.4")
	for _, ts := range []string{"2.5", "2.6", "2.7", "2.8", "2.9"} {
		bot(ts, true)
	}
	bot("3.0", false)
}
