package discord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sightline/connectors/chat"
)

// Platform is this connector's name in places and actors.
const Platform chat.Platform = "discord"

// DefaultAPIURL is Discord's own, without a version.
const DefaultAPIURL = "https://discord.com/api"

const (
	apiVersion      = "10"
	directWorkspace = "dm" // of places that belong to no guild
)

// Sink makes events durable. A nil error means that it has.
type Sink interface {
	Deliver(ctx context.Context, e chat.Event) error
	Stop(ctx context.Context, c chat.ConversationID) error
}

// Commander runs an owner's command and answers what its owner reads. It
// checks the role again.
type Commander interface {
	Command(ctx context.Context, c chat.Command) (string, error)
}

// Messages is the store's view of a message; attachments.Inventory has it.
// A message that is not there is chat.ErrNotFound.
type Messages interface {
	Message(ctx context.Context, place chat.PlaceID, id chat.MessageID) (chat.Message, error)
}

// Mark says how far a channel was delivered. A Channel of "0" and its Guild
// says since when the guild is known.
type Mark struct {
	Guild   string // empty: a direct conversation
	Channel string
	Message string
}

// Marks keeps marks across restarts. Losing one loses the messages that came
// while the program was down, nothing else.
type Marks interface {
	Marks(ctx context.Context, agent chat.AgentID) ([]Mark, error)
	SetMark(ctx context.Context, agent chat.AgentID, m Mark) error
}

// Recorded is a message as the store has it.
type Recorded struct {
	Workspace string // of its place
	Channel   string // or thread
	Parent    string // of a thread: Discord lists none that is out of the agent's sight
	Message   string
	Revision  string
}

// Config is one agent on Discord.
type Config struct {
	Agent  chat.AgentID
	Token  string   // of the bot, without "Bot "
	APIURL string   // without a version; default DefaultAPIURL
	Owners []string // user ids; empty: the application's owner or its team

	// AnswerBots lets other bots start turns, at most three in a row.
	AnswerBots bool

	Sink      Sink      // nil: this process only fetches and posts
	Commander Commander // nil: no slash commands
	Messages  Messages  // nil: every audience is refused
	Marks     Marks     // nil: kept in memory
	// Recent, if set, is what the store has of the last days, the newest
	// first: what may have been edited or deleted while nobody listened.
	Recent   func(ctx context.Context) ([]Recorded, error)
	MaxBytes int64 // files over it are listed as oversize; 0: no limit
	// MaxDocument, if larger, counts for what is not said to be a picture: what
	// a document may have.
	MaxDocument int64
	// Limited, if set, is told how long a call waited for the platform's limits.
	Limited func(waited time.Duration)
	// Missing, if set, is told at the start of what is needed and is not there, for
	// the person who started it: the log is read by few.
	Missing func(what, fix string)
	Log     *slog.Logger
	Now     func() time.Time // default time.Now
}

// Bot is the connection. All of its methods may be called at once.
type Bot struct {
	c     Config
	log   *slog.Logger
	rest  *rest
	cdn   *http.Client
	base  *url.URL
	facts *facts

	ready     chan struct{}
	readyOnce sync.Once
	hearing   sync.Mutex
	silent    map[int]bool // shards that never were open
	hidden    sync.Once    // the missing-intent warning

	channels *channels
	roles    ownRoles
	marks    *marks
	seen     *recent // what was delivered
	deleted  *recent // messages that are gone, before the store knows
	shut     shut
	lanes    []chan job
	running  sync.WaitGroup

	identity identity
	posts    posts
	typing   typing
	streaks  streaks

	// Set by tests, before Run.
	openTimeout   time.Duration
	backoffMin    time.Duration
	backoffMax    time.Duration
	identifyEvery time.Duration
	lookPause     time.Duration // between two looks at what may be read in a guild
}

// New validates the configuration and connects to nothing.
func New(c Config) (*Bot, error) {
	if c.Agent == "" {
		return nil, errors.New("discord: no agent")
	}
	c.Token = strings.TrimPrefix(strings.TrimSpace(c.Token), "Bot ")
	if c.Token == "" || strings.ContainsAny(c.Token, " \t\r\n") {
		return nil, errors.New("discord: the bot token is missing or malformed")
	}
	for _, o := range c.Owners {
		if !isSnowflake(o) {
			return nil, fmt.Errorf("discord: owner %q is not a user id (a number)", o)
		}
	}
	if c.APIURL == "" {
		c.APIURL = DefaultAPIURL
	}
	base, err := parseBase(c.APIURL)
	if err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	b := &Bot{
		c: c, log: c.Log, base: base, ready: make(chan struct{}),
		channels: newChannels(), seen: newRecent(20_000), deleted: newRecent(20_000),
		openTimeout: 45 * time.Second, backoffMin: time.Second, backoffMax: time.Minute,
		lookPause:     2 * time.Second,
		identifyEvery: 5 * time.Second, // Discord's, and a little: the next one is counted from the end of the last
	}
	b.rest = newRest(base, c.Token, c.Now)
	b.rest.limited = c.Limited
	b.cdn = b.newCDN()
	b.facts = newFacts(b.rest, c.Now)
	b.marks = newMarks(c.Marks, c.Agent)
	b.identity.b, b.identity.asking = b, make(chan struct{}, 1)
	return b, nil
}

// parseBase accepts https anywhere and plain HTTP on loopback.
func parseBase(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("discord: the API URL is not usable: it is a base like " + DefaultAPIURL)
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && isLoopback(u.Hostname()):
	default:
		return nil, errors.New("discord: the API URL has to be https, or http on loopback")
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Ready is closed once the gateway is open and events flow.
func (b *Bot) Ready() <-chan struct{} { return b.ready }

func (b *Bot) configuredOwner(user string) bool { return slices.Contains(b.c.Owners, user) }
