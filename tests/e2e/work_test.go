package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image/color"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sightline/cmd/local"
	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
)

// needs finds a program, or skips with the way to install it.
func needs(t *testing.T, program, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("SIGHTLINE_NO_SKIP") != "" {
		t.Fatalf("%s is missing: apt install %s", program, pkg)
	}
	t.Skipf("%s is missing: apt install %s", program, pkg)
}

// desk is a Discord channel whose model plays a script, one list of replies a
// message.
type desk struct {
	*fakediscord.Server
	t       *testing.T
	m       *fakemodel.Server
	p       *process
	home    string
	ann     string
	channel string
}

func newDesk(t *testing.T, more ...string) *desk {
	m, env := fake(t, says("fine"))
	s := fakediscord.New(t)
	ann := s.AddUser("ann")
	d := &desk{Server: s, t: t, m: m, home: home(t), ann: ann}
	d.channel = s.AddChannel(s.AddGuild(ann))
	env = append(env, "DISCORD_TOKEN="+s.Token, "DISCORD_API_URL="+s.URL, "SIGHTLINE_OWNERS=discord:"+ann)
	d.p = start(t, d.home, append(env, more...)...)
	return d
}

// say posts to the agent and waits for the answer, which the script ends with.
// It answers the message and the requests that were made of it.
func (d *desk) say(text string, files []fakediscord.File, script ...func(fakemodel.Request) fakemodel.Reply) (fakediscord.Message, []fakemodel.Request) {
	d.t.Helper()
	before, said := len(d.m.Requests()), len(d.Said(d.channel))
	done := fmt.Sprintf("done %d", said)
	d.m.Answer(steps(append(script, says(done))...))
	m := d.Post(d.channel, d.ann, fakediscord.Draft{Text: "<@" + d.Bot.ID + "> " + text, Files: files})
	wait(d.t, "the answer to "+text, func() bool {
		for _, s := range d.Said(d.channel)[said:] {
			if s.Content == done {
				return true
			}
		}
		return false
	})
	return m, d.m.Requests()[before:]
}

func (d *desk) tool(name string, args map[string]any) func(fakemodel.Request) fakemodel.Reply {
	b, err := json.Marshal(args)
	if err != nil {
		d.t.Fatal(err)
	}
	return calls(name, string(b))
}

