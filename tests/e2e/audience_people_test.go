package e2e

import (
	"sightline/tests/fakediscord"
	"sightline/tests/fakeslack"
)

// Who asks, and who reads the answer.
var peopleCases = []audienceCase{
	{"8, 39", "discord", leaverDiscord},
	{"8, 39", "slack", leaverSlack},
	{"9", "discord", agentRemovedDiscord},
	{"9", "slack", agentRemovedSlack},
	{"10, 11", "discord", privacyDiscord},
	{"10, 11", "slack", privacySlack},
	{"12", "discord", newMemberDiscord},
	{"12", "slack", newMemberSlack},
	{"21", "slack", guestOrStranger},
	{"22", both, webhook},
}

func (q *inquiry) newcomer(name string) {
	q.d.ids[name] = q.d.AddUser(name)
	q.d.Join(q.d.guild, q.d.ids[name])
}

func leaverDiscord(q *inquiry) {
	q.newcomer("dora")
	c := q.channel(false)
	p, own := q.plant(c, "dora"), q.plant(c, "ann")
	q.d.Leave(q.d.guild, q.d.ids["dora"])
	q.d.Dispatch("GUILD_MEMBER_REMOVE", map[string]any{"guild_id": q.d.guild, "user": map[string]any{"id": q.d.ids["dora"], "username": "dora"}})
	q.allowed(q.ask(c, "ann", "look "+p.id), "S1", p)
	// A message of the leaver's that was on its way.
	for _, of := range []picture{own, p} {
		q.refused(q.ask(c, "dora", "look "+of.id), of.id, "S1", "not in the server any more")
	}
	// In the server still, and shown the channel no more.
	q.d.SetOverwrites(c.channel, q.d.private("ann")...)
	q.refused(q.ask(c, "bob", "look "+own.id), own.id, "S1", "can't see the channel any more")
}

func leaverSlack(q *inquiry) {
	// From a private channel.
	c := q.channel(true, "ann", "bob")
	p := q.plant(c, "bob")
	own := q.plant(p.u.at, "ann")
	q.s.must(q.s.Kick(c.channel, q.s.ids["bob"]))
	q.allowed(q.ask(p.u.at, "ann", "look "+p.id), "S1", p)
	for _, of := range []picture{own, p} {
		q.refused(q.ask(p.u.at, "bob", "look "+of.id), of.id, "member", "not in the channel any more")
	}
	// From the workspace.
	q.s.ids["dora"] = "U77"
	dora := fakeslack.User{ID: "U77", Team: fakeslack.Team, Name: "dora"}
	q.s.AddUser(dora)
	public := q.channel(false, "ann", "dora")
	p = q.plant(public, "dora")
	dora.Deleted = true
	q.s.AddUser(dora)
	q.s.must(q.s.Emit(map[string]any{"type": "user_change", "user": map[string]any{"id": "U77", "deleted": true}}))
	q.refused(q.ask(p.u.at, "dora", "look "+p.id), p.id, "member", "not in the workspace any more")
	q.allowed(q.ask(p.u.at, "ann", "look "+p.id), "S1", p)
}

func agentRemovedDiscord(q *inquiry) {
	c := q.channel(true, "ann", "bob")
	p := q.plant(c, "ann")
	out := func() {
		q.d.SetOverwrites(c.channel, fakediscord.Deny(q.d.guild, fakediscord.ViewChannel), fakediscord.Member(q.d.ids["ann"], reads, 0))
	}
	a := q.held(c, "ann", "look "+p.id, 0, out)
	q.ended(a, p.id)
	q.trailed(a, p.id, "S1", "can't see the place any more")
	// Seen already, and on its way to be said.
	q.d.SetOverwrites(c.channel, q.d.private("ann", "bob")...)
	a = q.held(c, "ann", "look "+p.id, 1, out)
	if a.state != "failed" || len(a.said) != 0 {
		q.Errorf("the turn is %s (%s), and the platform was told %q", a.state, a.reason, a.said)
	}
}

func agentRemovedSlack(q *inquiry) {
	c := q.channel(true, "ann", "bob")
	p := q.plant(c, "ann")
	a := q.held(p.u.at, "ann", "look "+p.id, 0, func() { q.s.must(q.s.Kick(c.channel, fakeslack.BotUser)) })
	q.ended(a, p.id)
	q.trailed(a, p.id, "member", "the agent")
	c = q.channel(false, "ann", "bob") // a public one can still be looked up
	p = q.plant(c, "ann")
	a = q.held(p.u.at, "ann", "look "+p.id, 0, func() { q.s.must(q.s.Kick(c.channel, fakeslack.BotUser)) })
	q.ended(a, p.id)
	q.trailed(a, p.id, "member", "the agent is not in the channel")
}

func privacyDiscord(q *inquiry) {
	c := q.channel(true, "ann", "bob")
	p := q.plant(c, "ann")
	q.d.SetOverwrites(c.channel) // public
	q.allowed(q.ask(c, "bob", "look "+p.id), "S1", p)
	q.allowed(q.ask(c, "carl", "look "+p.id), "S1", p)
	q.d.SetOverwrites(c.channel, q.d.private("ann")...)
	q.allowed(q.ask(c, "ann", "look "+p.id), "S1", p)
}

