package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pgBin is a folder of Postgres programs that the server's user can run.
type pgBin struct {
	dir   string
	major int
}

func (b pgBin) tool(name string) string { return filepath.Join(b.dir, name) }

// The folders where distributions put Postgres without putting it on PATH.
var pgFolders = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // Fedora, RHEL (PGDG)
	"/usr/libexec/postgresql*",           // Alpine
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// minMajor is the oldest Postgres that the schema is written for.
const minMajor = 14

// findPostgres answers the programs to use. want is the major version of the data that is there, 0 if there is none: a
// Postgres of another major version cannot read it.
func findPostgres(ctx context.Context, c PostgresConfig, cred *syscall.Credential, want int) (pgBin, error) {
	missing := &MissingError{Service: "Postgres", Ways: []string{
		"install it (" + pgInstall() + ")",
		"name its folder of programs in SIGHTLINE_POSTGRES_BIN",
		"set DATABASE_URL to a database of yours",
	}}
	if want > 0 {
		missing.Service = fmt.Sprintf("Postgres %d, which the data in %s needs,", want, c.Dir)
	}
	if c.BinDir != "" {
		// An operator's word is not second-guessed by a search.
		bin, err := probe(ctx, c.BinDir, cred)
		if err != nil {
			return pgBin{}, fmt.Errorf("use configured folder (SIGHTLINE_POSTGRES_BIN): %w", err)
		}
		if want > 0 && bin.major != want {
			return pgBin{}, fmt.Errorf("use configured folder (SIGHTLINE_POSTGRES_BIN): %s is Postgres %d, and the data in %s is of Postgres %d", bin.dir, bin.major, c.Dir, want)
		}
		return bin, nil
	}
	var found []pgBin
	for _, dir := range pgCandidates() {
		bin, err := probe(ctx, dir, cred)
		switch {
		case err != nil:
			missing.Tried = append(missing.Tried, err.Error())
		case want > 0 && bin.major != want, bin.major < minMajor:
			missing.Tried = append(missing.Tried, fmt.Sprintf("%s is Postgres %d", dir, bin.major))
		default:
			found = append(found, bin)
		}
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b pgBin) int { return a.major - b.major }), nil
	}
	if want > 0 && want != npmMajor {
		return pgBin{}, missing
	}
	dir, why := npmPostgres(ctx, c, cred != nil)
	if why == "" {
		bin, err := probe(ctx, dir, cred)
		if err == nil {
			return bin, nil
		}
		why = err.Error()
	}
	missing.Tried = append(missing.Tried, why)
	return pgBin{}, missing
}

// pgCandidates are the folders that have both programs, PATH first, each once.
func pgCandidates() []string {
	var all []string
	for _, d := range filepath.SplitList(os.Getenv("PATH")) {
		// PATH often has links to a few programs of a folder that has them all.
		if real, err := filepath.EvalSymlinks(filepath.Join(d, "postgres")); err == nil && filepath.IsAbs(d) {
			all = append(all, filepath.Dir(real))
		}
	}
	for _, pattern := range pgFolders {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // the patterns are constants
		}
		all = append(all, dirs...)
	}
	var out []string
	for _, d := range all {
		_, err1 := os.Stat(filepath.Join(d, "postgres"))
		_, err2 := os.Stat(filepath.Join(d, "initdb"))
		if err1 == nil && err2 == nil && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

var pgVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// probe runs both programs as the server's user: only that shows that they are there, whole, and within its reach.
func probe(ctx context.Context, dir string, cred *syscall.Credential) (pgBin, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	bin := pgBin{dir: dir}
	for _, name := range []string{"postgres", "initdb"} {
		cmd := exec.CommandContext(ctx, bin.tool(name), "--version")
		cmd.Dir, cmd.Env = "/", pgEnv()
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return pgBin{}, fmt.Errorf("%s does not run: %w %s", bin.tool(name), err, strings.TrimSpace(string(out)))
		}
		m := pgVersion.FindSubmatch(out)
		if m == nil {
			return pgBin{}, fmt.Errorf("%s does not say its version", bin.tool(name))
		}
		if bin.major, err = strconv.Atoi(string(m[1])); err != nil {
			return pgBin{}, fmt.Errorf("%s does not say its version: %w", bin.tool(name), err)
		}
	}
	return bin, nil
}

// pgEnv is our environment without what would change how Postgres's programs behave or speak.
func pgEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PG") || strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANG")
	})
	return append(env, "LC_ALL=C")
}

func pgInstall() string {
	if _, err := exec.LookPath("brew"); err == nil {
		return "brew install postgresql@17"
	}
	if _, err := exec.LookPath("dnf"); err == nil {
		return "dnf install postgresql-server"
	}
	if _, err := exec.LookPath("apk"); err == nil {
		return "apk add postgresql"
	}
	return "apt install postgresql"
}
