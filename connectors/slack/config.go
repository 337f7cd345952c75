package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"sightline/connectors/chat"
)

// Platform is this connector's name in places and actors.
const Platform chat.Platform = "slack"

const defaultAPI = "https://slack.com/api/"

// Sink makes events durable. When Deliver returns nil the event may be
// acknowledged.
type Sink interface {
	Deliver(ctx context.Context, e chat.Event) error
	Stop(ctx context.Context, c chat.ConversationID) error
}

// Commander runs owners' commands. Its answer is shown to the one who asked
// and to nobody else.
type Commander interface {
	Command(ctx context.Context, c chat.Command) (string, error)
}

// Messages finds the row of a message that an earlier process delivered.
// A row that is not there is chat.ErrNotFound.
type Messages interface {
	Message(ctx context.Context, place chat.PlaceID, id chat.MessageID) (chat.Message, error)
}

// Mark says how far a channel or one of its threads was taken.
type Mark struct{ Channel, Thread, TS string }

// Config is one agent's way into one workspace.
type Config struct {
	Agent         chat.AgentID
	BotToken      string
	AppToken      string // for Socket Mode
	SigningSecret string // for the Events API
	APIURL        string // with its slash; default https://slack.com/api/
	// EventsListener, if set, takes Slack's signed requests instead of Socket
	// Mode.
	EventsListener net.Listener
	Owners         []string // TEAM/USER
	AnswerBots     bool
	Sink           Sink
	Commander      Commander // nil: no commands
	// Messages, if set, answers for what was delivered before this process
	// started. Without it such messages are unknown, and refused.
	Messages Messages
	// Marks, if set, says where an earlier process stopped, so that what was
	// said since is read from history.
	Marks    func(ctx context.Context) ([]Mark, error)
	MaxBytes int64 // of a file; larger ones are listed as too large. 0: no limit here
	Log      *slog.Logger
	Now      func() time.Time
}

// Bot is one running connector.
type Bot struct {
	c      Config
	log    *slog.Logger
	api    *client
	hosts  hosts
	owners map[string]bool

	ready     chan struct{}
	readyOnce sync.Once

	idMu sync.Mutex
	self identity

	facts   *factsCache
	readers readers
	queue   *queue
	seen    *seen
	threads *threads
	names   *names
	posts   *posts
	status  *statuses

	running sync.WaitGroup // goroutines of Run
	filling sync.Mutex     // one backfill at a time

	// How long things are waited for; tests shorten them.
	twinWait  time.Duration
	rereads   []time.Duration
	redial    time.Duration
	readDelay time.Duration
}

// identity is what auth.test says of the bot token.
type identity struct {
	Team, User, Bot string
	scopes          string
}

var ownerForm = regexp.MustCompile(`^[A-Z0-9]+/[A-Z0-9]+$`)

// New validates. It makes no request.
func New(c Config) (*Bot, error) {
	switch {
	case c.Agent == "":
		return nil, errors.New("slack: no agent")
	case c.Sink == nil:
		return nil, errors.New("slack: no sink")
	case c.BotToken == "":
		return nil, errors.New("slack: no bot token (xoxb-...)")
	case c.EventsListener == nil && c.AppToken == "":
		return nil, errors.New("slack: Socket Mode needs an app-level token (xapp-...)")
	case c.EventsListener != nil && c.SigningSecret == "":
		return nil, errors.New("slack: the Events API needs the app's signing secret")
	}
	if c.APIURL == "" {
		c.APIURL = defaultAPI
	}
	base, err := url.Parse(c.APIURL)
	if err != nil || base.Host == "" || !strings.HasSuffix(base.Path, "/") {
		return nil, errors.New("slack: the API URL is not an absolute URL that ends in a slash")
	}
	if base.Scheme != "https" && !(base.Scheme == "http" && loopback(base.Hostname())) {
		return nil, errors.New("slack: the API URL is not https, and not http on loopback")
	}
	b := &Bot{c: c, owners: map[string]bool{}, ready: make(chan struct{})}
	for _, o := range c.Owners {
		if !ownerForm.MatchString(o) {
			return nil, fmt.Errorf("slack: owner %q is not of the form TEAM/USER", o)
		}
		b.owners[o] = true
	}
	if b.log = c.Log; b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.c.Now == nil {
		b.c.Now = time.Now
	}
	b.api = newClient(base, c.BotToken)
	b.hosts = newHosts(base)
	b.facts = newFactsCache(b.c.Now, b.channelInfo)
	b.queue = newQueue()
	b.seen = newSeen(50_000)
	b.threads = newThreads(10_000)
	b.names = &names{m: map[string]string{}}
	b.posts = newPosts(10_000)
	b.status = newStatuses()
	b.twinWait = time.Second
	b.rereads = []time.Duration{0, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}
	b.redial = time.Second
	b.readDelay = 2 * time.Minute
	return b, nil
}

// Ready is closed when events are being taken.
func (b *Bot) Ready() <-chan struct{} { return b.ready }

// me asks once who the bot token is.
func (b *Bot) me(ctx context.Context) (identity, error) {
	b.idMu.Lock()
	defer b.idMu.Unlock()
	if b.self.Team != "" {
		return b.self, nil
	}
	var a struct {
		Team string `json:"team_id"`
		User string `json:"user_id"`
		Bot  string `json:"bot_id"`
	}
	h, err := b.api.call(ctx, "auth.test", nil, &a)
	if err != nil {
		return identity{}, err
	}
	if a.Team == "" || a.User == "" {
		return identity{}, errors.New("slack: auth.test names no team or no user")
	}
	b.self = identity{Team: a.Team, User: a.User, Bot: a.Bot, scopes: h.Get("X-OAuth-Scopes")}
	return b.self, nil
}

// role is decided by the configuration alone: who owns the workspace does not
// own the agent. Whoever is of another team is no guest here.
func (b *Bot) role(self identity, team, user string, bot bool) chat.Role {
	switch {
	case user == "" || team == "":
		return chat.Stranger
	case !bot && b.owners[team+"/"+user]:
		return chat.Owner
	case team == self.Team:
		return chat.Guest
	}
	return chat.Stranger
}
