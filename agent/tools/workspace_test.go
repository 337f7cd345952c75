package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/agent"
	"sightline/agent/agenttest"
	"sightline/agent/tools"
	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/sandbox"
)

// shelf is a WorkspaceStore in memory.
type shelf struct {
	live  []chat.Workspace
	files map[string]map[string]chat.WorkspaceFile
	world *agenttest.World
	// away is what is answered about files, after so many more answers.
	away     error
	patience int
	used     func() // called where files are asked for
}

func (s *shelf) asked() error {
	if s.away == nil {
		return nil
	}
	if s.patience--; s.patience >= 0 {
		return nil
	}
	return s.away
}

func (s *shelf) UseWorkspace(_ context.Context, a chat.AgentID, c chat.ConversationID, fresh string) (chat.Workspace, error) {
	for i, w := range s.live {
		if w.Agent == a && w.Conversation == c {
			s.live[i].UsedAt = time.Now()
			return s.live[i], nil
		}
	}
	w := chat.Workspace{ID: fresh, Agent: a, Conversation: c, UsedAt: time.Now()}
	s.live = append(s.live, w)
	return w, nil
}

func (s *shelf) LiveWorkspaces(context.Context) ([]chat.Workspace, error) {
	return slices.Clone(s.live), nil
}

func (s *shelf) RetireWorkspace(_ context.Context, id string, used time.Time) (bool, error) {
	n := len(s.live)
	s.live = slices.DeleteFunc(s.live, func(w chat.Workspace) bool { return w.ID == id && !w.UsedAt.After(used) })
	return len(s.live) < n, nil
}

func (s *shelf) WorkspaceFiles(_ context.Context, id string) (out []chat.WorkspaceFile, _ error) {
	if s.used != nil {
		s.used()
	}
	if err := s.asked(); err != nil {
		return nil, err
	}
	for _, f := range s.files[id] {
		out = append(out, f)
	}
	return out, nil
}

func (s *shelf) PutWorkspaceFiles(_ context.Context, id string, files []chat.WorkspaceFile) error {
	if err := s.asked(); err != nil {
		return err
	}
	if s.files[id] == nil {
		s.files[id] = map[string]chat.WorkspaceFile{}
	}
	for _, f := range files {
		s.files[id][f.Name] = f
	}
	return nil
}

func (s *shelf) DropWorkspaceFiles(_ context.Context, id string, names []string) error {
	if err := s.asked(); err != nil {
		return err
	}
	for _, n := range names {
		delete(s.files[id], n)
	}
	return nil
}

func (s *shelf) DropWorkspaceSources(_ context.Context, id, name string, lost []chat.AttachmentID) error {
	if err := s.asked(); err != nil {
		return err
	}
	if f, ok := s.files[id][name]; ok {
		f.Sources = slices.DeleteFunc(slices.Clone(f.Sources), func(a chat.AttachmentID) bool { return slices.Contains(lost, a) })
		s.files[id][name] = f
	}
	return nil
}

// GoneSources asks the world for what its rows say.
func (s *shelf) GoneSources(ctx context.Context, name string) (map[string][]chat.AttachmentID, error) {
	if err := s.asked(); err != nil {
		return nil, err
	}
	out := map[string][]chat.AttachmentID{}
	for _, w := range s.live {
		for _, id := range s.files[w.ID][name].Sources {
			row := s.world.Row(id)
			m, err := s.world.Message(ctx, row.Place, row.Message)
			if row.State == chat.FileDeleted || err == nil && m.Deleted {
				out[w.ID] = append(out[w.ID], id)
			}
		}
	}
	return out, nil
}

