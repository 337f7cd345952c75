package service

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sightline/agent"
	"sightline/attachments/visual"
	"sightline/cmd/local"
)

// Config is the environment, read once and checked.
type Config struct {
	Home          string
	Shared        string // where uploads and workspaces are, which every process has to see; default Home
	DatabaseURL   string // empty: managed
	PostgresBin   string
	Devserver     string // a devserver program to use instead of building one
	TemporalSet   bool   // TEMPORAL_ADDRESS or a profile replaces the managed server
	WebAddr       string
	WebOff        bool
	WebRemote     bool // an address beyond loopback was asked for by name
	OpsAddr       string
	APIKey        string
	BaseURL       string
	Model         string
	ModelAPI      string
	Vision        agent.Vision
	LogJSON       bool
	LogLevel      slog.Level
	Roles         map[string]bool
	Drafts        bool // answers are shown while they are made
	TemporalUIURL string
	Images        visual.Limits
	Agents        []AgentConfig
	File          bool     // a file names the agents, not the environment
	Unused        []string // variables that are set and that the file of agents leaves without a use
	Sandbox       SandboxConfig

	asked map[string]bool // the variables that were read
	codec *codec          // of Temporal's payloads; nil: none
}

// DefaultWebAddr is where the web place listens.
const DefaultWebAddr = "127.0.0.1:8080"

var roles = []string{"connectors", "workers", "web"}

// Home is the state directory alone, for whoever needs no more.
func Home(env func(string) string) (string, error) {
	dir := env("SIGHTLINE_HOME")
	if dir == "" {
		dir = local.DefaultHomeDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("SIGHTLINE_HOME: %w", err)
	}
	return dir, nil
}

// ReadConfig checks every variable, and names the first wrong one.
func ReadConfig(getenv func(string) string) (Config, error) {
	asked := map[string]bool{}
	env := func(name string) string {
		asked[name] = true
		return getenv(name)
	}
	c := Config{
		asked:       asked,
		DatabaseURL: env("DATABASE_URL"), PostgresBin: env("SIGHTLINE_POSTGRES_BIN"),
		WebAddr: env("SIGHTLINE_WEB_ADDR"), OpsAddr: env("SIGHTLINE_OPS_ADDR"),
		APIKey: env("OPENAI_API_KEY"), BaseURL: env("OPENAI_BASE_URL"), Model: env("SIGHTLINE_MODEL"), ModelAPI: env("SIGHTLINE_MODEL_API"),
		TemporalSet:   env("TEMPORAL_ADDRESS") != "" || env("TEMPORAL_PROFILE") != "" || env("TEMPORAL_CONFIG_FILE") != "",
		TemporalUIURL: env("SIGHTLINE_TEMPORAL_UI"), Devserver: env("SIGHTLINE_DEVSERVER"),
		Roles: map[string]bool{},
	}
	var err error
	if c.Home, err = Home(env); err != nil {
		return c, err
	}
	if c.Shared = env("SIGHTLINE_SHARED"); c.Shared == "" {
		c.Shared = c.Home
	} else if !filepath.IsAbs(c.Shared) {
		return c, fmt.Errorf("SIGHTLINE_SHARED is %q; it is the absolute path of a folder that all processes see", c.Shared)
	}
	if c.codec, err = readKeys(env("SIGHTLINE_TEMPORAL_KEY")); err != nil {
		return c, err
	}
	if c.DatabaseURL != "" {
		u, err := url.Parse(c.DatabaseURL)
		// The value may hold a password: it is never repeated.
		if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
			return c, fmt.Errorf("DATABASE_URL is not a postgres:// URL")
		}
	}
	switch c.WebAddr {
	case "":
		c.WebAddr = DefaultWebAddr
	case "off":
		c.WebOff = true
	default:
		host, err := hostOf(c.WebAddr)
		if err != nil {
			return c, fmt.Errorf("SIGHTLINE_WEB_ADDR is %q, which is not host:port", c.WebAddr)
		}
		ip := net.ParseIP(host)
		c.WebRemote = host != "localhost" && (ip == nil || !ip.IsLoopback())
	}
	if c.OpsAddr != "" {
		if _, err := hostOf(c.OpsAddr); err != nil {
			return c, fmt.Errorf("SIGHTLINE_OPS_ADDR is %q, which is not host:port", c.OpsAddr)
		}
	}
	if c.BaseURL != "" {
		u, err := url.Parse(c.BaseURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return c, fmt.Errorf("OPENAI_BASE_URL is not an http(s) URL")
		}
	}
	if strings.TrimSpace(c.APIKey) != c.APIKey || strings.ContainsAny(c.APIKey, "\r\n\t ") {
		return c, fmt.Errorf("OPENAI_API_KEY has white space in it")
	}
	switch c.ModelAPI {
	case "", "responses", "chat":
	default:
		return c, fmt.Errorf("SIGHTLINE_MODEL_API is %q; it is responses or chat", c.ModelAPI)
	}
	if c.Vision, err = vision(env("SIGHTLINE_MODEL_VISION")); err != nil {
		return c, fmt.Errorf("SIGHTLINE_MODEL_VISION %w", err)
	}
	switch v := env("SIGHTLINE_LOG"); v {
	case "", "text":
	case "json":
		c.LogJSON = true
	default:
		return c, fmt.Errorf("SIGHTLINE_LOG is %q; it is text or json", v)
	}
	switch v := env("SIGHTLINE_DRAFTS"); v {
	case "", "on":
		c.Drafts = true
	case "off":
	default:
		return c, fmt.Errorf("SIGHTLINE_DRAFTS is %q; it is on or off", v)
	}
	if v := env("SIGHTLINE_LOG_LEVEL"); v != "" {
		if err := c.LogLevel.UnmarshalText([]byte(v)); err != nil {
			return c, fmt.Errorf("SIGHTLINE_LOG_LEVEL is %q; it is debug, info, warn or error", v)
		}
	}
	if err := c.readLimits(env); err != nil {
		return c, err
	}
	if err := c.readSandbox(env); err != nil {
		return c, err
	}
	if err := c.readRoles(env("SIGHTLINE_ROLES")); err != nil {
		return c, err
	}
	return c, c.readAgents(env)
}

