package fakeslack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/slacktest"

	"sightline/tests/fakeslack"
)

const (
	emulatePackage = "emulate@0.12.2"
	nodeVersion    = "24" // emulate wants 24; what is installed may be older
)

// other is a Slack that somebody else wrote, or the fake.
type other struct {
	name    string
	api     *slackgo.Client
	heard   *recorder
	channel string
	user    string
	root    string // ts of a message with a reply
	file    string
	// cannot are calls that it does not know; lacks are fields that it leaves
	// out. Both are asserted, so that no exception outlives its reason.
	cannot, lacks map[string]string
}

// recorder keeps the last answer as it came: slack-go's own types would fill
// in what is missing.
type recorder struct {
	// header sends the token as the connector does, in a header; slack-go puts
	// it into some forms, and emulate does not look there.
	header string
	mu     sync.Mutex
	last   []byte
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") == "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", r.header)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	_ = res.Body.Close()
	r.mu.Lock()
	r.last = body
	r.mu.Unlock()
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, err
}

func newOther(name, url, token string) *other {
	o := &other{name: name, heard: &recorder{header: "Bearer " + token}}
	o.api = slackgo.New(token, slackgo.OptionAPIURL(url), slackgo.OptionHTTPClient(&http.Client{Transport: o.heard, Timeout: 20 * time.Second}))
	return o
}

// agreed are calls and, of their answers, the fields that the connector reads
// and decides by.
var agreed = []struct {
	call   string
	fields string
	do     func(context.Context, *other) error
}{
	{"auth.test", "team_id:string user_id:string bot_id:string", func(ctx context.Context, o *other) error {
		_, err := o.api.AuthTestContext(ctx)
		return err
	}},
	{"conversations.info", "channel.id:string channel.is_im:bool channel.is_mpim:bool channel.is_private:bool channel.is_member:bool channel.is_ext_shared:bool",
		func(ctx context.Context, o *other) error {
			_, err := o.api.GetConversationInfoContext(ctx, &slackgo.GetConversationInfoInput{ChannelID: o.channel})
			return err
		}},
	{"conversations.members", "members:array members.0:string", func(ctx context.Context, o *other) error {
		_, _, err := o.api.GetUsersInConversationContext(ctx, &slackgo.GetUsersInConversationParameters{ChannelID: o.channel})
		return err
	}},
	{"users.conversations", "channels:array channels.0.id:string", func(ctx context.Context, o *other) error {
		_, _, err := o.api.GetConversationsForUserContext(ctx, &slackgo.GetConversationsForUserParameters{})
		return err
	}},
	{"users.info", "user.id:string user.team_id:string user.name:string user.is_bot:bool", func(ctx context.Context, o *other) error {
		_, err := o.api.GetUserInfoContext(ctx, o.user)
		return err
	}},
	{"conversations.history", "messages.0.type:string messages.0.ts:string messages.0.text:string messages.0.user:string messages.0.thread_ts:string messages.0.metadata.event_type:string messages.0.metadata.event_payload.key:string has_more:bool",
		func(ctx context.Context, o *other) error {
			_, err := o.api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{
				ChannelID: o.channel, Latest: o.root, Oldest: o.root, Inclusive: true, Limit: 1, IncludeAllMetadata: true})
			return err
		}},
	{"conversations.replies", "messages.0.ts:string messages.1.ts:string messages.1.thread_ts:string messages.1.text:string messages.1.user:string has_more:bool",
		func(ctx context.Context, o *other) error {
			list, _, _, err := o.api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{ChannelID: o.channel, Timestamp: o.root, Limit: 5})
			if err == nil && (len(list) != 2 || list[0].Timestamp != o.root || list[1].ThreadTimestamp != o.root) {
				return fmt.Errorf("a thread's first message does not come first: %+v", list)
			}
			return err
		}},
	{"chat.postMessage", "channel:string ts:string message.ts:string message.text:string message.thread_ts:string", func(ctx context.Context, o *other) error {
		channel, ts, err := o.api.PostMessageContext(ctx, o.channel, slackgo.MsgOptionText("hello", false), slackgo.MsgOptionTS(o.root))
		if err == nil && (channel != o.channel || ts == "") {
			return fmt.Errorf("posted to %q at %q", channel, ts)
		}
		return err
	}},
	{"chat.update", "channel:string ts:string text:string", func(ctx context.Context, o *other) error {
		_, ts, err := o.api.PostMessageContext(ctx, o.channel, slackgo.MsgOptionText("hello", false))
		if err != nil {
			return err
		}
		_, _, _, err = o.api.UpdateMessageContext(ctx, o.channel, ts, slackgo.MsgOptionText("bye", false))
		return err
	}},
	{"chat.delete", "channel:string ts:string", func(ctx context.Context, o *other) error {
		_, ts, err := o.api.PostMessageContext(ctx, o.channel, slackgo.MsgOptionText("hello", false))
		if err != nil {
			return err
		}
		_, _, err = o.api.DeleteMessageContext(ctx, o.channel, ts)
		return err
	}},
	{"chat.postEphemeral", "message_ts:string", func(ctx context.Context, o *other) error {
		_, err := o.api.PostEphemeralContext(ctx, o.channel, o.user, slackgo.MsgOptionText("psst", false))
		return err
	}},
	{"files.info", "file.id:string file.name:string file.mimetype:string file.mode:string file.size:number file.url_private:string", func(ctx context.Context, o *other) error {
		_, _, _, err := o.api.GetFileInfoContext(ctx, o.file, 0, 0)
		return err
	}},
	{"apps.connections.open", "url:string", func(ctx context.Context, o *other) error {
		_, _, err := o.api.StartSocketModeContext(ctx)
		return err
	}},
	{"assistant.threads.setStatus", "ok:bool", func(ctx context.Context, o *other) error {
		return o.api.SetAssistantThreadsStatusContext(ctx, slackgo.AssistantThreadsSetStatusParameters{ChannelID: o.channel, ThreadTS: o.root, Status: "looking"})
	}},
}

