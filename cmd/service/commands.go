package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"sightline/agent"
	"sightline/attachments"
	"sightline/checkpoints"
	"sightline/connectors/chat"
	"sightline/workflows"
)

// commands are what owners may ask for, whatever the platform. The connector
// has checked the role already; it is checked here again, before anything
// else is looked at, and the answer is seen by the asker alone.
type commands struct {
	db      *checkpoints.DB
	ingress *workflows.Ingress
	agents  map[chat.AgentID]*workflows.Agent
	doctor  func(ctx context.Context, a chat.AgentID) []finding // of one agent: others are not its owners' business
	log     *slog.Logger
	// elsewhere: turns run in other processes, which may have a sandbox.
	elsewhere bool
}

const (
	onlyOwners  = "Only an owner of this agent may use its commands."
	commandHelp = "Commands: status, stop, attachments, trail ATTACHMENT, model, forget MESSAGE|ATTACHMENT (a message by its link or id), workspace on|off, doctor."
)

// Command runs one. Its error is for the operator; the text is for the owner.
func (c *commands) Command(ctx context.Context, in chat.Command) (string, error) {
	if in.Actor.Role != chat.Owner {
		c.log.Warn("a command was refused", "command", in.Name, "actor", in.Actor.User, "role", in.Actor.Role.String(), "place", string(in.Place.ID))
		return onlyOwners, nil
	}
	a := c.agents[in.Agent]
	if a == nil || in.Place.Agent != in.Agent {
		return "", fmt.Errorf("command %s: agent %q is not configured here", in.Name, in.Agent)
	}
	c.log.Info("owner's command", "command", in.Name, "actor", in.Actor.User, "place", string(in.Place.ID))
	// A channel may have threads before anything was said in itself that is kept:
	// on Slack every mention opens one. What is around it is found by its row.
	if err := c.db.Meet(ctx, in.Place); err != nil {
		return "", err
	}
	conv := in.Place.Conversation()
	arg := ""
	if len(in.Args) > 0 {
		arg = strings.TrimSpace(in.Args[0])
	}
	switch in.Name {
	case "status":
		return c.status(ctx, in.Agent, conv)
	case "stop":
		return c.stop(ctx, in.Agent, conv)
	case "attachments":
		return c.attachments(ctx, a, in, conv)
	case "trail":
		return c.trail(ctx, a, in, conv, arg)
	case "model":
		text := describe(a.Inference.Model.Info(ctx))
		if arg != "" {
			text += "\nAnother one is set in the configuration, not by a command."
		}
		return text, nil
	case "forget":
		return c.forget(ctx, in.Agent, conv, arg)
	case "workspace":
		return c.workspace(ctx, a, in, conv, arg)
	case "doctor":
		return report(c.doctor(ctx, in.Agent)), nil
	}
	return commandHelp, nil
}

