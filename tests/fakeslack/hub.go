package fakeslack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// An envelope is given up once it was sent again so often, and no sooner than
// this after the first time: Slack's own repetitions take minutes, and an app
// is not away because it is slow to somebody who counts in milliseconds.
const (
	maxAttempts = 4
	giveUpAfter = time.Minute
)

// hub is Socket Mode: it sends each envelope down one connection and again,
// down any, until it is acknowledged.
type hub struct {
	s    *Server
	stop chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex
	conns    []*conn
	next     int
	serial   int
	every    time.Duration
	open     []*envelope
	acked    []string
	payloads []string // what came with acknowledgements; it should be nothing
	deaf     bool
	hellos   int
	double   bool // every event twice, in envelopes of their own
	refuse   int  // links that are still refused
	cut      int  // connections that end right after their next envelope
	mute     bool // no pings
	ping     time.Duration
	pongs    int
}

type conn struct {
	ws *websocket.Conn
	mu sync.Mutex // one writer
}

type envelope struct {
	ID       string `json:"envelope_id"`
	Type     string `json:"type"`
	Payload  any    `json:"payload"`
	Accepts  bool   `json:"accepts_response_payload"`
	Attempt  int    `json:"retry_attempt"`
	Reason   string `json:"retry_reason"`
	lastSent time.Time
	begun    time.Time
}

func (h *hub) init(s *Server) {
	h.s, h.stop, h.every, h.ping = s, make(chan struct{}), time.Second, 5*time.Second
	h.wg.Go(h.again)
}

func (h *hub) close() {
	close(h.stop)
	h.drop()
	h.wg.Wait()
}

// link is a Socket Mode connection.
func (h *hub) link(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	refused := h.refuse > 0
	h.refuse = max(0, h.refuse-1)
	h.mu.Unlock()
	if refused {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &conn{ws: ws}
	ws.SetPongHandler(func(string) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pongs++
		return nil
	})
	defer ws.Close()
	// It counts before the client hears so: whoever asks after that finds it, and
	// no event overtakes the hello.
	c.mu.Lock()
	h.mu.Lock()
	h.conns = append(h.conns, c)
	h.hellos++
	h.mu.Unlock()
	c.write(object{"type": "hello", "num_connections": 1, "connection_info": object{"app_id": "A0FAKE"},
		"debug_info": object{"host": "fake", "approximate_connection_time": 3600}})
	c.mu.Unlock()
	h.flush()
	for {
		var a struct {
			ID      string          `json:"envelope_id"`
			Payload json.RawMessage `json:"payload"`
		}
		if err := ws.ReadJSON(&a); err != nil {
			break
		}
		h.ack(a.ID, string(a.Payload))
	}
	h.end(c)
}

// end closes a connection. Nothing is sent down it any more, whenever its
// reader comes to know.
func (h *hub) end(c *conn) {
	h.mu.Lock()
	h.conns = slices.DeleteFunc(h.conns, func(o *conn) bool { return o == c })
	h.mu.Unlock()
	_ = c.ws.Close()
}

func (c *conn) send(v any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(v)
}

// write is send for whoever has the lock.
func (c *conn) write(v any) bool {
	_ = c.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	return c.ws.WriteJSON(v) == nil
}

func (h *hub) ack(id, payload string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = append(h.acked, id)
	if payload != "" {
		h.payloads = append(h.payloads, payload)
	}
	h.open = slices.DeleteFunc(h.open, func(e *envelope) bool { return e.ID == id })
}

func (h *hub) push(kind string, payload any) string {
	h.mu.Lock()
	h.serial++
	e := &envelope{ID: fmt.Sprintf("env-%06d", h.serial), Type: kind, Payload: payload}
	h.open = append(h.open, e)
	deaf := h.deaf
	if deaf { // lost: Slack gives up on an app that is away for long
		h.open = h.open[:len(h.open)-1]
	}
	h.mu.Unlock()
	if !deaf {
		h.flush()
	}
	return e.ID
}

// flush sends what was never sent.
func (h *hub) flush() { h.sendDue(func(e *envelope) bool { return e.lastSent.IsZero() }) }

