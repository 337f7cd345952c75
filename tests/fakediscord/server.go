package fakediscord

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const epoch = 1420070400000 // of snowflakes, in ms

// Server is the platform. Its exported fields may be set before anything
// connects.
type Server struct {
	URL   string // the API's base, without a version
	Token string
	Bot   User
	App   string
	Owner string // user id of the application's owner
	Team  []string

	// PortalIntents are the privileged intents that the portal grants.
	PortalIntents int
	// HideContent empties what a missing MESSAGE_CONTENT intent empties,
	// although the intent was asked for.
	HideContent bool
	// PartialUpdates leaves out of edits what was not edited, the author too.
	PartialUpdates bool
	// Heartbeat is the interval that HELLO asks for.
	Heartbeat time.Duration
	// Shards is how many sessions the platform recommends, and demands;
	// Concurrency how many shards may identify in one window. A window of 0 is
	// not enforced: reconnecting tests would take minutes.
	Shards         int
	Concurrency    int
	IdentifyWindow time.Duration
	// GlobalLimit is how many requests any second has room for; the platform's
	// is 50. 0 is not enforced: a test's own requests are not a bot's.
	GlobalLimit int

	t    testing.TB
	http *httptest.Server

	intercept atomic.Pointer[func(w http.ResponseWriter, r *http.Request) (done bool)]

	mu           sync.Mutex
	now          time.Duration // added to the clock
	last         int64         // snowflake
	users        map[string]User
	guilds       map[string]*guild
	channels     map[string]*channel
	messages     map[string][]*Message // by channel, ascending
	files        map[string][]byte     // by CDN path
	types        map[string]string     // content types of files
	sessions     map[string]*session
	onHello      func(*socket) bool
	deaf, losing bool
	identified   map[int]time.Time // by bucket
	connects     int
	identifies   int
	resumes      int
	served       int64
	violations   []string
	typing       map[string]int
	commands     []map[string]any
	interactions map[string]*Interaction
	requests     []string
	recent       []time.Time // requests of the last second
	held         int
}

// New starts a platform that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		t: t, Token: "fake-bot-token", PortalIntents: intentMessageContent | intentGuildMembers,
		users: map[string]User{}, guilds: map[string]*guild{}, channels: map[string]*channel{}, messages: map[string][]*Message{},
		files: map[string][]byte{}, types: map[string]string{}, sessions: map[string]*session{}, typing: map[string]int{},
		interactions: map[string]*Interaction{}, identified: map[int]time.Time{}, Heartbeat: 41250 * time.Millisecond, Shards: 1, Concurrency: 1,
	}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL + "/api"
	s.Bot = s.addUser("sightline", true)
	s.App = s.Bot.ID
	s.Owner = s.addUser("owner", false).ID
	t.Cleanup(func() {
		s.Drop()
		s.http.Close()
	})
	return s
}

// id is the next snowflake; the caller holds mu.
func (s *Server) id() string {
	n := (time.Now().Add(s.now).UnixMilli() - epoch) << 22
	s.last = max(s.last+1, n)
	return strconv.FormatInt(s.last, 10)
}

func (s *Server) stamp() string {
	return time.Now().Add(s.now).UTC().Format("2006-01-02T15:04:05.000000+00:00")
}

func (s *Server) addUser(name string, bot bool) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := User{ID: s.id(), Username: name, Discriminator: "0", Bot: bot}
	s.users[u.ID] = u
	return u
}

// AddUser answers a new person's id.
func (s *Server) AddUser(name string) string { return s.addUser(name, false).ID }

// AddBot answers another bot's id.
func (s *Server) AddBot(name string) string { return s.addUser(name, true).ID }

// AddGuild makes a guild with the bot and these users in it.
func (s *Server) AddGuild(users ...string) string { return s.AddGuildOn(0, 1, users...) }

// AddGuildOn makes a guild whose events go to one of n shards.
func (s *Server) AddGuildOn(shard, n int, users ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.id()
	for shardOf(id, n) != shard {
		s.last += 1 << 22 // a millisecond
		id = s.id()
	}
	g := &guild{ID: id, Name: "guild", Owner: s.Owner, Joined: s.stamp(), Members: map[string][]string{s.Bot.ID: nil, s.Owner: nil}}
	g.Roles = []*Role{{ID: g.ID, Name: "@everyone", Permissions: strconv.FormatInt(everything, 10)}}
	own := &Role{ID: s.id(), Name: s.Bot.Username, Permissions: "0", Position: 1, Managed: true, Tags: &tags{s.Bot.ID}}
	g.Roles, g.Members[s.Bot.ID] = append(g.Roles, own), []string{own.ID}
	for _, u := range users {
		g.Members[u] = nil
	}
	s.guilds[g.ID] = g
	s.dispatch("GUILD_CREATE", s.guildCreate(g), intentGuilds, nil)
	return g.ID
}

// OwnRole is the one that Discord made for the bot.
func (s *Server) OwnRole(guildID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guilds[guildID].Roles[1].ID
}

// AddRole makes a role and gives it to users.
func (s *Server) AddRole(guildID string, permissions int64, users ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guilds[guildID]
	r := &Role{ID: s.id(), Name: "role", Permissions: strconv.FormatInt(permissions, 10), Position: len(g.Roles)}
	g.Roles = append(g.Roles, r)
	for _, u := range users {
		g.Members[u] = append(g.Members[u], r.ID)
	}
	s.dispatch("GUILD_ROLE_CREATE", map[string]any{"guild_id": g.ID, "role": r}, intentGuilds, nil)
	return r.ID
}

