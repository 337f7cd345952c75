// Command sightline is the agent: `sightline` runs it with everything that it
// needs, `sightline ask` talks to the running one from a terminal.
//
// It owns the command line and nothing else: signals, arguments, exit codes.
// It refuses what it can't follow with code 2 and the usage. On failure it
// says one line on stderr, without a secret in it, and ends with code 1; what
// was under way goes on at the next start.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"sightline/checkpoints"
	"sightline/cmd/service"
	"sightline/connectors/web"
)

const usage = `sightline: an agent with an authorized visual reader

  sightline [run]     start everything and say where to go
  sightline ask       ask the running one: sightline ask [--conversation NAME] [--attach FILE]... "TEXT"
  sightline doctor    look at the settings and try what they name
  sightline inspect   what became of something: sightline inspect [--json] conversation|turn|attachment ID
  sightline migrate   bring the database of DATABASE_URL up to date
  sightline version   print the version

Configuration is in the environment; the README lists it.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	command := "run"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "run", "doctor", "migrate", "version":
		if len(args) > 0 {
			return misuse(stderr, command+" takes no arguments")
		}
	}
	var err error
	switch command {
	case "run":
		err = service.Run(ctx, service.Options{Env: env, Stderr: stderr})
	case "ask":
		home, herr := service.Home(env)
		if herr != nil {
			err = herr
			break
		}
		return runAsk(ctx, args, home, stdin, stdout, stderr)
	case "doctor":
		return service.Doctor(ctx, env, stdout)
	case "inspect":
		return service.Inspect(ctx, args, env, stdout, stderr)
	case "migrate":
		err = migrate(ctx, env, stdout)
	case "version":
		fmt.Fprintln(stdout, version())
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
	default:
		return misuse(stderr, fmt.Sprintf("there is no command %q", command))
	}
	if err != nil {
		fmt.Fprintln(stderr, "sightline:", err)
		return 1
	}
	return 0
}

func misuse(stderr io.Writer, why string) int {
	fmt.Fprintf(stderr, "sightline: %s\n\n%s", why, usage)
	return 2
}

func migrate(ctx context.Context, env func(string) string, stdout io.Writer) error {
	c, err := service.ReadConfig(env)
	if err != nil {
		return err
	}
	if c.DatabaseURL == "" {
		return fmt.Errorf("DATABASE_URL is not set; the managed database is migrated at every start")
	}
	db, err := checkpoints.Open(ctx, c.DatabaseURL, slog.New(slog.DiscardHandler))
	if err != nil {
		return service.Away(err)
	}
	defer db.Close()
	if err := db.Migrate(ctx, "web", web.Migrations); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "the database is up to date")
	return nil
}

func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "sightline (unknown build)"
	}
	v := "sightline " + b.Main.Version + " " + b.GoVersion
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	return v
}
