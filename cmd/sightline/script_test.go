package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"sightline/cmd/local"
	"sightline/cmd/local/testenv"
)

// program lets testscript run this test binary as sightline itself.
type program struct{ m *testing.M }

func (p program) Run() int { return testenv.Main(p.m) }

// TestScripts play what a newcomer types, against the real program: its exit
// codes, and what it says on stdout and stderr.
func TestScripts(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			// A state directory with a short path, for the database's socket.
			dir, err := os.MkdirTemp("", "sightline-script-")
			if err != nil {
				return err
			}
			// Swept at the very end: a script that failed leaves its service
			// running until then.
			t.Cleanup(func() {
				for _, s := range []string{"postgres", "temporal"} {
					if _, err := os.Stat(filepath.Join(dir, s)); err == nil {
						if err := local.Sweep(filepath.Join(dir, s)); err != nil {
							t.Logf("sweep %s: %v", s, err)
						}
					}
				}
				_ = os.RemoveAll(dir)
			})
			e.Setenv("SIGHTLINE_HOME", dir)
			e.Setenv("SIGHTLINE_WEB_ADDR", "127.0.0.1:0")
			// The devserver that was built before is in the real user's cache.
			e.Setenv("XDG_CACHE_HOME", cache)
			e.Setenv("HOME", os.Getenv("HOME"))
			e.Setenv("GOPATH", goEnv("GOPATH"))
			e.Setenv("GOFLAGS", goEnv("GOFLAGS"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"picture": picture, "await": await, "occupy": occupy,
		},
		Condition: installed,
	})
}

func goEnv(name string) string {
	b, _ := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(b))
}

// installed reports whether a program is there; where nothing may be skipped
// its absence is an error.
func installed(name string) (bool, error) {
	if _, err := exec.LookPath(name); err == nil {
		return true, nil
	}
	if os.Getenv("SIGHTLINE_NO_SKIP") == "1" {
		return false, fmt.Errorf("%s is not installed, and nothing may be skipped", name)
	}
	return false, nil
}

// picture FILE TEXT: a screenshot with that text, large enough to be read.
func picture(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.Join(args[1:], " ")
	f, err := opentype.Parse(goregular.TTF)
	ts.Check(err)
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: 28, DPI: 72, Hinting: font.HintingFull})
	ts.Check(err)
	big := image.NewGray(image.Rect(0, 0, font.MeasureString(face, text).Ceil()+60, 80))
	draw.Draw(big, big.Rect, image.White, image.Point{}, draw.Src)
	d := font.Drawer{Dst: big, Src: image.NewUniform(color.Black), Face: face, Dot: fixed.P(30, 50)}
	d.DrawString(text)
	var b bytes.Buffer
	ts.Check(png.Encode(&b, big))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}

// await: until the service can be found through the state directory.
func await(ts *testscript.TestScript, _ bool, _ []string) {
	file := filepath.Join(ts.Getenv("SIGHTLINE_HOME"), "service.json")
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
	}
	ts.Fatalf("the service never became ready")
}

// occupy NAME: takes a port for the rest of the script.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}
