package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A layer says what the packages of one folder may import besides the standard library.
type layer struct {
	ours   []string // packages of this module; "*": any
	others []string // other modules, by prefix; "*": any
	why    string
}

const (
	chatDir        = "connectors/chat"
	attachmentsDir = "attachments"
	visualDir      = "attachments/visual"
	checkpointsDir = "checkpoints"
	agentDir       = "agent"
	workflowsDir   = "workflows"

	pgxModule       = "github.com/jackc/pgx/v5"
	temporalModules = "go.temporal.io/"
	openaiModule    = "github.com/openai/openai-go"
	imageModule     = "golang.org/x/image"
	sysModule       = "golang.org/x/sys"
)

// layers is the design's table of folders. A package that is not here has no rule yet, which is a finding.
var layers = map[string]layer{
	chatDir: {why: "the shared vocabulary is a leaf: it does no I/O and knows no platform"},
	attachmentsDir: {ours: []string{chatDir},
		why: "everything in it could mint a grant, so nothing comes in that it does not need to decide"},
	visualDir: {others: []string{imageModule},
		why: "it reads hostile bytes: it knows no place, no grant and no row that it could give away"},
	"attachments/document": {ours: []string{visualDir},
		others: []string{"github.com/klippa-app/go-pdfium", "github.com/tetratelabs/wazero", "github.com/wlynxg/chardet", "golang.org/x/net/html", "golang.org/x/text"},
		why:    "it reads hostile bytes like visual, whose bounds and pictures it shares: it knows no place, no grant and no row"},
	"attachments/document/documenttest": {why: "support for tests, which says where they keep the compiled PDF engine"},
	checkpointsDir: {ours: []string{chatDir}, others: []string{pgxModule},
		why: "the store keeps rows and translates driver errors; what they mean is decided elsewhere"},
	agentDir: {ours: []string{attachmentsDir, visualDir, "attachments/document", chatDir}, others: []string{"golang.org/x/sync"},
		why: "one inference knows no workflow, no database and no provider"},
	"agent/openai": {ours: []string{agentDir, visualDir}, others: []string{openaiModule},
		why: "the one adapter to a provider: it gets pictures that were authorized, never a grant"},
	"agent/offline": {ours: []string{agentDir, visualDir, chatDir}, others: []string{imageModule},
		why: "a model like another: it gets what every model gets"},
	"agent/tools": {ours: []string{agentDir, attachmentsDir, visualDir, "attachments/document", "sandbox", chatDir},
		why: "a tool asks the authorizer like everybody else; it has no store and no platform"},
	"agent/agenttest": {ours: []string{agentDir, attachmentsDir, visualDir, chatDir},
		why: "fakes stand where the real ones do"},
	workflowsDir: {ours: []string{agentDir, attachmentsDir, visualDir, checkpointsDir, chatDir}, others: []string{temporalModules},
		why: "it orders turns and declares Replier: connectors are joined to it in cmd"},
	"connectors/web": {ours: []string{chatDir, attachmentsDir, visualDir}, others: []string{pgxModule, "github.com/yuin/goldmark"},
		why: "a connector hands events in through a port: it knows neither workflows nor the agent nor another connector; uploads are sniffed at its door"},
	"connectors/connectortest": {ours: []string{chatDir, attachmentsDir},
		why: "the suite sees of a connector only what the rest of the program sees"},
	"sandbox":           {ours: []string{"sandbox/confine"}, others: []string{sysModule}, why: "it runs commands on files it is given: nothing else of ours may come within its reach"},
	"sandbox/confine":   {others: []string{sysModule}, why: "it gives up a thread's rights and decides nothing"},
	"cmd/local":         {others: []string{pgxModule, temporalModules}, why: "it starts services and knows nothing of what they are for"},
	"cmd/local/testenv": {ours: []string{"cmd/local"}, others: []string{pgxModule, temporalModules}, why: "the same services for tests"},
	"cmd/devserver":     {others: []string{"*"}, why: "a module of its own, so that the product's dependencies are the product's"},
	"cmd/telemetry": {ours: []string{workflowsDir, agentDir, attachmentsDir, visualDir, chatDir},
		others: []string{temporalModules, "github.com/prometheus/client_golang", "go.opentelemetry.io/"},
		why:    "it wraps ports from outside, so that what is counted knows nothing of counting"},
	"cmd/service":        {ours: []string{"*"}, others: []string{temporalModules, "go.yaml.in/yaml/v3", "google.golang.org/protobuf/proto"}, why: "joining everything is its job"},
	"cmd/sightline":      {ours: []string{"*"}, why: "the command line of the service"},
	"tests":              {ours: []string{"*"}, others: []string{"*"}, why: "end to end"},
	"connectors/discord": {ours: []string{chatDir, attachmentsDir}, others: []string{"github.com/bwmarrin/discordgo"}, why: "one platform"},
	"connectors/slack":   {ours: []string{chatDir, attachmentsDir}, others: []string{"github.com/slack-go/slack"}, why: "one platform"},
}

