package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sightline/checkpoints"
	"sightline/cmd/local"
	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
	"sightline/connectors/web"
)

// The test binary is also the program: scripts run it as sightline.
func TestMain(m *testing.M) {
	testscript.Main(program{m}, map[string]func(){"sightline": main})
}

// echo answers every message through the place, as a turn would.
type echo struct {
	mu     sync.Mutex
	place  *web.Place
	events []chat.Event
	kind   chat.ReplyKind
	text   string // empty: no answer at all
}

func (e *echo) Deliver(ctx context.Context, ev chat.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, ev)
	if e.text == "" {
		return nil
	}
	turn := chat.TurnOf(ev.Message.ID)
	go func() {
		e.place.Progress(context.Background(), chat.Progress{Turn: turn, Place: ev.Place, Text: "looking\x1b[2J closely"})
		select {
		case <-looked: // whoever listens late is told as well
		case <-time.After(time.Minute):
		}
		e.place.Post(context.Background(), chat.Reply{Key: string(turn), Turn: turn, Place: ev.Place, Kind: e.kind, Text: e.text})
	}()
	return nil
}

func (e *echo) Stop(context.Context, chat.ConversationID) error { return nil }

// running serves a place and answers its state directory.
func running(t *testing.T, e *echo) (home string) {
	t.Helper()
	home = t.TempDir()
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Migrate(t.Context(), "web", web.Migrations); err != nil {
		t.Fatal(err)
	}
	l, err := web.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	if e.place, err = web.New(web.Config{Agent: "main", Pool: db.Pool(), Dir: home, Home: home, Listener: l, Sink: e}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.place.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for {
		if _, err := web.OpenClient(home); err == nil {
			return home
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// looked is told that progress has reached somebody.
var looked = make(chan struct{}, 100)

// watched is what a person sees of it.
type watched struct{ bytes.Buffer }

func (w *watched) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("looking")) {
		looked <- struct{}{}
	}
	return w.Buffer.Write(b)
}

func asked(t *testing.T, home, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out bytes.Buffer
	var errs watched
	code = runAsk(t.Context(), args, home, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestAskPrintsTheAnswerAlone(t *testing.T) {
	e := &echo{kind: chat.ReplyAnswer, text: "A **red** square.\x1b]0;title\x07\n"}
	home := running(t, e)
	shot := filepath.Join(t.TempDir(), "shot.svg")
	os.WriteFile(shot, []byte("<svg/>"), 0o600)

	code, out, errs := asked(t, home, "", "--conversation", "work", "what is", "--attach", shot, "--", "--this?")
	if code != 0 || out != "A **red** square.]0;title\n\n" {
		t.Errorf("%d %q %s", code, out, errs)
	}
	if !strings.Contains(errs, "attached shot.svg (image/svg+xml): This is an SVG") || !strings.Contains(errs, "looking[2J closely\n") || strings.ContainsAny(errs, "\x1b\x07") {
		t.Errorf("stderr %q", errs)
	}
	if ev := e.events[0]; ev.Message.Text != "what is --this?" || len(ev.Files) != 1 || ev.Files[0].Name != "shot.svg" {
		t.Errorf("%+v", ev)
	}
	for _, args := range [][]string{{"-"}, {}, {"--attach", shot}} {
		if code, _, errs := asked(t, home, "from a pipe\n", args...); code != 0 {
			t.Errorf("%v: %d %s", args, code, errs)
		}
		if ev := e.events[len(e.events)-1]; ev.Message.Text != "from a pipe" {
			t.Errorf("%v: %q", args, ev.Message.Text)
		}
	}
	// An image alone is a prompt.
	if code, _, errs := asked(t, home, "", "--attach", shot); code != 0 {
		t.Errorf("%d %s", code, errs)
	}
	if a, b := e.events[0].Place.ID, e.events[1].Place.ID; a == b {
		t.Error("two conversations are one")
	}
}

func TestAskFailsWithAReason(t *testing.T) {
	failing := running(t, &echo{kind: chat.ReplyFailure, text: "the model can't be reached"})
	stopped := running(t, &echo{kind: chat.ReplyStopped, text: "Stopped."})
	silent := running(t, &echo{})
	empty := filepath.Join(t.TempDir(), "empty")
	os.WriteFile(empty, nil, 0o600)
	large := filepath.Join(t.TempDir(), "large")
	os.WriteFile(large, make([]byte, 11<<20), 0o600)
	nowhere, pageless := t.TempDir(), t.TempDir()
	held, err := local.OpenHome(pageless)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	for name, c := range map[string]struct {
		home string
		code int
		says string
		args []string
	}{
		"failed":            {failing, 1, "failed: the model can't be reached", []string{"x"}},
		"stopped":           {stopped, 1, "stopped before", []string{"x"}},
		"too late":          {silent, 1, "no answer within 1s", []string{"--timeout", "1s", "x"}},
		"refused":           {silent, 1, "was refused: The file is empty.", []string{"--attach", empty, "x"}},
		"too large":         {silent, 1, "larger than the limit of 10 MiB", []string{"--attach", large, "x"}},
		"no file":           {silent, 1, "no such file", []string{"--attach", empty + "x", "x"}},
		"a folder":          {silent, 1, "no regular file", []string{"--attach", t.TempDir(), "x"}},
		"nothing":           {silent, 1, "nothing to ask", nil},
		"a bad name":        {silent, 1, "Give the conversation a name", []string{"--conversation", " ", "x"}},
		"not running":       {nowhere, 1, "no running sightline found at " + nowhere + "; start it with `sightline`", []string{"x"}},
		"without a page":    {pageless, 1, fmt.Sprintf("(process %d) has no page to ask through: it is still starting, or", os.Getpid()), []string{"x"}},
		"unknown flag":      {silent, 2, "usage:", []string{"--nonsense", "x"}},
		"missing value":     {silent, 2, "usage:", []string{"x", "--attach"}},
		"a bad timeout":     {silent, 2, "usage:", []string{"--timeout", "-1s", "x"}},
		"text far too long": {silent, 1, "64 KiB", []string{strings.Repeat("x", 64<<10+1)}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := asked(t, c.home, "", c.args...)
			if code != c.code || out != "" || !strings.Contains(errs, c.says) {
				t.Errorf("%d %q %s", code, out, errs)
			}
		})
	}
	if code, out, _ := asked(t, silent, "", "--help"); code != 0 || !strings.HasPrefix(out, "usage:") {
		t.Errorf("help: %d %q", code, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	cancel()
	var errs bytes.Buffer
	if code := runAsk(ctx, []string{"x"}, silent, nil, &bytes.Buffer{}, &errs); code != 1 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("interrupted: %d %s", code, errs.String())
	}
}
