package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dataMajor is the major version of the data in a folder, 0 if there is none.
func dataMajor(data string) (int, error) {
	b, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(data); err == nil {
			return 0, fmt.Errorf("%s is not Postgres data: move it away", data)
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read version of data: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("read version of data in %s: %w", data, err)
	}
	return n, nil
}

// clearHalfMade is best effort: what stays takes room, and nothing else.
func (l *pgLauncher) clearHalfMade() {
	entries, err := os.ReadDir(l.place.base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "data.new-") {
			_ = os.RemoveAll(filepath.Join(l.place.base, e.Name()))
		}
	}
}

// The locales to try, best first. Text search needs letters beyond ASCII to be letters, which the plain C locale denies,
// and an order that an upgrade of the system does not change, which others deny.
var pgLocales = [][]string{
	{"--locale=C.UTF-8"},
	{"--lc-collate=C", "--lc-ctype=en_US.UTF-8"},
	{"--lc-collate=C", "--lc-ctype=UTF-8"},
	{"--no-locale"},
}

// initData makes the data folder. It is made under another name and renamed, so that a folder named data is always a
// whole one, whenever this process is killed; and each time under a new one, for initdb may outlive a process that is.
func (l *pgLauncher) initData(ctx context.Context, bin pgBin) error {
	start := time.Now()
	l.config.Progress.say("creating the local database (Postgres %d, %s)", bin.major, bin.dir)
	l.clearHalfMade()
	making := l.place.data() + ".new-" + rand.Text()
	defer l.clearHalfMade()
	var out []byte
	var err error
	for _, locale := range pgLocales {
		args := append([]string{"-D", making, "-U", pgRole, "-E", "UTF8", "--auth-local=trust", "--auth-host=reject"}, locale...)
		if l.config.Ephemeral {
			args = append(args, "--no-sync")
		}
		cmd := exec.CommandContext(ctx, bin.tool("initdb"), args...)
		cmd.Dir, cmd.Env = l.place.base, pgEnv()
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: l.place.cred, Setsid: true}
		cmd.WaitDelay = 5 * time.Second
		out, err = cmd.CombinedOutput()
		if err == nil {
			if err := os.Rename(making, l.place.data()); err != nil {
				return fmt.Errorf("put data in place: %w", err)
			}
			l.config.Progress.say("created the local database in %.1fs", time.Since(start).Seconds())
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("create data: %w", ctx.Err())
		}
		if !strings.Contains(string(out), "locale") {
			break
		}
	}
	text := strings.TrimSpace(string(out))
	if len(text) > 1200 {
		text = text[len(text)-1200:]
	}
	return fmt.Errorf("create data: %w: %s", err, strings.ReplaceAll(text, "\n", " | "))
}
