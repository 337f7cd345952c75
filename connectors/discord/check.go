package discord

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Finding is one thing that was looked at. Fix is one sentence, empty when
// nothing is wrong.
type Finding struct {
	What   string
	OK     bool
	Detail string
	Fix    string
}

const (
	flagContent        = 1 << 18
	flagContentLimited = 1 << 19 // granted to bots in few servers
	checkedGuilds      = 200
)

// Check looks at token, intents, the gateway and permissions, for the doctor
// and before the first image.
func (b *Bot) Check(ctx context.Context) []Finding {
	var me user
	if err := b.rest.do(ctx, "GET", "/users/@me", nil, &me); err != nil {
		f := Finding{What: "discord token", Detail: err.Error(), Fix: fixToken}
		if !errors.Is(err, errToken) {
			f.What, f.Fix = "discord API", "see that this machine can reach Discord, and that DISCORD_API_URL is right or empty"
		}
		return []Finding{f}
	}
	out := []Finding{{What: "discord token", OK: true, Detail: "signed in as " + oneLine(me.Username, 40)}}
	return append(append(out, b.checkClock(), b.checkIntents(ctx), b.checkGateway(ctx)), b.checkGuilds(ctx)...)
}

// maxSkew is beyond what a Date of whole seconds and a slow network explain.
const maxSkew = 30 * time.Second

func (b *Bot) checkClock() Finding {
	skew := time.Duration(b.rest.skew.Load()).Round(time.Second)
	f := Finding{What: "discord clock", OK: skew.Abs() <= maxSkew, Detail: fmt.Sprintf("%s from Discord's", skew.Abs())}
	if !f.OK {
		f.Fix = "synchronize the clock of this machine"
	}
	return f
}

func (b *Bot) checkIntents(ctx context.Context) Finding {
	f := Finding{What: "discord intents"}
	var a application
	err := b.rest.do(ctx, "GET", "/oauth2/applications/@me", nil, &a)
	switch {
	case err != nil:
		f.Detail, f.Fix = err.Error(), "try again when Discord answers"
	case a.Flags&(flagContent|flagContentLimited) == 0:
		f.Detail = "MESSAGE_CONTENT is off: text and files of messages would not arrive"
		f.Fix = fixContent
	default:
		f.OK, f.Detail = true, "MESSAGE_CONTENT is on"
	}
	return f
}

func (b *Bot) checkGateway(ctx context.Context) Finding {
	f := Finding{What: "discord gateway"}
	g, err := b.plan(ctx)
	switch {
	case err != nil:
		f.Detail, f.Fix = err.Error(), "try again when Discord answers"
	case g.Limit.Remaining < max(10, 2*g.Shards):
		f.Detail = fmt.Sprintf("%d identifications are left today", g.Limit.Remaining)
		f.Fix = "see that no other process uses the token, and wait a day"
	default:
		f.OK, f.Detail = true, fmt.Sprintf("%d identifications are left today, for %d sessions", g.Limit.Remaining, g.Shards)
	}
	return f
}

// sayFindings tells the operators at the start what is missing, before the
// first picture is.
func (b *Bot) sayFindings(ctx context.Context) {
	for _, f := range b.Check(ctx) {
		if !f.OK && ctx.Err() == nil {
			b.log.Warn("something that is needed on discord is missing", "what", f.What, "detail", f.Detail, "fix", f.Fix)
			if b.c.Missing != nil {
				b.c.Missing(f.What+": "+f.Detail, f.Fix)
			}
		}
	}
}

var permissionNames = []struct {
	bit  permissions
	name string
}{
	{permView, "View Channels"}, {permSend, "Send Messages"}, {permSendInThreads, "Send Messages in Threads"}, {permReadHistory, "Read Message History"},
}

func (b *Bot) checkGuilds(ctx context.Context) []Finding {
	var guilds []struct {
		ID          string      `json:"id"`
		Name        string      `json:"name"`
		Permissions permissions `json:"permissions"`
	}
	if err := b.rest.do(ctx, "GET", fmt.Sprintf("/users/@me/guilds?limit=%d", checkedGuilds), nil, &guilds); err != nil {
		return []Finding{{What: "discord servers", Detail: err.Error(), Fix: "try again when Discord answers"}}
	}
	if len(guilds) == 0 {
		return []Finding{{What: "discord servers", Detail: "the bot is in no server", Fix: "open the invite link and add the bot to a server"}}
	}
	var out []Finding
	for _, g := range guilds {
		f := Finding{What: "discord server " + oneLine(g.Name, 40), OK: true, Detail: "the permissions that are needed are there"}
		if missing := missingNames(g.Permissions); missing != "" && g.Permissions&permAdministrator == 0 {
			f.OK, f.Detail, f.Fix = false, "missing: "+missing, "give the bot's role there: "+missing
		}
		out = append(out, f)
	}
	return out
}

func missingNames(p permissions) (out string) {
	for _, n := range permissionNames {
		if p&n.bit == 0 {
			if out != "" {
				out += ", "
			}
			out += n.name
		}
	}
	return out
}
