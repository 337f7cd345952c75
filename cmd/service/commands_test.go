package service

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"sightline/agent"
	"sightline/agent/agenttest"
	"sightline/attachments"
	"sightline/checkpoints"
	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
	"sightline/sandbox"
	"sightline/workflows"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

type everywhere struct{}

func (everywhere) Decide(context.Context, attachments.Question) (attachments.Decision, error) {
	return attachments.Allow("S1", 0, 0), nil
}

// office is a conversation with one picture, and the commands about it.
type office struct {
	*commands
	db    *checkpoints.DB
	place chat.Place
	rec   checkpoints.Recorded
	log   bytes.Buffer
}

func newOffice(t *testing.T) *office {
	t.Helper()
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	o := &office{db: db, place: chat.NewPlace("a", "test", "w", "c", "", chat.Channel)}
	o.rec, err = db.Record(t.Context(), chat.Event{
		Kind: chat.MessagePosted, Place: o.place,
		Message: chat.Message{NativeID: "m1", Revision: "1", Text: "look", At: time.Now(), Author: chat.Actor{Platform: "test", User: "u", Name: "ann"}},
		Files:   []chat.File{{NativeID: "f1", Name: "a.png", DeclaredType: "image/png", Size: 9, Origin: chat.OriginDirect, State: chat.FileAvailable}},
	})
	if err != nil {
		t.Fatal(err)
	}
	auth, err := attachments.New(attachments.Config{Inventory: db, MaxBytes: 1, Visibility: map[chat.Platform]attachments.Visibility{"test": everywhere{}}})
	if err != nil {
		t.Fatal(err)
	}
	o.commands = &commands{
		db: db, log: slog.New(slog.NewTextHandler(&o.log, nil)),
		agents: map[chat.AgentID]*workflows.Agent{"a": {ID: "a", Authorizer: auth, Inference: &agent.Inference{Model: agenttest.Seeing("x")}}},
		doctor: func(context.Context, chat.AgentID) []finding { return []finding{{"it", false, "is ill", "rest"}} },
	}
	return o
}

func (o *office) ask(t *testing.T, role chat.Role, name string, args ...string) string {
	t.Helper()
	s, err := o.Command(t.Context(), chat.Command{Agent: "a", Place: o.place, Name: name, Args: args, Actor: chat.Actor{Platform: "test", User: "boss", Role: role}})
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return s
}

// The second door: no actor is a stranger, and a guest learns nothing but
// that, whatever is asked.
func TestCommandsAreForOwners(t *testing.T) {
	o := newOffice(t)
	id := string(o.rec.Attachments[0].ID)
	for _, role := range []chat.Role{chat.Stranger, chat.Guest} {
		for _, c := range [][]string{{"status"}, {"attachments"}, {"trail", id}, {"forget", id}, {"model"}, {"doctor"}, {"stop"}, {"nonsense"}} {
			if got := o.ask(t, role, c[0], c[1:]...); got != onlyOwners {
				t.Errorf("%s as %s: %q", c[0], role, got)
			}
		}
	}
	if n := strings.Count(o.log.String(), "a command was refused"); n != 16 {
		t.Errorf("%d refusals logged", n)
	}
	if a, err := o.db.Attachment(t.Context(), "a", o.place.Conversation(), o.rec.Attachments[0].ID); err != nil || a.State != chat.FileAvailable {
		t.Errorf("a guest had it forgotten: %+v, %v", a, err)
	}
}

func TestCommandsTellOwners(t *testing.T) {
	o := newOffice(t)
	id := string(o.rec.Attachments[0].ID)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"Nothing has been asked", []string{"status"}},
		{id, []string{"attachments"}},
		{"list allowed by S1", []string{"trail", id}},
		{"needs an attachment id", []string{"trail", "a.png"}},
		{"no attachment with that ID", []string{"trail", string(chat.NewAttachmentID())}},
		{"sees pictures: yes", []string{"model"}},
		{"FIX  it", []string{"doctor"}},
		{"Commands:", []string{"frobnicate"}},
		{"needs a message's link or id", []string{"forget"}},
		{"nothing of that id", []string{"forget", string(chat.NewAttachmentID())}},
		{"Forgotten", []string{"forget", "m1"}}, // the platform's own id
		{"nothing of that id", []string{"forget", id}},
		{"an owner had it forgotten", []string{"attachments"}},
	} {
		if got := o.ask(t, chat.Owner, c.args[0], c.args[1:]...); !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.args, got, c.want)
		}
	}
	m, err := o.db.Message(t.Context(), o.place.ID, o.rec.Message.ID)
	if err != nil || !m.Deleted || m.Text != "" {
		t.Errorf("the message is still there: %+v, %v", m, err)
	}
}

