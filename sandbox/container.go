package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// container is a command under Docker. The command line only shows what the engine runs: killing it ends nothing, so the
// engine is told.
type container struct {
	d        *docker
	name     string
	cmd      *exec.Cmd
	messages firstWords
	killing  sync.Once
	ended    chan struct{}

	// Valid after ended.
	result exit
	err    error
}

// follow waits for the command line and asks the engine how it went. It removes the container whatever happened.
func (p *container) follow() {
	defer close(p.ended)
	err := p.cmd.Wait()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		p.err = fmt.Errorf("follow container: %w", err)
	}
	ctx := context.Background()
	state, err := p.d.ask(ctx, "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}", p.name)
	f := strings.Fields(state)
	switch {
	case err != nil || len(f) != 3:
		p.err = errors.Join(p.err, fmt.Errorf("start container: %s", p.messages.text()), err)
	case f[0] == "created":
		p.err = errors.Join(p.err, fmt.Errorf("start container: %s", p.messages.text()))
	default:
		code, err := strconv.Atoi(f[1])
		p.result, p.err = exit{code: code, outOfMem: f[2] == "true"}, errors.Join(p.err, err)
	}
	if _, err := p.d.ask(ctx, "rm", "--force", "--volumes", p.name); err != nil && p.err == nil {
		// Something of the command could still run: its result must not be trusted.
		p.err = fmt.Errorf("end container: %w", err)
	}
}

func (p *container) wait() (exit, error) {
	<-p.ended
	return p.result, p.err
}

// kill tells the engine until the command line ends: the container may not have been made yet.
func (p *container) kill() {
	p.killing.Do(func() {
		go func() {
			for {
				_, _ = p.d.ask(context.Background(), "kill", p.name) // fails as long as nothing runs
				select {
				case <-p.ended:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
	})
}

func (p *container) load() load { return unknownLoad() }

var _ process = (*container)(nil)
