package discord

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"sightline/connectors/chat"
)

const (
	commandName = "sightline"
	// forgetMenu is in a message's own menu, where nobody has to copy its link.
	forgetMenu = "Forget this message"

	slashCommand   = 1
	messageCommand = 3

	optionSubcommand = 1
	optionString     = 3

	interactionCommand = 2
	answerNow          = 4
	answerLater        = 5
	ephemeral          = 1 << 6

	// An interaction that is not acknowledged in 3 s is void; its token lasts
	// 15 min.
	ackTimeout     = 2500 * time.Millisecond
	ownerTimeout   = time.Second // of which to ask who owns the agent
	commandTimeout = 14 * time.Minute

	maxAnswers = 10 // messages of one command's answer
)

type commandOption struct {
	Type        int             `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Required    bool            `json:"required,omitempty"`
	Choices     []commandChoice `json:"choices,omitempty"`
	Options     []commandOption `json:"options,omitempty"`
}

type commandChoice struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type applicationCommand struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"` // a message command has none
	Type        int             `json:"type"`
	Options     []commandOption `json:"options,omitempty"`
}

func argument(name, description string, required bool, choices ...commandChoice) commandOption {
	return commandOption{Type: optionString, Name: name, Description: description, Required: required, Choices: choices}
}

func subcommand(name, description string, options ...commandOption) commandOption {
	return commandOption{Type: optionSubcommand, Name: name, Description: description, Options: options}
}

// subcommands are what an owner may ask; the order of options is the order of
// a command's arguments.
var subcommands = []commandOption{
	subcommand("status", "What the agent is doing here"),
	subcommand("stop", "Stop the answer that is being made here"),
	subcommand("attachments", "The files of this conversation, with their states"),
	subcommand("trail", "Every use of an attachment", argument("id", "The attachment's id", true)),
	subcommand("workspace", "Give the agent a workspace here, or take it",
		argument("state", "on or off", true, commandChoice{"on", "on"}, commandChoice{"off", "off"})),
	subcommand("model", "Which model answers, and what it can see"),
	subcommand("forget", "Forget a message or an attachment", argument("target", "The message's link or id, or the attachment's id", true)),
	subcommand("doctor", "What is wrong with the setup, and how to mend it"),
}