func (h *hub) sendDue(due func(*envelope) bool) {
	type out struct {
		c *conn
		e envelope
	}
	var list []out
	h.mu.Lock()
	if len(h.conns) > 0 {
		for _, e := range h.open {
			if due(e) {
				now := time.Now()
				if e.lastSent.IsZero() {
					e.begun = now
				} else {
					e.Attempt++
					e.Reason = "timeout"
				}
				e.lastSent = now
				h.next++
				list = append(list, out{h.conns[h.next%len(h.conns)], *e})
			}
		}
	}
	h.open = slices.DeleteFunc(h.open, func(e *envelope) bool {
		return e.Attempt >= maxAttempts && time.Since(e.begun) >= giveUpAfter
	})
	h.mu.Unlock()
	for _, o := range list {
		o.c.send(o.e)
		h.mu.Lock()
		cut := h.cut > 0
		h.cut = max(0, h.cut-1)
		h.mu.Unlock()
		if cut {
			h.end(o.c)
		}
	}
}

// again sends envelopes that were not acknowledged, and pings.
func (h *hub) again() {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	ping := time.Now()
	for {
		select {
		case <-h.stop:
			return
		case <-t.C:
		}
		h.sendDue(func(e *envelope) bool { return !e.lastSent.IsZero() && time.Since(e.lastSent) > h.every })
		h.mu.Lock()
		mute, pause := h.mute, h.ping
		h.mu.Unlock()
		if time.Since(ping) > pause && !mute {
			ping = time.Now()
			h.each(func(c *conn) {
				_ = c.ws.WriteControl(websocket.PingMessage, []byte("ping"), time.Now().Add(time.Second))
			})
		}
	}
}

func (h *hub) each(f func(*conn)) {
	h.mu.Lock()
	list := slices.Clone(h.conns)
	h.mu.Unlock()
	for _, c := range list {
		f(c)
	}
}

func (h *hub) drop() { h.each(h.end) }

func (h *hub) emit(event any) {
	// The lock of the server may be held: nothing here takes it.
	h.push("events_api", callback(event, fmt.Sprintf("Ev%d", time.Now().UnixNano())))
	h.mu.Lock()
	double := h.double
	h.mu.Unlock()
	if double {
		h.push("events_api", callback(event, fmt.Sprintf("Ev%d", time.Now().UnixNano())))
	}
}

func callback(event any, id string) object {
	return object{"token": "x", "team_id": Team, "api_app_id": "A0FAKE", "type": "event_callback", "event_id": id, "event_time": time.Now().Unix(),
		"event": event, "authorizations": []object{{"team_id": Team, "user_id": BotUser, "is_bot": true}}}
}

// Emit sends one event: down a socket, or to the URL of EventsTo.
func (s *Server) Emit(event any) error {
	s.mu.Lock()
	to := s.eventsURL
	s.mu.Unlock()
	if to == "" {
		s.hub.emit(event)
		return nil
	}
	status, _, err := s.Request(to, "application/json", mustJSON(callback(event, fmt.Sprintf("Ev%d", time.Now().UnixNano()))), SigningSecret, time.Now())
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("fakeslack: the event was answered %d", status)
	}
	return err
}

// EmitRaw sends a payload as it is, well-formed or not, down a socket. It
// answers the envelope's ID.
func (s *Server) EmitRaw(payload json.RawMessage) string { return s.hub.push("events_api", payload) }

// Payload is an event's outer object, to send more than once.
func (s *Server) Payload(event any, id string) json.RawMessage { return mustJSON(callback(event, id)) }

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("fakeslack: " + err.Error())
	}
	return b
}

// EventsTo sends signed requests to this URL from now on.
func (s *Server) EventsTo(u string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eventsURL = u
}

// Request is one signed request.
func (s *Server) Request(to, contentType string, body []byte, secret string, at time.Time) (status int, answer string, err error) {
	return request(to, contentType, body, secret, at, nil)
}

// Retry is a signed request that was not answered before.
func (s *Server) Retry(to string, body []byte, num int) (status int, err error) {
	status, _, err = request(to, "application/json", body, SigningSecret, time.Now(), map[string]string{
		"X-Slack-Retry-Num": strconv.Itoa(num), "X-Slack-Retry-Reason": "connection_failed",
	})
	return status, err
}