// refused are calls that fail, and Slack's word for it.
var refused = []struct {
	call, code string
	do         func(context.Context, *other) error
}{
	{"conversations.info", "channel_not_found", func(ctx context.Context, o *other) error {
		_, err := o.api.GetConversationInfoContext(ctx, &slackgo.GetConversationInfoInput{ChannelID: "CNONE"})
		return err
	}},
	{"conversations.history", "channel_not_found", func(ctx context.Context, o *other) error {
		_, err := o.api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{ChannelID: "CNONE"})
		return err
	}},
	{"users.info", "user_not_found", func(ctx context.Context, o *other) error {
		_, err := o.api.GetUserInfoContext(ctx, "UNONE")
		return err
	}},
	{"files.info", "file_not_found", func(ctx context.Context, o *other) error {
		_, _, _, err := o.api.GetFileInfoContext(ctx, "FNONE", 0, 0)
		return err
	}},
	{"chat.postMessage", "channel_not_found", func(ctx context.Context, o *other) error {
		_, _, err := o.api.PostMessageContext(ctx, "CNONE", slackgo.MsgOptionText("x", false))
		return err
	}},
	{"chat.postMessage without words", "no_text", func(ctx context.Context, o *other) error {
		_, _, err := o.api.PostMessageContext(ctx, o.channel)
		return err
	}},
	{"chat.update", "message_not_found", func(ctx context.Context, o *other) error {
		_, _, _, err := o.api.UpdateMessageContext(ctx, o.channel, "1.000001", slackgo.MsgOptionText("x", false))
		return err
	}},
	{"conversations.replies", "thread_not_found", func(ctx context.Context, o *other) error {
		_, _, _, err := o.api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{ChannelID: o.channel, Timestamp: "1.000001"})
		return err
	}},
}

// kindAt is the JSON type at a path; empty: nothing is there.
func kindAt(raw []byte, path string) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	for _, k := range strings.Split(path, ".") {
		switch o := v.(type) {
		case map[string]any:
			v = o[k]
		case []any:
			n, err := strconv.Atoi(k)
			if err != nil || n >= len(o) {
				return ""
			}
			v = o[n]
		default:
			return ""
		}
	}
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case float64:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return ""
}

// hold makes the agreed calls and looks at the answers.
func hold(t *testing.T, o *other) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, a := range agreed {
		err := a.do(ctx, o)
		if why, no := o.cannot[a.call]; no {
			if err == nil {
				t.Errorf("%s: %s works now, although %s: take it off the list", o.name, a.call, why)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %s: %v\n%s", o.name, a.call, err, o.heard.last)
			continue
		}
		for _, f := range strings.Fields(a.fields) {
			path, want, _ := strings.Cut(f, ":")
			got := kindAt(o.heard.last, path)
			if why, no := o.lacks[a.call+" "+path]; no {
				if got != "" {
					t.Errorf("%s: %s has %s now, although %s: take it off the list", o.name, a.call, path, why)
				}
				continue
			}
			if got != want {
				t.Errorf("%s: %s: %s is %q, want %q\n%s", o.name, a.call, path, got, want, o.heard.last)
			}
		}
	}
	for _, r := range refused {
		name := "refusal of " + r.call
		err := r.do(ctx, o)
		var code slackgo.SlackErrorResponse
		got := errors.As(err, &code) && code.Err == r.code
		if why, no := o.cannot[name]; no {
			if got {
				t.Errorf("%s: %s works now, although %s: take it off the list", o.name, name, why)
			}
		} else if !got {
			t.Errorf("%s: %s: %v, want %s", o.name, name, err, r.code)
		}
	}
}

// TestFakeAgrees: the fake has every field, and every word of refusal, without
// an exception.
func TestFakeAgrees(t *testing.T) {
	s, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	o := newOther("fakeslack", s.URL(), fakeslack.BotToken)
	o.api = slackgo.New(fakeslack.BotToken, slackgo.OptionAPIURL(s.URL()), slackgo.OptionAppLevelToken(fakeslack.AppToken),
		slackgo.OptionHTTPClient(&http.Client{Transport: o.heard}))
	s.AddChannel(fakeslack.Channel{ID: "C1", IsChannel: true, Members: []string{"U1", fakeslack.BotUser}})
	f := s.Upload("x.png", "image/png", []byte("png"))
	root := s.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: "root", Files: []fakeslack.File{f}, Metadata: []byte(`{"event_type":"x","event_payload":{"key":"k"}}`)})
	s.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: "reply", ThreadTS: root.TS})
	o.channel, o.user, o.root, o.file = "C1", "U1", root.TS, f.ID
	hold(t, o)
}

