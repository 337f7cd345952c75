package sandbox

import (
	"context"
	"io"
	"time"
)

// A Kind names a driver.
type Kind string

// The drivers.
const (
	Docker     Kind = "docker"
	Bubblewrap Kind = "bubblewrap"
	Landlock   Kind = "landlock"
)

// Inside is where commands find their workspace, except under the landlock driver, which has no mounts of its own.
const Inside = "/workspace"

// A driver starts commands. Everything that differs between the ways to isolate one is behind it.
type driver interface {
	kind() Kind
	// start returns when the command is confined and about to run. An error means that nothing of it ran.
	start(ctx context.Context, j job) (process, error)
	// seen is the path of the workspace at dir, as commands see it.
	seen(dir string) string
	// notes are limits that this machine enforces less than fully, one sentence each.
	notes() []string
	// sweep ends what an earlier process of the service left running.
	sweep(ctx context.Context) error
}

type job struct {
	dir            string // the workspace's files, absolute
	command        string
	limits         Limits
	stdout, stderr io.Writer
}

// A process is a running command with everything that it started.
type process interface {
	// wait returns when every process of the command is dead and its output is complete.
	wait() (exit, error)
	// kill ends all of them; it may be called often, and after the end.
	kill()
	// load is what they use now; a field is -1 where this machine can't tell.
	load() load
}

type exit struct {
	code      int
	outOfMem  bool // the kernel ended a process for want of memory
	forksOver bool // a process could not be started for the process limit
}

type load struct {
	memory  int64         // bytes, where no cgroup limits it
	deleted int64         // bytes of files that are open and have no name any more
	starved bool          // the kernel ended a process for want of memory: the others go with it
	cpu     time.Duration // of all processes together
}

func unknownLoad() load { return load{memory: -1, deleted: -1, cpu: -1} }

// overhead is what runs beside a command's own processes where there are pid namespaces: the launcher and the first process.
const overhead = 2
