package local

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nowhere makes every search fail.
func nowhere(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
	folders, tool, cache := pgFolders, usualGo, rootCache
	pgFolders, usualGo, rootCache = nil, filepath.Join(t.TempDir(), "go"), filepath.Join(t.TempDir(), "cache")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Cleanup(func() { pgFolders, usualGo, rootCache = folders, tool, cache })
}

func TestMissingPostgresNamesTheWaysOut(t *testing.T) {
	nowhere(t)
	_, err := StartPostgres(t.Context(), PostgresConfig{Dir: folder(t)})
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	for _, want := range []string{"apt install postgresql", "DATABASE_URL", "SIGHTLINE_POSTGRES_BIN", "npm"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q does not say %q in one line", err, want)
		}
	}
}

func TestConfiguredFolderIsNotSecondGuessed(t *testing.T) {
	broken := folder(t)
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte("#!/bin/sh\necho no luck; exit 3\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{broken: "no luck", filepath.Join(broken, "none"): "no such file"} {
		_, err := StartPostgres(t.Context(), PostgresConfig{Dir: folder(t), BinDir: dir})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "SIGHTLINE_POSTGRES_BIN") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestDataOfAnotherVersionIsNotTouched(t *testing.T) {
	dir := folder(t)
	p := startPostgres(t, PostgresConfig{Dir: dir, Ephemeral: true})
	data := query[string](t, p.URL(), "SHOW data_directory")
	stopped(t, p)
	version := filepath.Join(data, "PG_VERSION")
	was, err := os.ReadFile(version)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(version, []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = StartPostgres(t.Context(), PostgresConfig{Dir: dir, NoDownload: true})
	var missing *MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "Postgres 9, which the data in "+dir+" needs") {
		t.Error(err)
	}
	if err := os.WriteFile(version, was, 0o600); err != nil {
		t.Fatal(err)
	}
	startPostgres(t, PostgresConfig{Dir: dir, Ephemeral: true})

	if err := os.Remove(version); err != nil {
		t.Fatal(err)
	}
	if _, err := dataMajor(data); err == nil {
		t.Error("a folder without a version passes for no data")
	}
}

func TestPostgresOfNPM(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil && os.Getenv("SIGHTLINE_NO_SKIP") != "1" {
		t.Skip("this test needs npm: install Node.js (set SIGHTLINE_NO_SKIP=1 to fail instead)")
	}
	if err != nil {
		t.Fatal(err)
	}
	cache, userCache := rootCache, os.Getenv("XDG_CACHE_HOME")
	nowhere(t)
	rootCache = cache // fetched once a machine
	t.Setenv("XDG_CACHE_HOME", userCache)
	// Nothing but npm and what it runs on.
	tools := t.TempDir()
	for _, name := range []string{"node", "env", "sh"} {
		if path := find(name); path != "" {
			if err := os.Symlink(path, filepath.Join(tools, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink(npm, filepath.Join(tools, "npm")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools)
	p, err := StartPostgres(t.Context(), PostgresConfig{Dir: folder(t), Ephemeral: true, Progress: t.Logf})
	var missing *MissingError
	if errors.As(err, &missing) && strings.Contains(err.Error(), "fetching") && os.Getenv("SIGHTLINE_NO_SKIP") != "1" {
		t.Skipf("this test needs the npm registry: %v (set SIGHTLINE_NO_SKIP=1 to fail instead)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer stopped(t, p)
	if got := query[string](t, p.URL(), "SHOW server_version"); !strings.HasPrefix(got, "18.") {
		t.Errorf("version %s", got)
	}
	if got := query[string](t, p.URL(), "SELECT upper('ж')"); got != "Ж" {
		t.Errorf("upper of ж is %q", got)
	}
	if got := query[int](t, p.URL(), "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_trgm'"); got != 1 {
		t.Error("pg_trgm is not there")
	}
}

func find(name string) string {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin"} {
		if path := filepath.Join(dir, name); fileExists(path) {
			return path
		}
	}
	return ""
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
