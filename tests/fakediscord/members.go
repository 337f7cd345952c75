package fakediscord

import "time"

// Leave takes a user out of a guild. Nobody is told: GUILD_MEMBER_REMOVE goes
// to bots with the privileged intent for members alone.
func (s *Server) Leave(guildID, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guilds[guildID].Members, user)
}

// Join brings a user into a guild, as silently as Leave.
func (s *Server) Join(guildID, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guilds[guildID].Members[user] = nil
}

// Rejoin lets the bot into a guild again, which it was taken out of.
func (s *Server) Rejoin(guildID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guilds[guildID]
	g.Joined = s.stamp()
	s.dispatch("GUILD_CREATE", s.guildCreate(g), intentGuilds, nil)
}

// Archive closes a thread and gives it another name.
func (s *Server) Archive(threadID, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[threadID]
	c.Name = name
	c.ThreadMetadata.Archived, c.ThreadMetadata.ArchiveTimestamp = true, s.stamp()
	s.dispatch("THREAD_UPDATE", s.shown(c), intentGuilds, c)
}

// Invite brings a user into a thread. Only the one who comes is told: that is
// when a bot sees a private thread for the first time.
func (s *Server) Invite(threadID, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[threadID]
	c.members[user] = true
	if user == s.Bot.ID {
		s.dispatch("THREAD_CREATE", s.shown(c), intentGuilds, c)
	}
}

// Expel takes a user out of a thread.
func (s *Server) Expel(threadID, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[threadID]
	if user == s.Bot.ID {
		s.dispatch("THREAD_MEMBERS_UPDATE", map[string]any{"id": threadID, "guild_id": c.GuildID, "member_count": len(c.members) - 1, "removed_member_ids": []string{user}}, intentGuilds, c)
	}
	delete(c.members, user)
}

// Entitle gives a message's first file a title, which keeps what a file name
// drops.
func (s *Server) Entitle(m Message, title string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(m.ChannelID, m.ID).Attachments[0].Title = title
}

// InteractWith runs /sightline sub with a file, which is in the interaction
// alone and in no message.
func (s *Server) InteractWith(channelID, user, sub string, f File) *Interaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channelID]
	a := s.upload(c.ID, f)
	e := s.interaction(user, sub)
	e["channel_id"], e["channel"], e["guild_id"] = c.ID, s.shown(c), c.GuildID
	e["member"] = map[string]any{"user": s.users[user], "roles": s.guilds[c.GuildID].Members[user], "permissions": "0"}
	data := e["data"].(map[string]any)
	data["options"].([]any)[0].(map[string]any)["options"] = []any{map[string]any{"name": "file", "type": 11, "value": a.ID}}
	data["resolved"] = map[string]any{"attachments": map[string]any{a.ID: map[string]any{
		"id": a.ID, "filename": a.Filename, "content_type": a.ContentType, "size": a.Size, "url": s.sign(a.path), "proxy_url": s.sign(a.path), "ephemeral": true,
	}}}
	s.dispatch("INTERACTION_CREATE", e, 0, nil)
	return s.interactions[e["token"].(string)]
}

// InteractElsewhere runs /sightline sub where the application was installed by
// a user: in a conversation of that user with others, which the bot is not in
// and can't ask about. It answers the conversation's id as well.
func (s *Server) InteractElsewhere(user, sub string, others ...string) (*Interaction, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, people := DM, []User{}
	for _, o := range others {
		people = append(people, s.users[o])
	}
	if len(people) > 1 {
		kind = groupDM
	}
	id := s.id() // no channel of s.channels
	e := s.interaction(user, sub)
	e["channel_id"], e["channel"], e["user"] = id, map[string]any{"id": id, "type": kind, "recipients": people}, s.users[user]
	e["context"], e["authorizing_integration_owners"] = 2, map[string]string{"1": user}
	s.dispatch("INTERACTION_CREATE", e, 0, nil)
	return s.interactions[e["token"].(string)], id
}

const groupDM = 3

// interaction begins one; the caller says where.
func (s *Server) interaction(user, sub string) map[string]any {
	i := &Interaction{ID: s.id(), At: time.Now(), Done: make(chan struct{})}
	i.Token = "interaction-token-" + i.ID
	s.interactions[i.Token] = i
	return map[string]any{"id": i.ID, "application_id": s.App, "type": 2, "token": i.Token, "version": 1,
		"data": map[string]any{"id": "1", "name": "sightline", "type": 1,
			"options": []any{map[string]any{"name": sub, "type": 1, "options": []any{}}}}}
}
