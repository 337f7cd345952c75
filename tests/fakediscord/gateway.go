package fakediscord

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	intentGuilds         = 1 << 0
	intentGuildMembers   = 1 << 1
	intentGuildMessages  = 1 << 9
	intentDirectMessages = 1 << 12
	intentMessageContent = 1 << 15
	privileged           = intentGuildMembers | 1<<8 | intentMessageContent
)

func intentOf(c *channel) int {
	if c.GuildID == "" {
		return intentDirectMessages
	}
	return intentGuildMessages
}

// session outlives its connection, so that it can be resumed.
type session struct {
	id      string
	intents int
	shard   [2]int
	seq     int64
	sent    []frame
	conn    *socket // nil: disconnected
}

type frame struct {
	Op   int    `json:"op"`
	Data any    `json:"d"`
	Seq  *int64 `json:"s"`
	Type string `json:"t,omitempty"`
}

type socket struct {
	mu sync.Mutex
	ws *websocket.Conn
}

func (c *socket) send(v any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_ = c.ws.WriteJSON(v)
}

func (c *socket) close(code int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(time.Second))
	_ = c.ws.Close()
}

var upgrader = websocket.Upgrader{}

// gateway serves one connection until it ends.
func (s *Server) gateway(w http.ResponseWriter, r *http.Request) {
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	c := &socket{ws: ws}
	s.mu.Lock()
	s.connects++
	hook, beat := s.onHello, s.Heartbeat
	s.mu.Unlock()
	c.send(frame{Op: 10, Data: map[string]any{"heartbeat_interval": beat.Milliseconds()}})
	if hook != nil && hook(c) {
		// The test took the connection over; it lasts until the client leaves.
		_, _, _ = ws.ReadMessage()
		return
	}
	for {
		var in struct {
			Op   int             `json:"op"`
			Data json.RawMessage `json:"d"`
		}
		if err := ws.ReadJSON(&in); err != nil {
			break
		}
		switch in.Op {
		case 1:
			s.mu.Lock()
			deaf := s.deaf
			s.mu.Unlock()
			if !deaf {
				c.send(frame{Op: 11})
			}
		case 2:
			var d struct {
				Token   string  `json:"token"`
				Intents int     `json:"intents"`
				Shard   *[2]int `json:"shard"`
			}
			_ = json.Unmarshal(in.Data, &d)
			if code, text := s.identify(c, d.Token, d.Intents, d.Shard); code != 0 {
				c.close(code, text)
				return
			}
		case 6:
			var d struct {
				Token   string `json:"token"`
				Session string `json:"session_id"`
				Seq     int64  `json:"seq"`
			}
			_ = json.Unmarshal(in.Data, &d)
			s.resume(c, d.Session, d.Seq)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.sessions {
		if v.conn == c {
			v.conn = nil
		}
	}
}

func (s *Server) identify(c *socket, token string, intents int, part *[2]int) (code int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identifies++
	shard := [2]int{0, 1}
	if part != nil {
		shard = *part
	}
	switch {
	case !s.knows(strings.TrimPrefix(token, "Bot ")):
		return 4004, "Authentication failed."
	case intents >= 1<<26:
		return 4013, "Invalid intent(s)."
	case intents&privileged&^s.PortalIntents != 0:
		return 4014, "Disallowed intent(s)."
	case shard[1] < 1 || shard[0] < 0 || shard[0] >= shard[1]:
		return 4010, "Invalid shard."
	case shard[1] < s.Shards:
		return 4011, "Sharding required."
	}
	if !s.mayIdentify(shard[0]) {
		c.send(frame{Op: 9, Data: false})
		return 0, ""
	}
	v := &session{id: "session-" + s.id(), intents: intents, shard: shard, conn: c}
	s.sessions[v.id] = v
	var mine []*guild
	guilds := []map[string]any{}
	for _, g := range s.guilds {
		if shardOf(g.ID, shard[1]) == shard[0] {
			mine = append(mine, g)
			guilds = append(guilds, map[string]any{"id": g.ID, "unavailable": true})
		}
	}
	s.emit(v, "READY", map[string]any{"v": 9, "user": s.Bot, "guilds": guilds, "session_id": v.id, "shard": shard,
		"resume_gateway_url": s.wsURL(), "application": map[string]any{"id": s.App, "flags": 0}})
	for _, g := range mine {
		s.emit(v, "GUILD_CREATE", s.guildCreate(g))
	}
	return 0, ""
}

// mayIdentify: one identification for each bucket of shards in each window.
// Whoever comes sooner is told so, and it is a violation.
func (s *Server) mayIdentify(shard int) bool {
	bucket := shard % s.Concurrency
	if last := s.identified[bucket]; s.IdentifyWindow > 0 && time.Since(last) < s.IdentifyWindow {
		s.violations = append(s.violations, fmt.Sprintf("shard %d identified %v after another of its bucket", shard, time.Since(last)))
		return false
	}
	s.identified[bucket] = time.Now()
	return true
}

// shardOf is Discord's formula. What belongs to no guild goes to shard 0.
func shardOf(guildID string, of int) int {
	n, _ := strconv.ParseUint(guildID, 10, 64)
	return int(n >> 22 % uint64(of))
}

// guildOf is the guild that an event belongs to, if any.
func guildOf(kind string, raw json.RawMessage) string {
	var ids struct {
		ID      string `json:"id"`
		GuildID string `json:"guild_id"`
	}
	if json.Unmarshal(raw, &ids) != nil {
		return ""
	}
	switch kind {
	case "GUILD_CREATE", "GUILD_UPDATE", "GUILD_DELETE":
		return ids.ID
	}
	return ids.GuildID
}

func (s *Server) resume(c *socket, id string, seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.sessions[id]
	if v == nil {
		c.send(frame{Op: 9, Data: false})
		return
	}
	s.resumes++
	v.conn = c
	for _, f := range v.sent {
		if *f.Seq > seq {
			c.send(f)
		}
	}
	s.emit(v, "RESUMED", map[string]any{})
}

// guildCreate lists all channels, those that the bot can't see as well, and the
// open threads that it can; of the members it has the bot alone.
func (s *Server) guildCreate(g *guild) map[string]any {
	channels, threads := []*channel{}, []*channel{}
	for _, c := range s.channels {
		switch {
		case c.GuildID != g.ID:
		case c.thread():
			if s.canView(c) && !c.archived() {
				threads = append(threads, s.shown(c))
			}
		default:
			channels = append(channels, c)
		}
	}
	return map[string]any{"id": g.ID, "name": g.Name, "owner_id": g.Owner, "joined_at": g.Joined, "roles": g.Roles, "channels": channels, "threads": threads,
		"members": []any{map[string]any{"user": s.Bot, "roles": append([]string{}, g.Members[s.Bot.ID]...), "joined_at": s.stamp(), "deaf": false, "mute": false, "flags": 0}}}
}

// emit sends to one session, or keeps the event for its resumption.
func (s *Server) emit(v *session, kind string, data any) {
	v.seq++
	n := v.seq
	raw, err := json.Marshal(data)
	if err != nil {
		s.t.Errorf("fakediscord: %v", err)
	}
	f := frame{Op: 0, Data: json.RawMessage(raw), Seq: &n, Type: kind}
	v.sent = append(v.sent, f)
	if v.conn != nil {
		v.conn.send(f)
	}
}

// dispatch sends to every session that asked for it; with a channel, only if
// the bot sees it. The caller holds mu.
func (s *Server) dispatch(kind string, data any, intent int, c *channel) {
	if c != nil && !s.canView(c) || s.losing {
		return
	}
	raw, err := json.Marshal(data)
	if err != nil {
		s.t.Errorf("fakediscord: %v", err)
	}
	for _, v := range s.sessions {
		if (v.intents&intent != 0 || intent == 0) && shardOf(guildOf(kind, raw), v.shard[1]) == v.shard[0] {
			s.emit(v, kind, json.RawMessage(raw))
		}
	}
}

// Dispatch sends any event as it is.
func (s *Server) Dispatch(kind string, data any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch(kind, data, 0, nil)
}

func (s *Server) conns() (out []*socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.sessions {
		if v.conn != nil {
			out = append(out, v.conn)
		}
	}
	return out
}

// Drop cuts every connection without a word; sessions stay resumable.
func (s *Server) Drop() {
	for _, c := range s.conns() {
		_ = c.ws.NetConn().Close()
	}
}

// Close ends every connection with a close code.
func (s *Server) Close(code int, text string) {
	for _, c := range s.conns() {
		c.close(code, text)
	}
}

// Reconnect asks every client to come again.
func (s *Server) Reconnect() {
	for _, c := range s.conns() {
		c.send(frame{Op: 7})
	}
}

// Forget makes every session unresumable: who comes again is told so.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, v := range s.sessions {
		if v.conn == nil {
			delete(s.sessions, id)
		} else {
			v.conn.ws.NetConn().Close()
			delete(s.sessions, id)
		}
	}
}

