package fakeslack

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// What a bot is configured with.
const (
	Team          = "T0001"
	BotUser       = "U0AGENT"
	BotID         = "B0AGENT"
	BotToken      = "xoxb-fake-bot"
	AppToken      = "xapp-fake-app"
	SecondToken   = "xoxb-fake-bot-2" // another agent's, of the same bot user
	SigningSecret = "fake-signing-secret"
)

// Scopes are those of a well configured app.
func Scopes() []string {
	return strings.Split("app_mentions:read,channels:history,channels:read,groups:history,groups:read,im:history,im:read,mpim:history,mpim:read,users:read,files:read,files:write,chat:write,commands", ",")
}

// Channel is a conversation of any kind, with conversations.info's own flags.
type Channel struct {
	ID          string   `json:"id"`
	Name        string   `json:"name,omitempty"`
	IsChannel   bool     `json:"is_channel"`
	IsIM        bool     `json:"is_im"`
	IsMPIM      bool     `json:"is_mpim"`
	IsPrivate   bool     `json:"is_private"`
	IsExtShared bool     `json:"is_ext_shared"`
	IsMember    bool     `json:"is_member"`
	IsArchived  bool     `json:"is_archived"` // it can be read, and takes no message
	User        string   `json:"user,omitempty"`
	Members     []string `json:"-"`
}

// User is a person or another bot.
type User struct {
	ID    string `json:"id"`
	Team  string `json:"team_id"`
	Name  string `json:"name"`
	IsBot bool   `json:"is_bot"`

	Deleted    bool `json:"deleted"`
	Restricted bool `json:"is_restricted"` // a guest
	// UltraRestricted is a guest of one channel, who is Restricted as well.
	UltraRestricted bool `json:"is_ultra_restricted"`
	// Stranger is of another team, and known by a shared channel.
	Stranger bool `json:"is_stranger"`
}

// File is a file object. Data is what the host serves.
type File struct {
	ID         string `json:"id"`
	Name       string `json:"name,omitempty"`
	Title      string `json:"title,omitempty"`
	Mimetype   string `json:"mimetype,omitempty"`
	Filetype   string `json:"filetype,omitempty"`
	Mode       string `json:"mode,omitempty"`
	IsExternal bool   `json:"is_external,omitempty"`
	FileAccess string `json:"file_access,omitempty"`
	Size       int64  `json:"size,omitempty"`
	URLPrivate string `json:"url_private,omitempty"`
	Data       []byte `json:"-"`
}

// Share is an attachment of a message: a forward, or a preview of a link.
type Share struct {
	IsShare bool   `json:"is_share,omitempty"`
	FromURL string `json:"from_url,omitempty"`
	Text    string `json:"text,omitempty"`
	Files   []File `json:"files,omitempty"`
}

// Message is a message as history has it.
type Message struct {
	Type        string          `json:"type"`
	Subtype     string          `json:"subtype,omitempty"`
	Channel     string          `json:"-"`
	User        string          `json:"user,omitempty"`
	BotID       string          `json:"bot_id,omitempty"`
	Team        string          `json:"team,omitempty"`
	Text        string          `json:"text"`
	TS          string          `json:"ts"`
	ThreadTS    string          `json:"thread_ts,omitempty"`
	ParentUser  string          `json:"parent_user_id,omitempty"`
	LatestReply string          `json:"latest_reply,omitempty"` // as history says it of a thread's first message
	Edited      map[string]any  `json:"edited,omitempty"`
	Files       []File          `json:"files,omitempty"`
	Attachments []Share         `json:"attachments,omitempty"`
	Blocks      json.RawMessage `json:"blocks,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`

	streaming bool
	versions  []string // the texts before, oldest first
}

// Failure is what a method answers instead, Times times.
type Failure struct {
	Status     int    // 0: 200
	Code       string // "error" of a 200 answer
	RetryAfter int    // seconds
	Times      int
	// After does what was asked before it fails.
	After bool
	// Hang never answers.
	Hang bool
}

// Call is one call of a Web API method.
type Call struct {
	Method string
	Form   map[string]string
}

// Server is the workspace. Its methods are safe for concurrent use.
type Server struct {
	l   net.Listener
	srv *http.Server

	mu        sync.Mutex
	scopes    []string
	channels  map[string]*Channel
	moved     map[string]string // old ID -> new ID
	users     map[string]User
	files     map[string]*File
	pending   map[string]*File // uploads that were asked for, and not completed
	dropped   map[string][]string
	messages  map[string][]Message
	hidden    map[string]int // ts -> lookups that don't find it yet
	failures  map[string]*Failure
	calls     []Call
	responses []map[string]any
	served    int64
	clock     int64
	serial    int
	status    []Call

	eventsURL string
	hub       hub
}

// Start opens an empty workspace with two people, U1 and U2.
func Start() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fakeslack: %w", err)
	}
	s := &Server{
		l: l, scopes: Scopes(), channels: map[string]*Channel{}, moved: map[string]string{}, users: map[string]User{},
		files: map[string]*File{}, pending: map[string]*File{}, dropped: map[string][]string{}, messages: map[string][]Message{}, hidden: map[string]int{}, failures: map[string]*Failure{},
		clock: time.Now().UnixMicro(),
	}
	s.hub.init(s)
	for _, u := range []string{"U1", "U2"} {
		s.users[u] = User{ID: u, Team: Team, Name: "person-" + u}
	}
	s.users[BotUser] = User{ID: BotUser, Team: Team, Name: "agent", IsBot: true}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/{method}", s.method)
	mux.HandleFunc("GET /link", s.hub.link)
	mux.HandleFunc("GET /files-pri/{id}/{name}", s.download)
	mux.HandleFunc("POST /response/{id}", s.response)
	mux.HandleFunc("POST /upload/v1/{id}", s.upload)
	s.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.srv.Serve(l) }()
	return s, nil
}

// Close ends it, with all connections.
func (s *Server) Close() {
	s.hub.close()
	_ = s.srv.Close()
}

func (s *Server) origin() string { return "http://" + s.l.Addr().String() }

// URL is the Web API's base, with its slash.
func (s *Server) URL() string { return s.origin() + "/api/" }

func (s *Server) tick() string {
	s.clock = max(s.clock+1, time.Now().UnixMicro())
	return fmt.Sprintf("%d.%06d", s.clock/1_000_000, s.clock%1_000_000)
}

func (s *Server) id(prefix string) string {
	s.serial++
	return fmt.Sprintf("%s%06d", prefix, s.serial)
}

// present is the ID under which a channel is known now.
func (s *Server) present(id string) string {
	if n, ok := s.moved[id]; ok {
		return n
	}
	return id
}

func (s *Server) find(channel, ts string) int {
	return slices.IndexFunc(s.messages[channel], func(m Message) bool { return m.TS == ts })
}
