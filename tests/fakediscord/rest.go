package fakediscord

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var version = regexp.MustCompile(`^/api/v(9|10)(/.*)$`)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if h := s.intercept.Load(); h != nil && *h != nil && (*h)(w, r) {
		return
	}
	s.handle(w, r)
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/gateway/"):
		s.gateway(w, r)
		return
	case strings.HasPrefix(r.URL.Path, "/attachments/"):
		s.cdn(w, r)
		return
	}
	m := version.FindStringSubmatch(r.URL.Path)
	if m == nil {
		fail(w, 404, 0, "404: Not Found")
		return
	}
	p := strings.Split(strings.Trim(m[2], "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+m[2])
	open := p[0] == "gateway" && len(p) == 1 || p[0] == "interactions" || p[0] == "webhooks"
	if bot, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bot "); !open && (!ok || !s.knows(bot)) {
		fail(w, 401, 0, "401: Unauthorized")
		return
	}
	if p[0] != "interactions" && p[0] != "webhooks" && s.limited(w) {
		return
	}
	if !s.route(w, r, p) {
		fail(w, 404, 0, "404: Not Found")
	}
}

// limited refuses what is over the limit of a bot in any second.
func (s *Server) limited(w http.ResponseWriter) bool {
	if s.GlobalLimit == 0 {
		return false
	}
	now := time.Now()
	for len(s.recent) > 0 && now.Sub(s.recent[0]) >= time.Second {
		s.recent = s.recent[1:]
	}
	if len(s.recent) < s.GlobalLimit {
		s.recent = append(s.recent, now)
		return false
	}
	s.held++
	after := (time.Second - now.Sub(s.recent[0])).Seconds()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after))))
	w.Header().Set("X-RateLimit-Global", "true")
	w.Header().Set("X-RateLimit-Scope", "global")
	w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(w).Encode(map[string]any{"message": "You are being rate limited.", "retry_after": after, "global": true})
	return true
}

// Held counts the requests that were over the limit.
func (s *Server) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Answer answers a request as the platform would; for Intercept, which may
// keep the answer, or change the world before it passes it on.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request) { s.handle(w, r) }

func fail(w http.ResponseWriter, status, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": code, "message": message})
}

func answer(w http.ResponseWriter, v any) bool {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
	return true
}

func (s *Server) route(w http.ResponseWriter, r *http.Request, p []string) bool {
	is := func(method string, pattern ...string) bool {
		if r.Method != method || len(p) != len(pattern) {
			return false
		}
		for i := range p {
			if pattern[i] != "*" && pattern[i] != p[i] {
				return false
			}
		}
		return true
	}
	switch {
	case is("GET", "gateway"):
		return answer(w, map[string]any{"url": s.wsURL()})
	case is("GET", "gateway", "bot"):
		return answer(w, map[string]any{"url": s.wsURL(), "shards": s.Shards,
			"session_start_limit": map[string]any{"total": 1000, "remaining": 999, "reset_after": 0, "max_concurrency": s.Concurrency}})
	case is("GET", "users", "@me"):
		return answer(w, struct {
			User
			Locale string `json:"locale"`
			MFA    bool   `json:"mfa_enabled"`
		}{s.Bot, "en-US", true})
	case is("GET", "users", "@me", "guilds"):
		out := []any{}
		for _, g := range s.guilds {
			var perms int64
			for _, role := range g.Roles {
				for _, have := range append([]string{g.ID}, g.Members[s.Bot.ID]...) {
					if have == role.ID {
						perms |= bits(role.Permissions)
					}
				}
			}
			out = append(out, map[string]any{"id": g.ID, "name": g.Name, "owner": false, "permissions": strconv.FormatInt(perms, 10),
				"features": append([]string{}, g.Features...), "icon": nil, "banner": nil})
		}
		return answer(w, out)
	case is("GET", "oauth2", "applications", "@me"), is("GET", "applications", "@me"):
		return answer(w, s.application())
	case is("PUT", "applications", "*", "commands"):
		s.commands = nil
		if err := json.NewDecoder(r.Body).Decode(&s.commands); err != nil {
			fail(w, 400, 50109, "The request body contains invalid JSON.")
			return true
		}
		if !wellFormed(s.commands) {
			s.commands = nil
			fail(w, 400, 50035, "Invalid Form Body")
			return true
		}
		return answer(w, s.commands)
	case is("GET", "guilds", "*"):
		g := s.guilds[p[1]]
		if g == nil {
			fail(w, 404, 10004, "Unknown Guild")
			return true
		}
		return answer(w, g.whole())
	case is("GET", "guilds", "*", "channels"):
		g := s.guilds[p[1]]
		if g == nil {
			fail(w, 404, 10004, "Unknown Guild")
			return true
		}
		out := []*channel{} // those that the bot can't see as well, and no threads
		for _, c := range s.channels {
			if c.GuildID == g.ID && !c.thread() {
				out = append(out, s.shown(c))
			}
		}
		return answer(w, out)
	case is("GET", "guilds", "*", "members", "*"):
		return s.member(w, p[1], p[3])
	case p[0] == "channels" && len(p) > 1:
		c := s.channels[p[1]]
		if c == nil {
			fail(w, 404, 10003, "Unknown Channel")
			return true
		}
		if !s.canView(c) {
			fail(w, 403, 50001, "Missing Access")
			return true
		}
		return s.channelRoute(w, r, c, is, p)
	case is("POST", "interactions", "*", "*", "callback"), is("PATCH", "webhooks", "*", "*", "messages", "@original"), is("POST", "webhooks", "*", "*"):
		return s.interactionRoute(w, r, p)
	}
	return false
}

