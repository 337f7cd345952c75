package local

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// temporalProgram is what runs the server: our devserver, or the Temporal CLI, which can do so too.
type temporalProgram struct {
	path string
	cli  bool
}

// findTemporal answers the devserver named, one built before, the Temporal CLI, or a devserver built now.
func findTemporal(ctx context.Context, c TemporalConfig) (temporalProgram, error) {
	if c.Binary != "" {
		path, err := exec.LookPath(c.Binary)
		if err != nil {
			return temporalProgram{}, fmt.Errorf("use named devserver (SIGHTLINE_DEVSERVER): %w", err)
		}
		path, err = filepath.Abs(path)
		return temporalProgram{path: path}, err
	}
	built, err := devserverPath()
	if err != nil {
		return temporalProgram{}, err
	}
	if usable(built) {
		_ = os.Chtimes(built, time.Time{}, time.Now()) // for dropUnused, which goes by when it was last wanted
		return temporalProgram{path: built}, nil
	}
	if cli, err := exec.LookPath("temporal"); err == nil && filepath.IsAbs(cli) {
		c.Progress.say("using the Temporal CLI (%s) as the local server", cli)
		return temporalProgram{path: cli, cli: true}, nil
	}
	if err := buildDevserver(ctx, built, c.Progress); err != nil {
		return temporalProgram{}, err
	}
	return temporalProgram{path: built}, nil
}

// usable reports whether a built devserver is there: it is put in place whole, so being there is enough.
func usable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o100 != 0
}

// args are the command line on the database, with these ports.
func (p temporalProgram) args(l *temporalLauncher, ports temporalPorts) []string {
	c := l.config
	if p.cli {
		return cliArgs(l.db, c, ports)
	}
	ui := "off"
	if ports.ui != 0 {
		ui = loopback + ":" + strconv.Itoa(ports.ui)
	}
	args := []string{"--db", l.db, "--addr", ports.address(), "--ui-addr", ui, "--namespace", c.Namespace,
		"--log", l.log, "--ready", l.readyFile(), "--parent-pipe"}
	if len(c.SearchAttributes) > 0 {
		args = append(args, "--search-attributes", strings.Join(pairs(c.SearchAttributes), ","))
	}
	return args
}

// cliArgs give the Temporal CLI's server the settings that the devserver has built in.
func cliArgs(db string, c TemporalConfig, ports temporalPorts) []string {
	args := []string{"server", "start-dev", "--db-filename", db, "--namespace", c.Namespace,
		"--ip", loopback, "--port", strconv.Itoa(ports.frontend),
		"--log-format", "json", "--log-level", "warn",
		"--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1",
		"--dynamic-config-value", `history.longPollExpirationInterval="2s"`,
		"--dynamic-config-value", "frontend.enableServerVersionCheck=false",
	}
	for _, queue := range []string{"transfer", "timer", "visibility", "outbound"} {
		args = append(args, "--dynamic-config-value", "history."+queue+"ProcessorMaxPollRPS=100")
	}
	if ports.ui == 0 {
		args = append(args, "--headless")
	} else {
		args = append(args, "--ui-ip", loopback, "--ui-port", strconv.Itoa(ports.ui))
	}
	for _, kv := range pairs(c.SearchAttributes) {
		args = append(args, "--search-attribute", kv)
	}
	return args
}

func pairs(m map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}