// inTests is what test files may import on top of what their package may: a real store and real services instead of
// mocks. Connectors are for the tests of tests/ and cmd, and their own.
var inTests = layer{
	ours: []string{"cmd/local/testenv", "connectors/connectortest", "tests/fakeslack", "tests/fakediscord", "agent/agenttest", "attachments/document/documenttest", "agent/tools", checkpointsDir},
	others: []string{pgxModule, temporalModules, "go.uber.org/goleak", "github.com/rogpeppe/go-internal/testscript", "github.com/stretchr/testify/mock",
		"github.com/chromedp", imageModule, "google.golang.org/grpc", "github.com/prometheus/client_golang", "go.opentelemetry.io/"},
	why: "tests use the real services, through testenv; testify/mock is how Temporal's own test environment takes expectations; grpc is in the signatures of its services",
}

// only lists imports that are closed to everybody else, whatever the rows above say. Test files are free of it where
// said.
var only = []struct {
	path  string // a prefix
	by    []string
	tests bool // test files may, too
	why   string
}{
	{path: openaiModule, by: []string{"agent/openai"}, why: "a change of the provider's library touches one package"},
	{path: "sightline/connectors/web", by: []string{"cmd/"}, tests: true, why: "only cmd joins a connector to the rest"},
	{path: "sightline/connectors/discord", by: []string{"cmd/"}, tests: true, why: "only cmd joins a connector to the rest"},
	{path: "sightline/connectors/slack", by: []string{"cmd/"}, tests: true, why: "only cmd joins a connector to the rest"},
	{path: "sightline/connectors/connectortest", tests: true, why: "a suite of tests is no part of the product"},
	{path: "sightline/cmd/local/testenv", by: []string{"tests/"}, tests: true, why: "test services are no part of the product"},
	{path: "unsafe", by: []string{"sandbox/confine"}, why: "a grant's fields are out of reach only as long as nobody looks behind the types"},
}

func in(list []string, want string, ok func(entry, want string) bool) bool {
	return slices.ContainsFunc(list, func(e string) bool { return e == "*" || ok(e, want) })
}

func equal(a, b string) bool { return a == b }

// below reports whether path is prefix or inside of it.
func below(prefix, path string) bool {
	p := strings.TrimSuffix(prefix, "/")
	return path == p || strings.HasPrefix(path, p+"/")
}

// layerOf finds the row of a folder; everything under tests/ shares one.
func layerOf(dir string) (layer, bool) {
	if below("tests", dir) {
		dir = "tests"
	}
	l, ok := layers[dir]
	return l, ok
}

