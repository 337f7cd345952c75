package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// killedElsewhere are the boundaries that no turn of tests/e2e's table of kills passes, with where each is killed at or why
// nothing can be lost there.
var killedElsewhere = map[string]string{
	"compact.started":    "a summary is made beside the conversation, which does without it; killed at any of these it is made again or not at all",
	"compact.summarized": "the same",
	"compact.written":    "the same: its row is one statement, and the same turns are not retold twice (workflows/compact_test.go)",
	"begin.started":      "nothing is written before it; Begin alone runs where a turn is stopped before its first inference, or was begun by an older version",
	"event.owed":         "passed only while Temporal is away; what is written is told again by Settle, and a message is answered once however often it is told",
	"tell.started":       "nothing is written before it; what follows is one post by the reply's own key (connectors' conformance: idempotent posts)",
}

// boundariesOf are the names that a package gives to its at hooks: literals, or a variable followed by one, of which
// tests may only know the end.
func boundariesOf(f *ast.File) (out []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok || len(c.Args) != 1 {
			return true
		}
		s, ok := c.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "at" && s.Sel.Name != "At" {
			return true
		}
		switch a := c.Args[0].(type) {
		case *ast.BasicLit:
			if a.Kind == token.STRING {
				v, _ := strconv.Unquote(a.Value)
				out = append(out, v)
			}
		case *ast.BinaryExpr:
			if lit, ok := a.Y.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				v, _ := strconv.Unquote(lit.Value)
				out = append(out, "*"+v)
			}
		}
		return true
	})
	return out
}

// unkilled are the boundaries that are on neither list.
func unkilled(found, learned []string, elsewhere map[string]string) (out []string) {
	for _, b := range found {
		known := elsewhere[b] != "" || slices.ContainsFunc(learned, func(l string) bool {
			return l == b || strings.HasPrefix(b, "*") && strings.HasSuffix(l, b[1:])
		})
		if !known {
			out = append(out, b)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A durable boundary that no kill is tried at is one at which something may be lost or doubled. What the table of kills
// passes is a file beside it, which it compares with what it learns at each run.
func TestEveryBoundaryIsKilledAt(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(repositoryRoot(t), "tests", "e2e", "testdata", "boundaries.txt"))
	if err != nil {
		t.Fatal(err)
	}
	learned := strings.Fields(string(b))
	var found []string
	for dir, files := range repository(t).packages(t) {
		for _, f := range files {
			if !f.test && !strings.HasPrefix(dir, "tests/") {
				found = append(found, boundariesOf(f.ast)...)
			}
		}
	}
	if len(found) < 30 {
		t.Fatalf("only %d boundaries found: %v", len(found), found)
	}
	for _, b := range unkilled(found, learned, killedElsewhere) {
		t.Errorf("no turn that tests/e2e kills passes the boundary %s: make one pass it, or say in killedElsewhere where it is killed at", b)
	}
	// And no list names what is not there.
	for _, l := range learned {
		if !slices.ContainsFunc(found, func(b string) bool { return b == l || strings.HasPrefix(b, "*") && strings.HasSuffix(l, b[1:]) }) {
			t.Errorf("%s is no boundary any more", l)
		}
	}
	for b := range killedElsewhere {
		if !slices.Contains(found, b) || slices.Contains(learned, b) {
			t.Errorf("killedElsewhere names %s, which is no boundary, or is killed at by now", b)
		}
	}
}

func TestBoundaryFindings(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", `package p
func f() { a.at("x.y"); l.at(action + ".fetched"); g.At("event.z"); at("no"); a.at(b); img.At(1, 2) }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := boundariesOf(f)
	if want := []string{"x.y", "*.fetched", "event.z"}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	if got := unkilled(found, []string{"show.fetched"}, map[string]string{"event.z": "there"}); !slices.Equal(got, []string{"x.y"}) {
		t.Errorf("not killed at: %v", got)
	}
}
