package service

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sightline/agent"
)

func read(t *testing.T, env map[string]string, file string) (Config, error) {
	t.Helper()
	dir := t.TempDir()
	if file != "" {
		if err := os.WriteFile(filepath.Join(dir, "sightline.yaml"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ReadConfig(func(k string) string {
		if k == "SIGHTLINE_HOME" {
			return dir
		}
		return env[k]
	})
}

func TestOneAgentFromTheEnvironment(t *testing.T) {
	c, err := read(t, map[string]string{
		"OPENAI_API_KEY": "sk-1", "SIGHTLINE_MODEL": "m", "SIGHTLINE_MODEL_VISION": "yes",
		"DISCORD_TOKEN": "d", "SLACK_BOT_TOKEN": "xoxb", "SLACK_APP_TOKEN": "xapp", "SIGHTLINE_OWNERS": "discord:1, slack:T1/U1",
	}, "")
	if err != nil || len(c.Agents) != 1 {
		t.Fatalf("%+v, %v", c.Agents, err)
	}
	a := c.Agents[0]
	if a.ID != DefaultAgent || !a.Web || a.Discord.token != "d" || a.Slack.bot != "xoxb" || a.Slack.app != "xapp" ||
		a.Model.key != "sk-1" || a.Model.Name != "m" || a.Model.vision != agent.VisionYes ||
		len(a.ownersOn("discord")) != 1 || a.ownersOn("slack")[0] != "T1/U1" {
		t.Errorf("%+v", a)
	}
}

func TestDraftsAreOnUnlessSaid(t *testing.T) {
	for v, want := range map[string]bool{"": true, "on": true, "off": false} {
		if c, err := read(t, map[string]string{"SIGHTLINE_DRAFTS": v}, ""); err != nil || c.Drafts != want {
			t.Errorf("%q: %v, %v", v, c.Drafts, err)
		}
	}
	if _, err := read(t, map[string]string{"SIGHTLINE_DRAFTS": "no"}, ""); err == nil {
		t.Error("SIGHTLINE_DRAFTS=no was taken")
	}
}

func TestAgentsFromAFileShareNothing(t *testing.T) {
	c, err := read(t, map[string]string{"TOKEN_A": "a", "TOKEN_B": "b", "KEY_B": "kb", "OPENAI_API_KEY": "ka"}, `
agents:
  - id: first
    web: true
    discord: {token_env: TOKEN_A}
    owners: ["discord:1"]
  - id: second
    name: The Second
    model: {base_url: "http://127.0.0.1:1/v1", name: local, api_key_env: KEY_B, vision: "no"}
    discord: {token_env: TOKEN_B}
`)
	if err != nil || len(c.Agents) != 2 || c.WebOff {
		t.Fatalf("%+v, %v", c, err)
	}
	a, b := c.Agents[0], c.Agents[1]
	if a.Discord.token != "a" || b.Discord.token != "b" || a.Model.key != "ka" || b.Model.key != "kb" ||
		a.Name != "first" || b.Name != "The Second" || b.Model.vision != agent.VisionNo || len(b.Owners) != 0 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// Each mistake is one line that names it, and no secret is in it.
func TestWrongFilesAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"no agents":           {"agents: []", "names no agents"},
		"an unknown field":    {"agents:\n  - id: a\n    tokens: hunter2", "not as it should be"},
		"a secret as a value": {"agents:\n  - id: a\n    discord: {token: hunter2}", "not as it should be"},
		"a wrong type":        {"agents: hunter2", "not as it should be"},
		"two of one id":       {"agents:\n  - id: a\n  - id: a", "must be unique"},
		"a bad id":            {"agents:\n  - id: A b", "lower-case"},
		"two pages":           {"agents:\n  - {id: a, web: true}\n  - {id: b, web: true}", "one agent's"},
		"a bad owner":         {"agents:\n  - {id: a, owners: [everybody]}", "owner \"everybody\""},
		"an empty token":      {"agents:\n  - {id: a, discord: {token_env: NOWHERE}}", "NOWHERE is empty"},
		"half of Slack":       {"agents:\n  - {id: a, slack: {bot_token_env: SET}}", "Socket Mode"},
		"a bad API":           {"agents:\n  - {id: a, model: {api: grpc}}", "responses or chat"},
		"bad workspaces":      {"agents:\n  - {id: a, workspaces: maybe}", "on or off"},
		"one bot twice":       {"agents:\n  - {id: a, discord: {token_env: SET}}\n  - {id: b, discord: {token_env: SET}}", "agents a and b have the same token"},
		"one workspace twice": {"agents:\n  - {id: a, slack: {bot_token_env: SET, app_token_env: X}}\n  - {id: b, slack: {bot_token_env: SET, app_token_env: Y}}", "agents a and b have the same token"},
		"one app twice":       {"agents:\n  - {id: a, slack: {bot_token_env: X, app_token_env: SET}}\n  - {id: b, slack: {bot_token_env: Y, app_token_env: SET}}", "agents a and b have the same token"},
		"a second document":   {"agents:\n  - id: a\n---\nagents:\n  - id: b", "something after"},
		"a bad address":       {"agents:\n  - {id: a, slack: {bot_token_env: X, signing_secret_env: Y, events_addr: \"3000\"}}", "not host:port"},
		"a bad Discord owner": {"agents:\n  - {id: a, owners: [\"discord:bob\"], discord: {token_env: X}}", "owner \"bob\" is not a user id"},
		"a bad Slack owner":   {"agents:\n  - {id: a, owners: [\"slack:t1/u1\"], slack: {bot_token_env: X, app_token_env: Y}}", "in capitals"},
		"a base without end":  {"agents:\n  - {id: a, slack: {bot_token_env: X, app_token_env: Y, api_url: \"https://x.example/api\"}}", "ends in a slash"},
		"a base in the clear": {"agents:\n  - {id: a, discord: {token_env: X, api_url: \"http://x.example/api\"}}", "has to be https"},
		"no model's name":     {"agents:\n  - {id: a, model: {base_url: \"http://127.0.0.1:1/v1\"}}", "needs the name of a model"},
		"a bad vision":        {"agents:\n  - {id: a, model: {vision: maybe}}", "yes, no or unset"},
	} {
		_, err := read(t, map[string]string{"SET": "hunter2", "X": "x", "Y": "y"}, c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// What is set halfway is said at once, and not taken for a wish to do without.
func TestHalfSettingsAreNamed(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"SLACK_APP_TOKEN is set without SLACK_BOT_TOKEN":        {"SLACK_APP_TOKEN": "xapp"},
		"SLACK_SIGNING_SECRET is set without SLACK_BOT_TOKEN":   {"SLACK_SIGNING_SECRET": "s"},
		"SLACK_EVENTS_ADDR is set without SLACK_SIGNING_SECRET": {"SLACK_BOT_TOKEN": "xoxb", "SLACK_APP_TOKEN": "xapp", "SLACK_EVENTS_ADDR": "127.0.0.1:0"},
		`SIGHTLINE_OPS_ADDR is "9090"`:                          {"SIGHTLINE_OPS_ADDR": "9090"},
	} {
		if _, err := read(t, env, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// One agent with one token in two places is for Slack to refuse: no other agent has it.
	if _, err := read(t, map[string]string{"SLACK_BOT_TOKEN": "xoxb", "SLACK_APP_TOKEN": "xoxb"}, ""); err != nil {
		t.Errorf("one token twice: %v", err)
	}
	// The same names in a file of agents are whatever the file makes of them.
	c, err := read(t, map[string]string{"SLACK_APP_TOKEN": "xapp", "DISCORD_TOKEN": "d", "SIGHTLINE_OWNERS": "discord:1"},
		"agents:\n  - {id: a, web: true}\n  - {id: b, discord: {token_env: DISCORD_TOKEN}}")
	if err != nil || strings.Join(c.Unused, " ") != "SIGHTLINE_OWNERS SLACK_APP_TOKEN" {
		t.Errorf("unused: %v, %v", c.Unused, err)
	}
}

func TestLimitsAreConfiguration(t *testing.T) {
	c, err := read(t, map[string]string{"SIGHTLINE_IMAGE_MAX_MIB": "16", "SIGHTLINE_IMAGE_MAX_DECODED_MIB": "64", "SIGHTLINE_IMAGE_MAX_EDGE": "20000", "SIGHTLINE_IMAGE_MAX_MEGAPIXELS": "64"}, "")
	if err != nil || c.Images.MaxBytes != 16<<20 || c.Images.MaxStorage != 64<<20 || c.Images.MaxEdge != 20000 || c.Images.MaxPixels != 64<<20 || c.Images.MaxWorking < (288+64)<<20 {
		t.Errorf("%+v, %v", c.Images, err)
	}
	for _, bad := range []string{"0", "-1", "8MB", "1e3", "999999"} {
		if _, err := read(t, map[string]string{"SIGHTLINE_IMAGE_MAX_MIB": bad}, ""); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// A process without workers is part of something: of whose Postgres and
// Temporal has to be said. What the processes share has to be said whole.
func TestRoles(t *testing.T) {
	own := map[string]string{"DATABASE_URL": "postgres://x/y", "TEMPORAL_ADDRESS": "x:7233"}
	for v, want := range map[string]string{
		"": "connectors,workers,web", "workers": "workers", " connectors , web": "connectors,web", "bots": "", "workers,": "",
	} {
		env := map[string]string{"SIGHTLINE_ROLES": v}
		for k, x := range own {
			env[k] = x
		}
		c, err := read(t, env, "")
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", v, err)
			continue
		}
		for _, r := range roles {
			if has := strings.Contains(want, r); err == nil && c.Roles[r] != has {
				t.Errorf("%q has %s: %v", v, r, c.Roles[r])
			}
		}
		if err == nil && c.WebOff == c.Roles["web"] {
			t.Errorf("%q: the page is off: %v", v, c.WebOff)
		}
	}
	for _, lacks := range []string{"DATABASE_URL", "TEMPORAL_ADDRESS"} {
		env := map[string]string{"SIGHTLINE_ROLES": "connectors", "DATABASE_URL": own["DATABASE_URL"], "TEMPORAL_ADDRESS": own["TEMPORAL_ADDRESS"]}
		delete(env, lacks)
		if _, err := read(t, env, ""); err == nil || !strings.Contains(err.Error(), lacks) {
			t.Errorf("connectors alone without %s: %v", lacks, err)
		}
	}
	if c, err := read(t, map[string]string{}, ""); err != nil || c.Shared != c.Home {
		t.Errorf("%q, %v", c.Shared, err)
	}
	if c, err := read(t, map[string]string{"SIGHTLINE_SHARED": "/srv/x"}, ""); err != nil || c.Shared != "/srv/x" {
		t.Errorf("%q, %v", c.Shared, err)
	}
	if _, err := read(t, map[string]string{"SIGHTLINE_SHARED": "x"}, ""); err == nil {
		t.Error("a folder relative to who knows what was taken")
	}
}

// A variable that nobody reads is a setting that has no effect, and nobody
// would know.
func TestMisspelt(t *testing.T) {
	c, err := read(t, map[string]string{"SET": "x", "SIGHTLINE_MODELS": "x"}, "agents:\n  - {id: a, discord: {token_env: SIGHTLINE_MODELS}}")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, meant := range c.misspelt([]string{
		"SIGHTLINE_OWNER=x", "SIGHTLINE_WORKSPACE=on", "SIGHTLINE_MODLE_VISION=no", "SIGHTLINE_LOGLEVEL=debug",
		"SIGHTLINE_MODEL=right", "SIGHTLINE_MODELS=asked for by the file", "SIGHTLINE_HOMES=", "SIGHTLINE_OF_TOMORROW=x", "DISCORD_TOKENS=x", "SIGHTLINE_NO_SKIP=1",
	}) {
		got[name] = meant
	}
	want := map[string]string{"SIGHTLINE_OWNER": "SIGHTLINE_OWNERS", "SIGHTLINE_WORKSPACE": "SIGHTLINE_WORKSPACES",
		"SIGHTLINE_MODLE_VISION": "SIGHTLINE_MODEL_VISION", "SIGHTLINE_LOGLEVEL": "SIGHTLINE_LOG_LEVEL"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if f := c.doubts([]string{"SIGHTLINE_OWNER=x"}); len(f) != 1 || f[0].ok || !strings.Contains(f[0].fix, "SIGHTLINE_OWNERS") {
		t.Errorf("%+v", f)
	}
}

func TestAddressesAreAddresses(t *testing.T) {
	for _, name := range []string{"SIGHTLINE_WEB_ADDR", "SIGHTLINE_OPS_ADDR"} {
		for addr, ok := range map[string]bool{
			"127.0.0.1:0": true, "localhost:8080": true, ":65535": true, "[::1]:80": true,
			"8080": false, "127.0.0.1:": false, "127.0.0.1:65536": false, "127.0.0.1:http": false, "127.0.0.1:-1": false, "::1:80": false,
		} {
			_, err := read(t, map[string]string{name: addr}, "")
			if (err == nil) != ok || !ok && !strings.Contains(err.Error(), name+" is \""+addr+"\", which is not host:port") {
				t.Errorf("%s=%s: %v", name, addr, err)
			}
		}
	}
}
