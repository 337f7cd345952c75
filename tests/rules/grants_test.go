package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"testing"
)

// grantFindings holds that a Grant can be made in one place only. Its fields are unexported, so no other package can
// fill them; inside of the package, mint is the one function that writes them and Authorize the one that calls it.
func grantFindings(t testing.TB, tr tree) []string {
	var out []string
	for dir, files := range tr.packages(t) {
		for _, f := range files {
			// Tests try grants that open nothing.
			if f.test || support.MatchString(dir) {
				continue
			}
			find := func(p token.Pos, format string, args ...any) {
				out = append(out, f.at(p)+": "+fmt.Sprintf(format, args...))
			}
			// The zero Grant opens nothing, but who makes one has misunderstood: it comes from Authorize.
			if dir != attachmentsDir {
				ast.Inspect(f.ast, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.CompositeLit:
						if isGrant(n.Type) {
							find(n.Pos(), "a grant is made outside of attachments")
						}
					case *ast.CallExpr:
						if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "new" && len(n.Args) == 1 && isGrant(n.Args[0]) {
							find(n.Pos(), "a grant is made outside of attachments")
						}
					case *ast.Field: // of a struct, a parameter or a result
						if isGrant(n.Type) && len(n.Names) == 0 && n.Tag == nil && !inFuncType(f.ast, n) {
							find(n.Pos(), "a grant is embedded: its holder would take over its methods, and print or marshal as one")
						}
					}
					return true
				})
				continue
			}
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					if g, ok := d.(*ast.GenDecl); ok {
						for _, s := range g.Specs {
							exportedFields(s, func(field *ast.Ident) { find(field.Pos(), "field %s of a grant is exported", field.Name) })
						}
					}
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.CompositeLit:
						id, ok := n.Type.(*ast.Ident)
						if ok && (id.Name == "Grant" || id.Name == "seal") && len(n.Elts) > 0 && fn.Name.Name != "mint" {
							find(n.Pos(), "%s fills a grant: only mint does", fn.Name.Name)
						}
					case *ast.CallExpr:
						if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "mint" && fn.Name.Name != "Authorize" {
							find(n.Pos(), "%s mints a grant: only Authorize does", fn.Name.Name)
						}
					}
					return true
				})
			}
		}
	}
	return out
}

func isGrant(e ast.Expr) bool {
	if p, ok := e.(*ast.StarExpr); ok {
		e = p.X
	}
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == "attachments" && s.Sel.Name == "Grant"
}

// inFuncType reports whether a nameless field is a parameter or a result.
func inFuncType(file *ast.File, f *ast.Field) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		if ft, ok := n.(*ast.FuncType); ok {
			for _, l := range []*ast.FieldList{ft.Params, ft.Results} {
				for _, g := range listOf(l) {
					found = found || g == f
				}
			}
		}
		return !found
	})
	return found
}

func listOf(l *ast.FieldList) []*ast.Field {
	if l == nil {
		return nil
	}
	return l.List
}

func exportedFields(s ast.Spec, found func(*ast.Ident)) {
	ts, ok := s.(*ast.TypeSpec)
	if !ok || ts.Name.Name != "Grant" && ts.Name.Name != "seal" {
		return
	}
	st, ok := ts.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range listOf(st.Fields) {
		for _, n := range f.Names {
			if n.IsExported() {
				found(n)
			}
		}
	}
}

func TestOnlyAttachmentsMakesGrants(t *testing.T) {
	report(t, grantFindings(t, repository(t)))
}

// TestGrantIsWhereTheRuleLooks fails when the names that the rule knows are gone: it would then refuse nothing.
func TestGrantIsWhereTheRuleLooks(t *testing.T) {
	names := map[string]bool{}
	for _, f := range repository(t).packages(t)[attachmentsDir] {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				names["type "+n.Name.Name] = true
			case *ast.FuncDecl:
				names["func "+n.Name.Name] = true
			}
			return true
		})
	}
	for _, n := range []string{"type Grant", "type seal", "func mint", "func Authorize"} {
		if !names[n] {
			t.Errorf("attachments has no %s", n)
		}
	}
}

func TestGrantRuleRefuses(t *testing.T) {
	refuses(t, grantFindings(t, example(t, map[string]string{
		"attachments/grant.go": `package attachments
type seal struct { agent string; Attachment string }
type Grant struct { s *seal }
func mint() Grant { return Grant{&seal{agent: "a"}} }
func forge() Grant { return Grant{s: nil} }
`,
		"attachments/authorizer.go": `package attachments
func (a *Authorizer) Authorize() Grant { if bad { return Grant{} }; return mint() }
func (a *Authorizer) Shortcut() Grant { return mint() }
`,
		"agent/a.go": `package agent
type holder struct { attachments.Grant }
type source interface { Fetch(attachments.Grant) (attachments.Grant, error) }
func f() { use(attachments.Grant{}); use(new(attachments.Grant)) }
func g(g attachments.Grant) { source.Fetch(g) }
`,
	})), "field Attachment of a grant is exported", "forge fills a grant", "Shortcut mints a grant",
		"agent/a.go:2: a grant is embedded", "agent/a.go:4: a grant is made", "agent/a.go:4: a grant is made")
}
