package service

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"sightline/agent"
	"sightline/agent/openai"
	"sightline/connectors/chat"
	"sightline/connectors/discord"
	"sightline/connectors/slack"
	"sightline/workflows"
)

// AgentConfig is one agent: its own tokens, model, owners and settings.
// Secrets are named by the environment variable that holds them; a file with
// a secret in it is refused.
type AgentConfig struct {
	ID           chat.AgentID   `yaml:"id"`
	Name         string         `yaml:"name"`
	Instructions string         `yaml:"instructions"`
	Owners       []string       `yaml:"owners"` // discord:ID, slack:TEAM/USER
	Model        ModelConfig    `yaml:"model"`
	Web          bool           `yaml:"web"`
	Workspaces   string         `yaml:"workspaces"` // on or off where no owner said otherwise; empty: the environment's
	Discord      *DiscordConfig `yaml:"discord"`
	Slack        *SlackConfig   `yaml:"slack"`
}

// ModelConfig is where an agent's model is; empty fields are the
// environment's.
type ModelConfig struct {
	BaseURL   string `yaml:"base_url"`
	APIKeyEnv string `yaml:"api_key_env"`
	Name      string `yaml:"name"`
	API       string `yaml:"api"`
	Vision    string `yaml:"vision"`

	key    string
	vision agent.Vision
}

// Offline reports whether there is no model to talk to.
func (m ModelConfig) Offline() bool { return m.key == "" && m.BaseURL == "" }

// DiscordConfig is an agent's bot on Discord.
type DiscordConfig struct {
	TokenEnv   string `yaml:"token_env"`
	APIURL     string `yaml:"api_url"`
	AnswerBots bool   `yaml:"answer_bots"`

	token string
}

// SlackConfig is an agent's app on Slack.
type SlackConfig struct {
	BotTokenEnv      string `yaml:"bot_token_env"`
	AppTokenEnv      string `yaml:"app_token_env"`
	SigningSecretEnv string `yaml:"signing_secret_env"`
	APIURL           string `yaml:"api_url"`
	EventsAddr       string `yaml:"events_addr"` // host:port for the signed Events API; empty: Socket Mode
	AnswerBots       bool   `yaml:"answer_bots"`

	bot, app, signing string
}

