package discord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"
)

const intents = discordgo.IntentsGuilds | discordgo.IntentsGuildMessages | discordgo.IntentsDirectMessages | discordgo.IntentMessageContent

// FatalError ends Run: trying again can't help before an operator acts.
type FatalError struct {
	Code int // the gateway's close code; 401 for a token that REST refused
	What string
	Fix  string // one sentence for the operator
}

func (e *FatalError) Error() string {
	return fmt.Sprintf("discord: %s (code %d): %s", e.What, e.Code, e.Fix)
}

const fixToken = "set DISCORD_TOKEN (or the variable that token_env names) to the token of the developer portal's Bot page"

var fatalCodes = map[int][2]string{
	4004: {"the bot token is not valid", fixToken},
	4010: {"the shard is not valid", "update this program: it numbers its sessions wrongly"},
	4011: {"the bot is in too many servers for the sessions that Discord recommends", "start again later: Discord recommends more sessions once it has counted the servers"},
	4012: {"the gateway version is not supported any more", "update this program"},
	4013: {"the intents are not valid", "update this program: it asks for GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES and MESSAGE_CONTENT"},
	4014: {"the MESSAGE_CONTENT intent is not enabled", "switch on Message Content Intent on the developer portal's Bot page"},
}

var closeCode = regexp.MustCompile(`websocket: close (\d{4})`)

// fatal recognizes a close code that would only come again. discordgo's own
// reconnection loops on them for ever.
func fatal(err error) *FatalError {
	m := closeCode.FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	code, _ := strconv.Atoi(m[1])
	return fatalCode(code)
}

func fatalCode(code int) *FatalError {
	f, ok := fatalCodes[code]
	if !ok {
		return nil
	}
	return &FatalError{Code: code, What: f[0], Fix: f[1]}
}

// Run receives events until ctx ends, which is no error. It returns a
// *FatalError when Discord will not have this bot as it is configured. It may
// be called again once it has returned.
func (b *Bot) Run(ctx context.Context) error {
	if b.c.Sink == nil {
		return errors.New("discord: no sink")
	}
	// Another process may have been told meanwhile what became of them.
	b.channels.reset()
	b.facts.drop("")
	ctx, cancel := context.WithCancel(ctx)
	defer b.running.Wait()
	defer cancel()
	if err := b.introduce(ctx); err != nil {
		return err
	}
	b.startLanes(ctx)
	b.running.Go(func() { b.register(ctx) })
	b.running.Go(func() { b.sayFindings(ctx) })
	err := b.connections(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// introduce learns who we are and how far we were, however long it takes.
func (b *Bot) introduce(ctx context.Context) error {
	wait := b.backoffMin
	for {
		_, err := b.identity.self(ctx)
		if err == nil {
			err = b.marks.load(ctx)
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case errors.Is(err, errToken):
			return &FatalError{Code: 401, What: fatalCodes[4004][0], Fix: fatalCodes[4004][1]}
		}
		b.log.Warn("discord can't be started yet; it is tried again", "error", err)
		_ = sleep(ctx, wait)
		wait = min(2*wait, b.backoffMax)
	}
}

// stable is how many of the shortest waits a connection has to last for its
// end to be no sign of trouble.
const stable = 10

// stayConnected keeps one session, over all its connections.
func (b *Bot) stayConnected(ctx context.Context, sh shard, starts *starts) error {
	var l *link
	wait, failed := b.backoffMin, 0
	for ctx.Err() == nil {
		// A session that can't be opened is not worth resuming: a fresh one
		// also brings out what is wrong, since it identifies.
		if l != nil && (failed >= 3 || l.over()) {
			l.abandon()
			l = nil
		}
		if l == nil {
			var err error
			if l, err = b.newLink(ctx, sh); err != nil {
				return err
			}
			failed = 0
		}
		began := time.Now()
		err := l.connect(ctx, starts)
		opened := err == nil
		if opened {
			err = l.last(ctx)
		}
		b.facts.drop("") // what happened meanwhile is not known yet
		if ctx.Err() != nil {
			break
		}
		if f := l.fatal(err); f != nil {
			l.abandon()
			if f.Code == 4011 {
				return errMoreShards
			}
			return f
		}
		if errors.Is(err, errStuck) {
			l = nil
		}
		pause := wait
		switch lasted := time.Since(began); {
		case opened && lasted > stable*b.backoffMin:
			pause, wait, failed = b.backoffMin, b.backoffMin, 0
		case opened:
			// It is heard again, if not for long: no reason to stay away.
			wait, failed = min(2*wait, stable*b.backoffMin), 0
		default:
			wait, failed = min(2*wait, b.backoffMax), failed+1
		}
		if l != nil && l.invalidated() {
			pause = max(pause, b.backoffMin+rand.N(4*b.backoffMin)) // Discord asks for one to five seconds
		}
		b.log.Info("the discord gateway is down; connecting again", "shard", sh.id, "error", quiet(err), "after", pause)
		_ = sleep(ctx, pause)
	}
	if l != nil {
		l.abandon()
	}
	return nil
}

var errDown = errors.New("the connection ended")

var address = regexp.MustCompile(`(?i)(https?|wss?)://\S+`)

// quiet takes addresses out of a library's error.
func quiet(err error) string { return oneLine(address.ReplaceAllString(err.Error(), "[address]"), 200) }