type bench struct {
	*agenttest.World
	t    *testing.T
	root string // of the sandbox
	ws   *tools.Workspaces
	shop *shelf
	call agent.Call
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("SIGHTLINE_NO_SKIP") != "" {
			t.Fatal("bwrap is missing: apt install bubblewrap")
		}
		t.Skip("bwrap is missing: apt install bubblewrap")
	}
	root, err := os.MkdirTemp("", "sightline-tools-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Chmod(root, 0o711); err != nil { // root's commands are another user's
		t.Fatal(err)
	}
	r, err := sandbox.New(t.Context(), sandbox.Config{Root: root + "/w", Driver: sandbox.Bubblewrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	b := &bench{World: agenttest.New(t), t: t, root: root + "/w"}
	b.shop = &shelf{files: map[string]map[string]chat.WorkspaceFile{}, world: b.World}
	b.ws = &tools.Workspaces{Runner: func() *sandbox.Runner { return r }, Store: b.shop, Authorizer: b.Auth, TTL: time.Hour, Holds: &tools.Holds{}}
	b.Looker.Files = b.ws
	b.call = agent.Call{Request: b.Request, Workspace: true, Model: agenttest.Seeing("x").Known}
	return b
}

func (b *bench) run(tool agent.Tool, args map[string]any) agent.Outcome {
	b.t.Helper()
	j, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	c := b.call
	c.Arguments = string(j)
	out, err := tool.Run(b.t.Context(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) sh(command string) agent.Outcome {
	b.t.Helper()
	return b.run(&tools.WorkspaceExec{Workspaces: b.ws}, map[string]any{"command": command})
}

func (b *bench) take(a chat.Attachment, to string) agent.Outcome {
	b.t.Helper()
	return b.run(&tools.ImportAttachment{Workspaces: b.ws}, map[string]any{"attachment_id": string(a.ID), "destination": to})
}

func (b *bench) list() (paths []string, out agent.Outcome) {
	b.t.Helper()
	out = b.run(&tools.WorkspaceList{Workspaces: b.ws}, map[string]any{})
	var got struct {
		Files []struct{ Path, Kind string }
	}
	if err := json.Unmarshal([]byte(out.Answer), &got); err != nil {
		b.t.Fatal(err)
	}
	for _, f := range got.Files {
		if f.Kind == "" {
			paths = append(paths, strings.TrimPrefix(f.Path, "/workspace/"))
		}
	}
	return paths, out
}

// drawsOn are the attachments of a receipt.
func drawsOn(out agent.Outcome) (ids []chat.AttachmentID) {
	for _, s := range out.Selected {
		if s.Attachment != "" {
			ids = append(ids, s.Attachment)
		}
		ids = append(ids, s.Sources...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// What was imported, its copies and what was made after it go when it may not
// be used any more; what was there before it, and another's, stays.
func TestAWorkspaceFollowsItsSources(t *testing.T) {
	b := newBench(t)
	one, two := b.Post("one.txt", "text/plain", []byte("one's words")), b.Post("two.txt", "text/plain", []byte("two's words"))
	if out := b.sh("echo early > early.txt"); len(drawsOn(out)) != 0 || !strings.Contains(out.Answer, `"exit_code":0`) {
		t.Fatalf("before any import: %s, draws on %v", out.Answer, drawsOn(out))
	}
	if out := b.take(one, "/workspace/a/one.txt"); out.Verdict != chat.VerdictDone || !strings.Contains(out.Answer, `"bytes":11`) {
		t.Fatalf("%+v", out)
	}
	if out := b.sh("cp a/one.txt copy.txt; tr a-z A-Z < a/one.txt > derived.txt"); !slices.Equal(drawsOn(out), []chat.AttachmentID{one.ID}) {
		t.Errorf("a command draws on %v", drawsOn(out))
	}
	b.take(two, "/workspace/two.txt")
	// A file of which nothing is known, as after a crash before its label.
	b.sh("mv copy.txt moved.txt; cat two.txt > from-two.txt")
	delete(b.shop.files[b.shop.live[0].ID], "/workspace/from-two.txt")
	all := []chat.AttachmentID{one.ID, two.ID}
	slices.Sort(all)
	if paths, out := b.list(); len(paths) != 6 || !slices.Equal(drawsOn(out), all) {
		t.Fatalf("%v, draws on %v", paths, drawsOn(out))
	}
	if _, from, err := b.ws.Open(t.Context(), b.Request, "/workspace/from-two.txt"); err != nil || len(from) != 2 {
		t.Errorf("a file without a label is made of %v, %v", from, err)
	}
	if _, from, err := b.ws.Open(t.Context(), b.Request, "/workspace/two.txt"); err != nil || !slices.Equal(from, []chat.AttachmentID{two.ID}) {
		t.Errorf("an import is made of %v, %v", from, err)
	}
	if _, from, err := b.ws.Open(t.Context(), b.Request, "/workspace/early.txt"); err != nil || len(from) != 0 {
		t.Errorf("what was there before is made of %v, %v", from, err)
	}
	// An import that a command wrote over is no import any more.
	b.sh("cat a/one.txt >> two.txt")
	if _, from, err := b.ws.Open(t.Context(), b.Request, "/workspace/two.txt"); err != nil || len(from) != 2 {
		t.Errorf("a changed import is made of %v, %v", from, err)
	}

	// What can't be established just now costs nothing but this call.
	b.Decide = func(attachments.Question) (attachments.Decision, error) {
		return attachments.Decision{}, errors.New("the platform is away")
	}
	for name, out := range map[string]agent.Outcome{"exec": b.sh("rm -f *"), "list": b.run(&tools.WorkspaceList{Workspaces: b.ws}, map[string]any{})} {
		if out.Verdict != chat.VerdictRefused || !strings.Contains(out.Answer, "just now") {
			t.Errorf("%s in doubt: %+v", name, out)
		}
	}
	b.Decide = func(attachments.Question) (attachments.Decision, error) { return attachments.Allow("S1", 0, 0), nil }
	if paths, _ := b.list(); len(paths) != 6 {
		t.Fatalf("doubt removed files: %v", paths)
	}

	// Nor does a question of somebody who has left: the files are the others'.
	b.Decide = func(attachments.Question) (attachments.Decision, error) {
		return attachments.RefuseAsker("member", "the one who asks has left"), nil
	}
	for name, out := range map[string]agent.Outcome{"exec": b.sh("rm -f *"), "list": b.run(&tools.WorkspaceList{Workspaces: b.ws}, map[string]any{})} {
		if out.Verdict != chat.VerdictRefused || !strings.Contains(out.Answer, "whoever asks") {
			t.Errorf("%s by somebody who has left: %+v", name, out)
		}
	}
	b.Decide = func(attachments.Question) (attachments.Decision, error) { return attachments.Allow("S1", 0, 0), nil }
	if paths, _ := b.list(); len(paths) != 6 {
		t.Fatalf("somebody who has left removed files: %v", paths)
	}

	b.Decide = func(q attachments.Question) (attachments.Decision, error) {
		if q.Message == one.Message {
			return attachments.Refuse("message", "deleted"), nil
		}
		return attachments.Allow("S1", 0, 0), nil
	}
	if _, _, err := b.ws.Open(t.Context(), b.Request, "/workspace/derived.txt"); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("opened after its source was gone: %v", err)
	}
	paths, out := b.list()
	if !slices.Equal(paths, []string{"early.txt"}) || !slices.Equal(drawsOn(out), []chat.AttachmentID{two.ID}) {
		t.Errorf("left: %v, draws on %v", paths, drawsOn(out))
	}
	if out := b.take(one, "/workspace/again.txt"); out.Verdict != chat.VerdictRefused {
		t.Errorf("imported again: %+v", out)
	}
}

func TestSharedFilesAreWhatTheyWere(t *testing.T) {
	b := newBench(t)
	a := b.Post("x.bin", "", []byte{0, 1, 2, 255})
	b.take(a, "/workspace/x.bin")
	share := &tools.ShareFile{Workspaces: b.ws}
	if out := b.run(share, map[string]any{"path": "/workspace/x.bin"}); out.Verdict != chat.VerdictRefused {
		t.Errorf("without a way to post: %+v", out)
	}
	var posted []byte
	var fail error
	b.call.Share = func(ctx context.Context, f chat.ReplyFile) error {
		if fail != nil {
			return fail
		}
		r, err := f.Open(ctx)
		if err != nil {
			return err
		}
		posted, err = io.ReadAll(r)
		if f.Size != int64(len(posted)) || f.Name != "x.bin" || len(f.SHA256) != 64 {
			t.Errorf("%+v", f)
		}
		return err
	}
	if out := b.run(share, map[string]any{"path": "/workspace/x.bin"}); out.Verdict != chat.VerdictDone || !slices.Equal(posted, []byte{0, 1, 2, 255}) || !slices.Equal(drawsOn(out), []chat.AttachmentID{a.ID}) {
		t.Errorf("%+v, posted %v", out, posted)
	}
	for want, err := range map[string]error{"may not be shown": attachments.ErrNotAvailable, "does not take": chat.ErrRefused} {
		fail = fmt.Errorf("x: %w", err)
		if out := b.run(share, map[string]any{"path": "/workspace/x.bin"}); out.Verdict != chat.VerdictRefused || !strings.Contains(out.Answer, want) {
			t.Errorf("%v: %+v", err, out)
		}
	}
	for _, path := range []string{"/etc/passwd", "/workspace/../etc/passwd", "x.bin", "/workspace", "/workspace/none"} {
		if out := b.run(share, map[string]any{"path": path}); out.Verdict != chat.VerdictRefused {
			t.Errorf("%s: %+v", path, out)
		}
	}
}

// Without an owner's word there is no workspace, whoever asks how (the second
// and the third door).
func TestWorkspaceDoors(t *testing.T) {
	b := newBench(t)
	b.call.Workspace = false
	all := []agent.Tool{&tools.ImportAttachment{Workspaces: b.ws}, &tools.WorkspaceExec{Workspaces: b.ws}, &tools.WorkspaceList{Workspaces: b.ws},
		&tools.WorkspaceView{Looker: b.Looker}, &tools.ShareFile{Workspaces: b.ws}}
	r, err := agent.NewRegistry(all...)
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]string{"import_attachment": `{"attachment_id":"x","destination":"/workspace/x"}`, "workspace_exec": `{"command":"echo"}`,
		"workspace_list": `{}`, "workspace_view": `{"path":"/workspace/x"}`, "share_file": `{"path":"/workspace/x"}`}
	for _, tool := range all {
		name := tool.Spec().Name
		c := b.call
		c.Arguments = args[name]
		for door, run := range map[string]func() (agent.Outcome, error){
			"second": func() (agent.Outcome, error) { return r.Dispatch(t.Context(), name, c) },
			"third":  func() (agent.Outcome, error) { return tool.Run(t.Context(), c) },
		} {
			out, err := run()
			if err != nil || out.Verdict != chat.VerdictRefused || !strings.Contains(out.Answer, "no workspace in this conversation") || !strings.Contains(out.Reason, door) {
				t.Errorf("%s, %s door: %+v, %v", name, door, out, err)
			}
		}
	}
	if specs := r.Offer(agent.Here{Actor: b.Request.Actor, Model: b.call.Model}); len(specs) != 0 {
		t.Errorf("offered without one: %v", specs)
	}
	if len(b.shop.live) != 0 {
		t.Error("a workspace was made")
	}
	// What is uncertain is looked at before anything else is changed.
	c := b.call
	c.Workspace, c.Uncertain, c.Arguments = true, "workspace_exec", args["workspace_exec"]
	if out, err := r.Dispatch(t.Context(), "workspace_exec", c); err != nil || out.Verdict != chat.VerdictRefused || !strings.Contains(out.Answer, "workspace_list") {
		t.Errorf("after an uncertain effect: %+v, %v", out, err)
	}
	c.Arguments = args["workspace_list"]
	if out, err := r.Dispatch(t.Context(), "workspace_list", c); err != nil || out.Verdict != chat.VerdictDone {
		t.Errorf("looking: %+v, %v", out, err)
	}
	if out := r.Uncertain("share_file"); out.Verdict != chat.VerdictUncertain || !strings.Contains(out.Answer, "not repeated") {
		t.Errorf("%+v", out)
	}
}

// A workspace goes when nobody used it for long enough, and not while it is in
// use.
func TestWorkspacesAreSwept(t *testing.T) {
	b := newBench(t)
	b.sh("echo x > x")
	if err := b.ws.Sweep(t.Context(), time.Now().Add(30*time.Minute)); err != nil || len(b.shop.live) != 1 {
		t.Errorf("young: %v, %d", err, len(b.shop.live))
	}
	if paths, _ := b.list(); len(paths) != 1 {
		t.Errorf("its files: %v", paths)
	}
	if err := b.ws.Sweep(t.Context(), time.Now().Add(2*time.Hour)); err != nil || len(b.shop.live) != 0 {
		t.Errorf("old: %v, %d", err, len(b.shop.live))
	}
	if paths, _ := b.list(); len(paths) != 0 {
		t.Errorf("its files in the next one: %v", paths)
	}
}
