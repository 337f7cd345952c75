package fakediscord_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/connectors/discord"
	"sightline/tests/fakediscord"
)

// The platform's own description of itself, as others generate it.
const (
	specPackage = "discord-api-spec@10.0.266135"
	zodPackage  = "zod@4"
)

const checker = `
import * as spec from "discord-api-spec/zod";
let text = ""; for await (const part of process.stdin) text += part;
for (const { what, schema, value } of JSON.parse(text)) {
  const s = spec[schema + "Schema"];
  if (!s) { console.log(what + ": no schema " + schema); continue; }
  const r = s.safeParse(value);
  if (!r.success) for (const i of r.error.issues) console.log(what + ": " + i.path.join(".") + ": " + i.message + (i.code === "invalid_union" ? " " + JSON.stringify(i.errors).slice(0, 400) : ""));
}
console.log("checked");
`

func node(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("SIGHTLINE_NO_SKIP") == "1" {
				t.Fatalf("%s is missing: install Node.js", tool)
			}
			t.Skipf("%s is missing: install Node.js to hold the fake against Discord's own schemas", tool)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"package.json": `{"private":true,"type":"module"}`, "check.mjs": checker} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", specPackage, zodPackage)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("SIGHTLINE_NO_SKIP") == "1" {
			t.Fatalf("npm install: %v\n%s", err, out)
		}
		t.Skipf("the schemas can't be installed with npm: %v\n%s", err, out)
	}
	return dir
}

type sample struct {
	What   string          `json:"what"`
	Schema string          `json:"schema"`
	Value  json.RawMessage `json:"value"`
}

// TestAgainstTheSpecification holds what the fake answers, and what the
// connector asks, against Discord's published schemas.
func TestAgainstTheSpecification(t *testing.T) {
	dir := node(t)
	s := fakediscord.New(t)
	alice := s.AddUser("alice")
	g := s.AddGuild(alice)
	s.AddRole(g, fakediscord.ViewChannel, alice)
	c := s.AddChannel(g, fakediscord.Member(alice, fakediscord.ViewChannel, 0))
	thread := s.AddThread(c, fakediscord.PrivateThread, s.Bot.ID, alice)
	dm := s.AddDM(alice)
	first := s.Post(c, alice, fakediscord.Draft{Text: "<@" + s.Bot.ID + "> look", Files: []fakediscord.File{{Name: "a.png", Type: "image/png", Data: []byte("x")}}})
	answer := s.Post(c, alice, fakediscord.Draft{Text: "and?", ReplyTo: first.ID})
	forward := s.Post(c, alice, fakediscord.Draft{Forward: &first})
	s.Edit(first, "edited", -1)

	var mu sync.Mutex
	var samples []sample
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		schema := ""
		switch {
		case r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/messages"):
			schema = "MessageCreateRequest"
		case r.Method == "PATCH" && strings.Contains(r.URL.Path, "/channels/"):
			schema = "MessageEditRequestPartial"
		case r.Method == "PATCH" && strings.Contains(r.URL.Path, "/webhooks/"):
			schema = "IncomingWebhookUpdateRequestPartial"
		default:
			return false
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if _, p, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && p["boundary"] != "" {
			form, err := multipart.NewReader(bytes.NewReader(body), p["boundary"]).ReadForm(1 << 20)
			if err != nil || len(form.Value["payload_json"]) != 1 || len(form.File["files[0]"]) != 1 {
				t.Errorf("a form with %v, %v", form, err)
				return false
			}
			body = []byte(form.Value["payload_json"][0])
		}
		mu.Lock()
		defer mu.Unlock()
		samples = append(samples, sample{"the connector's " + r.Method, schema, body})
		// What the fake answers to it.
		rec := httptest.NewRecorder()
		s.Answer(rec, r)
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
		samples = append(samples, sample{"the answer to " + r.Method, "MessageResponse", rec.Body.Bytes()})
		return true
	})
	bot, err := discord.New(discord.Config{Agent: "main", Token: s.Token, APIURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	place := chat.NewPlace("main", discord.Platform, g, c, "", chat.Channel)
	reply := chat.Reply{Key: "k", Place: place, Text: "hello", ReplyTo: chat.Message{Place: place.ID, NativeID: answer.ID}}
	if _, err := bot.Post(t.Context(), reply); err != nil {
		t.Fatal(err)
	}
	reply.Key, reply.Text = "k2", "so far"
	draft, err := bot.Draft(t.Context(), reply)
	if err != nil {
		t.Fatal(err)
	}
	reply.Text, reply.Draft = "so far, so good", &chat.Draft{NativeID: draft.NativeID, First: "so far"}
	reply.Files = []chat.ReplyFile{{Name: "a.txt", Size: 3, SHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("abc")), nil }}}
	if _, err := bot.Post(t.Context(), reply); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct{ path, schema string }{
		{"/users/@me", "UserPIIResponse"}, {"/users/@me/guilds", "[]MyGuildResponse"}, {"/oauth2/applications/@me", "PrivateApplicationResponse"},
		{"/gateway/bot", "GatewayBotResponse"}, {"/channels/" + c, "GuildChannelResponse"}, {"/channels/" + thread, "ThreadResponse"},
		{"/channels/" + dm, "PrivateChannelResponse"}, {"/channels/" + c + "/messages/" + first.ID, "MessageResponse"},
		{"/channels/" + c + "/messages/" + answer.ID, "MessageResponse"}, {"/channels/" + c + "/messages/" + forward.ID, "MessageResponse"},
		{"/channels/" + c + "/messages?limit=100", "[]MessageResponse"}, {"/guilds/" + g, "GuildWithCountsResponse"}, {"/guilds/" + g + "/channels", "[]GuildChannelResponse"},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/v10"+q.path, nil)
		req.Header.Set("Authorization", "Bot "+s.Token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if one, many := strings.CutPrefix(q.schema, "[]"); many {
			var list []json.RawMessage
			if err := json.Unmarshal(body, &list); err != nil || len(list) == 0 {
				t.Errorf("%s: %v, %d", q.path, err, len(list))
			}
			for _, v := range list {
				samples = append(samples, sample{"GET " + q.path, one, v})
			}
			continue
		}
		samples = append(samples, sample{"GET " + q.path, q.schema, body})
	}
	in, err := json.Marshal(samples)
	if err != nil {
		t.Fatal(err)
	}
	// Discord writes +00:00, as its documentation does; the generated schemas
	// know Z alone.
	in = bytes.ReplaceAll(in, []byte(`+00:00"`), []byte(`Z"`))
	cmd := exec.CommandContext(t.Context(), "node", "check.mjs")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || lines[len(lines)-1] != "checked" {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, l := range lines[:len(lines)-1] {
		// The published schema knows replies alone; the documentation has
		// 1 for forwards.
		if !strings.HasSuffix(l, "message_reference.type: Invalid input") {
			t.Error(l)
		}
	}
}