func request(to, contentType string, body []byte, secret string, at time.Time, more map[string]string) (status int, answer string, err error) {
	req, err := http.NewRequest(http.MethodPost, to, strings.NewReader(string(body)))
	if err != nil {
		return 0, "", err
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "v0:%s:%s", stamp, body)
	for k, v := range more {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("X-Slack-Request-Timestamp", stamp)
	req.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	c := http.Client{Timeout: 10 * time.Second}
	res, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, string(b), err
}

// Slash runs a slash command as a person. The answer comes to Responses.
func (s *Server) Slash(team, user, channel, text string) error {
	s.mu.Lock()
	back, to := s.origin()+"/response/"+s.id("r"), s.eventsURL
	s.mu.Unlock()
	in := map[string]string{"command": "/sightline", "text": text, "user_id": user, "user_name": user, "team_id": team, "channel_id": channel, "response_url": back}
	if to == "" {
		s.hub.push("slash_commands", in)
		return nil
	}
	v := url.Values{}
	for k, x := range in {
		v.Set(k, x)
	}
	status, body, err := s.Request(to, "application/x-www-form-urlencoded", []byte(v.Encode()), SigningSecret, time.Now())
	if err == nil && (status != http.StatusOK || body != "") {
		err = fmt.Errorf("fakeslack: the command was answered %d with %d bytes", status, len(body))
	}
	return err
}

// Choose runs a shortcut of a message's menu as a person. The answer comes to
// Responses.
func (s *Server) Choose(team, user, channel, ts, callback string) error {
	s.mu.Lock()
	back, to := s.origin()+"/response/"+s.id("r"), s.eventsURL
	s.mu.Unlock()
	in := object{"type": "message_action", "callback_id": callback, "trigger_id": "1.2.x", "action_ts": ts, "message_ts": ts, "response_url": back,
		"team": object{"id": team, "domain": "fake"}, "user": object{"id": user, "name": user, "username": user, "team_id": team},
		"channel": object{"id": channel, "name": "general"}, "message": object{"type": "message", "ts": ts, "text": ""}}
	if to == "" {
		s.hub.push("interactive", in)
		return nil
	}
	status, body, err := s.Request(to, "application/x-www-form-urlencoded", []byte(url.Values{"payload": {string(mustJSON(in))}}.Encode()), SigningSecret, time.Now())
	if err == nil && (status != http.StatusOK || body != "") {
		err = fmt.Errorf("fakeslack: the shortcut was answered %d with %d bytes", status, len(body))
	}
	return err
}

// RetryEvery sets how long an acknowledgement is waited for.
func (s *Server) RetryEvery(d time.Duration) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.every = d
}

// DropSockets cuts all connections without a word.
func (s *Server) DropSockets() { s.hub.drop() }

// DropOneSocket cuts one of them.
func (s *Server) DropOneSocket() {
	first := true
	s.hub.each(func(c *conn) {
		if first {
			s.hub.end(c)
		}
		first = false
	})
}

// PingEvery sets how often connections are pinged; Pongs counts the answers.
func (s *Server) PingEvery(d time.Duration) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.ping = d
}

func (s *Server) Pongs() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.pongs
}

// Disconnect asks the client to connect again, as Slack does about hourly
// ("refresh_requested") and some seconds before it closes ("warning").
func (s *Server) Disconnect(reason string) {
	s.hub.each(func(c *conn) { c.send(object{"type": "disconnect", "reason": reason}) })
}

// CutAfterNext cuts connections right after each of the next n envelopes,
// before they can be acknowledged.
func (s *Server) CutAfterNext(n int) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.cut = n
}

// RefuseLinks answers the next n connections 503.
func (s *Server) RefuseLinks(n int) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.refuse = n
}

// Double sends every event twice from now on, under two event IDs.
func (s *Server) Double(yes bool) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.double = yes
}

// Mute stops pinging, as a connection does whose other end is gone.
func (s *Server) Mute(yes bool) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.mute = yes
}

// Lose throws away events from now on, as if the app had been away for long.
func (s *Server) Lose(yes bool) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.deaf = yes
}

// Acked reports whether an envelope was acknowledged; Open how many wait for
// it; AckPayloads what came with acknowledgements; Hellos counts connections.
func (s *Server) Acked(id string) bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return slices.Contains(s.hub.acked, id)
}

func (s *Server) Open() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return len(s.hub.open)
}

func (s *Server) AckPayloads() []string {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return slices.Clone(s.hub.payloads)
}

func (s *Server) Hellos() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.hellos
}

// Statuses are what assistant.threads.setStatus was told.
func (s *Server) Statuses() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.status)
}