func vision(v string) (agent.Vision, error) {
	switch v {
	case "":
		return agent.VisionUnknown, nil
	case "yes":
		return agent.VisionYes, nil
	case "no":
		return agent.VisionNo, nil
	}
	return agent.VisionUnknown, fmt.Errorf("is %q; it is yes, no or unset", v)
}

// readLimits reads what an operator may admit beyond the defaults. Storage
// and working memory are bounded together: whoever admits larger pictures
// admits what decoding them takes.
func (c *Config) readLimits(env func(string) string) error {
	c.Images = visual.DefaultLimits()
	for _, l := range []struct {
		name string
		unit int64
		max  int64
		set  func(int64)
	}{
		{"SIGHTLINE_IMAGE_MAX_MIB", 1 << 20, 64, func(n int64) { c.Images.MaxBytes = n }},
		{"SIGHTLINE_IMAGE_MAX_MEGAPIXELS", 1 << 20, 256, func(n int64) { c.Images.MaxPixels = n }},
		{"SIGHTLINE_IMAGE_MAX_EDGE", 1, 65535, func(n int64) { c.Images.MaxEdge = int(n) }},
		{"SIGHTLINE_IMAGE_MAX_DECODED_MIB", 1 << 20, 1024, func(n int64) {
			c.Images.MaxWorking += max(0, n-c.Images.MaxStorage) * 2
			c.Images.MaxStorage = n
		}},
	} {
		v := env(l.name)
		if v == "" {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 || n > l.max {
			return fmt.Errorf("%s is %q; it is a whole number from 1 to %d", l.name, v, l.max)
		}
		l.set(n * l.unit)
	}
	return nil
}

func (c *Config) readRoles(v string) error {
	if v == "" {
		v = strings.Join(roles, ",")
	}
	for _, r := range strings.Split(v, ",") {
		r = strings.TrimSpace(r)
		known := false
		for _, k := range roles {
			known = known || k == r
		}
		if !known {
			return fmt.Errorf("SIGHTLINE_ROLES names %q; roles are %s", r, strings.Join(roles, ", "))
		}
		c.Roles[r] = true
	}
	if !c.Roles["web"] {
		c.WebOff = true
	}
	// What is managed ends with its process, so others can't count on it.
	if !c.Roles["workers"] && (c.DatabaseURL == "" || !c.TemporalSet) {
		return fmt.Errorf("SIGHTLINE_ROLES is without workers: set DATABASE_URL and TEMPORAL_ADDRESS to those of the processes that have them")
	}
	return nil
}

func (c Config) logger(home string) (*slog.Logger, *os.File, error) {
	f, err := os.OpenFile(filepath.Join(home, "sightline.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the log: %w", err)
	}
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogJSON {
		return slog.New(slog.NewJSONHandler(f, o)), f, nil
	}
	return slog.New(slog.NewTextHandler(f, o)), f, nil
}

// hostOf is the host of an address to listen on.
func hostOf(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return host, err
}
