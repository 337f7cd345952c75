package rules

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// A tree is what the rules look at: the files that are or would be committed, with slashes, sorted.
type tree struct {
	fsys  fs.FS
	files []string
}

// repository is this repository.
func repository(t testing.TB) tree {
	t.Helper()
	root := repositoryRoot(t)
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		// An archive without its git folder: what is there is all of it.
		return treeOf(t, os.DirFS(root))
	}
	tr := tree{fsys: os.DirFS(root)}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		// A file that was deleted and not yet committed is still listed.
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			tr.files = append(tr.files, name)
		}
	}
	if len(tr.files) < 50 {
		t.Fatalf("only %d files found under %s", len(tr.files), root)
	}
	slices.Sort(tr.files)
	tr.files = slices.Compact(tr.files)
	return tr
}

func repositoryRoot(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return root
}

func treeOf(t testing.TB, fsys fs.FS) tree {
	t.Helper()
	tr := tree{fsys: fsys}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			tr.files = append(tr.files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// example is a tree of the given files, for a rule to refuse or accept.
func example(t testing.TB, files map[string]string) tree {
	t.Helper()
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return treeOf(t, m)
}

func (tr tree) has(name string) bool {
	_, ok := slices.BinarySearch(tr.files, name)
	return ok
}

func (tr tree) read(t testing.TB, name string) string {
	t.Helper()
	b, err := fs.ReadFile(tr.fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// text answers the files that are text, with their content.
func (tr tree) text(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range tr.files {
		if b := tr.read(t, name); !strings.Contains(b[:min(len(b), 8000)], "\x00") {
			out[name] = b
		}
	}
	return out
}

// A goFile is one parsed file of a package.
type goFile struct {
	name string
	test bool
	set  *token.FileSet
	ast  *ast.File
}

// at is a position in the file, for a finding.
func (f goFile) at(p token.Pos) string { return fmt.Sprintf("%s:%d", f.name, f.set.Position(p).Line) }

// imports are the paths that the file imports.
func (f goFile) imports() []string {
	var out []string
	for _, s := range f.ast.Imports {
		out = append(out, strings.Trim(s.Path.Value, `"`))
	}
	return out
}

// packages are all Go files by folder.
func (tr tree) packages(t testing.TB) map[string][]goFile {
	t.Helper()
	out := map[string][]goFile{}
	for _, name := range tr.files {
		if path.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, name, tr.read(t, name), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(name)
		out[dir] = append(out[dir], goFile{name: name, test: strings.HasSuffix(name, "_test.go"), set: set, ast: parsed})
	}
	return out
}

// report fails the test with every finding.
func report(t *testing.T, findings []string) {
	t.Helper()
	slices.Sort(findings)
	for _, f := range findings {
		t.Error(f)
	}
}

// refuses fails the test unless there is a finding with each of the given words.
func refuses(t *testing.T, findings []string, words ...string) {
	t.Helper()
	all := strings.Join(findings, "\n")
	for _, w := range words {
		if !strings.Contains(all, w) {
			t.Errorf("no finding about %q in:\n%s", w, all)
		}
	}
	if len(findings) != len(words) {
		t.Errorf("%d findings, want %d:\n%s", len(findings), len(words), all)
	}
}

func TestTreeIsThisRepository(t *testing.T) {
	tr := repository(t)
	for _, name := range []string{"go.mod", "cmd/sightline/main.go", "tests/rules/doc.go"} {
		if !tr.has(name) {
			t.Errorf("%s is not listed", name)
		}
	}
	b, err := fs.ReadFile(tr.fsys, "go.mod")
	if err != nil || !bytes.HasPrefix(b, []byte("module sightline\n")) {
		t.Fatal(errors.Join(err, errors.New("go.mod is not this module's")))
	}
}
