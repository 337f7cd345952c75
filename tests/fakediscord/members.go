package fakediscord

// Leave takes a user out of a guild. Nobody is told: GUILD_MEMBER_REMOVE goes
// to bots with the privileged intent for members alone.
func (s *Server) Leave(guildID, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guilds[guildID].Members, user)
}