func (c *commands) status(ctx context.Context, id chat.AgentID, conv chat.ConversationID) (string, error) {
	turns, err := c.db.RecentTurns(ctx, id, conv, 5)
	if err != nil {
		return "", err
	}
	if len(turns) == 0 {
		return "Nothing has been asked here yet.", nil
	}
	var b strings.Builder
	for _, t := range turns {
		fmt.Fprintf(&b, "%s  %s  %s", t.StartedAt.UTC().Format(time.DateTime), t.State, t.ID)
		if t.State == checkpoints.TurnRunning {
			fmt.Fprintf(&b, "  since %s", time.Since(t.StartedAt).Round(time.Second))
		}
		if t.Reason != "" {
			fmt.Fprintf(&b, "  (%s)", t.Reason)
		}
		if t.Conversation != conv {
			b.WriteString("  (beside this conversation)")
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// stop ends the turn of the conversation, or, where none is running, those
// around it: Slack takes no command in a thread, where its turns run.
func (c *commands) stop(ctx context.Context, id chat.AgentID, conv chat.ConversationID) (string, error) {
	turns, err := c.db.RecentTurns(ctx, id, conv, 100)
	if err != nil {
		return "", err
	}
	stopped := map[chat.ConversationID]bool{conv: true}
	here, beside := false, 0
	for _, t := range turns {
		if t.State != checkpoints.TurnRunning {
			continue
		}
		if t.Conversation == conv {
			stopped, here, beside = map[chat.ConversationID]bool{conv: true}, true, 0
			break
		}
		if !stopped[t.Conversation] {
			stopped[t.Conversation] = true
			beside++
		}
	}
	for s := range stopped {
		if err := c.ingress.Stop(ctx, s); err != nil {
			return "", err
		}
	}
	switch {
	case here:
		return "Stopping what is running here.", nil
	case beside == 1:
		return "Stopping what is running in a conversation beside this one.", nil
	case beside > 1:
		return fmt.Sprintf("Stopping what is running in %d conversations beside this one.", beside), nil
	}
	return "Nothing is running here that could be stopped.", nil
}

func (c *commands) attachments(ctx context.Context, a *workflows.Agent, in chat.Command, conv chat.ConversationID) (string, error) {
	p, err := a.Authorizer.List(ctx, attachments.Request{
		Agent: in.Agent, Actor: in.Actor, Conversation: conv, Destination: in.Place.ID,
	}, 0, 100)
	if err != nil {
		return "", err
	}
	if len(p.Items) == 0 {
		return "No attachments of this conversation may be listed here.", nil
	}
	var b strings.Builder
	for _, it := range p.Items {
		t := it.SniffedType
		switch {
		case t == "" && it.DeclaredType == "":
			t = "of a type that nobody declared"
		case t == "":
			t = it.DeclaredType + " as declared"
		}
		fmt.Fprintf(&b, "%s  %s  %s, %d bytes, %s  by %s at %s", it.ID, literal(it.Name), t, it.Size, it.State, literal(it.Author.Name), it.PostedAt.UTC().Format(time.DateTime))
		if it.Conversation != conv {
			b.WriteString("  (beside this conversation)")
		}
		if it.StateReason != "" {
			fmt.Fprintf(&b, "  (%s)", it.StateReason)
		}
		b.WriteByte('\n')
	}
	if p.Total > len(p.Items) {
		fmt.Fprintf(&b, "and %d more\n", p.Total-len(p.Items))
	}
	return b.String(), nil
}

// literal is a name as it is: both platforms read Markdown, to which
// __init__.py is a bold word.
func literal(name string) string {
	if name = agent.InertName(name); name == "" {
		return "(no name)"
	}
	return "`" + name + "`"
}

// maxTrail bounds one answer; the newest uses are shown.
const maxTrail = 40

func (c *commands) trail(ctx context.Context, a *workflows.Agent, in chat.Command, conv chat.ConversationID, arg string) (string, error) {
	att, err := chat.ParseAttachmentID(arg)
	if err != nil {
		return "trail needs an attachment id, such as attachments lists them.", nil
	}
	// A trail tells as much as a listing does, so whoever reads here is asked
	// about, and the question goes into the trail.
	var state *attachments.StateError
	switch _, _, err := a.Authorizer.Authorize(ctx, attachments.Request{
		Agent: in.Agent, Actor: in.Actor, Conversation: conv, Destination: in.Place.ID,
	}, att, "trail"); {
	case err == nil, errors.As(err, &state):
	case errors.Is(err, attachments.ErrNotAvailable):
		return attachments.ErrNotAvailable.Error() + ".", nil
	default:
		return "", err
	}
	uses, err := c.db.Uses(ctx, in.Agent, att)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if len(uses) > maxTrail {
		fmt.Fprintf(&b, "%d earlier uses are not shown\n", len(uses)-maxTrail)
		uses = uses[len(uses)-maxTrail:]
	}
	for _, u := range uses {
		verdict := "refused"
		if u.Allowed {
			verdict = "allowed"
		}
		fmt.Fprintf(&b, "%s  %s %s by %s (%s)", u.At.UTC().Format(time.DateTime), u.Action, verdict, u.Rule, literal(u.Actor.Name))
		if u.BytesFetched > 0 {
			fmt.Fprintf(&b, "  %d bytes", u.BytesFetched)
		}
		if u.Reason != "" {
			fmt.Fprintf(&b, "  %s", u.Reason)
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// workspace is said for one conversation; said in a channel it holds for the
// channel's threads, too, where nothing else was said.
func (c *commands) workspace(ctx context.Context, a *workflows.Agent, in chat.Command, conv chat.ConversationID, arg string) (string, error) {
	if !c.elsewhere && (a.Workspaces == nil || !a.Workspaces()) {
		return "This installation has no sandbox to run anything in; doctor says why.", nil
	}
	switch arg {
	case "on", "off":
	default:
		return "workspace needs on or off.", nil
	}
	if err := c.db.SetSetting(ctx, in.Agent, conv, workflows.SettingWorkspace, arg, in.Actor); err != nil {
		return "", err
	}
	if arg == "on" && c.elsewhere {
		return "The agent has a workspace here now, if the processes that run its turns have a sandbox: their own doctor says.", nil
	}
	if arg == "on" {
		return "The agent has a workspace here now: it may copy files of this conversation into it, run commands on them, and post what comes of it.", nil
	}
	return "The agent has no workspace here any more. What is in it is removed once it is unused for a while.", nil
}

// forget takes an attachment ID, our message ID or the platform's own.
func (c *commands) forget(ctx context.Context, id chat.AgentID, conv chat.ConversationID, arg string) (string, error) {
	if arg == "" {
		return "forget needs a message's link or id, or an attachment's id.", nil
	}
	var messages []chat.MessageID
	att, err := chat.ParseAttachmentID(arg)
	switch {
	case err == nil:
		messages = []chat.MessageID{""}
	case strings.HasPrefix(arg, "msg_"):
		att, messages = "", []chat.MessageID{chat.MessageID(arg)}
	default:
		att = ""
		if messages, err = c.db.MessagesCalled(ctx, id, conv, arg); err != nil {
			return "", err
		}
	}
	n := 0
	for _, m := range messages {
		gone, err := c.db.Forget(ctx, id, conv, m, att)
		if err != nil {
			return "", err
		}
		n += gone
	}
	if n == 0 {
		return "There is nothing of that id here to forget.", nil
	}
	return "Forgotten. Answers that draw on it are withheld, and it is never looked at again.", nil
}
