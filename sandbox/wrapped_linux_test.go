package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A command that is over before its first process is known did run: what it wrote is not why a sandbox was not set up.
func TestOverBeforeItIsKnown(t *testing.T) {
	for name, c := range map[string]struct{ said, want string }{
		"quick": {said: `{"child-pid": %d}{"exit-code": 3}`},
		"never": {said: `{"child-pid": %d}`, want: "set up sandbox: bubblewrap: no namespaces"},
	} {
		gone := exec.Command("true")
		if err := gone.Run(); err != nil {
			t.Fatal(err)
		}
		p := newWrapped(job{stderr: &strings.Builder{}})
		p.cmd = gone
		fmt.Fprint(&p.messages, "no namespaces")
		status, told, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(told, c.said, gone.Process.Pid)
		told.Close()
		done := make(chan error, 1)
		done <- nil
		p.listen(status, done)
		got := ""
		if err := p.begun(t.Context()); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if end, _ := p.wait(); c.want == "" && end.code != 3 {
			t.Errorf("%s: %+v", name, end)
		}
	}
}
