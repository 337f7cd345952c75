package fakeslack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sightline/tests/fakeslack"
)

// skip leaves the test out where its tools can't be had.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("SIGHTLINE_NO_SKIP") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// TestSlackOwnClient holds the fake against Slack's own packages for Node: it
// is worth as much as what others read from it.
func TestSlackOwnClient(t *testing.T) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, "%s is missing: install Node.js 20 or newer", tool)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	install := exec.CommandContext(ctx, "npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir,
		"@slack/socket-mode@2.0.5", "@slack/web-api@7.14.0")
	if out, err := install.CombinedOutput(); err != nil {
		skip(t, "Slack's packages can't be installed with npm: %v\n%s", err, out)
	}
	manifestIsSlacks(t, filepath.Join(dir, "node_modules/@slack/web-api/dist/types/request/manifest.d.ts"))
	s, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.RetryEvery(200 * time.Millisecond)
	s.AddChannel(fakeslack.Channel{ID: "C1", IsChannel: true, Members: []string{"U1", fakeslack.BotUser}})
	s.Fail("auth.test", fakeslack.Failure{Status: 429, RetryAfter: 1, Times: 1})

	node := exec.CommandContext(ctx, "node", "testdata/client.mjs")
	node.Env = append(os.Environ(), "MODULES="+dir, "API="+s.URL(), "BOT_TOKEN="+fakeslack.BotToken, "APP_TOKEN="+fakeslack.AppToken)
	node.Stderr = os.Stderr
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	expect := func(want map[string]any) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the client ended before %v", want)
		}
		var got map[string]any
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	expect(map[string]any{"got": "auth", "team": fakeslack.Team, "scopes": true})
	expect(map[string]any{"got": "started"})
	f := s.Upload("x.png", "image/png", []byte("png"))
	if _, err := s.Post(fakeslack.Message{Channel: "C1", User: "U1", Text: "hi", Files: []fakeslack.File{f}}); err != nil {
		t.Fatal(err)
	}
	expect(map[string]any{"got": "message", "text": "hi", "files": 1.0, "retry": 1.0})
	expect(map[string]any{"got": "replies", "first": true, "second": true, "key": "k", "history": 1.0})
	expect(map[string]any{"got": "file", "size": 3.0})
	expect(map[string]any{"got": "error", "code": "channel_not_found"})
	expect(map[string]any{"got": "update", "text": "bye", "key": "k2"})
	expect(map[string]any{"got": "stream", "text": "**one** two three"})
	expect(map[string]any{"got": "conflicts", "update": "streaming_state_conflict", "delete": "cant_delete_message", "stop": "taken",
		"append": "message_not_in_streaming_state", "recipient": "missing_recipient_user_id"})
	expect(map[string]any{"got": "upload", "deleted": true, "files": 1.0, "title": "A", "size": 3.0})
	expect(map[string]any{"got": "ready"})
	if err := s.Slash(fakeslack.Team, "U1", "C1", "status"); err != nil {
		t.Fatal(err)
	}
	expect(map[string]any{"got": "command", "text": "status"})
	if err := node.Wait(); err != nil {
		t.Error(err)
	}
}