// onDisk are the files in the workspaces.
func (d *desk) onDisk() (names []string) {
	d.t.Helper()
	root, err := local.ReachableDir(d.home, "workspaces")
	if err != nil {
		d.t.Fatal(err)
	}
	folders, err := filepath.Glob(root + "/w-*/files")
	if err != nil || len(folders) != 1 {
		d.t.Fatalf("workspaces on disk: %v, %v", folders, err)
	}
	err = filepath.WalkDir(folders[0], func(p string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, strings.TrimPrefix(p, folders[0]+"/"))
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30" fill="#ff0000"/></svg>`

// A drawing that no model takes is imported, made a picture of, looked at and
// posted; and when its message is deleted, what was made of it is gone.
func TestWorkspace(t *testing.T) {
	needs(t, "bwrap", "bubblewrap")
	needs(t, "rsvg-convert", "librsvg2-bin")
	d := newDesk(t, "SIGHTLINE_WORKSPACES=on")
	wait(t, "the sandbox", func() bool { // it is proved while the rest works
		_, r := d.say("hello", nil)
		return strings.Contains(strings.Join(r[0].Tools, " "), "workspace_exec")
	})
	posted, r := d.say("what is this?", []fakediscord.File{{Name: "in.svg", Type: "image/svg+xml", Data: []byte(svg)}})
	if tools := strings.Join(r[0].Tools, " "); !strings.Contains(tools, "import_attachment workspace_exec workspace_list workspace_view share_file") {
		t.Fatalf("tools offered: %s", tools)
	}
	if !strings.Contains(r[0].System, "Importing a file into it is not seeing it") || len(r[0].Pictures) != 0 {
		t.Errorf("the prompt: %s", r[0].System)
	}
	id := attachmentID(r[0], "in.svg")
	sum := sha256.Sum256([]byte(svg))
	want := hex.EncodeToString(sum[:])
	_, r = d.say("draw it", nil,
		d.tool("import_attachment", map[string]any{"attachment_id": id, "destination": "/workspace/deep/in.svg"}),
		d.tool("workspace_exec", map[string]any{"command": "sha256sum deep/in.svg && rsvg-convert -o out.png deep/in.svg && cp deep/in.svg copy.svg && echo own > own.txt"}),
		d.tool("workspace_view", map[string]any{"path": "/workspace/out.png"}),
		d.tool("share_file", map[string]any{"path": "/workspace/out.png"}))
	if got := r[1].Last("tool"); !strings.Contains(got, want) || !strings.Contains(got, `"path":"/workspace/deep/in.svg"`) || !strings.Contains(got, fmt.Sprintf(`"bytes":%d`, len(svg))) {
		t.Errorf("the receipt of the import: %s", got)
	}
	if got := r[2].Last("tool"); !strings.Contains(got, want) || !strings.Contains(got, `"exit_code":0`) || !strings.Contains(got, "/workspace/out.png") {
		t.Fatalf("the command: %s", got)
	}
	if len(r[3].Pictures) != 1 || r[3].Pictures[0].Image.Bounds().Dx() != 40 {
		t.Fatalf("the picture of the workspace is not shown: %s", r[3].Last("tool"))
	}
	if red := color.NRGBAModel.Convert(r[3].Pictures[0].Image.At(5, 5)); red != (color.NRGBA{255, 0, 0, 255}) {
		t.Errorf("it shows %v", red)
	}
	if got := r[4].Last("tool"); !strings.Contains(got, `"shared":"out.png"`) {
		t.Fatalf("the post of the file: %s", got)
	}
	shared := 0
	for _, m := range d.Said(d.channel) {
		shared += len(m.Attachments)
	}
	if shared != 1 {
		t.Errorf("%d files posted", shared)
	}

	// The drawing is deleted: it, its copy and what came of it are gone before
	// anybody asks, and the model is told.
	if got := d.onDisk(); !slices.Equal(got, []string{"copy.svg", "deep/in.svg", "out.png", "own.txt"}) {
		t.Errorf("on disk: %v", got)
	}
	d.Delete(posted)
	wait(t, "the copies to go", func() bool { return len(d.onDisk()) == 0 })
	_, r = d.say("what is left?", nil, d.tool("workspace_list", map[string]any{}))
	got := r[1].Last("tool")
	if strings.Contains(got, "svg\"") || strings.Contains(got, `"path":"/workspace/out.png"`) || !strings.Contains(got, "were removed") {
		t.Errorf("after the deletion: %s", got)
	}
}

// Nobody has a workspace unless an owner says so, and nobody else can.
func TestWorkspaceIsTheOwners(t *testing.T) {
	needs(t, "bwrap", "bubblewrap")
	d := newDesk(t)
	_, r := d.say("hello", nil, d.tool("workspace_exec", map[string]any{"command": "echo hi"}))
	if strings.Contains(strings.Join(r[0].Tools, " "), "workspace") || !strings.Contains(r[1].Last("tool"), "no workspace in this conversation") {
		t.Errorf("without one: %v, %s", r[0].Tools, r[1].Last("tool"))
	}
	ask := func(user string, args ...string) string {
		i := d.Interact(d.channel, user, "workspace", args...)
		<-i.Done
		return i.Content
	}
	if got := ask(d.Server.AddUser("bob"), "state", "on"); !strings.Contains(got, "owner") {
		t.Errorf("a guest: %s", got)
	}
	wait(t, "the owner to enable one", func() bool { // once the sandbox is proved
		return strings.Contains(ask(d.ann, "state", "on"), "has a workspace")
	})
	_, r = d.say("now", nil, d.tool("workspace_exec", map[string]any{"command": "echo hi; id -u; cat /etc/shadow"}))
	if got := r[1].Last("tool"); !strings.Contains(got, "hi\\n") || strings.Contains(got, "root:") || strings.Contains(got, "hi\\n0\\n") {
		t.Errorf("with one: %s", got)
	}
	if got := ask(d.ann, "state", "off"); !strings.Contains(got, "no workspace") {
		t.Errorf("off: %s", got)
	}
	if _, r = d.say("again", nil); strings.Contains(strings.Join(r[0].Tools, " "), "workspace") {
		t.Errorf("switched off and offered: %v", r[0].Tools)
	}
}

// Documents of any kind are read through the same door as pictures are looked
// at, and a PDF's pages are pictures.
func TestDocuments(t *testing.T) {
	d := newDesk(t)
	var lines []string
	for i := range 500 {
		lines = append(lines, fmt.Sprintf("line %d", i+1))
	}
	sjis := []byte{0x93, 0xfa, 0x96, 0x7b, 0x8c, 0xea, 0x82, 0xcc, 0x83, 0x65, 0x83, 0x4c, 0x83, 0x58, 0x83, 0x67, 0x82, 0xc5, 0x82, 0xb7, 0x81, 0x42, 0x0a} // 日本語のテキストです。
	shot, _ := noise(t, 30, 30, 90)
	posted, r := d.say("read these", []fakediscord.File{
		{Name: "log.txt", Type: "text/plain", Data: []byte(strings.Join(lines, "\n"))},
		{Name: "memo.txt", Type: "text/plain", Data: []byte(strings.Repeat(string(sjis), 5))},
		{Name: "page.pdf", Type: "application/pdf", Data: onePage()},
		{Name: "shot.png", Type: "image/png", Data: shot},
	})
	ids := map[string]string{}
	for _, n := range []string{"log.txt", "memo.txt", "page.pdf", "shot.png"} {
		ids[n] = attachmentID(r[0], n)
	}
	read := func(id, window string) string {
		args := map[string]any{"attachment_id": id}
		if window != "" {
			args["lines"] = window
		}
		_, r := d.say("read", nil, d.tool("read_document", args))
		return r[1].Last("tool")
	}
	if got := read(ids["log.txt"], "200-202"); !strings.Contains(got, `line 200\nline 201\nline 202`) || strings.Contains(got, "line 203") || !strings.Contains(got, `"total":500`) || !strings.Contains(got, "continue with lines=203-205") {
		t.Errorf("a window of a text: %s", got)
	}
	if got := read(ids["memo.txt"], ""); !strings.Contains(got, "日本語のテキストです。") {
		t.Errorf("Shift-JIS: %s", got)
	}
	if got := read(ids["page.pdf"], ""); !strings.Contains(got, "Hello page") {
		t.Errorf("a PDF: %s", got)
	}
	if got := read(ids["shot.png"], ""); !strings.Contains(got, "view_images") {
		t.Errorf("a picture: %s", got)
	}
	_, r = d.say("show the page", nil, d.tool("view_images", map[string]any{"pages": []map[string]any{{"id": ids["page.pdf"], "page": 1}}}))
	if len(r[1].Pictures) != 1 || r[1].Pictures[0].Image.Bounds().Dx() < 200 || !strings.Contains(r[1].Pictures[0].Label, "page 1") {
		t.Errorf("the page is not shown: %s", r[1].Last("tool"))
	}
	_, r = d.say("and its second", nil, d.tool("view_images", map[string]any{"pages": []map[string]any{{"id": ids["page.pdf"], "page": 2}}}))
	if len(r[1].Pictures) != 0 || !strings.Contains(r[1].Last("tool"), "there is no page 2") {
		t.Errorf("a page that is not there: %s", r[1].Last("tool"))
	}
	served := d.Served()
	d.Delete(posted)
	if got := read(ids["log.txt"], ""); strings.Contains(got, "line 1") || d.Served() != served {
		t.Errorf("deleted: %s, %d bytes", got, d.Served()-served)
	}
}

// onePage is a small PDF with one line of text.
func onePage() []byte {
	objects := []string{
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
		"<</Length 40>>\nstream\nBT /F 18 Tf 20 50 Td (Hello page) Tj ET \nendstream", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
	}
	out := "%PDF-1.4\n"
	var at []int
	for i, o := range objects {
		at = append(at, len(out))
		out += fmt.Sprintf("%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	xref := len(out)
	out += fmt.Sprintf("xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, a := range at {
		out += fmt.Sprintf("%010d 00000 n \n", a)
	}
	return []byte(out + fmt.Sprintf("trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, xref))
}
