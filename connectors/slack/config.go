package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
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

// Mark says how far a channel or one of its threads was taken. Answered: the
// agent has answered there, so that it takes part.
type Mark struct {
	Channel, Thread, TS string
	Answered            bool
}

// Gap says from which ts on a channel, or a thread (channel/ts), may have
// messages that were not taken, newer ones having been taken or not.
type Gap struct{ Channel, From string }

// GapStore keeps gaps across restarts. Losing one loses the messages in it. A
// Gap whose Channel is empty is of the channels that have none of their own.
type GapStore interface {
	Gaps(ctx context.Context, agent chat.AgentID) ([]Gap, error)
	// SetGaps notes those that opened, in place of what was noted of their
	// channels, and drops those that closed, unless something else was noted
	// meanwhile; all or nothing.
	SetGaps(ctx context.Context, agent chat.AgentID, opened, closed []Gap) error
}

// Recorded is a message as the store has it.
type Recorded struct{ Channel, Thread, TS, Revision string }

// Alias is another ID of a channel, and the one that its places are named by.
type Alias struct{ First, ID string }

// Aliases keeps the IDs that a channel had. Slack gives it a new one when it
// is shared, and says so once.
type Aliases interface {
	Aliases(ctx context.Context, agent chat.AgentID) ([]Alias, error)
	SetAlias(ctx context.Context, agent chat.AgentID, a Alias) error
}

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
	Marks func(ctx context.Context) ([]Mark, error)
	// Gaps keeps what is still to be read beyond those marks.
	Gaps GapStore // nil: kept in memory
	// Recent, if set, is what the store has of the last days, the newest
	// first: what may have been edited or deleted while nobody listened.
	Recent func(ctx context.Context) ([]Recorded, error)
	// WithFile, if set, finds the messages that an earlier process delivered
	// with a file: the event of its deletion names none.
	WithFile func(ctx context.Context, file string) ([]Recorded, error)
	Aliases  Aliases // nil: kept in memory
	MaxBytes int64   // of a file; larger ones are listed as too large. 0: no limit here
	// MaxDocument, if larger, counts for what is not said to be a picture: what
	// a document may have.
	MaxDocument int64
	// Limited, if set, is told how long a call waited for Slack's limits.
	Limited func(waited time.Duration)
	// Missing, if set, is told at the start of what is needed and is not there, for
	// the person who started it: the log is read by few.
	Missing func(what, fix string)
	Log     *slog.Logger
	Now     func() time.Time
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
	streams *streams
	status  *statuses

	aliasMu sync.Mutex
	aliased time.Time // when aliases were read from the store

	recognizing sync.Mutex
	recognized  int // the generation for which it is known which channels have new IDs

	running  sync.WaitGroup // goroutines of Run
	begun    atomic.Bool    // whether this Run had a connection yet
	opening  sync.Mutex     // while what was known before one is dropped
	filling  sync.Mutex     // one catching up at a time
	waiting  atomic.Bool    // whether another is to follow
	gaps     gaps
	outage   atomic.Int64 // when it was last found that Slack could not deliver
	newSince string       // a ts: what came after it in channels without a mark is new

	// How long things are waited for; tests shorten them.
	twinWait  time.Duration
	rereads   []time.Duration
	redial    time.Duration
	readDelay time.Duration
	heldFor   time.Duration
	// roundPause is between two rounds of reading channels, if one is not enough.
	roundPause time.Duration
	// dialTimeout bounds slack-go's question for a socket's address.
	dialTimeout time.Duration
}

// identity is what auth.test says of the bot token.
type identity struct {
	Team, User, Bot string
	Name            string // for display
	scopes          string
	at              time.Time     // when that was asked, by Slack's clock
	skew            time.Duration // of our clock from Slack's then
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
	b := &Bot{c: c, owners: map[string]bool{}, ready: make(chan struct{}), recognized: -1}
	for _, o := range c.Owners {
		if !ownerForm.MatchString(o) {
			return nil, fmt.Errorf("slack: owner %q is not of the form TEAM/USER, with both IDs in capitals as Slack shows them", o)
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
	b.api.limited = c.Limited
	b.hosts = newHosts(base)
	b.facts = newFactsCache(b.c.Now, b.channelInfo)
	b.facts.save = b.saveAlias
	b.gaps.store, b.gaps.agent = c.Gaps, c.Agent
	b.queue = newQueue()
	b.seen = newSeen(50_000)
	b.threads = newThreads(10_000)
	b.names = &names{m: map[string]string{}}
	b.posts = newPosts(10_000)
	b.streams = newStreams(1000)
	b.status = newStatuses()
	b.twinWait = time.Second
	b.rereads = []time.Duration{0, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}
	b.redial = time.Second
	b.readDelay = 2 * time.Minute
	b.heldFor = time.Minute + 5*time.Second
	b.roundPause = 2 * time.Minute
	b.dialTimeout = callTimeout
	return b, nil
}

// Ready is closed when events are being taken.
func (b *Bot) Ready() <-chan struct{} { return b.ready }

// me is who the bot is. Whoever asks is about to name places, so the IDs that
// they are named by are learned along with it.
func (b *Bot) me(ctx context.Context) (identity, error) {
	self, err := b.introduced(ctx)
	if err == nil {
		err = b.learnAliases(ctx)
	}
	return self, err
}

// introduced asks once who the bot token is.
func (b *Bot) introduced(ctx context.Context) (identity, error) {
	b.idMu.Lock()
	defer b.idMu.Unlock()
	if b.self.Team != "" {
		return b.self, nil
	}
	self, err := b.whoAmI(ctx)
	if err == nil {
		b.self = self
	}
	return self, err
}

func (b *Bot) whoAmI(ctx context.Context) (identity, error) {
	var a struct {
		Team string `json:"team_id"`
		User string `json:"user_id"`
		Bot  string `json:"bot_id"`
		Name string `json:"user"`
	}
	h, err := b.api.call(ctx, "auth.test", nil, &a)
	if err != nil {
		return identity{}, err
	}
	if a.Team == "" || a.User == "" {
		return identity{}, errors.New("slack: auth.test names no team or no user")
	}
	self := identity{Team: a.Team, User: a.User, Bot: a.Bot, Name: a.Name, scopes: h.Get("X-OAuth-Scopes"), at: b.c.Now()}
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		self.skew, self.at = self.at.Sub(at), at
	}
	return self, nil
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
