package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const configFile = "cmd/service/config.go"

// variable is a whole name of an environment variable that this program, its libraries or its tests read.
var variable = regexp.MustCompile(`^(SIGHTLINE_[A-Z_]+|OPENAI_[A-Z_]+|TEMPORAL_[A-Z_]+|DATABASE_URL)$`)

// variablesIn are the variables that a file names as a string: config.go asks for each by its name.
func variablesIn(files []goFile, names func(string) bool) []string {
	var out []string
	for _, f := range files {
		if !names(f.name) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				s, err := strconv.Unquote(l.Value)
				if err == nil && variable.MatchString(strings.TrimSuffix(s, "=")) {
					out = append(out, strings.TrimSuffix(s, "="))
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// variablesRead are those of the product: its configuration, and the name of the namespace, which is asked for where
// the Temporal client is made.
func variablesRead(t testing.TB, tr tree) []string {
	t.Helper()
	out := variablesIn(tr.packages(t)["cmd/service"], func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
	if len(out) < 10 {
		t.Fatalf("the configuration reads only %v: the rule looks in the wrong place", out)
	}
	return out
}

var mentioned = regexp.MustCompile(`\b(SIGHTLINE_[A-Z_]+[A-Z]|OPENAI_[A-Z_]+[A-Z]|TEMPORAL_[A-Z_]+[A-Z]|DATABASE_URL)\b`)

// elsewhere are variables that the Temporal SDK's own loader reads.
var elsewhere = []string{"TEMPORAL_API_KEY"}

// readmeFindings compares what is read with what is told. read is the configuration; known is all that any code reads.
func readmeFindings(readme string, read, known []string) []string {
	told := slices.Compact(slices.Sorted(slices.Values(mentioned.FindAllString(readme, -1))))
	var out []string
	for _, v := range read {
		if !strings.Contains(readme, "| `"+v+"` |") {
			out = append(out, fmt.Sprintf("README.md: %s is read and has no row in the table", v))
		}
	}
	for _, v := range told {
		if !slices.Contains(known, v) {
			out = append(out, fmt.Sprintf("README.md: %s is told and nothing reads it", v))
		}
	}
	return out
}

func TestReadmeVariables(t *testing.T) {
	tr := repository(t)
	var all []goFile
	for dir, files := range tr.packages(t) {
		if dir != "tests/rules" {
			all = append(all, files...)
		}
	}
	known := append(variablesIn(all, func(string) bool { return true }), elsewhere...)
	if !slices.Contains(variablesIn(tr.packages(t)["cmd/service"], func(n string) bool { return n == configFile }), "SIGHTLINE_HOME") {
		t.Fatalf("%s does not read SIGHTLINE_HOME: the rule looks in the wrong place", configFile)
	}
	report(t, readmeFindings(tr.read(t, "README.md"), variablesRead(t, tr), known))
}

func TestReadmeVariablesRefuses(t *testing.T) {
	refuses(t, readmeFindings("| `SIGHTLINE_HOME` | x |\nSIGHTLINE_LOG, and SIGHTLINE_OLD\n",
		[]string{"SIGHTLINE_HOME", "SIGHTLINE_LOG"}, []string{"SIGHTLINE_HOME", "SIGHTLINE_LOG"}),
		"SIGHTLINE_LOG is read and has no row", "SIGHTLINE_OLD is told")
}

// commandFindings holds the README to its two commands, and the CI to the second of them with -race.
func commandFindings(readme, ci string) []string {
	var out []string
	has := func(text, line string) bool {
		for l := range strings.Lines(text) {
			if strings.TrimSpace(l) == line {
				return true
			}
		}
		return false
	}
	const start, test = "go run ./cmd/sightline", "go test -timeout 40m ./..."
	for _, c := range []string{start, test} {
		if !has(readme, c) {
			out = append(out, "README.md does not have the command: "+c)
		}
	}
	race := strings.Replace(test, "go test ", "go test -race ", 1)
	if !has(ci, "test() { "+race+"; }") {
		out = append(out, ".ci/run does not run the README's test command with -race: "+race)
	}
	if !has(ci, "export SIGHTLINE_NO_SKIP=1") {
		out = append(out, ".ci/run does not forbid skipping")
	}
	return out
}

func TestCommands(t *testing.T) {
	tr := repository(t)
	report(t, commandFindings(tr.read(t, "README.md"), tr.read(t, ".ci/run")))
}

func TestCommandsRefuses(t *testing.T) {
	refuses(t, commandFindings("    go run ./cmd/sightline\n", "test() { go test -race ./...; }\n"),
		"go test -timeout 40m", ".ci/run does not run", ".ci/run does not forbid")
}

func TestReadmeNamesEveryPackage(t *testing.T) {
	tr := repository(t)
	readme := tr.read(t, "README.md")
	for dir, files := range tr.packages(t) {
		code := slices.ContainsFunc(files, func(f goFile) bool { return !f.test })
		if code && !below("tests", dir) && !strings.Contains(readme, "| `"+dir+"` |") {
			t.Errorf("README.md does not say what %s is", dir)
		}
	}
}