var agentID = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// readAgents reads the file where there is one, else the one agent that the
// environment describes.
func (c *Config) readAgents(env func(string) string) error {
	path := env("SIGHTLINE_CONFIG")
	if path == "" {
		path = filepath.Join(c.Home, "sightline.yaml")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return c.agentFromEnvironment(env)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("SIGHTLINE_CONFIG: %w", err)
	}
	var f struct {
		Agents []AgentConfig `yaml:"agents"`
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && err != io.EOF {
		// The decoder's words quote values: keep the line alone.
		return fmt.Errorf("%s is not as it should be: %s", path, firstLine(err))
	}
	if err := d.Decode(new(yaml.Node)); err != io.EOF {
		return fmt.Errorf("%s is not as it should be: there is something after the list of agents", path)
	}
	if len(f.Agents) == 0 {
		return fmt.Errorf("%s names no agents", path)
	}
	c.Agents, c.File = f.Agents, true
	if err := c.checkAgents(env); err != nil {
		return err
	}
	c.findUnused(env)
	return nil
}

// findUnused names what describes the one agent of an installation without a
// file. With a file it does nothing, and whoever set it thinks otherwise.
func (c *Config) findUnused(env func(string) string) {
	used := map[string]bool{}
	for _, a := range c.Agents {
		if a.Discord != nil {
			used[a.Discord.TokenEnv] = true
		}
		if s := a.Slack; s != nil {
			used[s.BotTokenEnv], used[s.AppTokenEnv], used[s.SigningSecretEnv] = true, true, true
		}
	}
	for _, v := range []string{"SIGHTLINE_OWNERS", "DISCORD_TOKEN", "DISCORD_API_URL", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_EVENTS_ADDR", "SLACK_API_URL"} {
		if env(v) != "" && !used[v] {
			c.Unused = append(c.Unused, v)
		}
	}
}

var quoted = regexp.MustCompile("`[^`]*`")

func firstLine(err error) string {
	s := strings.ReplaceAll(err.Error(), "\n", " ")
	return quoted.ReplaceAllString(strings.TrimPrefix(s, "yaml: "), "a value")
}

func (c *Config) agentFromEnvironment(env func(string) string) error {
	a := AgentConfig{ID: DefaultAgent, Name: "Sightline", Web: true}
	if o := env("SIGHTLINE_OWNERS"); o != "" {
		a.Owners = strings.Split(o, ",")
	}
	if env("DISCORD_TOKEN") != "" {
		a.Discord = &DiscordConfig{TokenEnv: "DISCORD_TOKEN", APIURL: env("DISCORD_API_URL")}
	}
	if env("SLACK_BOT_TOKEN") == "" {
		for _, v := range []string{"SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_EVENTS_ADDR"} {
			if env(v) != "" {
				return fmt.Errorf("%s is set without SLACK_BOT_TOKEN", v)
			}
		}
	} else {
		if env("SLACK_EVENTS_ADDR") != "" && env("SLACK_SIGNING_SECRET") == "" {
			return errors.New("SLACK_EVENTS_ADDR is set without SLACK_SIGNING_SECRET")
		}
		a.Slack = &SlackConfig{BotTokenEnv: "SLACK_BOT_TOKEN", APIURL: env("SLACK_API_URL")}
		if env("SLACK_APP_TOKEN") != "" {
			a.Slack.AppTokenEnv = "SLACK_APP_TOKEN"
		}
		if env("SLACK_SIGNING_SECRET") != "" {
			a.Slack.SigningSecretEnv, a.Slack.EventsAddr = "SLACK_SIGNING_SECRET", env("SLACK_EVENTS_ADDR")
		}
	}
	c.Agents = []AgentConfig{a}
	return c.checkAgents(env)
}

// checkAgents fills in defaults and secrets, and names what is wrong with
// which agent.
func (c *Config) checkAgents(env func(string) string) error {
	seen := map[chat.AgentID]bool{}
	tokens := map[string]chat.AgentID{}
	pages := 0
	for i := range c.Agents {
		a := &c.Agents[i]
		if !agentID.MatchString(string(a.ID)) || seen[a.ID] {
			return fmt.Errorf("agent %q: the id must be unique, of lower-case letters, digits and dashes", a.ID)
		}
		seen[a.ID] = true
		if a.Name == "" {
			a.Name = string(a.ID)
		}
		if a.Web {
			pages++
		}
		switch a.Workspaces {
		case "", "on", "off":
		default:
			return fmt.Errorf("agent %s: workspaces is %q; it is on or off", a.ID, a.Workspaces)
		}
		for j, o := range a.Owners {
			o = strings.TrimSpace(o)
			a.Owners[j] = o
			platform, id, ok := strings.Cut(o, ":")
			if !ok || id == "" || platform != "discord" && platform != "slack" || platform == "slack" && strings.Count(id, "/") != 1 {
				return fmt.Errorf("agent %s: owner %q is not discord:ID or slack:TEAM/USER", a.ID, o)
			}
		}
		if err := c.checkModel(a, env); err != nil {
			return fmt.Errorf("agent %s: %w", a.ID, err)
		}
		if err := a.readTokens(env); err != nil {
			return fmt.Errorf("agent %s: %w", a.ID, err)
		}
		if err := a.valid(); err != nil {
			return fmt.Errorf("agent %s: %w", a.ID, err)
		}
		// Two agents with one bot would both answer every message; with one
		// app-level token each would hear half of them.
		for _, token := range a.tokens() {
			if other, taken := tokens[token]; taken && other != a.ID {
				return fmt.Errorf("agents %s and %s have the same token; each needs a bot or an app of its own", other, a.ID)
			}
			tokens[token] = a.ID
		}
	}
	if pages > 1 {
		return errors.New("more than one agent has web: true; the page is one agent's")
	}
	if pages == 0 {
		c.WebOff = true
	}
	return nil
}

// valid asks those who will get the settings whether they take them, before
// anything is started that would take minutes. Nobody else is asked.
func (a *AgentConfig) valid() error {
	if !a.Model.Offline() {
		if _, err := openai.New(openai.Config{APIKey: a.Model.key, BaseURL: a.Model.BaseURL, Model: a.Model.Name, API: a.Model.API, Vision: a.Model.vision}); err != nil {
			return fmt.Errorf("%w (it is in OPENAI_BASE_URL, OPENAI_API_KEY, SIGHTLINE_MODEL and SIGHTLINE_MODEL_API, or the agent's model in sightline.yaml)", err)
		}
	}
	if d := a.Discord; d != nil {
		if _, err := discord.New(discord.Config{Agent: a.ID, Token: d.token, APIURL: d.APIURL, Owners: a.ownersOn("discord")}); err != nil {
			return err
		}
	}
	if p := a.Slack; p != nil {
		sc := slack.Config{Agent: a.ID, BotToken: p.bot, AppToken: p.app, SigningSecret: p.signing, APIURL: p.APIURL, Owners: a.ownersOn("slack"), Sink: &workflows.Ingress{}}
		if p.EventsAddr != "" {
			sc.EventsListener = &reopening{addr: p.EventsAddr}
		}
		if _, err := slack.New(sc); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkModel(a *AgentConfig, env func(string) string) error {
	m := &a.Model
	if m.BaseURL == "" {
		m.BaseURL = c.BaseURL
	}
	if m.Name == "" {
		m.Name = c.Model
	}
	if m.API == "" {
		m.API = c.ModelAPI
	}
	m.key, m.vision = c.APIKey, c.Vision
	if m.APIKeyEnv != "" {
		if m.key = env(m.APIKeyEnv); m.key == "" {
			return fmt.Errorf("model: the variable %s is empty", m.APIKeyEnv)
		}
	}
	var err error
	if m.Vision != "" {
		if m.vision, err = vision(m.Vision); err != nil {
			return fmt.Errorf("model: vision %w", err)
		}
	}
	return checkModelNames(m.BaseURL, m.API)
}

func checkModelNames(base, api string) error {
	if base != "" {
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("model: base_url is not an http(s) URL")
		}
	}
	if api != "" && api != "responses" && api != "chat" {
		return fmt.Errorf("model: api is %q; it is responses or chat", api)
	}
	return nil
}

// ownersOn are the owners of one platform, without its name.
func (a AgentConfig) ownersOn(platform string) []string {
	var out []string
	for _, o := range a.Owners {
		if id, ok := strings.CutPrefix(o, platform+":"); ok {
			out = append(out, id)
		}
	}
	return out
}

// tokens are those that no other agent may have.
func (a AgentConfig) tokens() (out []string) {
	if d := a.Discord; d != nil {
		out = append(out, "discord "+strings.TrimPrefix(d.token, "Bot "))
	}
	if s := a.Slack; s != nil {
		out = append(out, "slack "+s.bot)
		if s.app != "" {
			out = append(out, "slack "+s.app)
		}
	}
	return out
}

func (a *AgentConfig) readTokens(env func(string) string) error {
	read := func(name string, required bool, into *string) error {
		if name == "" {
			if required {
				return errors.New("the name of the variable that holds its token is missing")
			}
			return nil
		}
		*into = strings.TrimSpace(env(name))
		if *into == "" {
			return fmt.Errorf("the variable %s is empty", name)
		}
		return nil
	}
	if d := a.Discord; d != nil {
		if err := errors.Join(read(d.TokenEnv, true, &d.token), apiURL(d.APIURL)); err != nil {
			return fmt.Errorf("discord: %w", err)
		}
	}
	if s := a.Slack; s != nil {
		if err := errors.Join(read(s.BotTokenEnv, true, &s.bot), read(s.AppTokenEnv, false, &s.app), read(s.SigningSecretEnv, false, &s.signing), apiURL(s.APIURL)); err != nil {
			return fmt.Errorf("slack: %w", err)
		}
		if s.EventsAddr != "" {
			if _, err := hostOf(s.EventsAddr); err != nil {
				return fmt.Errorf("slack: the address for events is %q, which is not host:port", s.EventsAddr)
			}
		}
		if s.app == "" && (s.signing == "" || s.EventsAddr == "") {
			return errors.New("slack: needs an app-level token for Socket Mode, or a signing secret and events_addr for the Events API")
		}
	}
	return nil
}

func apiURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("api_url is not an http(s) URL")
	}
	return nil
}
