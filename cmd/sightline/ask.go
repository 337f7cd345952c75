package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"sightline/cmd/local"
	"sightline/connectors/web"
)

const askUsage = `usage: sightline ask [--conversation NAME] [--attach FILE]... [--timeout 10m] "TEXT"

Asks the running sightline, shows its progress on stderr and prints the answer
alone on stdout. With "-", or without a text, the text is read from stdin.
`

const maxAskText = 64 << 10

// question is what the command line asks for.
type question struct {
	conversation string
	attach       []string
	timeout      time.Duration
	text         string
	fromStdin    bool
}

// runAsk is `sightline ask`: 0 with an answer, 1 without one, 2 for a command
// line that it can't follow.
func runAsk(ctx context.Context, args []string, home string, stdin io.Reader, stdout, stderr io.Writer) int {
	q, err := parseAsk(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, askUsage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "sightline ask: %v\n%s", err, askUsage)
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	answer, err := ask(ctx, q, home, stdin, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "sightline ask: %v\n", err)
		return 1
	}
	fmt.Fprintln(stdout, printable(answer))
	return 0
}

// parseAsk takes flags before and after the text; "--" ends them.
func parseAsk(args []string, stderr io.Writer) (question, error) {
	q := question{}
	fs := flag.NewFlagSet("ask", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&q.conversation, "conversation", "terminal", "")
	fs.DurationVar(&q.timeout, "timeout", 10*time.Minute, "")
	fs.Func("attach", "", func(s string) error {
		q.attach = append(q.attach, s)
		return nil
	})
	var words []string
	for {
		if err := fs.Parse(args); err != nil {
			return q, err
		}
		rest := fs.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			words = append(words, rest...)
			break
		}
		if len(rest) == 0 {
			break
		}
		words, args = append(words, rest[0]), rest[1:]
	}
	q.text = strings.Join(words, " ")
	q.fromStdin = len(words) == 0 || q.text == "-"
	if q.timeout <= 0 {
		return q, errors.New("--timeout must be positive")
	}
	return q, nil
}

func ask(ctx context.Context, q question, home string, stdin io.Reader, stderr io.Writer) (string, error) {
	text := q.text
	if q.fromStdin {
		var err error
		if text, err = readText(ctx, stdin); err != nil {
			return "", err
		}
	}
	if strings.TrimSpace(text) == "" && len(q.attach) == 0 {
		return "", errors.New("there is nothing to ask: give a text, or a file with --attach")
	}
	c, err := web.OpenClient(home)
	if err != nil {
		return "", explain(ctx, err, home, q)
	}
	defer c.Close()
	conv, err := c.Conversation(ctx, q.conversation)
	if err != nil {
		return "", explain(ctx, err, home, q)
	}
	ids, err := hand(ctx, c, conv, q.attach, stderr)
	if err != nil {
		return "", explain(ctx, err, home, q)
	}
	sent, err := c.Send(ctx, conv.ID, web.Draft{Key: web.NewKey(), Text: text, Uploads: ids})
	if err != nil {
		return "", explain(ctx, err, home, q)
	}
	a, err := c.Wait(ctx, conv.ID, sent, func(step string) { fmt.Fprintln(stderr, printable(step)) })
	if err != nil {
		return "", explain(ctx, err, home, q)
	}
	switch a.State {
	case "answered":
		return a.Text, nil
	case "stopped":
		return "", errors.New("stopped before there was an answer")
	case "deleted":
		return "", errors.New("the message was deleted before it was answered")
	}
	if a.Reason == "" {
		a.Reason = "no reason was given"
	}
	return "", fmt.Errorf("failed: %s", printable(a.Reason))
}

// hand uploads the files in order; one that is refused stops it all, since a
// question about a file that is missing is another question.
func hand(ctx context.Context, c *web.Client, conv web.Conversation, paths []string, stderr io.Writer) ([]string, error) {
	var ids []string
	for _, path := range paths {
		data, err := readFile(path, max(conv.MaxBytes, conv.MaxPDF))
		if err != nil {
			return nil, err
		}
		u, err := c.Upload(ctx, conv.ID, filepath.Base(path), data)
		var no *web.RefusedError
		if errors.As(err, &no) {
			return nil, fmt.Errorf("%s was refused: %s", path, no.Sentence)
		}
		if err != nil {
			return nil, err
		}
		line := fmt.Sprintf("attached %s (%s)", u.Name, u.Type)
		if u.Note != "" {
			line += ": " + u.Note
		}
		fmt.Fprintln(stderr, printable(line))
		ids = append(ids, u.ID)
	}
	return ids, nil
}

// readFile reads a regular file, at most max bytes of it.
func readFile(path string, max int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("can't attach: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("can't attach %s: it is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("can't attach: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, fmt.Errorf("can't attach: %w", err)
	}
	if int64(len(data)) > max {
		return nil, fmt.Errorf("%s was refused: it is larger than the limit of %d MiB", path, max>>20)
	}
	return data, nil
}

// readText reads stdin, unless a person sits in front of it who was not asked.
func readText(ctx context.Context, stdin io.Reader) (string, error) {
	if f, ok := stdin.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return "", nil
		}
	}
	if stdin == nil {
		return "", nil
	}
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() { // a read can't be called off; the process ends soon after
		b, err := io.ReadAll(io.LimitReader(stdin, maxAskText+1))
		done <- result{b, err}
	}()
	select {
	case <-ctx.Done():
		return "", errors.New("no text came on stdin in time")
	case r := <-done:
		if r.err != nil {
			return "", fmt.Errorf("read stdin: %w", r.err)
		}
		if len(r.b) > maxAskText {
			return "", fmt.Errorf("the text on stdin is longer than %d KiB: send it as a file with --attach", maxAskText>>10)
		}
		return strings.TrimRight(string(r.b), "\r\n"), nil
	}
}

// explain makes a sentence with a way out of what went wrong.
func explain(ctx context.Context, err error, home string, q question) error {
	switch {
	case errors.Is(err, web.ErrNotRunning) && local.Holder(home) != 0:
		return fmt.Errorf("the sightline at %s (process %d) has no page to ask through: it is still starting, or its page is off (SIGHTLINE_WEB_ADDR, SIGHTLINE_ROLES, or no agent of sightline.yaml has web: true)", home, local.Holder(home))
	case errors.Is(err, web.ErrNotRunning):
		return fmt.Errorf("no running sightline found at %s; start it with `sightline`, or set SIGHTLINE_HOME to where one runs", home)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s; if it comes, it is in the conversation %q on the page", q.timeout, q.conversation)
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("interrupted; if an answer comes, it is in the conversation %q on the page", q.conversation)
	}
	return err
}

// printable keeps what a model or a file name says from steering a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}
