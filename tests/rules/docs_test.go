package rules

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// What a package must say, in its package comment, which may be in doc.go or beside the code.
var (
	saysRefusal = regexp.MustCompile(`(?i)\b(refus\w+|deny|denies|never)\b`)
	saysFailure = regexp.MustCompile(`(?i)\b(fail\w*|errors?|Err[A-Z]\w+|exits?|code 1|no I/O)\b`)
)

// support are packages of tests: their refusals are those of testing.T.
var support = regexp.MustCompile(`(test|testenv)$|^tests/`)

const docLength = 200

func docFindings(t testing.TB, tr tree) []string {
	var out []string
	for dir, files := range tr.packages(t) {
		var doc, name string
		code, docs := false, 0
		for _, f := range files {
			if f.test {
				continue
			}
			code, name = true, f.ast.Name.Name
			if f.ast.Doc != nil {
				docs++
				doc += f.ast.Doc.Text()
			}
		}
		if !code {
			continue
		}
		find := func(format string, args ...any) {
			out = append(out, dir+": the package comment "+fmt.Sprintf(format, args...))
		}
		start := "Package " + name + " "
		if name == "main" {
			start = "Command " + dir[strings.LastIndexByte(dir, '/')+1:] + " "
		}
		switch {
		case docs == 0:
			find("is missing: it says what the package owns, what it refuses and what happens on failure")
			continue
		case docs > 1:
			find("is in several files: keep it in one")
		}
		if !strings.HasPrefix(doc, start) {
			find("does not begin with %q", start)
		}
		if len(doc) < docLength {
			find("is short (%d characters): it says what the package owns, what it refuses and what happens on failure", len(doc))
		}
		if !saysRefusal.MatchString(doc) && !support.MatchString(dir) {
			find("does not say what the package refuses")
		}
		if !saysFailure.MatchString(doc) {
			find("does not say what happens on failure")
		}
	}
	return out
}

func TestPackageDocs(t *testing.T) {
	report(t, docFindings(t, repository(t)))
}

func TestPackageDocsRefuses(t *testing.T) {
	long := strings.Repeat("It owns things that others do not. ", 8)
	refuses(t, docFindings(t, example(t, map[string]string{
		"good/a.go":   "// Package good is good. " + long + "It refuses some and fails with an error.\npackage good\n",
		"cmd/ok/a.go": "// Command ok is good. " + long + "It refuses some and fails with an error.\npackage main\n",
		"none/a.go":   "package none\n",
		"short/a.go":  "// Package short refuses and fails.\npackage short\n",
		"mute/a.go":   "// Package mute owns. " + long + "\npackage mute\n",
		"twice/a.go":  "// Package twice is. " + long + "It refuses and fails.\npackage twice\n",
		"twice/b.go":  "// More of it.\npackage twice\n",
		"other/a.go":  "// Package another is. " + long + "It refuses and fails.\npackage other\n",
		"t/a_test.go": "package t\n",
	})), "none: the package comment is missing", "short: the package comment is short",
		"mute: the package comment does not say what the package refuses", "mute: the package comment does not say what happens",
		"twice: the package comment is in several", `other: the package comment does not begin with "Package other "`)
}