// A channel of which nothing is kept yet may have threads: what was said there
// is told, stopped and forgotten from the channel.
func TestCommandsFindThreads(t *testing.T) {
	o := newOffice(t)
	o.place = chat.NewPlace("a", "test", "w", "elsewhere", "", chat.Channel)
	thread := chat.NewPlace("a", "test", "w", "elsewhere", "t", chat.PublicThread)
	thread.Parent = o.place.ID
	rec, err := o.db.Record(t.Context(), chat.Event{
		Kind: chat.MessagePosted, Place: thread,
		Message: chat.Message{NativeID: "m2", Revision: "1", Text: "look", At: time.Now(), Author: chat.Actor{Platform: "test", User: "u", Name: "ann"}},
		Files:   []chat.File{{NativeID: "f1", Name: "__init__.py", Size: 9, Origin: chat.OriginDirect, State: chat.FileAvailable}},
	})
	if err != nil {
		t.Fatal(err)
	}
	turn := chat.TurnOf(rec.Message.ID)
	if _, err := o.db.BeginTurn(t.Context(), checkpoints.Turn{ID: turn, Agent: "a", Conversation: rec.Conversation, Place: thread.ID, Message: rec.Message.ID, WorkflowID: "w", RunID: "r", StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{string(turn), []string{"status"}},
		{"`__init__.py`  of a type that nobody declared, 9 bytes, available  by `ann`", []string{"attachments"}},
		{"nothing of that id", []string{"forget", "m1"}}, // of another channel
		{"Forgotten", []string{"forget", "m2"}},
		{"an owner had it forgotten", []string{"attachments"}},
		{"is set in the configuration", []string{"model", "another"}},
	} {
		if got := o.ask(t, chat.Owner, c.args[0], c.args[1:]...); !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestForgetIsBoundToTheConversation(t *testing.T) {
	o := newOffice(t)
	other := chat.NewPlace("a", "test", "w", "elsewhere", "", chat.Channel)
	if n, err := o.db.Forget(t.Context(), "a", other.Conversation(), o.rec.Message.ID, o.rec.Attachments[0].ID); err != nil || n != 0 {
		t.Errorf("from another conversation: %d, %v", n, err)
	}
	if n, err := o.db.Forget(t.Context(), "b", o.place.Conversation(), o.rec.Message.ID, o.rec.Attachments[0].ID); err != nil || n != 0 {
		t.Errorf("by another agent: %d, %v", n, err)
	}
	if n, err := o.db.Forget(t.Context(), "a", o.place.Conversation(), "", o.rec.Attachments[0].ID); err != nil || n != 1 {
		t.Errorf("one attachment: %d, %v", n, err)
	}
}

func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	look := func(env map[string]string) (int, string) {
		var b bytes.Buffer
		code := Doctor(t.Context(), func(k string) string {
			if k == "SIGHTLINE_HOME" {
				return dir
			}
			return env[k]
		}, &b)
		return code, b.String()
	}
	if code, s := look(nil); code != 0 || !strings.Contains(s, "offline") || strings.Contains(s, "FIX") {
		t.Errorf("with nothing configured: %d\n%s", code, s)
	}
	if code, s := look(map[string]string{"DATABASE_URL": testenv.Postgres(t)}); code != 0 || !strings.Contains(s, "up to date") || !strings.Contains(s, "clock") {
		t.Errorf("with a database: %d\n%s", code, s)
	}
	if code, s := look(map[string]string{"DATABASE_URL": "postgres://u:hunter2@127.0.0.1:1/x?connect_timeout=1"}); code != 1 || !strings.Contains(s, "FIX  database") || strings.Contains(s, "hunter2") {
		t.Errorf("with a dead database: %d\n%s", code, s)
	}
	if code, s := look(map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "SIGHTLINE_MODEL": "m"}); code != 1 || !strings.Contains(s, "SIGHTLINE_MODEL_VISION") {
		t.Errorf("with a model nobody vouches for: %d\n%s", code, s)
	}
	if code, s := look(map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "SIGHTLINE_MODEL": "m", "SIGHTLINE_MODEL_VISION": "yes"}); code != 1 ||
		!strings.Contains(s, "can't be reached: nobody listens there") || !strings.Contains(s, "-> start it, or correct OPENAI_BASE_URL") {
		t.Errorf("with a model that sees, at a server that is away: %d\n%s", code, s)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	for key, want := range map[string]int{"good": 0, "bad": 1} {
		code, s := look(map[string]string{"OPENAI_BASE_URL": server.URL + "/v1", "SIGHTLINE_MODEL": "m", "SIGHTLINE_MODEL_VISION": "yes", "OPENAI_API_KEY": key})
		if code != want || strings.Contains(s, "set OPENAI_API_KEY, or the variable") != (want == 1) {
			t.Errorf("with a key that is %s: %d\n%s", key, code, s)
		}
	}
	addr, ns := testenv.Temporal(t)
	for namespace, want := range map[string]int{ns: 0, "nowhere": 1} {
		code, s := look(map[string]string{"TEMPORAL_ADDRESS": addr, "TEMPORAL_NAMESPACE": namespace})
		if code != want || strings.Contains(s, `has no namespace "nowhere"; correct TEMPORAL_NAMESPACE`) != (want == 1) {
			t.Errorf("with the namespace %s: %d\n%s", namespace, code, s)
		}
	}
	if code, s := look(map[string]string{"SIGHTLINE_SANDBOX": "off"}); code != 0 || !strings.Contains(s, "ok   sandbox ") {
		t.Errorf("without a sandbox: %d\n%s", code, s)
	}
	if code, s := look(map[string]string{"SIGHTLINE_SANDBOX": "off", "SIGHTLINE_WORKSPACES": "on"}); code != 1 || !strings.Contains(s, "FIX  sandbox ") || !strings.Contains(s, "-> unset SIGHTLINE_SANDBOX") {
		t.Errorf("with workspaces and without a sandbox: %d\n%s", code, s)
	}
	if code, s := look(nil); code != 0 || !strings.Contains(s, "DISCORD_TOKEN is not set") || !strings.Contains(s, "SLACK_BOT_TOKEN is not set") {
		t.Errorf("without a token: %d\n%s", code, s)
	}
	if code, s := look(map[string]string{"SIGHTLINE_WEB_ADDR": "off"}); code != 1 || !strings.Contains(s, "nobody can talk to it") {
		t.Errorf("with nothing to talk to: %d\n%s", code, s)
	}
	if code, s := look(map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}); code != 1 || !strings.Contains(s, "SIGHTLINE_MODEL and SIGHTLINE_MODEL_API") {
		t.Errorf("without the name of a model: %d\n%s", code, s)
	}
	if err := os.WriteFile(filepath.Join(dir, "sightline.yaml"), []byte("agents:\n  - {id: a, web: true}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, s := look(map[string]string{"SIGHTLINE_OWNERS": "discord:1"}); code != 1 || !strings.Contains(s, "SIGHTLINE_OWNERS is set and has no effect") {
		t.Errorf("with owners that the file leaves unused: %d\n%s", code, s)
	}
	if s := report([]finding{{"it", false, "one\ntwo", "rest"}}); !strings.Contains(s, "one; two\n") {
		t.Errorf("an error of two lines: %q", s)
	}
	if code, s := look(map[string]string{"SIGHTLINE_WEB_ADDR": "x"}); code != 1 || !strings.Contains(s, "FIX  configuration") {
		t.Errorf("with a wrong setting: %d\n%s", code, s)
	}
}

// A sandbox that is missing is a fault only of who has workspaces without it.
func TestSandboxIsMissed(t *testing.T) {
	missing := &sandbox.Unavailable{Driver: sandbox.Bubblewrap, Reason: "no bwrap", Fix: "Install it."}
	for _, c := range []struct {
		config Config
		ok     bool
	}{
		{Config{Agents: []AgentConfig{{}}}, true},
		{Config{Agents: []AgentConfig{{}, {Workspaces: "on"}}}, false},
		{Config{Agents: []AgentConfig{{Workspaces: "off"}}, Sandbox: SandboxConfig{On: true}}, true},
		{Config{Agents: []AgentConfig{{Workspaces: "off"}, {}}, Sandbox: SandboxConfig{On: true}}, false},
	} {
		on := slices.ContainsFunc(c.config.Agents, c.config.workspaceOn)
		if f := checkSandbox(nil, missing, on); f.ok != c.ok || f.fix != "Install it." || !strings.Contains(f.text, "no bwrap") {
			t.Errorf("%+v: %+v", c.config, f)
		}
	}
}

// What can't be had is said with what to do; what is there and is wrong, as it is.
func TestDatabaseAway(t *testing.T) {
	_, err := checkpoints.Open(t.Context(), "postgres://u@127.0.0.1:1/x?connect_timeout=1", slog.New(slog.DiscardHandler))
	if err = Away(err); err == nil || !strings.Contains(err.Error(), "; start it, or correct DATABASE_URL") {
		t.Errorf("away: %v", err)
	}
	if err := Away(checkpoints.ErrInvalid); err != checkpoints.ErrInvalid {
		t.Errorf("invalid: %v", err)
	}
}

// An owner of one agent is told nothing of another one in the process.
func TestDoctorIsAboutOneAgent(t *testing.T) {
	o := newOffice(t)
	addr, ns := testenv.Temporal(t)
	tc, err := client.Dial(client.Options{HostPort: addr, Namespace: ns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tc.Close)
	var members []*member
	for _, id := range []chat.AgentID{"a", "b"} {
		members = append(members, &member{c: AgentConfig{ID: id}, model: agenttest.Seeing("x"), bots: []bot{{look: func(context.Context) []finding {
			return []finding{{"discord server", true, "server-of-" + string(id), ""}}
		}}}})
	}
	s := report((&service{}).inside(t.Context(), o.db, tc, members, "a"))
	if !strings.Contains(s, "a model ") || !strings.Contains(s, "server-of-a") || strings.Contains(s, "b model") || strings.Contains(s, "-of-b") {
		t.Errorf("to an owner of a:\n%s", s)
	}
}
