package fakediscord

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// Interaction is a slash command that somebody ran, and what came back.
type Interaction struct {
	ID, Token string
	At        time.Time
	Acked     time.Time // zero: not yet
	Ephemeral bool
	Quiet     bool // no link in the final content is unfolded
	Deferred  bool
	Content   string
	More      []string      // further messages, all ephemeral
	Done      chan struct{} // closed with the final content
}

// Interact runs /sightline sub with string options, in pairs of name and
// value, as a user.
func (s *Server) Interact(channelID, user, sub string, options ...string) *Interaction {
	opts := []any{}
	for p := range slices.Chunk(options, 2) {
		opts = append(opts, map[string]any{"name": p[0], "type": 3, "value": p[1]})
	}
	return s.interact(channelID, user, map[string]any{"id": "1", "name": "sightline", "type": 1,
		"options": []any{map[string]any{"name": sub, "type": 1, "options": opts}}})
}

// InteractOn runs a command of a message's menu as a user.
func (s *Server) InteractOn(messageID, channelID, user, name string) *Interaction {
	return s.interact(channelID, user, map[string]any{"id": "2", "name": name, "type": 3, "target_id": messageID})
}

func (s *Server) interact(channelID, user string, data map[string]any) *Interaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channelID]
	i := &Interaction{ID: s.id(), At: time.Now(), Done: make(chan struct{})}
	i.Token = "interaction-token-" + i.ID
	s.interactions[i.Token] = i
	e := map[string]any{"id": i.ID, "application_id": s.App, "type": 2, "token": i.Token, "version": 1, "channel_id": c.ID,
		"channel": s.shown(c), "data": data}
	if c.GuildID != "" {
		e["guild_id"] = c.GuildID
		e["member"] = map[string]any{"user": s.users[user], "roles": s.guilds[c.GuildID].Members[user], "permissions": "0"}
	} else {
		e["user"] = s.users[user]
	}
	s.dispatch("INTERACTION_CREATE", e, 0, nil)
	return i
}

func (s *Server) interactionRoute(w http.ResponseWriter, r *http.Request, p []string) bool {
	i := s.interactions[p[2]]
	if i == nil && p[0] == "webhooks" {
		fail(w, 401, 50027, "Invalid Webhook Token")
		return true
	}
	if i == nil {
		fail(w, 404, 10062, "Unknown interaction")
		return true
	}
	var body struct {
		Type int `json:"type"`
		Data struct {
			Content string `json:"content"`
			Flags   int    `json:"flags"`
		} `json:"data"`
		Content string `json:"content"`
		Flags   int    `json:"flags"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		fail(w, 400, 50109, "The request body contains invalid JSON.")
		return true
	}
	if p[0] == "interactions" {
		switch {
		case !i.Acked.IsZero():
			fail(w, 400, 40060, "Interaction has already been acknowledged.")
			return true
		case time.Since(i.At) > 3*time.Second:
			fail(w, 404, 10062, "Unknown interaction")
			return true
		}
		i.Quiet = body.Data.Flags&suppressEmbeds != 0
		i.Acked, i.Ephemeral, i.Deferred = time.Now(), body.Data.Flags&64 != 0, body.Type == 5
		if body.Type == 4 {
			i.Content = body.Data.Content
			close(i.Done)
		}
		w.WriteHeader(204)
		return true
	}
	if i.Acked.IsZero() || len([]rune(body.Content)) > 2000 || body.Content == "" {
		fail(w, 400, 50035, "Invalid Form Body")
		return true
	}
	if r.Method == "POST" {
		switch {
		case i.Content == "":
			s.violations = append(s.violations, "a command was followed up before it was answered")
		case body.Flags&64 == 0:
			s.violations = append(s.violations, "a command was followed up for everybody to see")
		}
		i.More = append(i.More, body.Content)
		return answer(w, map[string]any{"id": s.id()})
	}
	first := i.Content == ""
	i.Content, i.Quiet = body.Content, body.Flags&suppressEmbeds != 0
	if first {
		close(i.Done)
	}
	return answer(w, map[string]any{"id": i.ID})
}

// Answered is all that came back for a command so far.
func (s *Server) Answered(i *Interaction) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{i.Content}, i.More...)
}

// Acknowledged reports whether an interaction was.
func (s *Server) Acknowledged(i *Interaction) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !i.Acked.IsZero()
}

// wellFormed holds registered commands against Discord's rules: those of a
// message's menu have neither description nor options, the others must be
// described.
func wellFormed(list []map[string]any) bool {
	for _, c := range list {
		description, _ := c["description"].(string)
		_, options := c["options"]
		if menu := c["type"] == 3.0; menu && (description != "" || options) || !menu && description == "" {
			return false
		}
	}
	return true
}

// Menu are the names of the commands in a message's menu.
func (s *Server) Menu() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if c["type"] == 3.0 {
			name, _ := c["name"].(string)
			out = append(out, name)
		}
	}
	return out
}

// Commands are the names of the registered subcommands, by command.
func (s *Server) Commands() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]string{}
	for _, c := range s.commands {
		name, _ := c["name"].(string)
		list, _ := c["options"].([]any)
		for _, o := range list {
			if m, ok := o.(map[string]any); ok {
				sub, _ := m["name"].(string)
				out[name] = append(out[name], sub)
			}
		}
	}
	return out
}
