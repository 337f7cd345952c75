package slack

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The README's manifest asks for what the connector uses, and for nothing else:
// Slack refuses a whole manifest for one scope that its features don't allow,
// and everybody who installs the app has to grant each. That it is a manifest at
// all, tests/fakeslack says.
func TestManifestIsWhatIsUsed(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	list := func(name string) (out []string) {
		m := regexp.MustCompile(`(?m)^ +` + name + `: \[([^\]]+)\]`).FindSubmatch(readme)
		if m == nil {
			t.Fatalf("the README's manifest has no %s", name)
		}
		for _, s := range strings.Split(string(m[1]), ",") {
			out = append(out, strings.Trim(strings.TrimSpace(s), `"`))
		}
		slices.Sort(out)
		return out
	}
	var used []string
	for _, s := range scopes {
		used = append(used, s.name)
	}
	slices.Sort(used)
	if asked := list("bot"); !slices.Equal(used, asked) {
		t.Errorf("the manifest asks for %v, the connector uses %v", asked, used)
	}
	for _, e := range list("bot_events") {
		if kind, _, _ := strings.Cut(e, "."); !slices.Contains(read, kind) && !slices.Contains(changesAudience, kind) {
			t.Errorf("the manifest subscribes to %s, which nothing is done with", e)
		}
	}
}