// register replaces the application's commands by ours.
func (b *Bot) register(ctx context.Context) {
	if b.c.Commander == nil {
		return
	}
	body := []applicationCommand{
		{Name: commandName, Description: "Commands of the agent's owner", Type: slashCommand, Options: subcommands},
		{Name: forgetMenu, Type: messageCommand},
	}
	wait := b.backoffMin
	for {
		app, _, err := b.identity.application(ctx)
		if err == nil {
			err = b.rest.do(ctx, "PUT", "/applications/"+app+"/commands", body, nil)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		b.log.Warn("the slash commands are not registered yet", "error", err)
		if hasStatus(err, 400, 401, 403) || sleep(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, b.backoffMax)
	}
}

type interaction struct {
	ID            string  `json:"id"`
	ApplicationID string  `json:"application_id"`
	Type          int     `json:"type"`
	Token         string  `json:"token"`
	ChannelID     string  `json:"channel_id"`
	User          *user   `json:"user"`   // in direct conversations
	Member        *member `json:"member"` // in servers
	Data          struct {
		Name    string `json:"name"`
		Type    int    `json:"type"`
		Target  string `json:"target_id"` // of a message command
		Options []struct {
			Name    string `json:"name"`
			Type    int    `json:"type"`
			Options []struct {
				Name  string `json:"name"`
				Value any    `json:"value"`
			} `json:"options"`
		} `json:"options"`
	} `json:"data"`
}

func (i interaction) by() *user {
	if i.Member != nil && i.Member.User != nil {
		return i.Member.User
	}
	return i.User
}

// command reads what was asked; values are in the order that subcommands has.
func (i interaction) command() (name string, args []string, ok bool) {
	if i.Type == interactionCommand && i.Data.Type == messageCommand {
		return "forget", []string{i.Data.Target}, i.Data.Name == forgetMenu && isSnowflake(i.Data.Target)
	}
	if i.Type != interactionCommand || i.Data.Name != commandName || len(i.Data.Options) != 1 {
		return "", nil, false
	}
	asked := i.Data.Options[0]
	for _, s := range subcommands {
		if s.Name != asked.Name {
			continue
		}
		for _, o := range s.Options {
			for _, v := range asked.Options {
				if v.Name == o.Name {
					args = append(args, strings.TrimSpace(fmt.Sprint(v.Value)))
				}
			}
		}
		return s.Name, args, true
	}
	return "", nil, false
}

// interact answers a command, to its asker alone. The role checked here
// is the first of three doors.
func (b *Bot) interact(ctx context.Context, i interaction) {
	by := i.by()
	name, args, ok := i.command()
	if b.c.Commander == nil || by == nil || !ok || !isSnowflake(i.ID) || !isSnowflake(i.ApplicationID) ||
		i.Token == "" || strings.ContainsAny(i.Token, "/?#%") {
		return
	}
	ack, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	asking, stop := context.WithTimeout(ack, ownerTimeout)
	owner, err := b.identity.owner(asking, by.ID)
	stop()
	if err == nil && (!owner || by.Bot) {
		b.log.Warn("a command was refused: its asker does not own the agent", "command", name, "user", by.ID)
		if err := b.callback(ack, i, map[string]any{"type": answerNow, "data": map[string]any{
			"content": ownersOnly, "flags": quietly, "allowed_mentions": nobody,
		}}); err != nil {
			b.log.Warn("a refused command was not answered", "error", err)
		}
		return
	}
	if err := b.callback(ack, i, map[string]any{"type": answerLater, "data": map[string]any{"flags": quietly}}); err != nil {
		b.log.Warn("a command was not acknowledged in time; it is not run", "command", name, "error", err)
		return
	}
	ctx, cancelRun := context.WithTimeout(ctx, commandTimeout)
	defer cancelRun()
	if err != nil { // Discord takes its time to say who owns the agent
		owner, err = b.identity.owner(ctx, by.ID)
	}
	var text string
	switch {
	case err != nil:
		b.log.Warn("a command was refused: who owns the agent can't be established", "command", name, "user", by.ID, "error", err)
		text = "Discord does not say now who owns the agent, so the command was not run. Please try again."
	case !owner || by.Bot:
		b.log.Warn("a command was refused: its asker does not own the agent", "command", name, "user", by.ID)
		text = ownersOnly
	default:
		text = b.run(ctx, i, name, args, *by)
	}
	webhook := "/webhooks/" + i.ApplicationID + "/" + i.Token
	for n, part := range answerParts(text) {
		method, path, body := "POST", webhook, map[string]any{"content": part, "allowed_mentions": nobody, "flags": quietly}
		if n == 0 {
			method, path = "PATCH", webhook+"/messages/@original"
			body["flags"] = suppressEmbed // that it is ephemeral, the acknowledgement said
		}
		if err := b.rest.do(ctx, method, path, body, nil); err != nil {
			b.log.Warn("a command's answer was not delivered", "command", name, "error", err)
			return
		}
	}
}

// answerParts are the messages that an answer takes. One that takes too many
// says that it was cut.
func answerParts(text string) []string {
	if strings.TrimSpace(text) == "" {
		return []string{"Done."}
	}
	parts := split(text, contentLimit-2)
	if len(parts) > maxAnswers {
		parts = parts[:maxAnswers]
		parts[maxAnswers-1] += "\n…"
	}
	return parts
}

// nativeMessage is the message's id in a link to a message; anything else stays
// as it is. Whoever has no developer mode can copy nothing but the link. It may
// be of a thread of the channel, or of the channel of the thread: an id is of one
// message in all of Discord, and whether that one is around is asked of the store.
func nativeMessage(arg string) string {
	m := messageLink.FindStringSubmatch(strings.Trim(arg, "<>"))
	if m == nil {
		return arg
	}
	return m[1]
}

var messageLink = regexp.MustCompile(`^https://(?:(?:ptb|canary)\.)?discord(?:app)?\.com/channels/(?:@me|\d+)/\d+/(\d+)/?$`)

const (
	ownersOnly = "Only the agent's owner can use its commands."
	quietly    = ephemeral | suppressEmbed
)

var nobody = map[string]any{"parse": []string{}}

// alreadyAcknowledged is Discord's word for an answer that is there: an earlier
// try's, whose own answer was lost.
const alreadyAcknowledged = 40060

func (b *Bot) callback(ctx context.Context, i interaction, body any) error {
	err := b.rest.do(ctx, "POST", "/interactions/"+i.ID+"/"+i.Token+"/callback", body, nil)
	if hasCode(err, alreadyAcknowledged) {
		return nil
	}
	return err
}

// run is what an owner reads; what operators read is logged.
func (b *Bot) run(ctx context.Context, i interaction, name string, args []string, by user) string {
	const failed = "That did not work; the log of the agent says why."
	s, err := b.shapeOf(ctx, i.ChannelID)
	if hasStatus(err, 403, 404) { // an app that somebody installed for themselves is asked anywhere
		return "The agent does not take part in this conversation, so it holds nothing of it, and who reads here can't be known."
	}
	if err != nil {
		b.log.Warn("a command failed", "command", name, "error", err)
		return failed
	}
	p, err := b.placeOf(s)
	if err != nil {
		b.log.Warn("a command failed", "command", name, "error", err)
		return failed
	}
	actor, err := b.actor(ctx, p.Workspace, by, i.Member)
	if err != nil {
		b.log.Warn("a command failed", "command", name, "error", err)
		return failed
	}
	if name == "forget" && len(args) > 0 {
		args[0] = nativeMessage(args[0])
	}
	text, err := b.c.Commander.Command(ctx, chat.Command{Agent: b.c.Agent, Actor: actor, Place: p, Name: name, Args: args})
	if err != nil {
		b.log.Warn("a command failed", "command", name, "error", err)
		return failed
	}
	return text
}
