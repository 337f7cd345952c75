package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/draw"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sightline/attachments/document/documenttest"
	"sightline/cmd/local"
	"sightline/cmd/service"
	"sightline/connectors/web"
	"sightline/tests/fakemodel"
)

// patience is how long anything may take here: shared machines are slow, and
// a crash costs a heartbeat timeout.
const patience = 3 * time.Minute

// home makes a state directory that leaves nothing behind, whatever user the
// database ran as.
func home(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sightline-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			if b, err := os.ReadFile(filepath.Join(dir, "sightline.log")); err == nil {
				t.Logf("end of the service's log:\n%s", tail(b, 6000))
			}
		}
		for _, s := range []string{"postgres", "temporal"} {
			if _, err := os.Stat(filepath.Join(dir, s)); err == nil {
				if err := local.Sweep(filepath.Join(dir, s)); err != nil {
					t.Logf("sweep %s: %v", s, err)
				}
			}
		}
		// Root's workspaces are elsewhere, where nobody can get to them.
		if w, err := local.ReachableDir(dir, "workspaces"); err == nil {
			_ = os.RemoveAll(w)
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

func tail(b []byte, n int) string {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(b)
}

// process is one running sightline.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *buffer
	out    io.Reader
	exited chan struct{}
	Ready  service.Running
	Client *web.Client
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start runs the program on a state directory, with extra environment.
func start(t testing.TB, home string, env ...string) *process {
	t.Helper()
	p := launch(t, home, env...)
	select {
	case <-p.exited:
		t.Fatalf("the service ended while starting:\n%s", p.stderr)
	case r, ok := <-p.ready():
		if !ok {
			t.Fatalf("the service never became ready:\n%s", p.stderr)
		}
		p.Ready = r
	}
	var err error
	if p.Client, err = web.OpenClient(home); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Client.Close)
	return p
}

func launch(t testing.TB, home string, env ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self), stderr: &buffer{}, exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVar+"=1", pdfVar+"="+documenttest.CacheDir(t), "SIGHTLINE_HOME="+home, "SIGHTLINE_WEB_ADDR=127.0.0.1:0", "SIGHTLINE_LOG_LEVEL=debug")
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stderr = p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.out = out
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(p.Stop)
	return p
}

// ready yields what the program says of itself once it runs; closed without
// it when it never does.
func (p *process) ready() <-chan service.Running {
	ch := make(chan service.Running, 1)
	go func() {
		defer close(ch)
		var r service.Running
		if json.NewDecoder(p.out).Decode(&r) == nil {
			ch <- r
		}
		_, _ = io.Copy(io.Discard, p.out)
	}()
	return ch
}

// Stop ends the process as an operator would.
func (p *process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.wait()
}

// Kill ends it as a power cut would.
func (p *process) Kill() {
	_ = p.cmd.Process.Kill()
	p.wait()
}

func (p *process) wait() {
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Errorf("the service did not end; its stderr:\n%s", p.stderr)
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// ask sends a message with files and waits for how it ended.
func ask(t testing.TB, c *web.Client, conversation, text string, files ...file) web.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conv, sent := send(t, c, conversation, text, files...)
	a, err := c.Wait(ctx, conv, sent, func(string) {})
	if err != nil {
		t.Fatalf("wait for the answer to %q: %v", text, err)
	}
	return a
}

type file struct {
	name string
	data []byte
}

func send(t testing.TB, c *web.Client, conversation, text string, files ...file) (string, web.Sent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conv, err := c.Conversation(ctx, conversation)
	if err != nil {
		t.Fatal(err)
	}
	d := web.Draft{Key: web.NewKey(), Text: text}
	for _, f := range files {
		u, err := c.Upload(ctx, conv.ID, f.name, f.data)
		if err != nil {
			t.Fatalf("upload %s: %v", f.name, err)
		}
		d.Uploads = append(d.Uploads, u.ID)
	}
	s, err := c.Send(ctx, conv.ID, d)
	if err != nil {
		t.Fatal(err)
	}
	return conv.ID, s
}

// fake starts a model server for the program to use.
func fake(t testing.TB, answer func(fakemodel.Request) fakemodel.Reply) (*fakemodel.Server, []string) {
	t.Helper()
	s := fakemodel.New(answer)
	t.Cleanup(s.Close)
	return s, []string{"OPENAI_BASE_URL=" + s.BaseURL(), "OPENAI_API_KEY=test-key", "SIGHTLINE_MODEL=fake-1", "SIGHTLINE_MODEL_VISION=yes"}
}

// noise is a picture whose bytes repeat nowhere, so that a run of them found
// elsewhere was copied.
func noise(t testing.TB, w, h int, seed uint32) ([]byte, image.Image) {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	x := seed*2654435761 + 1
	for i := 0; i < len(img.Pix); i += 4 {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = uint8(x), uint8(x>>8), uint8(x>>16), 255
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), img
}

// samePixels compares what arrived with what was posted.
func samePixels(a, b image.Image) bool {
	if a == nil || b == nil || a.Bounds().Size() != b.Bounds().Size() {
		return false
	}
	to := func(m image.Image) *image.NRGBA {
		out := image.NewNRGBA(image.Rectangle{Max: m.Bounds().Size()})
		draw.Draw(out, out.Rect, m, m.Bounds().Min, draw.Src)
		return out
	}
	return bytes.Equal(to(a).Pix, to(b).Pix)
}

// crop is the part of a picture as a region should show it.
func crop(m image.Image, r image.Rectangle) image.Image {
	out := image.NewNRGBA(image.Rectangle{Max: r.Size()})
	draw.Draw(out, out.Rect, m, r.Min, draw.Src)
	return out
}

// attachmentID finds the ID in the last marker for a file name.
func attachmentID(r fakemodel.Request, name string) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		for _, line := range strings.Split(r.Messages[i].Text, "\n") {
			if _, rest, ok := strings.Cut(line, ": "+name+" ("); ok {
				id, _, _ := strings.Cut(rest, ")")
				return id
			}
		}
	}
	return ""
}