func (s *Server) application() map[string]any {
	flags := 0
	if s.PortalIntents&intentMessageContent != 0 {
		flags |= 1 << 19
	}
	if s.PortalIntents&intentGuildMembers != 0 {
		flags |= 1 << 15
	}
	app := map[string]any{"id": s.App, "name": "sightline", "description": "", "flags": flags, "flags_new": strconv.Itoa(flags),
		"icon": nil, "type": nil, "verify_key": "", "redirect_uris": []string{}, "interactions_endpoint_url": nil, "role_connections_verification_url": nil,
		"approximate_guild_count": len(s.guilds), "approximate_user_install_count": 0, "approximate_user_authorization_count": 0,
		"explicit_content_filter": 0, "eligible_oauth2_scopes": []string{}, "owner": s.users[s.Owner], "team": nil}
	if len(s.Team) > 0 {
		var members []any
		for _, u := range s.Team {
			members = append(members, map[string]any{"membership_state": 2, "user": s.users[u], "role": "developer", "team_id": "1"})
		}
		members = append(members, map[string]any{"membership_state": 1, "user": s.users[s.Owner], "role": "developer", "team_id": "1"})
		app["team"] = map[string]any{"id": "1", "name": "team", "owner_user_id": s.Team[0], "members": members}
	}
	return app
}

func (s *Server) member(w http.ResponseWriter, guildID, user string) bool {
	g := s.guilds[guildID]
	if g == nil {
		fail(w, 404, 10004, "Unknown Guild")
		return true
	}
	roles, ok := g.Members[user]
	if !ok {
		fail(w, 404, 10007, "Unknown Member")
		return true
	}
	return answer(w, map[string]any{"user": s.users[user], "roles": append([]string{}, roles...), "joined_at": s.stamp(), "deaf": false, "mute": false, "flags": 0})
}

func (s *Server) channelRoute(w http.ResponseWriter, r *http.Request, c *channel, is func(string, ...string) bool, p []string) bool {
	history := c.GuildID == "" || s.permissions(c, s.Bot.ID)&ReadMessageHistory != 0
	switch {
	case is("GET", "channels", "*"):
		return answer(w, s.shown(c))
	case is("GET", "channels", "*", "messages", "*"):
		m := s.find(c.ID, p[3])
		switch {
		case !history:
			fail(w, 403, 50001, "Missing Access")
		case m == nil:
			fail(w, 404, 10008, "Unknown Message")
		default:
			answer(w, s.view(m))
		}
		return true
	case is("GET", "channels", "*", "messages"):
		return s.list(w, r, c, history)
	case is("POST", "channels", "*", "messages"):
		return s.create(w, r, c)
	case is("PATCH", "channels", "*", "messages", "*"):
		return s.patch(w, r, c, p[3])
	case is("DELETE", "channels", "*", "messages", "*"):
		return s.remove(w, c, p[3])
	case is("POST", "channels", "*", "typing"):
		s.typing[c.ID]++
		w.WriteHeader(204)
		return true
	case is("GET", "channels", "*", "thread-members"):
		out := []any{}
		for u := range c.members {
			out = append(out, threadMember{ID: c.ID, UserID: u, JoinTimestamp: c.ThreadMetadata.ArchiveTimestamp})
		}
		return answer(w, out)
	}
	return false
}

// list pages as Discord does: after gives the oldest that follow, newest
// first; without it the newest.
func (s *Server) list(w http.ResponseWriter, r *http.Request, c *channel, history bool) bool {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if q.Get("limit") == "" {
		limit, err = 50, nil
	}
	if err != nil || limit < 1 || limit > 100 {
		fail(w, 400, 50035, "Invalid Form Body")
		return true
	}
	out := []*Message{}
	if !history {
		return answer(w, out)
	}
	after, _ := strconv.ParseInt(q.Get("after"), 10, 64)
	before := int64(math.MaxInt64)
	if q.Has("before") {
		before, _ = strconv.ParseInt(q.Get("before"), 10, 64)
	}
	for _, m := range s.messages[c.ID] {
		if id, _ := strconv.ParseInt(m.ID, 10, 64); !m.deleted && id > after && id < before {
			out = append(out, s.view(m))
		}
	}
	if len(out) > limit {
		if q.Has("after") {
			out = out[:limit]
		} else {
			out = out[len(out)-limit:]
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return answer(w, out)
}
