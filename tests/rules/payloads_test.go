package rules

import (
	"context"
	"fmt"
	"go/ast"
	"reflect"
	"strings"
	"testing"

	"go.temporal.io/sdk/workflow"

	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
	"sightline/workflows"
)

// signals are the payloads that no function's signature shows.
var signals = []any{workflows.MessageSignal{}, workflows.StopSignal{}, workflows.SteerSignal{},
	workflows.ConversationState{}, workflows.TurnProgress{}} // and the answers to queries

var (
	activityContext = reflect.TypeFor[context.Context]()
	workflowContext = reflect.TypeFor[workflow.Context]()
	errorType       = reflect.TypeFor[error]()
)

// payloadFindings walks what would go through a workflow's history. A type may be made of strings, numbers and booleans,
// of structs of the package itself or pointers to them, and of the identifiers of connectors/chat; that leaves no room for bytes, for a
// message's text by accident, or for authority: a Grant would arrive as zero, and a Content or Picture hold pixels.
func payloadFindings(where string, t reflect.Type, home string, seen map[reflect.Type]bool) []string {
	if seen[t] {
		return nil
	}
	seen[t] = true
	const ids = "sightline/connectors/chat"
	bad := func(why string) []string { return []string{fmt.Sprintf("%s: %s %s", where, t, why)} }
	if p := t.PkgPath(); p != "" && p != home && p != ids {
		return bad("is of another package than the payloads' own and connectors/chat")
	}
	switch t.Kind() {
	case reflect.Pointer: // what may be absent
		if t.Elem().PkgPath() != home || t.Elem().Kind() != reflect.Struct {
			return bad("is no identifier, counter or digest")
		}
		return payloadFindings(where, t.Elem(), home, seen)
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
		return nil
	case reflect.Slice:
		if k := t.Elem().Kind(); k == reflect.Uint8 || k == reflect.Int32 {
			return bad("can hold a file")
		}
		return payloadFindings(where+"[]", t.Elem(), home, seen)
	case reflect.Struct:
		if t.PkgPath() != home {
			return bad("is a struct that others can add to")
		}
		var out []string
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				out = append(out, fmt.Sprintf("%s.%s is not exported: it would be lost on the way", where, f.Name))
				continue
			}
			out = append(out, payloadFindings(where+"."+f.Name, f.Type, home, seen)...)
		}
		return out
	}
	return bad("is no identifier, counter or digest")
}

// signatureFindings holds an activity or a workflow to (context, one struct) and (one struct, error) or (error).
func signatureFindings(name string, f reflect.Type, receiver int, first reflect.Type, home string) []string {
	var out []string
	if f.NumIn() != receiver+2 || f.In(receiver) != first {
		out = append(out, fmt.Sprintf("%s does not take (%s, one struct)", name, first))
	}
	if n := f.NumOut(); n == 0 || n > 2 || f.Out(n-1) != errorType {
		out = append(out, name+" does not answer (one struct, error) or (error)")
	}
	walk := func(t reflect.Type, where string) {
		if t != first && t != errorType {
			out = append(out, payloadFindings(where, t, home, map[reflect.Type]bool{})...)
		}
	}
	for i := receiver; i < f.NumIn(); i++ {
		walk(f.In(i), name+" takes")
	}
	for i := range f.NumOut() {
		walk(f.Out(i), name+" answers")
	}
	return out
}

const payloadHome = "sightline/workflows"

func TestPayloads(t *testing.T) {
	var findings []string
	reached := map[string]bool{}
	note := func(t reflect.Type) { reached[t.Name()] = true }
	functions := func(name string, f reflect.Type, receiver int, first reflect.Type) {
		findings = append(findings, signatureFindings(name, f, receiver, first, payloadHome)...)
		for i := range f.NumIn() {
			note(f.In(i))
		}
		for i := range f.NumOut() {
			note(f.Out(i))
		}
	}
	activities := reflect.TypeFor[*workflows.Activities]()
	if activities.NumMethod() < 5 {
		t.Fatalf("%d activities: the rule looks in the wrong place", activities.NumMethod())
	}
	for i := range activities.NumMethod() {
		m := activities.Method(i)
		functions(m.Name, m.Type, 1, activityContext)
	}
	functions("Conversation", reflect.TypeOf(workflows.Conversation), 0, workflowContext)
	functions("Turn", reflect.TypeOf(workflows.Turn), 0, workflowContext)
	functions("Compaction", reflect.TypeOf(workflows.Compaction), 0, workflowContext)
	for _, s := range signals {
		st := reflect.TypeOf(s)
		note(st)
		findings = append(findings, payloadFindings(st.Name(), st, payloadHome, map[reflect.Type]bool{})...)
	}
	report(t, findings)

	// Every payload is declared in payload.go, and every one declared there was looked at.
	declared := map[string]bool{}
	for _, f := range repository(t).packages(t)[workflowsDir] {
		if !strings.HasSuffix(f.name, "/payload.go") {
			continue
		}
		for _, d := range f.ast.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok {
						declared[ts.Name.Name] = true
					}
				}
			}
		}
	}
	if len(declared) < 10 {
		t.Fatalf("payload.go declares %d types", len(declared))
	}
	for name := range declared {
		if !reached[name] {
			t.Errorf("payload %s is no activity's or workflow's: add it to signals, or drop it", name)
		}
	}
}

func TestPayloadsRefuses(t *testing.T) {
	type inner struct{ Pixels []byte }
	type payload struct {
		ID      chat.MessageID
		Calls   []int
		Grant   attachments.Grant
		Content *attachments.Content
		Picture []visual.Picture
		Inner   inner
		Message chat.Message
		Any     any
		Raw     map[string]string
		lost    int
	}
	_ = payload{lost: 0}.lost
	home := reflect.TypeFor[payload]().PkgPath()
	refuses(t, payloadFindings("p", reflect.TypeFor[payload](), home, map[reflect.Type]bool{}),
		"p.Grant: attachments.Grant is of another package", "p.Content: *attachments.Content is no identifier",
		"p.Picture[]: visual.Picture is of another package", "p.Inner.Pixels: []uint8 can hold a file",
		"p.Message: chat.Message is a struct that others can add to", "p.Any: interface {} is no identifier",
		"p.Raw: map[string]string is no identifier", "p.lost is not exported")
	refuses(t, signatureFindings("Bad", reflect.TypeFor[func(context.Context, string, attachments.Grant) int](), 0, activityContext, home),
		"Bad does not take", "Bad does not answer", "Bad takes: attachments.Grant")
}
