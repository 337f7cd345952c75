package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"sightline/agent"
	"sightline/agent/openai"
	"sightline/checkpoints"
	"sightline/connectors/chat"
	"sightline/connectors/web"
	"sightline/workflows"
)

// finding is one thing that doctor looked at. Fix is one sentence, when it is
// not well.
type finding struct {
	name string
	ok   bool
	text string
	fix  string
}

// report is what a person reads.
func report(list []finding) string {
	var b strings.Builder
	for _, f := range list {
		mark := "ok  "
		if !f.ok {
			mark = "FIX "
		}
		// One line each, whatever errors were joined.
		fmt.Fprintf(&b, "%s %-22s %s\n", mark, f.name, strings.ReplaceAll(f.text, "\n", "; "))
		if f.fix != "" {
			fmt.Fprintf(&b, "     %-22s -> %s\n", "", f.fix)
		}
	}
	return b.String()
}

// Doctor explains the configuration and tries what it names, without starting
// anything. It returns 1 when something needs a fix.
func Doctor(ctx context.Context, env func(string) string, out io.Writer) int {
	c, err := ReadConfig(env)
	if err != nil {
		fmt.Fprint(out, report([]finding{{"configuration", false, err.Error(), "correct the named setting; the README lists all of them"}}))
		return 1
	}
	s := &service{c: c, o: Options{Env: env}, log: slog.New(slog.DiscardHandler)}
	defer s.close()
	list := append([]finding{{"configuration", true, fmt.Sprintf("%d agent(s), state in %s", len(c.Agents), c.Home), ""}}, c.doubts(os.Environ())...)
	list = append(list, s.checkStores(ctx)...)
	for _, a := range c.Agents {
		m, err := s.model(ctx, a.Model)
		if err != nil {
			list = append(list, finding{string(a.ID) + " model", false, err.Error(), "correct OPENAI_BASE_URL, OPENAI_API_KEY, SIGHTLINE_MODEL and SIGHTLINE_MODEL_API, or the agent's model in sightline.yaml"})
			continue
		}
		list = append(list, checkModel(ctx, string(a.ID), m)...)
		list = append(list, c.unconnected(a)...)
		list = append(list, s.checkBots(ctx, a)...)
	}
	list = append(list, checkTesseract(), s.tryOut(ctx))
	fmt.Fprint(out, report(list))
	for _, f := range list {
		if !f.ok {
			return 1
		}
	}
	return 0
}

// doubts are settings that can be followed and can hardly be meant.
func (c Config) doubts(environ []string) (out []finding) {
	for name, meant := range c.misspelt(environ) {
		out = append(out, finding{"configuration", false, name + " is set and is nothing that is read", "say " + meant + ", if that is meant, or unset it"})
	}
	for _, v := range c.Unused {
		out = append(out, finding{"configuration", false, v + " is set and has no effect: the agents are those of sightline.yaml", "say it there for the agent that it is meant for, or unset " + v})
	}
	for _, a := range c.Agents {
		if a.Discord == nil && a.Slack == nil && (!a.Web || c.Roles["web"] && c.WebOff) {
			out = append(out, finding{string(a.ID), false, "nobody can talk to it: it has no page, no Discord and no Slack", "give it one of them"})
		}
	}
	return out
}

// checkBots asks the platforms with an agent's tokens, and runs nothing.
func (s *service) checkBots(ctx context.Context, a AgentConfig) []finding {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	m := &member{c: a, connectors: map[chat.Platform]connector{}}
	if a.Slack != nil {
		a.Slack.EventsAddr = "" // nothing is listened on for a look
	}
	if err := s.platforms(m, nil, &workflows.Ingress{}, &commands{}); err != nil {
		return []finding{{string(a.ID) + " connectors", false, err.Error(), "correct the agent's tokens, addresses and owners"}}
	}
	var list []finding
	for _, b := range m.bots {
		list = append(list, b.check(ctx, string(a.ID))...)
	}
	return list
}

// inside is doctor for a service that runs: its stores, and one agent's model
// and bots as they are now. Whose the others are is not this one's owners'
// business.
func (s *service) inside(ctx context.Context, db *checkpoints.DB, tc client.Client, members []*member, a chat.AgentID) []finding {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	list := []finding{{"database", true, "answers", ""}, {"temporal", true, "answers", ""}}
	if err := db.Ping(ctx); err != nil {
		list[0] = finding{"database", false, "does not answer", "start it, or correct DATABASE_URL"}
	}
	if _, err := tc.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		list[1] = finding{"temporal", false, "does not answer", "start it, or correct the TEMPORAL_ variables"}
	}
	for _, m := range members {
		if m.c.ID != a {
			continue
		}
		list = append(list, checkModel(ctx, string(m.c.ID), m.model)...)
		for _, b := range m.bots {
			list = append(list, b.check(ctx, string(m.c.ID))...)
		}
	}
	return append(list, checkTesseract())
}

