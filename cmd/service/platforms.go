package service

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sightline/attachments/document"
	"sightline/checkpoints"
	"sightline/cmd/telemetry"
	"sightline/connectors/chat"
	"sightline/connectors/discord"
	"sightline/connectors/slack"
	"sightline/workflows"
)

var (
	_ connector         = (*discord.Bot)(nil)
	_ connector         = (*slack.Bot)(nil)
	_ workflows.Drafter = (*discord.Bot)(nil)
	_ workflows.Drafter = (*slack.Bot)(nil)
	_ discord.Sink      = (*workflows.Ingress)(nil)
	_ discord.Commander = (*commands)(nil)
)

// bot is what runs beside the ports of a connector, in one process at a time.
type bot struct {
	name  string
	run   func(ctx context.Context) error
	ready <-chan struct{}
	look  func(ctx context.Context) []finding

	standby chan struct{} // closed once another process was found to run it
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
func (s *service) platforms(m *member, db *checkpoints.DB, sink telemetry.Sink, c *commands) error {
	if d := m.c.Discord; d != nil {
		b, err := discord.New(discord.Config{
			Agent: m.c.ID, Token: d.token, APIURL: d.APIURL, AnswerBots: d.AnswerBots, Owners: m.c.ownersOn("discord"),
			Sink: sink, Commander: c, Messages: db, Marks: discordMarks{db}, Recent: discordRecent(db, m.c.ID), MaxBytes: s.c.Images.MaxBytes,
			MaxDocument: document.DefaultLimits().MaxBytes,
			Limited:     s.tele.Limited(discord.Platform), Missing: s.missing(m.c.ID), Log: s.log.With("agent", m.c.ID, "platform", "discord"),
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
		}, make(chan struct{})})
	}
	if p := m.c.Slack; p != nil {
		sc := slack.Config{
			Agent: m.c.ID, BotToken: p.bot, AppToken: p.app, SigningSecret: p.signing, APIURL: p.APIURL, AnswerBots: p.AnswerBots,
			Owners: m.c.ownersOn("slack"), Sink: sink, Commander: c, Messages: db, Marks: slackMarks(db, m.c.ID), Gaps: slackGaps{db},
			Recent: slackRecent(db, m.c.ID), WithFile: slackWithFile(db, m.c.ID), MaxBytes: s.c.Images.MaxBytes,
			MaxDocument: document.DefaultLimits().MaxBytes,
			Limited:     s.tele.Limited(slack.Platform), Missing: s.missing(m.c.ID), Log: s.log.With("agent", m.c.ID, "platform", "slack"),
		}
		if db != nil { // doctor only looks, and has none
			sc.Aliases = slackAliases{db}
		}
		events := &reopening{addr: p.EventsAddr}
		if p.EventsAddr != "" {
			sc.EventsListener = events
			if s.c.Roles["connectors"] {
				// A taken port is said at once, not when the lease comes.
				if err := events.open(); err != nil {
					return fmt.Errorf("agent %s: slack's events_addr %s can't be listened on: %w", m.c.ID, p.EventsAddr, err)
				}
				_ = events.Close()
			}
		}
		b, err := slack.New(sc)
		if err != nil {
			return fmt.Errorf("agent %s: %w", m.c.ID, err)
		}
		m.connectors[slack.Platform] = b
		run := b.Run
		if p.EventsAddr != "" {
			run = func(ctx context.Context) error {
				if err := events.open(); err != nil {
					return err
				}
				defer events.Close()
				return b.Run(ctx)
			}
		}
		m.bots = append(m.bots, bot{"slack", run, b.Ready(), func(ctx context.Context) (out []finding) {
			for _, f := range b.Check(ctx) {
				out = append(out, finding{"slack " + f.Name, f.OK, f.Text, f.Fix})
			}
			return out
		}, make(chan struct{})})
	}
	return nil
}

// missing says to whoever starts the service what a bot lacks, before the first
// picture does.
func (s *service) missing(id chat.AgentID) func(what, fix string) {
	return func(what, fix string) { s.say("agent %s: %s (%s)", id, what, fix) }
}