// SetRole changes a role's permissions; the guild's id is @everyone.
func (s *Server) SetRole(guildID, role string, permissions int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.guilds[guildID].Roles {
		if r.ID == role {
			r.Permissions = strconv.FormatInt(permissions, 10)
			s.dispatch("GUILD_ROLE_UPDATE", map[string]any{"guild_id": guildID, "role": r}, intentGuilds, nil)
		}
	}
}

// AddChannel makes a text channel.
func (s *Server) AddChannel(guildID string, overwrites ...Overwrite) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &channel{ID: s.id(), Type: GuildText, GuildID: guildID, Name: "channel", Overwrites: append([]Overwrite{}, overwrites...)}
	s.channels[c.ID] = c
	s.dispatch("CHANNEL_CREATE", c, intentGuilds, c)
	return c.ID
}

// SetOverwrites replaces a channel's overwrites.
func (s *Server) SetOverwrites(channelID string, overwrites ...Overwrite) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channelID]
	could := s.canView(c)
	c.Overwrites = append([]Overwrite{}, overwrites...)
	if could || s.canView(c) {
		s.dispatch("CHANNEL_UPDATE", c, intentGuilds, nil)
	}
}

// AddThread makes a thread of the given type with these members.
func (s *Server) AddThread(parent string, kind int, members ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.channels[parent]
	c := &channel{ID: s.id(), Type: kind, GuildID: p.GuildID, Name: "thread", ParentID: &p.ID, members: map[string]bool{},
		ThreadMetadata: &threadMetadata{AutoArchiveDuration: 1440, ArchiveTimestamp: s.stamp()}}
	for _, m := range members {
		c.members[m] = true
		c.OwnerID = members[0]
	}
	s.channels[c.ID] = c
	s.dispatch("THREAD_CREATE", s.shown(c), intentGuilds, c)
	return c.ID
}

// AddDM opens a conversation with a user.
func (s *Server) AddDM(user string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &channel{ID: s.id(), Type: DM, Recipients: []User{s.users[user]}}
	s.channels[c.ID] = c
	return c.ID
}

// shown is a channel as the bot sees it.
func (s *Server) shown(c *channel) *channel {
	v := *c
	if c.thread() {
		members, sent := len(c.members), len(s.messages[c.ID])
		v.MemberCount, v.MessageCount, v.TotalSent = &members, &sent, &sent
	}
	if c.members[s.Bot.ID] {
		v.Member = &threadMember{ID: c.ID, UserID: s.Bot.ID, JoinTimestamp: c.ThreadMetadata.ArchiveTimestamp}
	}
	return &v
}

// canView says whether the bot sees a channel; threads inherit.
func (s *Server) canView(c *channel) bool { return s.permissions(c, s.Bot.ID)&ViewChannel != 0 }

func (s *Server) permissions(c *channel, user string) int64 {
	if c.GuildID == "" {
		return everything
	}
	if c.thread() {
		p := s.permissions(s.channels[*c.ParentID], user)
		if c.Type == PrivateThread && !c.members[user] && p&(ManageThreads|Administrator) == 0 {
			return 0
		}
		return p
	}
	g := s.guilds[c.GuildID]
	mine, ok := g.Members[user]
	if !ok {
		return 0
	}
	if g.Owner == user {
		return -1
	}
	var base int64
	for _, r := range g.Roles {
		if r.ID == g.ID || slices.Contains(mine, r.ID) {
			base |= bits(r.Permissions)
		}
	}
	if base&Administrator != 0 {
		return -1
	}
	var deny, allow int64
	for _, o := range c.Overwrites {
		switch {
		case o.ID == g.ID:
			base = base&^bits(o.Deny) | bits(o.Allow)
		case o.Type == 0 && slices.Contains(mine, o.ID):
			deny, allow = deny|bits(o.Deny), allow|bits(o.Allow)
		}
	}
	base = base&^deny | allow
	for _, o := range c.Overwrites {
		if o.Type == 1 && o.ID == user {
			base = base&^bits(o.Deny) | bits(o.Allow)
		}
	}
	return base
}

func bits(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// Allow and Deny make overwrites for a role, User for a member.
func Allow(role string, p int64) Overwrite {
	return Overwrite{ID: role, Allow: fmt.Sprint(p), Deny: "0"}
}
func Deny(role string, p int64) Overwrite {
	return Overwrite{ID: role, Allow: "0", Deny: fmt.Sprint(p)}
}
func Member(user string, allow, deny int64) Overwrite {
	return Overwrite{ID: user, Type: 1, Allow: fmt.Sprint(allow), Deny: fmt.Sprint(deny)}
}

// Intercept has a function asked about every request from now on: it may answer
// one instead of the fake; nil ends it. A bot may be at work meanwhile.
func (s *Server) Intercept(f func(w http.ResponseWriter, r *http.Request) (done bool)) {
	s.intercept.Store(&f)
}

// Grant sets the privileged intents that the portal grants, while a bot may be
// at work.
func (s *Server) Grant(intents int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.PortalIntents = intents
}

// SecondToken is another agent's. The fake has one bot user, which is both
// agents': what one may not have of the other, nothing but the product keeps
// from it.
func (s *Server) SecondToken() string { return s.Token + "-2" }

func (s *Server) knows(token string) bool { return token == s.Token || token == s.SecondToken() }
