package rules

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// split is the compose file with its commented service of workers put into
// force, as its comment says to.
func split(text string) string {
	const from = "  # worker:\n"
	before, rest, ok := strings.Cut(text, from)
	if !ok {
		return text
	}
	out := before + "  worker:\n"
	for line := range strings.Lines(rest) {
		if l, commented := strings.CutPrefix(line, "  # "); commented {
			line = "  " + l
		}
		out += line
	}
	return strings.Replace(out, "      SIGHTLINE_HOME: /var/lib/sightline\n", "      SIGHTLINE_HOME: /var/lib/sightline\n      SIGHTLINE_ROLES: connectors,web\n", 1)
}

// TestComposeSplit holds what is commented to what is not: it would be read for
// the first time by somebody who needs it.
func TestComposeSplit(t *testing.T) {
	tr := repository(t)
	text := split(tr.read(t, "docker-compose.yml"))
	findings := slices.DeleteFunc(composeFindings(text, variablesRead(t, tr)), func(f string) bool {
		return strings.Contains(f, `"sightline:local"`) // which the service above builds
	})
	report(t, findings)
	var c compose
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	all, worker := c.Services["sightline"], c.Services["worker"]
	if worker.Image != all.Image || worker.Image == "" {
		t.Fatalf("the workers run %q", worker.Image)
	}
	differ := map[string]string{"SIGHTLINE_ROLES": "workers", "SIGHTLINE_SHARED": all.Environment["SIGHTLINE_HOME"]}
	for _, v := range slices.Sorted(maps.Keys(worker.Environment)) {
		got, want := worker.Environment[v], all.Environment[v]
		if d, ok := differ[v]; ok {
			want = d
		}
		if v == "SIGHTLINE_HOME" == (got == want) {
			t.Errorf("%s of the workers is %q", v, got)
		}
	}
	for _, v := range []string{"DATABASE_URL", "TEMPORAL_ADDRESS", "SIGHTLINE_HOME", "SIGHTLINE_SHARED", "OPENAI_API_KEY"} {
		if _, ok := worker.Environment[v]; !ok {
			t.Errorf("the workers are not told %s", v)
		}
	}
	if !slices.Equal(worker.Volumes, all.Volumes) || !slices.Equal(worker.Healthcheck.Test, all.Healthcheck.Test) || len(worker.Ports) > 0 {
		t.Errorf("volumes %v, healthcheck %v, ports %v", worker.Volumes, worker.Healthcheck.Test, worker.Ports)
	}
	if !worker.ReadOnly || !slices.Equal(worker.CapDrop, all.CapDrop) || !slices.Equal(worker.SecurityOpt, all.SecurityOpt) {
		t.Error("the workers are confined less than the rest")
	}
}
