package rules

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// topLevel is fixed; dotfiles and a licence come on top.
var topLevel = strings.Fields("cmd connectors agent attachments checkpoints sandbox workflows tests go.mod go.sum docker-compose.yml README.md LICENSE")

func topFindings(tr tree) []string {
	var out []string
	for _, f := range tr.files {
		first, _, _ := strings.Cut(f, "/")
		if !strings.HasPrefix(first, ".") && !slices.Contains(topLevel, first) {
			out = append(out, fmt.Sprintf("%s: the top level has %s only", f, strings.Join(topLevel, ", ")))
		}
	}
	return out
}

func TestTopLevel(t *testing.T) {
	tr := repository(t)
	report(t, topFindings(tr))
	for _, f := range []string{"README.md", "LICENSE", "docker-compose.yml", ".ci/run"} {
		if !tr.has(f) {
			t.Errorf("%s is missing", f)
		}
	}
}

func TestTopLevelRefuses(t *testing.T) {
	refuses(t, topFindings(example(t, map[string]string{"cmd/a.go": "", ".gitignore": "", "Dockerfile": "", "pkg/util/a.go": ""})), "Dockerfile", "pkg/util/a.go")
}

// leftovers are what editors, merges and patches leave beside a file.
var leftovers = []string{".orig", ".rej", ".bak", ".swp", ".tmp", "~"}

func leftoverFindings(tr tree) []string {
	var out []string
	for _, f := range tr.files {
		if slices.ContainsFunc(leftovers, func(end string) bool { return strings.HasSuffix(f, end) }) {
			out = append(out, f+" was left behind by a tool")
		}
	}
	return out
}

func TestLeftovers(t *testing.T) {
	report(t, leftoverFindings(repository(t)))
	refuses(t, leftoverFindings(example(t, map[string]string{"a.go": "", "a.go.orig": "", "b.go~": ""})), "a.go.orig", "b.go~")
}

// lines is how long a file may be without a reason.
const lines = 500

// long are the files that are longer, each with its reason.
var long = map[string]string{}

func lengthFindings(t testing.TB, tr tree, reasons map[string]string) []string {
	var out []string
	texts := tr.text(t)
	for name, text := range texts {
		if ext := path.Ext(name); ext == ".json" || ext == ".sum" || strings.Contains(name, "testdata/") {
			continue // nobody writes or reads these as a whole
		}
		n := strings.Count(text, "\n")
		if n > lines && reasons[name] == "" {
			out = append(out, fmt.Sprintf("%s has %d lines: split it, or say in the table why it is over %d", name, n, lines))
		}
		if n <= lines && reasons[name] != "" {
			out = append(out, fmt.Sprintf("%s has %d lines and needs no reason any more", name, n))
		}
	}
	for name := range reasons {
		if _, ok := texts[name]; !ok {
			out = append(out, name+" is gone: drop its reason")
		}
	}
	return out
}

func TestFileLength(t *testing.T) {
	report(t, lengthFindings(t, repository(t), long))
}

func TestFileLengthRefuses(t *testing.T) {
	many := strings.Repeat("x\n", lines+1)
	refuses(t, lengthFindings(t, example(t, map[string]string{"a.go": many, "b.go": many, "c.go": "x\n", "go.sum": many}),
		map[string]string{"b.go": "a table", "c.go": "was long", "d.go": "is gone"}), "a.go has 501", "c.go has 1", "d.go is gone")
}

var (
	// A source of packages that only some machines can reach.
	mirrors = regexp.MustCompile(`(?i)https?://[\w.-]*(artifactory|nexus|goproxy|registry|mirror)[\w.-]*`)
	// An address of a network that is nobody else's.
	privateHost = regexp.MustCompile(`(?i)https?://([\w-]+\.)+(internal|corp|lan|intranet)\b`)
	secrets     = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}\b|\bsk-proj-[A-Za-z0-9_-]{40,}`)
)

// placeFindings keeps the repository free of the place where it was made: where it is checked out, whose home that is,
// where packages came from, and keys. here are absolute folders of this machine.
func placeFindings(t testing.TB, tr tree, here []string) []string {
	var out []string
	for name, text := range tr.text(t) {
		for n, line := range strings.Split(text, "\n") {
			find := func(what string) { out = append(out, fmt.Sprintf("%s:%d names %s", name, n+1, what)) }
			for _, dir := range here {
				if i := strings.Index(line, dir+"/"); i >= 0 && (i == 0 || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/$}", rune(line[i-1]))) {
					find("a folder of one machine")
				}
			}
			if mirrors.MatchString(line) || privateHost.MatchString(strings.ReplaceAll(line, "host.docker.internal", "docker")) {
				find("a host that not everybody reaches")
			}
			if secrets.MatchString(line) {
				find("what looks like a secret key")
			}
		}
	}
	return out
}

func TestNoPlaceOfItsMaking(t *testing.T) {
	root := repositoryRoot(t)
	// A checkout in the root of the file system or in a system's folder says nothing.
	var here []string
	home, _ := os.UserHomeDir()
	for _, dir := range []string{root, filepath.Dir(root), home, os.Getenv("GOMODCACHE"), os.Getenv("GOCACHE")} {
		if len(dir) > 1 && filepath.IsAbs(dir) && !slices.Contains([]string{"/tmp", "/var/tmp", "/usr", "/var", "/home", "/opt", "/srv"}, dir) {
			here = append(here, dir)
		}
	}
	report(t, placeFindings(t, repository(t), here))
}

func TestNoPlaceOfItsMakingRefuses(t *testing.T) {
	refuses(t, placeFindings(t, example(t, map[string]string{
		"a.md":  "see /place/of/mine/notes.md\n",
		"b.go":  "// proxy: https:" + "//goproxy.example.com/x\n",
		"c.yml": "url: http:" + "//build.internal/x\nok: /elsewhere/place/of/mine/x\n",
		"d.txt": "-----BEGIN RSA PRIVATE " + "KEY-----\n",
	}), []string{"/place/of/mine"}), "a.md:1 names a folder", "b.go:1 names a host", "c.yml:1 names a host", "d.txt:1 names what looks")
}