// Invalidate tells every client that its session is over (op 9). Resumable ones
// may be resumed on another connection.
func (s *Server) Invalidate(resumable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, v := range s.sessions {
		if v.conn == nil {
			continue
		}
		v.conn.send(frame{Op: 9, Data: resumable})
		if !resumable {
			delete(s.sessions, id)
		}
		v.conn = nil // nothing more comes down this connection
	}
}

// Lose throws away events from now on; sessions that missed some must be made
// to start anew, as Discord does, with Forget.
func (s *Server) Lose(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losing = yes
}

// Deaf leaves heartbeats unanswered from now on.
func (s *Server) Deaf(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = yes
}

// Reshard demands more sessions: those that there are end.
func (s *Server) Reshard(n int) {
	s.mu.Lock()
	s.Shards = n
	s.mu.Unlock()
	s.Close(4011, "Sharding required.")
}

// Sessions are how many sessions of each shard are connected.
func (s *Server) Sessions() map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[int]int{}
	for _, v := range s.sessions {
		if v.conn != nil {
			out[v.shard[0]]++
		}
	}
	return out
}

// ReconnectAtHello says op 7 right after HELLO on the next connection, n times.
func (s *Server) ReconnectAtHello(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onHello = func(c *socket) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n == 0 {
			return false
		}
		n--
		c.send(frame{Op: 7})
		return true
	}
}

// Connections counts connections, identifications and resumptions so far.
func (s *Server) Connections() (connects, identifies, resumes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connects, s.identifies, s.resumes
}

func (s *Server) wsURL() string { return "ws" + strings.TrimPrefix(s.http.URL, "http") + "/gateway/" }