func privacySlack(q *inquiry) {
	c := q.channel(true, "ann", "bob")
	p := q.plant(c, "ann")
	q.s.become(c, "channel_convert_to_public", func(c *fakeslack.Channel) { c.IsPrivate, c.IsChannel = false, true })
	q.allowed(q.ask(p.u.at, "bob", "look "+p.id), "S1", p)
	q.allowed(q.ask(p.u.at, "carl", "look "+p.id), "S1", p) // no member, and reads it all the same
	q.s.become(c, "channel_convert_to_private", func(c *fakeslack.Channel) { c.IsPrivate, c.IsChannel = true, false })
	q.allowed(q.ask(p.u.at, "ann", "look "+p.id), "S1", p)
	q.refused(q.ask(p.u.at, "carl", "look "+p.id), p.id, "member", "not in the channel any more")
}

func newMemberDiscord(q *inquiry) {
	c := q.channel(false)
	p := q.plant(c, "ann")
	q.newcomer("emil")
	q.allowed(q.ask(c, "emil", "look "+p.id), "S1", p)
	// One role sees the channel and not what was said before.
	q.newcomer("fay")
	blind := q.d.AddRole(q.d.guild, 0, q.d.ids["fay"])
	q.withheld(q.held(c, "ann", "look "+p.id, 1, func() { // who reads the answer changed while it was made
		q.d.SetOverwrites(c.channel, fakediscord.Deny(blind, fakediscord.ReadMessageHistory))
	}), p)
	q.refused(q.ask(c, "fay", "look "+p.id), p.id, "S1", "can't read its history")
	q.refused(q.ask(c, "ann", "look "+p.id), p.id, "S1", "can't read its history") // fay reads the answer
	// What was just posted is on everybody's screen.
	fresh := q.picture()
	a := q.ask(c, "fay", "what is this?", fresh.file)
	q.told(a)
	if len(a.last().Pictures) != 1 || !samePixels(a.last().Pictures[0].Image, fresh.pix) || a.bytes != int64(len(fresh.file.data)) {
		q.Errorf("the message's own picture: %d shown, %d bytes", len(a.last().Pictures), a.bytes)
	}
	q.verdict("its own picture allowed", a.bytes)
	q.refused(q.ask(c, "fay", "look "+q.row(fresh.file.name)), q.row(fresh.file.name), "S1", "can't read its history")
}

func newMemberSlack(q *inquiry) {
	c := q.channel(true, "ann")
	p := q.plant(c, "ann")
	q.refused(q.ask(p.u.at, "carl", "look "+p.id), p.id, "member", "not in the channel")
	q.s.ChangeChannel(c.channel, func(c *fakeslack.Channel) { c.Members = append(c.Members, q.s.ids["carl"]) })
	q.s.must(q.s.Emit(map[string]any{"type": "member_joined_channel", "user": q.s.ids["carl"], "channel": c.channel, "team": fakeslack.Team}))
	q.allowed(q.ask(p.u.at, "carl", "look "+p.id), "S1", p)
}

// guestOrStranger: one who reads some channels only, and one of another team.
func guestOrStranger(q *inquiry) {
	q.s.ids["guest"], q.s.ids["stranger"] = "U88", "U99"
	q.s.AddUser(fakeslack.User{ID: "U88", Team: fakeslack.Team, Name: "guest", Restricted: true})
	q.s.AddUser(fakeslack.User{ID: "U99", Team: "T0002", Name: "stranger"})
	for who, id := range map[string]string{"guest": "U88", "stranger": "U99"} {
		here := q.s.fresh("C")
		q.s.AddChannel(fakeslack.Channel{ID: here, IsChannel: true, IsExtShared: who == "stranger", Members: q.s.members([]string{"ann", who})})
		p, elsewhere := q.plant(spot{channel: here}, "ann"), q.plant(q.channel(false), "ann")
		q.allowed(q.ask(p.u.at, "ann", "look "+p.id), "S1", p) // whoever else reads it
		for _, of := range []picture{p, elsewhere} {
			a := q.prepare(p.u.at)
			m := q.s.draft(p.u.at, who, "look "+of.id+" #"+a.name+"#", true)
			if who == "stranger" {
				m.Team = "T0002"
			}
			a.u = q.s.say(m)
			if of.id == p.id {
				q.allowed(q.end(a), "S1", p)
			} else {
				q.refused(q.end(a), of.id, "unknown", "in this conversation")
			}
		}
		// Out of the channel, they read nothing of it, public as it is.
		q.s.must(q.s.Kick(here, id))
		q.refused(q.ask(p.u.at, who, "look "+p.id), p.id, "member", "not in the channel any more")
	}
}

// webhook: nobody's picture is a picture all the same.
func webhook(q *inquiry) {
	c := q.channel(false)
	p := q.picture()
	if q.name() == "discord" {
		draft := q.d.draft("the build is red", false, p.file)
		draft.Webhook = true
		q.d.say(c, "bob", draft)
	} else {
		c = q.post(c, "ann", "the builds", false).at // the agent is not called yet
		m := q.s.draft(c, "", "the build is red", false, q.s.Upload(p.file.name, "image/png", p.file.data))
		m.BotID, m.Subtype = "B0BUILD", "bot_message"
		q.s.say(m)
		q.ask(c, "ann", "list")
	}
	p = q.rowed(p)
	q.allowed(q.ask(c, "ann", "look "+p.id), "S1", p)
}
