package slack

import (
	"testing"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// Whoever is deactivated stays in direct messages and in lists of members, and
// reads nothing.
func TestWhoIsDeactivatedReadsNothing(t *testing.T) {
	s := open(t, nil, func(f *fakeslack.Server) {
		f.AddChannel(fakeslack.Channel{ID: "GM", IsMPIM: true, Members: []string{"U1", fakeslack.BotUser}})
	}).run()
	var asked []chat.Event
	for _, channel := range []string{"D1", "GM", "CPRIV", "C1"} {
		s.post(fakeslack.Message{Channel: channel, User: "U1", Text: mention("x")})
		asked = append(asked, s.event())
	}
	s.fake.AddUser(fakeslack.User{ID: "U1", Team: fakeslack.Team, Deleted: true})
	s.must(s.fake.Emit(map[string]any{"type": "user_change", "user": map[string]any{"id": "U1", "deleted": true}}))
	s.settle()
	for _, e := range asked {
		if d, err := s.ask(e, e); err != nil || d.Allowed() {
			t.Errorf("%s: %+v, %v", e.Place.Channel, d, err)
		}
	}
}

// A channel that got a new ID while events were lost is the one that it was:
// what is said there belongs to the same places, and a deletion is told of the
// message that was recorded.
func TestNewIDIsMissed(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("x")})
	before := s.event()
	s.fake.Lose(true)
	s.must(s.fake.Share("C1", "CNEW"))
	s.fake.Lose(false)
	hellos := s.fake.Hellos()
	s.drop()
	s.eventually("both are open again", func() bool { return s.fake.Hellos() >= hellos+sockets })
	root := before.Message.NativeID
	m := s.post(fakeslack.Message{Channel: "CNEW", User: "U1", Text: mention("again"), ThreadTS: root})
	after := s.event()
	if after.Place.ID != before.Place.ID {
		t.Fatalf("%+v is not %+v", after.Place, before.Place)
	}
	s.must(s.fake.Delete("CNEW", m.TS))
	if e := s.event(); e.Kind != chat.MessageDeleted || e.Message.ID != after.Message.ID {
		t.Errorf("%+v", e)
	}
}

// Nobody tells the agent of a deletion where it is not: it looks when it is
// invited again.
func TestInvitedAgain(t *testing.T) {
	k := &book{}
	s := open(t, func(c *Config) { c.Recent = k.recent }).run()
	s.bothOpen()
	var all []chat.Event
	for _, channel := range []string{"CPRIV", "C1"} {
		s.post(fakeslack.Message{Channel: channel, User: "U1", Text: mention("x")})
		e := s.event()
		k.keep(e)
		all = append(all, e)
	}
	s.must(s.fake.Kick("CPRIV", fakeslack.BotUser))
	for n, channel := range []string{"CPRIV", "C1"} {
		_, err := s.fake.Remove(channel, all[n].Message.NativeID) // of C1 the event is under way
		s.must(err)
	}
	s.fake.ChangeChannel("CPRIV", func(c *fakeslack.Channel) { c.Members = append(c.Members, fakeslack.BotUser) })
	s.must(s.fake.Emit(map[string]any{"type": "member_joined_channel", "user": "U2", "channel": "C1"}))
	s.settle()
	if d, err := s.ask(all[1], all[1]); err != nil || !d.Allowed() {
		t.Errorf("somebody else's joining: %+v, %v", d, err)
	}
	s.must(s.fake.Emit(map[string]any{"type": "member_joined_channel", "user": fakeslack.BotUser, "channel": "CPRIV"}))
	s.settle()
	if d, err := s.ask(all[0], all[0]); err != nil || d.Allowed() {
		t.Errorf("%+v, %v", d, err)
	}
	if e := s.event(); e.Kind != chat.MessageDeleted || e.Message.ID != all[0].Message.ID {
		t.Errorf("%+v", e)
	}
	s.quiet()
}
