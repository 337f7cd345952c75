package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a server says before a long stack trace is found, and what it said at
// an earlier start is not.
func TestLogged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	text := "old: disk full\n" + `{"msg":"address already in use","stacktrace":"` + strings.Repeat(`main.go:1\n`, 500) + "\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(tail(file, 0), "address already in use") {
		t.Error("the tail has it: this shows nothing")
	}
	if !logged(file, 0, "address already in use") {
		t.Error("not found")
	}
	if logged(file, 15, "disk full") {
		t.Error("what an earlier start said was found")
	}
	if logged(file+"x", 0, "address") {
		t.Error("found in a log that is not there")
	}
}
