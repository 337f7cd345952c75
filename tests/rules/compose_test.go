package rules

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// compose is the part of a compose file that is used here. Decoding is strict: a misspelt key is an error, and a key that
// is new here is added together with what must hold for it.
type compose struct {
	Name     string               `yaml:"name"`
	Postgres map[string]string    `yaml:"x-postgres"`
	Services map[string]service   `yaml:"services"`
	Configs  map[string]config    `yaml:"configs"`
	Volumes  map[string]yaml.Node `yaml:"volumes"`
}

type service struct {
	Image       string            `yaml:"image"`
	Build       *build            `yaml:"build"`
	Restart     string            `yaml:"restart"`
	Init        bool              `yaml:"init"`
	ReadOnly    bool              `yaml:"read_only"`
	Tmpfs       []string          `yaml:"tmpfs"`
	CapDrop     []string          `yaml:"cap_drop"`
	SecurityOpt []string          `yaml:"security_opt"`
	StopGrace   string            `yaml:"stop_grace_period"`
	Environment map[string]string `yaml:"environment"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Command     []string          `yaml:"command"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	ExtraHosts  []string          `yaml:"extra_hosts"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Configs []struct {
		Source string `yaml:"source"`
		Target string `yaml:"target"`
	} `yaml:"configs"`
	Healthcheck *struct {
		Test        []string `yaml:"test"`
		Interval    string   `yaml:"interval"`
		Timeout     string   `yaml:"timeout"`
		Retries     int      `yaml:"retries"`
		StartPeriod string   `yaml:"start_period"`
	} `yaml:"healthcheck"`
}

type build struct {
	Context    string `yaml:"context"`
	Dockerfile string `yaml:"dockerfile_inline"`
}

type config struct {
	Content string `yaml:"content"`
}

// ourVariable is one that only Sightline and its libraries read.
var ourVariable = regexp.MustCompile(`^(SIGHTLINE_|OPENAI_|TEMPORAL_|DATABASE_URL$)`)

// versioned is an image with a tag that begins with a number.
var versioned = regexp.MustCompile(`^[a-z0-9./-]+:v?\d[\w.-]*$`)

func composeFindings(text string, read []string) []string {
	var c compose
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return []string{"docker-compose.yml: " + err.Error()}
	}
	var out []string
	for name, s := range c.Services {
		find := func(format string, args ...any) {
			out = append(out, "service "+name+": "+fmt.Sprintf(format, args...))
		}
		images := []string{s.Image}
		if s.Build != nil {
			images = baseImages(s.Build.Dockerfile)
			if len(images) == 0 {
				find("its build has no FROM")
			}
		}
		for _, i := range images {
			if !versioned.MatchString(i) {
				find("image %q is not pinned to a version", i)
			}
		}
		for _, p := range s.Ports {
			parts := strings.Split(p, ":")
			if a, err := netip.ParseAddr(parts[0]); len(parts) != 3 || err != nil || !a.IsLoopback() {
				find("port %s is published beyond loopback", p)
			}
		}
		for on, dep := range s.DependsOn {
			other, ok := c.Services[on]
			switch {
			case !ok:
				find("depends on %s, which is no service", on)
			case dep.Condition == "service_healthy" && other.Healthcheck == nil:
				find("waits for the health of %s, which has no healthcheck", on)
			case dep.Condition == "service_completed_successfully" && other.Restart != "":
				find("waits for the end of %s, which is restarted", on)
			case dep.Condition != "service_healthy" && dep.Condition != "service_completed_successfully":
				find("depends on %s with condition %q", on, dep.Condition)
			}
		}
		for _, f := range s.Configs {
			if _, ok := c.Configs[f.Source]; !ok {
				find("uses config %s, which is none", f.Source)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, ok := c.Volumes[source]; !ok {
				find("uses volume %s, which is none: state lives in a named volume", source)
			}
		}
		if h := s.Healthcheck; h != nil && (len(h.Test) < 2 || h.Test[0] != "CMD" || h.Interval == "" || h.Timeout == "" || h.Retries == 0) {
			find("its healthcheck is not a CMD with interval, timeout and retries")
		}
		if s.Build == nil {
			continue
		}
		for v := range s.Environment {
			if !ourVariable.MatchString(v) || !slices.Contains(read, v) {
				find("sets %s, which the program does not read", v)
			}
		}
		if !strings.Contains(s.Build.Dockerfile, "\nUSER ") || strings.Contains(s.Build.Dockerfile, "\nUSER root") {
			find("runs as root")
		}
		if s.Healthcheck == nil {
			find("has no healthcheck")
		}
	}
	return out
}

// baseImages are the images that a Dockerfile starts from, but not its own stages.
func baseImages(dockerfile string) []string {
	var out, stages []string
	for line := range strings.Lines(dockerfile) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "FROM" {
			continue
		}
		if !slices.Contains(stages, f[1]) {
			out = append(out, f[1])
		}
		if len(f) == 4 && f[2] == "AS" {
			stages = append(stages, f[3])
		}
	}
	return out
}

func TestCompose(t *testing.T) {
	tr := repository(t)
	text := tr.read(t, "docker-compose.yml")
	report(t, composeFindings(text, variablesRead(t, tr)))

	var c compose
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "temporal", "temporal-ui", "sightline"} {
		if _, ok := c.Services[name]; !ok {
			t.Errorf("there is no service %s", name)
		}
	}
	env := c.Services["sightline"].Environment
	for _, v := range []string{"DATABASE_URL", "TEMPORAL_ADDRESS", "SIGHTLINE_HOME", "SIGHTLINE_WEB_ADDR", "SIGHTLINE_OPS_ADDR"} {
		if env[v] == "" {
			t.Errorf("sightline is not told its %s", v)
		}
	}
	// The page answers only under the port that it listens on, so that one must be published as itself.
	_, port, _ := strings.Cut(env["SIGHTLINE_WEB_ADDR"], ":")
	if want := "127.0.0.1:" + port + ":" + port; !slices.Contains(c.Services["sightline"].Ports, want) {
		t.Errorf("sightline does not publish %s", want)
	}
	if !strings.Contains(strings.Join(c.Services["sightline"].Healthcheck.Test, " "), "http://"+env["SIGHTLINE_OPS_ADDR"]+"/readyz") {
		t.Error("the healthcheck does not ask at SIGHTLINE_OPS_ADDR")
	}
	var dynamic map[string]yaml.Node
	if err := yaml.Unmarshal([]byte(c.Configs["temporal"].Content), &dynamic); err != nil || len(dynamic) == 0 {
		t.Errorf("temporal's settings: %v", err)
	}
}

// TestComposeBuildsWithOurGo holds the image to the toolchain of go.mod: an older one would have to download it.
func TestComposeBuildsWithOurGo(t *testing.T) {
	tr := repository(t)
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(tr.read(t, "go.mod"))
	if version == nil {
		t.Fatal("go.mod names no version of Go")
	}
	if !strings.Contains(tr.read(t, "docker-compose.yml"), "FROM golang:"+version[1]+"-") {
		t.Errorf("docker-compose.yml does not build with golang:%s", version[1])
	}
}

func TestComposeRefuses(t *testing.T) {
	read := []string{"DATABASE_URL", "SIGHTLINE_HOME"}
	refuses(t, composeFindings("services:\n  a:\n    imagee: b:1\n", read), "imagee")
	refuses(t, composeFindings(`
services:
  db:
    image: postgres:latest
    ports: ["5432:5432"]
  once:
    image: alpine:3.22
    restart: always
  app:
    build: {context: ., dockerfile_inline: "FROM golang AS build\nFROM build\n"}
    environment: {SIGHTLINE_HOME: /x, SIGHTLINE_HOEM: /x, DATABASE_URL: x}
    depends_on:
      db: {condition: service_healthy}
      once: {condition: service_completed_successfully}
      gone: {condition: service_healthy}
    volumes: ["./here:/there"]
    ports: ["127.0.0.1:8080:8080", "0.0.0.0:1:1"]
`, read),
		`service db: image "postgres:latest"`, "service db: port 5432:5432",
		`service app: image "golang"`, "service app: sets SIGHTLINE_HOEM", "waits for the health of db", "waits for the end of once",
		"depends on gone", "uses volume ./here", "port 0.0.0.0:1:1", "runs as root", "service app: has no healthcheck")
}