func importFindings(t testing.TB, tr tree) []string {
	var out []string
	for dir, files := range tr.packages(t) {
		l, ok := layerOf(dir)
		if !ok {
			out = append(out, fmt.Sprintf("%s: no import rule for this package: add a row with its reason to the table", dir))
			continue
		}
		for _, f := range files {
			for _, imp := range f.imports() {
				ours, isOurs := strings.CutPrefix(imp, "sightline/")
				first, _, _ := strings.Cut(imp, "/")
				switch {
				case isOurs && f.test && ours == dir: // a test of the package from outside
				case isOurs:
					if !in(l.ours, ours, equal) && !(f.test && in(inTests.ours, ours, equal)) {
						out = append(out, fmt.Sprintf("%s imports %s: %s", f.name, imp, l.why))
					}
				case strings.Contains(first, "."):
					if !in(l.others, imp, below) && !(f.test && in(inTests.others, imp, below)) {
						out = append(out, fmt.Sprintf("%s imports %s: %s", f.name, imp, l.why))
					}
				}
				for _, o := range only {
					allowed := slices.ContainsFunc(o.by, func(by string) bool { return below(by, dir) })
					if below(o.path, imp) && !allowed && !(o.tests && f.test) && !(o.tests && below("tests", dir)) {
						out = append(out, fmt.Sprintf("%s imports %s: %s", f.name, imp, o.why))
					}
				}
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

func TestImports(t *testing.T) {
	report(t, importFindings(t, repository(t)))
}

func TestImportsRefuses(t *testing.T) {
	file := func(pkg string, imports ...string) string {
		s := "package " + pkg + "\n"
		for _, i := range imports {
			s += "import _ \"" + i + "\"\n"
		}
		return s
	}
	refuses(t, importFindings(t, example(t, map[string]string{
		"connectors/chat/a.go":               file("chat", "time", "github.com/google/uuid"),
		"attachments/visual/a.go":            file("visual", "golang.org/x/image/webp", "sightline/connectors/chat"),
		"attachments/a.go":                   file("attachments", "sightline/checkpoints"),
		"attachments/a_test.go":              file("attachments_test", "sightline/attachments", "sightline/cmd/local/testenv"),
		"agent/a.go":                         file("agent", "sightline/attachments/visual", "sightline/workflows"),
		"agent/tools/a.go":                   file("tools", "github.com/openai/openai-go/v3"),
		"checkpoints/a.go":                   file("checkpoints", "sightline/cmd/local/testenv"),
		"checkpoints/a_test.go":              file("checkpoints", "sightline/connectors/web"),
		"workflows/a.go":                     file("workflows", "sightline/connectors/web", "unsafe"),
		"connectors/web/a.go":                file("web", "sightline/connectors/slack"),
		"cmd/service/a.go":                   file("service", "sightline/connectors/web", "sightline/workflows"),
		"cmd/devserver/a.go":                 file("main", "sightline/cmd/local"),
		"tests/e2e/a.go":                     file("e2e", "sightline/connectors/web", "sightline/cmd/local/testenv", "example.com/anything"),
		"helpers/a.go":                       file("helpers"),
		"sandbox/testdata/ignored.go":        file("x", "sightline/attachments"),
		"connectors/connectortest/a.go":      file("connectortest", "sightline/attachments"),
		"connectors/web/suite_test.go":       file("web", "sightline/connectors/connectortest"),
		"connectors/discord/a.go":            file("discord", "sightline/connectors/chat"),
		"connectors/discord/discord_test.go": file("discord", "sightline/connectors/web"),
	})),
		"connectors/chat/a.go imports github.com/google/uuid",
		"attachments/visual/a.go imports sightline/connectors/chat",
		"attachments/a.go imports sightline/checkpoints",
		"agent/a.go imports sightline/workflows",
		"agent/tools/a.go imports github.com/openai/openai-go/v3: a tool",
		"agent/tools/a.go imports github.com/openai/openai-go/v3: a change",
		"checkpoints/a.go imports sightline/cmd/local/testenv: the store",
		"checkpoints/a.go imports sightline/cmd/local/testenv: test services",
		"checkpoints/a_test.go imports sightline/connectors/web",
		"workflows/a.go imports sightline/connectors/web: it orders",
		"workflows/a.go imports sightline/connectors/web: only cmd",
		"workflows/a.go imports unsafe",
		"connectors/web/a.go imports sightline/connectors/slack: a connector",
		"connectors/web/a.go imports sightline/connectors/slack: only cmd",
		"cmd/devserver/a.go imports sightline/cmd/local",
		"helpers: no import rule",
		"connectors/discord/discord_test.go imports sightline/connectors/web",
	)
}

// TestImportTableIsUsed keeps rows of packages that are gone from standing for something. Those of packages that are
// still to come are there because their place is decided.
func TestImportTableIsUsed(t *testing.T) {
	there := repository(t).packages(t)
	coming := []string{"connectors/discord", "connectors/slack"}
	for dir, l := range maps.All(layers) {
		_, ok := there[dir]
		ok = ok || dir == "tests" || slices.Contains(coming, dir)
		if !ok {
			t.Errorf("there is no package %s any more: drop its row", dir)
		}
		if len(l.why) < 10 {
			t.Errorf("the row of %s has no reason", dir)
		}
	}
}