// runBots keeps the bots of an agent running until the service closes, each
// while this process has its lease. One that ends for good (a wrong token, a
// missing intent) ends the service: it would otherwise look alive and hear
// nothing.
func (s *service) runBots(m *member, db leases, holder string) {
	for _, b := range m.bots {
		l := newLease(db, "bot/"+string(m.c.ID)+"/"+b.name, holder, s.log)
		waited := false
		told := func(here bool) {
			switch {
			case !here && !waited:
				waited = true
				s.say("agent %s on %s: another process has the connection, and this one stands by", m.c.ID, b.name)
				close(b.standby)
			case here && waited:
				s.say("agent %s on %s: this process takes over the connection", m.c.ID, b.name)
			}
			s.log.Info("the lease of a connection changed hands", "agent", m.c.ID, "platform", b.name, "here", here)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		s.later(func(context.Context) { cancel(); <-done })
		go func() {
			defer close(done)
			if err := l.keep(ctx, told, b.run); err != nil && ctx.Err() == nil {
				s.fatal(fmt.Errorf("agent %s on %s: %w", m.c.ID, b.name, err))
			}
		}()
	}
}

// connected waits for the bots, so that "ready" means that they hear, here or
// in another process. A platform that is away is no reason not to start: it is
// tried on.
func (s *service) connected(ctx context.Context, members []*member) error {
	patience := time.After(20 * time.Second)
	for _, m := range members {
		for _, b := range m.bots {
			select {
			case <-b.standby:
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
			out = append(out, slack.Mark{Channel: r.Channel, Thread: r.Thread, TS: r.Message, Answered: r.Answered})
		}
		return out, err
	}
}

// slackGaps keeps what is still to be read beyond them.
type slackGaps struct{ db *checkpoints.DB }

func (g slackGaps) Gaps(ctx context.Context, agent chat.AgentID) ([]slack.Gap, error) {
	rows, err := g.db.Gaps(ctx, agent, slack.Platform)
	out := make([]slack.Gap, len(rows))
	for n, r := range rows {
		out[n] = slack.Gap{Channel: r.Channel, From: r.Since}
	}
	return out, err
}

func (g slackGaps) SetGaps(ctx context.Context, agent chat.AgentID, opened, closed []slack.Gap) error {
	rows := func(list []slack.Gap) (out []checkpoints.Gap) {
		for _, l := range list {
			out = append(out, checkpoints.Gap{Channel: l.Channel, Since: l.From})
		}
		return out
	}
	return g.db.SetGaps(ctx, agent, slack.Platform, rows(opened), rows(closed))
}

// compared is how many recorded messages are compared with a platform after a
// gap; what its connector reads of them is bounded there.
const compared = 2000

func discordRecent(db *checkpoints.DB, agent chat.AgentID) func(context.Context) ([]discord.Recorded, error) {
	return func(ctx context.Context) ([]discord.Recorded, error) {
		rows, err := db.RecentMessages(ctx, agent, discord.Platform, compared)
		var out []discord.Recorded
		for _, r := range rows {
			m := discord.Recorded{Workspace: r.Scope, Channel: cmp.Or(r.Thread, r.Channel), Message: r.Message, Revision: r.Revision}
			if r.Thread != "" {
				m.Parent = r.Channel
			}
			out = append(out, m)
		}
		return out, err
	}
}

func slackRecent(db *checkpoints.DB, agent chat.AgentID) func(context.Context) ([]slack.Recorded, error) {
	return func(ctx context.Context) ([]slack.Recorded, error) {
		rows, err := db.RecentMessages(ctx, agent, slack.Platform, compared)
		return slackRecorded(rows), err
	}
}

func slackWithFile(db *checkpoints.DB, agent chat.AgentID) func(context.Context, string) ([]slack.Recorded, error) {
	return func(ctx context.Context, file string) ([]slack.Recorded, error) {
		rows, err := db.MessagesWithFile(ctx, agent, slack.Platform, file)
		return slackRecorded(rows), err
	}
}

func slackRecorded(rows []checkpoints.Recent) (out []slack.Recorded) {
	for _, r := range rows {
		out = append(out, slack.Recorded{Channel: r.Channel, Thread: r.Thread, TS: r.Message, Revision: r.Revision})
	}
	return out
}

// slackAliases keeps the IDs that channels had.
type slackAliases struct{ db *checkpoints.DB }

func (a slackAliases) Aliases(ctx context.Context, agent chat.AgentID) ([]slack.Alias, error) {
	rows, err := a.db.Aliases(ctx, agent, slack.Platform)
	var out []slack.Alias
	for _, r := range rows {
		out = append(out, slack.Alias{First: r.First, ID: r.ID})
	}
	return out, err
}

func (a slackAliases) SetAlias(ctx context.Context, agent chat.AgentID, l slack.Alias) error {
	return a.db.SetAlias(ctx, agent, slack.Platform, checkpoints.Alias{First: l.First, ID: l.ID})
}
