// Package documenttest is support for tests that read PDFs.
//
// It owns the folder in which test processes share the compiled PDF engine: compiling it takes some seconds, and half a
// minute under the race detector, so that is done once a machine. It refuses to guess: where it can't tell which version
// of the compiler the folder would be for, the test fails, since machine code of another version must never be run.
package documenttest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var compiler = regexp.MustCompile(`(?m)^\s*github\.com/tetratelabs/wazero (\S+)`)

// CacheDir returns the folder to give to document.Options: in the user's cache, beside that of Go itself, and only its
// owner's. Test binaries do not know the versions of their modules, which production ones do and keep apart by
// themselves; here the version is part of the name.
func CacheDir(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			m := compiler.FindSubmatch(b)
			if m == nil {
				t.Fatal("go.mod does not name the compiler of the PDF engine")
			}
			return mine(t, string(m[1]))
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		t.Fatal("no go.mod above the test")
	}
}

func mine(t testing.TB, version string) string {
	base, err := os.UserCacheDir()
	if err != nil { // no home
		return t.TempDir()
	}
	dir := filepath.Join(base, "sightline-test", "pdf-engine", version)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return t.TempDir()
	}
	return dir
}
