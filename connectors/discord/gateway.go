package discord

import (
	"context"
	"errors"
	"fmt"
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

var fatalCodes = map[int][2]string{
	4004: {"the bot token is not valid", "set DISCORD_TOKEN to the token of the developer portal's Bot page"},
	4010: {"the shard is not valid", "run one process per bot token"},
	4011: {"the bot is in too many servers for one connection", "sharding is not supported: remove the bot from servers"},
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
	f, ok := fatalCodes[code]
	if !ok {
		return nil
	}
	return &FatalError{Code: code, What: f[0], Fix: f[1]}
}

// Run receives events until ctx ends, which is no error. It returns a
// *FatalError when Discord will not have this bot as it is configured.
func (b *Bot) Run(ctx context.Context) error {
	if b.c.Sink == nil {
		return errors.New("discord: no sink")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer b.running.Wait()
	defer cancel()
	if err := b.introduce(ctx); err != nil {
		return err
	}
	b.startLanes(ctx)
	b.running.Go(func() { b.register(ctx) })
	return b.stayConnected(ctx)
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

func (b *Bot) stayConnected(ctx context.Context) error {
	var l *link
	wait, short := b.backoffMin, 0
	for ctx.Err() == nil {
		// A session that keeps failing is not worth resuming: a fresh one
		// also brings out what is wrong, since it identifies.
		if l == nil || short >= 3 {
			if l != nil {
				l.abandon()
			}
			next, err := b.newLink(ctx)
			if err != nil {
				return err
			}
			l, short = next, 0
		}
		began := time.Now()
		err := l.open(ctx)
		if err == nil {
			err = l.last(ctx)
		}
		b.facts.drop("") // what happened meanwhile is not known yet
		if ctx.Err() != nil {
			break
		}
		if f := fatal(err); f != nil {
			l.abandon()
			return f
		}
		if errors.Is(err, errStuck) {
			l = nil
		}
		if time.Since(began) > time.Minute {
			wait, short = b.backoffMin, 0
		} else {
			short++
		}
		b.log.Info("the discord gateway is down; connecting again", "error", quiet(err), "after", wait)
		_ = sleep(ctx, wait)
		wait = min(2*wait, b.backoffMax)
	}
	return nil
}

var errDown = errors.New("the connection ended")

var address = regexp.MustCompile(`(?i)(https?|wss?)://\S+`)

// quiet takes addresses out of a library's error.
func quiet(err error) string { return oneLine(address.ReplaceAllString(err.Error(), "[address]"), 200) }
