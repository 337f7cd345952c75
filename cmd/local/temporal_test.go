package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func startTemporal(t *testing.T, c TemporalConfig) *Temporal {
	t.Helper()
	if c.UIAddr == "" {
		c.UIAddr = "off"
	}
	if c.Progress == nil {
		c.Progress = t.Logf
	}
	start := time.Now()
	s, err := StartTemporal(t.Context(), c)
	var missing *MissingError
	if errors.As(err, &missing) && os.Getenv("SIGHTLINE_NO_SKIP") != "1" {
		t.Skipf("this test needs a Temporal server: %v (set SIGHTLINE_NO_SKIP=1 to fail instead)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Temporal answers after %v", time.Since(start).Round(time.Millisecond))
	t.Cleanup(func() { stopped(t, s) })
	return s
}

func dial(t *testing.T, address, namespace string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func greet(_ workflow.Context, whom string) (string, error) { return "hello " + whom, nil }

func runGreet(t *testing.T, c client.Client, id string, attributes ...temporal.SearchAttributeUpdate) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w := worker.New(c, "greet", worker.Options{})
	w.RegisterWorkflow(greet)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	start := time.Now()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: "greet", TypedSearchAttributes: temporal.NewSearchAttributes(attributes...),
	}, greet, id)
	if err != nil {
		t.Fatal(err)
	}
	var out string
	if err := run.Get(ctx, &out); err != nil || out != "hello "+id {
		t.Fatalf("the workflow answers %q, %v", out, err)
	}
	t.Logf("a workflow takes %v", time.Since(start).Round(time.Millisecond))
}

func TestTemporalStartsStopsAndStartsAgain(t *testing.T) {
	dir := t.TempDir()
	place := temporal.NewSearchAttributeKeyKeyword("Place")
	s := startTemporal(t, TemporalConfig{Dir: dir, Namespace: "test", SearchAttributes: map[string]string{"Place": "Keyword"}, UIAddr: "127.0.0.1:0"})
	if s.Namespace() != "test" {
		t.Errorf("namespace %q", s.Namespace())
	}
	runGreet(t, dial(t, s.Address(), "test"), "first", place.ValueSet("here"))
	resp, err := http.Get(s.UIURL())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the web UI answers %d", resp.StatusCode)
	}
	stopped(t, s)
	if err := s.Err(); err != nil {
		t.Errorf("after Stop, Err is %v", err)
	}

	again := startTemporal(t, TemporalConfig{Dir: dir, Namespace: "test", SearchAttributes: map[string]string{"Place": "Keyword", "Agent": "Keyword"}})
	if again.Address() != s.Address() {
		t.Errorf("it moved from %s to %s", s.Address(), again.Address())
	}
	if again.UIURL() != "" {
		t.Errorf("there is a web UI at %s", again.UIURL())
	}
	c := dial(t, again.Address(), "test")
	if err := c.GetWorkflow(t.Context(), "first", "").Get(t.Context(), nil); err != nil {
		t.Errorf("the first workflow is gone: %v", err)
	}
	runGreet(t, c, "second", place.ValueSet("there"), temporal.NewSearchAttributeKeyKeyword("Agent").ValueSet("a1"))
}

func TestTemporalEndsWithItsParentAndStartsAgain(t *testing.T) {
	dir := t.TempDir()
	stopped(t, startTemporal(t, TemporalConfig{Dir: t.TempDir()})) // builds it if need be, with its progress
	child := hold(t, "temporal", dir)
	runGreet(t, dial(t, child.Address, "test"), "before")
	child.kill(t)
	killed := time.Now()
	s := startTemporal(t, TemporalConfig{Dir: dir, Namespace: "test", Progress: func(f string, a ...any) {
		if strings.Contains(f, "left over") {
			t.Error("the server had not noticed that its parent was dead")
		}
	}})
	if s.PID() == child.Server {
		t.Error("a server that was ending was adopted")
	}
	c := dial(t, s.Address(), "test")
	if err := c.GetWorkflow(t.Context(), "before", "").Get(t.Context(), nil); err != nil {
		t.Errorf("the workflow is gone: %v", err)
	}
	runGreet(t, c, "after")
	t.Logf("%v after the kill, a workflow has run", time.Since(killed).Round(time.Millisecond))
	if alive(child.Server) {
		t.Error("two servers run")
	}
}

func TestTemporalThatIsKilledSaysSoAndStartsAgain(t *testing.T) {
	dir := t.TempDir()
	s := startTemporal(t, TemporalConfig{Dir: dir})
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Fatal("its death was not noticed")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err is %v", err)
	}
	stopped(t, s)
	s = startTemporal(t, TemporalConfig{Dir: dir})
	runGreet(t, dial(t, s.Address(), "default"), "after")
}

func TestTemporalFolderIsExclusive(t *testing.T) {
	dir := t.TempDir()
	startTemporal(t, TemporalConfig{Dir: dir})
	_, err := StartTemporal(t.Context(), TemporalConfig{Dir: dir, UIAddr: "off"})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("locked by process %d", os.Getpid())) {
		t.Errorf("second start: %v", err)
	}
}

func TestTemporalPortsThatAreTaken(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	if err := os.WriteFile(filepath.Join(dir, "port"), fmt.Appendln(nil, port), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startTemporal(t, TemporalConfig{Dir: dir})
	if s.Address() == taken.Addr().String() {
		t.Error("two listen on one port")
	}
	// What an operator asked for is had or refused.
	if _, err := StartTemporal(t.Context(), TemporalConfig{Dir: t.TempDir(), UIAddr: taken.Addr().String()}); err == nil || !strings.Contains(err.Error(), "web UI") {
		t.Errorf("with a port for the web UI that is taken: %v", err)
	}
	if _, err := StartTemporal(t.Context(), TemporalConfig{Dir: t.TempDir(), UIAddr: "0.0.0.0:0"}); err == nil || !strings.Contains(err.Error(), "no login") {
		t.Errorf("with a web UI for everybody: %v", err)
	}
	// What nobody asked for moves.
	l := temporalLauncher{config: TemporalConfig{Dir: t.TempDir()}}
	hold, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", defaultUIPort))
	if err == nil {
		defer hold.Close()
	}
	p, err := l.choosePorts()
	if err != nil || p.ui == 0 || p.ui == defaultUIPort {
		t.Errorf("with the usual port of the web UI taken: %+v, %v", p, err)
	}
}

func TestTemporalThatDoesNotStartSaysWhy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "temporal.db"), []byte("this is not a database, whatever it is otherwise"), 0o600); err != nil {
		t.Fatal(err)
	}
	stopped(t, startTemporal(t, TemporalConfig{Dir: t.TempDir()}))
	_, err := StartTemporal(t.Context(), TemporalConfig{Dir: dir, UIAddr: "off"})
	if err == nil || !strings.Contains(err.Error(), "file is not a database") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	_, err = StartTemporal(t.Context(), TemporalConfig{Dir: t.TempDir(), Binary: "/nowhere/devserver"})
	if err == nil || !strings.Contains(err.Error(), "SIGHTLINE_DEVSERVER") {
		t.Errorf("error %v", err)
	}
}

func TestTemporalPredecessorThatDoesNotEndIsEnded(t *testing.T) {
	dir := t.TempDir()
	stubborn := hold(t, "stubborn", dir)
	go stubborn.cmd.Wait() // reaps it, as init would
	s := startTemporal(t, TemporalConfig{Dir: dir})
	if alive(stubborn.PID) {
		t.Error("it is still there")
	}
	runGreet(t, dial(t, s.Address(), "default"), "after")
}
