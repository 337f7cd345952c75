package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLimits passes each limit in a way of its own.
func TestLimits(t *testing.T) {
	for _, kind := range []Kind{Bubblewrap, Landlock} {
		t.Run(string(kind), func(t *testing.T) {
			small := Limits{Wall: 15 * time.Second, CPU: time.Second, Memory: 128 << 20, Processes: 32, Workspace: 16 << 20, File: 4 << 20, Entries: 300, Output: 4 << 10}
			r := limited(t, kind, small)
			for _, c := range []struct {
				name, command string
				want          Ended
			}{
				{"wall", "sleep 8888", EndedWall},
				{"fork bomb", "b() { sleep 8888 & b & b; }; b", EndedWall},
				{"cpu", "while :; do :; done", EndedCPU},
				{"memory of one", "head -c 300m /dev/zero | tail | wc -c", EndedMemory},
				{"memory of several", "for i in 1 2 3; do (head -c 60m /dev/zero | tail | (sleep 10; wc -c)) & done; wait", EndedMemory},
				{"disk", "i=0; while :; do head -c 3m /dev/zero >f$i; i=$((i+1)); done", EndedDisk},
				{"disk of deleted files", "for i in 1 2 3 4 5 6 7 8; do eval \"exec 1$i>x\"; rm x; eval \"head -c 3m /dev/zero >&1$i\"; done; sleep 8888", EndedDisk},
				{"number of files", "i=0; while :; do : >f$i; i=$((i+1)); done", EndedDisk},
				{"depth", "while :; do mkdir d && cd d; done", EndedDisk},
				{"one file", "exec head -c 8m /dev/zero >big", EndedFile},
				{"output", "yes", EndedFlood},
			} {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					w := workspace(t, r)
					mark := fmt.Sprint(10_000 + rand.IntN(1_000_000_000)) // found in command lines
					timeout := time.Duration(0)
					if c.want == EndedWall {
						timeout = 1500 * time.Millisecond
					}
					res, err := w.Exec(t.Context(), strings.ReplaceAll(c.command, "8888", mark), timeout)
					if err != nil {
						t.Fatal(err)
					}
					ended := res.Ended
					if c.name == "memory of one" && ended == EndedItself {
						// By address space: the process is told and ends by itself.
						if strings.Contains(res.Stdout.Text, "314572800") {
							t.Error("it held 300 MiB")
						}
						ended = EndedMemory
					}
					if ended != c.want {
						t.Errorf("ended by %q, want %q: %+v", ended, c.want, res)
					}
					if res.Wall > 14*time.Second {
						t.Errorf("it took %v", res.Wall)
					}
					nothingRuns(t, mark)
					// Whatever a command did, the next one can clean up.
					if res, err := w.Exec(t.Context(), "rm -rf -- * && ls -A", 0); err != nil || res.Stdout.Text != "" || res.ExitCode != 0 {
						t.Errorf("the workspace can't be used any more: %+v, %v", res, err)
					}
					if err := w.Remove(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

func TestExec(t *testing.T) {
	for _, kind := range []Kind{Bubblewrap, Landlock} {
		t.Run(string(kind), func(t *testing.T) {
			r := proved(t, kind)
			w := workspace(t, r)
			put(t, w, Inside+"/old", "old")
			put(t, w, Inside+"/same", "same")
			put(t, w, Inside+"/gone", "gone")
			res := run(t, w, `echo out; echo err >&2; echo new >old; mkdir -p a/b; echo 12345 >a/b/c; rm gone; cat same; echo; pwd; cat; exit 3`)
			if want := "out\nsame\n" + r.Seen(w.ID()) + "\n"; res.Stdout.Text != want || res.Stderr.Text != "err\n" || res.ExitCode != 3 || res.Ended != EndedItself {
				t.Errorf("got %+v, want stdout %q", res, want)
			}
			want := []Change{{Inside + "/a/b/c", Added, Regular, 6}, {Inside + "/gone", Removed, Regular, 4}, {Inside + "/old", Modified, Regular, 4}}
			if len(res.Changes) != 3 || res.ChangesTotal != 3 {
				t.Fatalf("changes %+v, want %+v", res.Changes, want)
			}
			for i, c := range res.Changes {
				if c != want[i] {
					t.Errorf("change %d is %+v, want %+v", i, c, want[i])
				}
			}
			// Same size, and its time set back: only the change time tells.
			res = run(t, w, `touch -r same ref; printf SAME >same; touch -r ref same`)
			if len(res.Changes) != 2 || res.Changes[1].Path != Inside+"/same" {
				t.Errorf("a rewritten file went unseen: %+v", res.Changes)
			}
			if res = run(t, w, "kill -SEGV $$"); res.Signal != "SIGSEGV" || res.ExitCode != 128+11 {
				t.Errorf("a signal is reported as %+v", res)
			}
			for _, c := range []string{"", " \n", "a\x00b", strings.Repeat("x", maxCommand+1)} {
				_, err := w.Exec(t.Context(), c, 0)
				wantRefused(t, err, ErrCommand)
			}
			// A syntax error or an exit code like a launcher's is the command's own result.
			if res = run(t, w, "exit 125"); res.ExitCode != 125 {
				t.Errorf("exit 125 is reported as %+v", res)
			}
			res = run(t, w, "echo first; yes | head -c 1000000; echo; echo last")
			if !strings.HasPrefix(res.Stdout.Text, "first\n") || !strings.HasSuffix(res.Stdout.Text, "last\n") || res.Stdout.Cut == 0 ||
				!strings.Contains(res.Stdout.Text, "bytes left out") || len(res.Stdout.Text) > 66<<10 {
				t.Errorf("head and tail were not kept: %d bytes, %d cut", len(res.Stdout.Text), res.Stdout.Cut)
			}
		})
	}
}

// TestDigestsAgree is the same file seen by the import, a command, a view and a listing.
func TestDigestsAgree(t *testing.T) {
	w := workspace(t, proved(t, Bubblewrap))
	got := put(t, w, Inside+"/a/b/picture.svg", "<svg/>"+strings.Repeat(" ", 100_000))
	if !got.Replaced && got.Bytes != 100_006 || got.Path != Inside+"/a/b/picture.svg" {
		t.Errorf("got %+v", got)
	}
	res := run(t, w, "sha256sum /workspace/a/b/picture.svg && echo '<svg>x</svg>' >/workspace/a/b/picture.svg && sha256sum a/b/picture.svg")
	f := strings.Fields(res.Stdout.Text)
	if len(f) != 4 || f[0] != got.SHA256 || f[2] == got.SHA256 {
		t.Errorf("the sandbox saw %q, the import %+v", res.Stdout.Text, got)
	}
	seen, err := w.View(t.Context(), got.Path, 0)
	if err != nil || string(seen.Bytes) != "<svg>x</svg>\n" || seen.SHA256 != f[2] {
		t.Errorf("view: %q %v", seen.Bytes, err)
	}
	list, err := w.List(t.Context(), true)
	if err != nil || len(list) != 3 || list[2].SHA256 != f[2] || list[2].Path != got.Path {
		t.Errorf("list: %+v %v", list, err)
	}
}

func TestExecEndsWithItsContext(t *testing.T) {
	for _, kind := range []Kind{Bubblewrap, Landlock} {
		t.Run(string(kind), func(t *testing.T) {
			w := workspace(t, proved(t, kind))
			ctx, cancel := context.WithCancel(t.Context())
			made := filepath.Join(w.r.cfg.Root, w.id.folder(), "files", "file")
			go func() { // once the command runs, which may take its time to begin
				defer cancel()
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					if _, err := os.Stat(made); err == nil {
						return
					}
				}
			}()
			res, err := w.Exec(ctx, "echo here; echo x >file; sleep 9999", 0)
			if !errors.Is(err, context.Canceled) || res.Ended != EndedContext || res.Stdout.Text != "here\n" || len(res.Changes) != 1 {
				t.Errorf("got %+v, %v", res, err)
			}
			nothingRuns(t, "9999")
		})
	}
}
