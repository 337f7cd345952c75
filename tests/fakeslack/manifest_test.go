package fakeslack_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var manifestBlock = regexp.MustCompile("(?s)\n +```yaml\n( +display_information:.*?)\n +```\n")

// manifestIsSlacks holds the README's manifest against the types that Slack's
// own package has for one: an event that it does not know would make Slack
// refuse the whole.
func manifestIsSlacks(t *testing.T, types string) {
	t.Helper()
	known, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := manifestBlock.FindSubmatch(readme)
	if block == nil {
		t.Fatal("the README has no manifest")
	}
	var m struct {
		Features struct {
			Shortcuts []struct {
				Name, Type, Description string
				Callback                string `yaml:"callback_id"`
			}
		}
		Settings struct {
			Events struct {
				Bot []string `yaml:"bot_events"`
			} `yaml:"event_subscriptions"`
			Interactivity struct {
				Enabled bool `yaml:"is_enabled"`
			}
		}
	}
	if err := yaml.Unmarshal(block[1], &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Settings.Events.Bot) == 0 {
		t.Error("the manifest subscribes to nothing")
	}
	for _, e := range m.Settings.Events.Bot {
		if !strings.Contains(string(known), "'"+e+"'") {
			t.Errorf("Slack has no event %s", e)
		}
	}
	// Slack's limits of a name and a description; a shortcut without
	// interactivity is never told of.
	for _, s := range m.Features.Shortcuts {
		if s.Type != "message" || len(s.Name) > 24 || len(s.Description) > 150 || s.Callback == "" || !m.Settings.Interactivity.Enabled {
			t.Errorf("shortcut %+v, interactivity %t", s, m.Settings.Interactivity.Enabled)
		}
	}
}
