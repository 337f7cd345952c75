package tools_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/agent"
	"sightline/agent/tools"
	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/sandbox"
)

// onDisk are the files of the workspaces, seen without any of their rules.
func (b *bench) onDisk() (names []string) {
	b.t.Helper()
	folders, err := filepath.Glob(b.root + "/w-*/files")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range folders {
		err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, strings.TrimPrefix(p, dir+"/"))
			}
			return err
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	slices.Sort(names)
	return names
}

// rows are the names in the store, and everything the workspace ever had.
func (b *bench) rows() (names []string, ever []chat.AttachmentID) {
	for name, f := range b.shop.files[b.shop.live[0].ID] {
		if name == "*" {
			ever = f.Sources
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, ever
}

func (b *bench) follow() {
	b.t.Helper()
	if err := b.ws.SweepDeleted(b.t.Context()); err != nil {
		b.t.Error(err)
	}
}

// made is a workspace with two sources, a copy and a derived file of the first.
func made(t *testing.T) (b *bench, one, two chat.Attachment) {
	b = newBench(t)
	one, two = b.Post("one.txt", "text/plain", []byte("one's words")), b.Post("two.txt", "text/plain", []byte("two's words"))
	b.sh("echo early > early.txt")
	b.take(one, "/workspace/a/one.txt")
	b.sh("cp a/one.txt copy.txt; mv copy.txt moved.txt; tr a-z A-Z < a/one.txt > derived.txt")
	b.take(two, "/workspace/two.txt")
	return b, one, two
}

var (
	all  = []string{"a/one.txt", "derived.txt", "early.txt", "moved.txt", "two.txt"}
	left = []string{"early.txt", "two.txt"}
)

// What was made of a deleted source goes without anybody's asking, and the
// model is told once, whatever process took it out.
func TestDeletionsReachIdleWorkspaces(t *testing.T) {
	for name, remove := range map[string]func(*bench, chat.Attachment){
		"the message": func(b *bench, a chat.Attachment) { b.Delete(a) },
		"the file":    func(b *bench, a chat.Attachment) { b.Mark(a, chat.FileDeleted) },
	} {
		b, one, two := made(t)
		if b.follow(); !slices.Equal(b.onDisk(), all) {
			t.Fatalf("%s: nothing was deleted, left: %v", name, b.onDisk())
		}
		remove(b, one)
		asked := len(b.Uses)
		b.follow()
		if got := b.onDisk(); !slices.Equal(got, left) {
			t.Errorf("%s: left: %v", name, got)
		}
		if len(b.Uses) != asked {
			t.Errorf("%s: a sweep asked as if it were somebody", name)
		}
		told := []string{"-/workspace/a/one.txt", "-/workspace/derived.txt", "-/workspace/moved.txt"}
		rows := append(slices.Clone(told), "/workspace/early.txt", "/workspace/two.txt")
		if got, ever := b.rows(); !slices.Equal(got, rows) || !slices.Equal(ever, []chat.AttachmentID{two.ID}) {
			t.Errorf("%s: rows %v, ever %v", name, got, ever)
		}
		// Another process has another Holds, and no memory of it.
		b.ws = &tools.Workspaces{Runner: b.ws.Runner, Store: b.shop, Authorizer: b.Auth, TTL: time.Hour, Holds: &tools.Holds{}}
		if _, _, err := b.ws.Open(t.Context(), b.Request, "/workspace/derived.txt"); err == nil || !strings.Contains(err.Error(), "was removed") {
			t.Errorf("%s: opened: %v", name, err)
		}
		out := b.sh("true")
		if !strings.Contains(out.Answer, "3 files were removed") || !strings.Contains(out.Answer, "/workspace/a/one.txt, /workspace/derived.txt, /workspace/moved.txt") {
			t.Errorf("%s: the model is told %s", name, out.Answer)
		}
		if out := b.sh("true"); strings.Contains(out.Answer, "removed") {
			t.Errorf("%s: told twice: %s", name, out.Answer)
		}
		if got, _ := b.rows(); !slices.Equal(got, rows[3:]) {
			t.Errorf("%s: rows once it was told: %v", name, got)
		}
	}
}

// Every tool that says something of the workspace tells of what went.
func TestEachAnswerTellsOfRemovedFiles(t *testing.T) {
	b := newBench(t)
	other := b.Post("other.txt", "text/plain", []byte("other"))
	for name, use := range map[string]func() agent.Outcome{
		"list":   func() agent.Outcome { _, out := b.list(); return out },
		"exec":   func() agent.Outcome { return b.sh("true") },
		"import": func() agent.Outcome { return b.take(other, "/workspace/other") },
	} {
		one := b.Post(name, "text/plain", []byte(name))
		b.take(one, "/workspace/for-"+name)
		b.Delete(one)
		b.follow()
		if out := use(); !strings.Contains(out.Answer, "1 files were removed") || !strings.Contains(out.Answer, "/workspace/for-"+name) {
			t.Errorf("%s: %s", name, out.Answer)
		}
		if _, out := b.list(); strings.Contains(out.Answer, "removed") {
			t.Errorf("%s, and told again: %s", name, out.Answer)
		}
	}
}

// Only what is deleted goes: what is withheld, in doubt or refused to somebody
// is for the next opening to decide.
func TestASweepRemovesOnlyWhatIsDeleted(t *testing.T) {
	b, one, _ := made(t)
	before, ever := b.rows()
	same := func(what string) {
		t.Helper()
		rows, now := b.rows()
		if got := b.onDisk(); !slices.Equal(got, all) || !slices.Equal(rows, before) || !slices.Equal(now, ever) {
			t.Errorf("%s: left %v, rows %v, ever %v", what, got, rows, now)
		}
	}
	b.Decide = func(attachments.Question) (attachments.Decision, error) {
		return attachments.Decision{}, errors.New("the platform is away")
	}
	b.follow()
	same("doubt")
	b.Decide = func(attachments.Question) (attachments.Decision, error) {
		return attachments.Refuse("message", "x"), nil
	}
	b.follow()
	same("a refusal")
	for _, s := range []chat.FileState{chat.FileHidden, chat.FileDenied, chat.FileOversize, chat.FileUnread, chat.FileExternal} {
		b.Mark(one, s)
		b.follow()
		same(string(s))
	}
	b.Delete(one)
	away := errors.New("the database is away")
	// The store answers what is gone, and then not any more: at each of the
	// questions that come before the first file.
	for _, n := range []int{0, 1, 2, 3} {
		b.shop.away, b.shop.patience = away, n
		if err := b.ws.SweepDeleted(t.Context()); !errors.Is(err, away) {
			t.Errorf("away after %d answers: %v", n, err)
		}
		b.shop.away = nil
		if got := b.onDisk(); !slices.Equal(got, all) {
			t.Errorf("away after %d answers: left %v", n, got)
		}
	}
	// What was half done is done by the next one.
	if b.follow(); !slices.Equal(b.onDisk(), left) {
		t.Errorf("once it is back: left %v", b.onDisk())
	}
}

// A workspace in use is left to its user, and one that is being swept lets
// nobody in.
func TestASweepDisturbsNobody(t *testing.T) {
	b, one, _ := made(t)
	b.Delete(one)
	b.shop.used = func() { // a turn is between its checks and its end here
		b.shop.used = nil
		b.follow()
		if got := b.onDisk(); !slices.Equal(got, all) {
			t.Errorf("while it was in use: left %v", got)
		}
	}
	if paths, out := b.list(); !slices.Equal(paths, left) || !strings.Contains(out.Answer, "3 files were removed") {
		t.Errorf("the turn itself: %v, %s", paths, out.Answer)
	}

	b, one, _ = made(t)
	b.Delete(one)
	came := make(chan agent.Outcome, 1)
	b.shop.used = func() { // the sweep is in it
		b.shop.used = nil
		go func() { came <- b.sh("ls") }()
		select {
		case out := <-came:
			t.Errorf("somebody came in: %s", out.Answer)
			came <- out
		case <-time.After(100 * time.Millisecond):
		}
	}
	b.follow()
	if out := <-came; !strings.Contains(out.Answer, `early.txt\ntwo.txt\n`) || !strings.Contains(out.Answer, "3 files were removed") {
		t.Errorf("after the sweep: %s", out.Answer)
	}
}

// Whose folder is elsewhere, theirs are the rows.
func TestASweepLeavesOtherMachinesAlone(t *testing.T) {
	b, one, _ := made(t)
	b.Delete(one)
	before, ever := b.rows()
	here := b.ws.Runner()
	elsewhere, err := sandbox.New(t.Context(), sandbox.Config{Root: filepath.Dir(b.root) + "/elsewhere", Driver: sandbox.Bubblewrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = elsewhere.Close() })
	b.ws.Runner = func() *sandbox.Runner { return elsewhere }
	b.follow()
	if rows, now := b.rows(); !slices.Equal(rows, before) || !slices.Equal(now, ever) {
		t.Errorf("rows %v, ever %v", rows, now)
	}
	if made, err := elsewhere.Workspaces(); err != nil || len(made) != 0 {
		t.Errorf("made there: %v, %v", made, err)
	}
	b.ws.Runner = func() *sandbox.Runner { return here }
	if b.follow(); !slices.Equal(b.onDisk(), left) {
		t.Errorf("here: left %v", b.onDisk())
	}
}

// A label that another process writes once the sweep is through still counts.
func TestLateLabelsAreAskedAbout(t *testing.T) {
	b, one, _ := made(t)
	b.Delete(one)
	b.follow()
	id := b.shop.live[0].ID
	b.sh("echo late > late.txt")
	f := b.shop.files[id]["/workspace/late.txt"]
	f.Sources = append(slices.Clone(f.Sources), one.ID)
	b.shop.files[id]["/workspace/late.txt"] = f
	if paths, out := b.list(); !slices.Equal(paths, left) || !strings.Contains(out.Answer, "late.txt") {
		t.Errorf("left %v: %s", paths, out.Answer)
	}
}

// A copy whose name no tool can say goes as well, with all that is there.
func TestNoNameKeepsACopy(t *testing.T) {
	for name, sweep := range map[string]bool{"swept": true, "opened": false} {
		b, one, _ := made(t)
		b.sh("cp a/one.txt \"$(printf 'x\\377')\"")
		if got := b.onDisk(); len(got) != 6 {
			t.Fatalf("%s: made %q", name, got)
		}
		b.Delete(one)
		if sweep {
			b.follow()
			if got := b.onDisk(); len(got) != 0 {
				t.Errorf("%s: left %q", name, got)
			}
		}
		paths, out := b.list()
		if len(paths) != 0 || !strings.Contains(out.Answer, "everything else") {
			t.Errorf("%s: left %v: %s", name, paths, out.Answer)
		}
		if out := b.sh("echo on > on.txt"); !strings.Contains(out.Answer, `"exit_code":0`) || !slices.Equal(b.onDisk(), []string{"on.txt"}) {
			t.Errorf("%s, and then: %s", name, out.Answer)
		}
	}
}
