package service

import (
	"context"
	"fmt"
	"net"
	"time"

	"sightline/checkpoints"
	"sightline/connectors/chat"
	"sightline/connectors/discord"
	"sightline/connectors/slack"
	"sightline/workflows"
)

var (
	_ connector         = (*discord.Bot)(nil)
	_ connector         = (*slack.Bot)(nil)
	_ discord.Sink      = (*workflows.Ingress)(nil)
	_ discord.Commander = (*commands)(nil)
)

// bot is what runs beside the ports of a connector.
type bot struct {
	name  string
	run   func(ctx context.Context) error
	ready <-chan struct{}
	look  func(ctx context.Context) []finding
}

// check is doctor's look at the bot of one agent.
func (b bot) check(ctx context.Context, id string) []finding {
	list := b.look(ctx)
	for i := range list {
		list[i].name = id + " " + list[i].name
	}
	return list
}

// platforms adds an agent's bots, with its own tokens.
func (s *service) platforms(m *member, db *checkpoints.DB, ingress *workflows.Ingress, c *commands) error {
	if d := m.c.Discord; d != nil {
		b, err := discord.New(discord.Config{
			Agent: m.c.ID, Token: d.token, APIURL: d.APIURL, AnswerBots: d.AnswerBots, Owners: m.c.ownersOn("discord"),
			Sink: ingress, Commander: c, Messages: db, Marks: discordMarks{db}, MaxBytes: s.c.Images.MaxBytes,
			Log: s.log.With("agent", m.c.ID, "platform", "discord"),
		})
		if err != nil {
			return fmt.Errorf("agent %s: %w", m.c.ID, err)
		}
		m.connectors[discord.Platform] = b
		m.bots = append(m.bots, bot{"discord", b.Run, b.Ready(), func(ctx context.Context) (out []finding) {
			for _, f := range b.Check(ctx) {
				out = append(out, finding{f.What, f.OK, f.Detail, f.Fix})
			}
			return out
		}})
	}
	if p := m.c.Slack; p != nil {
		sc := slack.Config{
			Agent: m.c.ID, BotToken: p.bot, AppToken: p.app, SigningSecret: p.signing, APIURL: p.APIURL, AnswerBots: p.AnswerBots,
			Owners: m.c.ownersOn("slack"), Sink: ingress, Commander: c, Messages: db, Marks: slackMarks(db, m.c.ID), MaxBytes: s.c.Images.MaxBytes,
			Log: s.log.With("agent", m.c.ID, "platform", "slack"),
		}
		if p.EventsAddr != "" && s.c.Roles["connectors"] {
			l, err := net.Listen("tcp", p.EventsAddr)
			if err != nil {
				return fmt.Errorf("agent %s: slack's events_addr %s can't be listened on: %w", m.c.ID, p.EventsAddr, err)
			}
			s.later(func(context.Context) { _ = l.Close() })
			sc.EventsListener = l
		}
		b, err := slack.New(sc)
		if err != nil {
			return fmt.Errorf("agent %s: %w", m.c.ID, err)
		}
		m.connectors[slack.Platform] = b
		m.bots = append(m.bots, bot{"slack", b.Run, b.Ready(), func(ctx context.Context) (out []finding) {
			for _, f := range b.Check(ctx) {
				out = append(out, finding{"slack " + f.Name, f.OK, f.Text, f.Fix})
			}
			return out
		}})
	}
	return nil
}

// runBots keeps the bots of an agent running until the service closes. One
// that ends for good (a wrong token, a missing intent) ends the service: it
// would otherwise look alive and hear nothing.
func (s *service) runBots(m *member) {
	for _, b := range m.bots {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		s.later(func(context.Context) { cancel(); <-done })
		go func() {
			defer close(done)
			if err := b.run(ctx); err != nil && ctx.Err() == nil {
				s.fatal(fmt.Errorf("agent %s on %s: %w", m.c.ID, b.name, err))
			}
		}()
	}
}

// connected waits for the bots, so that "ready" means that they hear. A
// platform that is away is no reason not to start: it is tried on.
func (s *service) connected(ctx context.Context, members []*member) error {
	patience := time.After(20 * time.Second)
	for _, m := range members {
		for _, b := range m.bots {
			select {
			case <-b.ready:
				s.say("agent %s is connected to %s", m.c.ID, b.name)
			case err := <-s.ended:
				return err
			case <-ctx.Done():
				return ctx.Err()
			case <-patience:
				s.say("agent %s is not connected to %s yet; it is tried on, and the log says why", m.c.ID, b.name)
				patience = time.After(0)
			}
		}
	}
	return nil
}

// discordMarks keeps a connector's marks in the store.
type discordMarks struct{ db *checkpoints.DB }

func (d discordMarks) Marks(ctx context.Context, agent chat.AgentID) ([]discord.Mark, error) {
	rows, err := d.db.Marks(ctx, agent, discord.Platform)
	var out []discord.Mark
	for _, r := range rows {
		out = append(out, discord.Mark{Guild: r.Scope, Channel: r.Channel, Message: r.Message})
	}
	return out, err
}

func (d discordMarks) SetMark(ctx context.Context, agent chat.AgentID, m discord.Mark) error {
	return d.db.SetMark(ctx, agent, discord.Platform, checkpoints.Mark{Scope: m.Guild, Channel: m.Channel, Message: m.Message})
}

// slackMarks are the newest messages that were recorded: Slack's timestamps
// ascend.
func slackMarks(db *checkpoints.DB, agent chat.AgentID) func(context.Context) ([]slack.Mark, error) {
	return func(ctx context.Context) ([]slack.Mark, error) {
		rows, err := db.LastMessages(ctx, agent, slack.Platform)
		var out []slack.Mark
		for _, r := range rows {
			out = append(out, slack.Mark{Channel: r.Channel, Thread: r.Thread, TS: r.Message})
		}
		return out, err
	}
}
