// Command devserver is a Temporal server on a SQLite file, with its Web UI: the durable engine under a Sightline that
// was given no TEMPORAL_ADDRESS. It is a module of its own, so that its several hundred dependencies are not Sightline's.
//
// It owns one database file, which it locks: a second devserver on the file waits for the first to end, and gives up
// with an error. It refuses to listen on anything but loopback, because neither the server nor the UI asks who calls.
//
//	[lock the file] -> [schema, namespace] -> [server] -> [search attributes] -> ready file
//	                                                                                |
//	       exit 0 <- [stop] <-- SIGTERM, SIGINT, or (with --parent-pipe) end of stdin
//
// On failure it ends with one line on stderr and exit code 1. Killed at any moment, it leaves a file that the next start
// can use: an interrupted schema is noticed and made again, everything later is SQLite's to keep.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

// stopPatience is how long an orderly stop may take. The server's own workers often take most of a minute, for nothing
// that matters here: what was acknowledged is in the file, and a file that is left in the middle is whole.
const stopPatience = time.Second

func main() {
	o, err := parseFlags(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2) // the flag package has said why
	}
	// Its heap is some tens of megabytes of short lives: collecting them less often is a tenth of its time. GOGC overrides.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if o.parentPipe {
		ctx = untilEOF(ctx, os.Stdin)
	}
	// Whatever a stop hangs on, it ends: what the next start waits for is the lock on the file.
	context.AfterFunc(ctx, func() {
		time.Sleep(5 * stopPatience)
		os.Exit(0)
	})
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "devserver:", err)
		os.Exit(1)
	}
}

type options struct {
	db, addr, uiAddr string
	namespace        string
	attributes       attributeFlag
	log, logLevel    string
	ready            string
	parentPipe       bool
	retention        time.Duration
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("devserver", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.db, "db", "", "SQLite `file`, created if need be")
	f.StringVar(&o.addr, "addr", "127.0.0.1:7233", "loopback `host:port` of the server; port 0 picks a free one")
	f.StringVar(&o.uiAddr, "ui-addr", "127.0.0.1:8233", "loopback `host:port` of the Web UI; port 0 picks a free one, off has none")
	f.StringVar(&o.namespace, "namespace", "default", "namespace to create")
	f.Var(&o.attributes, "search-attributes", "`name=Type,...` to add to the namespace, such as Place=Keyword")
	f.StringVar(&o.log, "log", "", "log `file`; stderr if empty")
	f.StringVar(&o.logLevel, "log-level", "warn", "debug, info, warn or error")
	f.StringVar(&o.ready, "ready", "", "`file` to write, once the server answers, with its addresses and process ID as JSON")
	f.BoolVar(&o.parentPipe, "parent-pipe", false, "end when stdin does, which is when the process that holds the other end does")
	f.DurationVar(&o.retention, "retention", 7*24*time.Hour, "how long a new namespace keeps the history of closed workflows")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	err := func() error {
		if f.NArg() > 0 {
			return fmt.Errorf("unexpected argument %q", f.Arg(0))
		}
		if o.db == "" {
			return fmt.Errorf("--db is required")
		}
		if err := checkLoopback(o.addr); err != nil {
			return fmt.Errorf("--addr: %w", err)
		}
		if o.uiAddr == "off" {
			return nil
		}
		if err := checkLoopback(o.uiAddr); err != nil {
			return fmt.Errorf("--ui-addr: %w", err)
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(out, "devserver:", err)
	}
	return o, err
}

// untilEOF ends the context when r does: the kernel closes a dead parent's end of a pipe, however it died.
func untilEOF(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r) // an error is an end too
		cancel()
	}()
	return ctx
}

// run serves until ctx ends.
func run(ctx context.Context, o options) error {
	log, err := openLog(o.log, o.logLevel)
	if err != nil {
		return err
	}
	lock, err := lockDatabase(ctx, o.db)
	if err != nil {
		return err
	}
	defer lock.Close()
	ports, err := choosePorts(o.addr, o.uiAddr)
	if err != nil {
		return err
	}
	config := serverConfig(o.db, ports)
	if err := prepare(o, config); err != nil {
		return err
	}
	server, err := newServer(config, ports, log)
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	if err := ensureAttributes(ctx, ports.frontend(), o.namespace, o.attributes); err != nil {
		return err // the process ends, and with it the server
	}
	stopUI, err := startUI(ctx, ports, o.namespace)
	if err != nil {
		return err
	}
	defer stopUI()
	if o.ready != "" {
		r := readyFile{Address: ports.frontend(), UI: ports.uiURL(), Namespace: o.namespace, PID: os.Getpid()}
		if err := r.write(o.ready); err != nil {
			return err
		}
		defer os.Remove(o.ready)
	}
	<-ctx.Done()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop() }()
	select {
	case err := <-stopped:
		return err
	case <-time.After(stopPatience):
		return nil
	}
}