// unconnected are the platforms that an agent has no token for. None is needed:
// it is said for whoever thinks that they gave one.
func (c Config) unconnected(a AgentConfig) (out []finding) {
	how := func(variable, key string) string {
		if c.File {
			return "not connected: the agent has no " + key + " in sightline.yaml"
		}
		return "not connected: " + variable + " is not set"
	}
	if a.Discord == nil {
		out = append(out, finding{string(a.ID) + " discord", true, how("DISCORD_TOKEN", "discord"), ""})
	}
	if a.Slack == nil {
		out = append(out, finding{string(a.ID) + " slack", true, how("SLACK_BOT_TOKEN", "slack"), ""})
	}
	return out
}

// reachable is a model at a server that may be away.
type reachable interface {
	Reach(ctx context.Context) (said string, err error)
}

// checkModel asks its server before its sight: what a server that is away would
// have said of it is not the operator's to say.
func checkModel(ctx context.Context, id string, m agent.Model) []finding {
	sight := checkSight(id, m.Info(ctx))
	r, ok := m.(reachable)
	if !ok {
		return []finding{sight}
	}
	f := finding{name: id + " model server", ok: true}
	var err error
	if f.text, err = r.Reach(ctx); err != nil {
		f.ok, f.text = false, err.Error()
		switch {
		case errors.Is(err, openai.ErrKey):
			f.fix = "set OPENAI_API_KEY, or the variable that api_key_env names, to a key of this server"
		case errors.Is(err, openai.ErrServer):
			f.fix = "see what is wrong with it, or try again later"
		default:
			f.fix = "start it, or correct OPENAI_BASE_URL (base_url in sightline.yaml)"
		}
		if !sight.ok {
			sight.fix = "mend its server first, which may say so itself; or say it with SIGHTLINE_MODEL_VISION"
		}
	}
	return []finding{f, sight}
}

func checkSight(id string, i agent.ModelInfo) finding {
	f := finding{name: id + " model", ok: true, text: describe(i)}
	if i.Capability.Detail != "" {
		f.text += "; " + i.Capability.Detail
	}
	if !i.Capability.At.IsZero() {
		f.text += ", as of " + i.Capability.At.UTC().Format(time.DateOnly)
	}
	if i.Capability.Vision == agent.VisionUnknown {
		f.ok, f.fix = false, "say whether it sees with SIGHTLINE_MODEL_VISION, or name another model"
	}
	return f
}

func checkTesseract() finding {
	if path, err := exec.LookPath("tesseract"); err == nil {
		return finding{"tesseract", true, path + " (the offline model reads text with it)", ""}
	}
	return finding{"tesseract", true, "not installed: the offline model reads no text (apt install tesseract-ocr)", ""}
}

// checkStores reaches the configured stores; managed ones only run while
// sightline does.
func (s *service) checkStores(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var list []finding
	if s.c.DatabaseURL == "" {
		list = append(list, finding{"database", true, "managed: started with sightline", ""})
	} else {
		list = append(list, s.checkDatabase(ctx)...)
	}
	if !s.c.TemporalSet {
		return append(list, finding{"temporal", true, "managed: started with sightline", ""})
	}
	t, err := s.dial(ctx, places{})
	if err != nil {
		return append(list, finding{"temporal", false, err.Error(), "start it, or correct the TEMPORAL_ variables"})
	}
	defer t.Close()
	if _, err := t.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return append(list, finding{"temporal", false, "does not answer", "start it, or correct the TEMPORAL_ variables"})
	}
	return append(list, finding{"temporal", true, "answers", ""})
}

func (s *service) checkDatabase(ctx context.Context) []finding {
	db, err := checkpoints.Open(ctx, s.c.DatabaseURL, s.log)
	if err != nil {
		return []finding{{"database", false, err.Error(), "start it, or correct DATABASE_URL"}}
	}
	defer db.Close()
	if err := db.Migrate(ctx, "web", web.Migrations); err != nil {
		return []finding{{"database", false, err.Error(), "run the newest version of sightline on it"}}
	}
	list := []finding{{"database", true, "answers, and its schema is up to date", ""}}
	var now time.Time
	if err := db.Pool().QueryRow(ctx, "SELECT now()").Scan(&now); err == nil {
		// Expiries and the audience's 30 seconds are told by this clock.
		d := time.Since(now).Abs()
		f := finding{"clock", d < 5*time.Second, fmt.Sprintf("%s from the database's", d.Round(time.Millisecond)), ""}
		if !f.ok {
			f.fix = "synchronize the clocks of this machine and of the database"
		}
		list = append(list, f)
	}
	return list
}