// TestSlacktestAgrees: slack-go's own test server answers with fixed texts, so
// little can be asked of it.
func TestSlacktestAgrees(t *testing.T) {
	s := slacktest.NewTestServer()
	s.Start()
	t.Cleanup(s.Stop)
	o := newOther("slacktest", s.GetAPIURL(), "xoxb-any")
	o.channel, o.user, o.root, o.file = "C1", "U1", "1.1", "F1"
	const unknown, fixed = "it has no such method", "it answers the same whatever is asked"
	o.cannot = map[string]string{
		"conversations.members": unknown, "users.conversations": unknown, "conversations.history": unknown, "conversations.replies": unknown,
		"chat.update": unknown, "chat.delete": unknown, "files.info": unknown, "assistant.threads.setStatus": unknown,
	}
	for _, r := range refused {
		o.cannot["refusal of "+r.call] = fixed
	}
	const short = "its fixed texts are shorter than Slack's"
	o.lacks = map[string]string{
		"auth.test bot_id": short, "conversations.info channel.is_member": short, "chat.postMessage message.ts": short,
		"chat.postMessage message.text": short, "chat.postMessage message.thread_ts": short, "chat.postEphemeral message_ts": short,
	}
	hold(t, o)
}

// TestEmulateAgrees: a Slack Web API with a state, written by others.
func TestEmulateAgrees(t *testing.T) {
	base := emulate(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := newOther("emulate", base, "xoxb-test")
	channels, _, err := o.api.GetConversationsContext(ctx, &slackgo.GetConversationsParameters{})
	if err != nil || len(channels) == 0 {
		t.Fatalf("%v, %d channels", err, len(channels))
	}
	o.channel = channels[0].ID
	if _, _, _, err := o.api.JoinConversationContext(ctx, o.channel); err != nil {
		t.Fatal(err)
	}
	who, err := o.api.AuthTestContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o.user = who.UserID
	f, err := o.api.UploadFileContext(ctx, slackgo.UploadFileParameters{Reader: strings.NewReader("png"), FileSize: 3, Filename: "x.png", Channel: o.channel})
	if err != nil {
		t.Fatal(err)
	}
	o.file = f.ID
	// After the file: it takes no bounds of time, and answers with the newest.
	_, o.root, err = o.api.PostMessageContext(ctx, o.channel, slackgo.MsgOptionText("root", false),
		slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: "x", EventPayload: map[string]any{"key": "k"}}))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.api.PostMessageContext(ctx, o.channel, slackgo.MsgOptionText("reply", false), slackgo.MsgOptionTS(o.root)); err != nil {
		t.Fatal(err)
	}
	const unknown = "it has no such method"
	o.cannot = map[string]string{
		"users.conversations": unknown, "apps.connections.open": unknown, "assistant.threads.setStatus": unknown,
		"refusal of conversations.replies": "it answers with an empty thread",
	}
	o.lacks = map[string]string{
		"auth.test bot_id":                           "its tokens are people's",
		"conversations.history messages.0.thread_ts": "it names the thread in replies only",
		"conversations.info channel.is_ext_shared":   "it knows no shared channels",
	}
	hold(t, o)
}

// emulate installs and starts it, with the Node that it wants, and answers the
// base of its Web API.
func emulate(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		skip(t, "npm is missing: install Node.js 20 or newer")
	}
	arch, ok := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		skip(t, "npm has no Node.js for %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	node := fmt.Sprintf("node-%s-%s", runtime.GOOS, arch)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	dir := t.TempDir()
	install := exec.CommandContext(ctx, "npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, emulatePackage, node+"@"+nodeVersion)
	if out, err := install.CombinedOutput(); err != nil {
		skip(t, "emulate can't be installed with npm: %v\n%s", err, out)
	}
	seed := filepath.Join(dir, "seed.yaml")
	if err := os.WriteFile(seed, []byte("slack: {team: {name: fake, domain: fake}, users: [{name: ann, real_name: Ann, email: ann@example.com}]}\ntokens: {xoxb-test: {login: ann}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "node_modules", node, "bin", "node"), filepath.Join(dir, "node_modules", "emulate", "dist", "index.js"),
		"start", "--service", "slack", "--port", strconv.Itoa(port), "--seed", seed)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	base := fmt.Sprintf("http://localhost:%d/api/", port) // the host that it names in its own URLs
	for range 300 {
		if _, err := newOther("emulate", base, "xoxb-test").api.AuthTestContext(ctx); err == nil {
			return base
		}
		select {
		case <-ended:
			t.Fatalf("emulate ended:\n%s", out.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatal("emulate never answered")
	return ""
}
