package sandbox

import (
	"fmt"
	"time"
)

// Limits bounds one command and its workspace. A zero field means the default.
type Limits struct {
	Wall        time.Duration // from start to end, whatever the command does
	CPU         time.Duration // processor time: per process, and in total where there is a cgroup
	Memory      int64         // bytes of all processes together
	Processes   int           // processes and threads at once
	Workspace   int64         // bytes that the files of a workspace take up
	File        int64         // bytes of one file
	Entries     int           // files and folders of a workspace
	Descriptors int           // open files of one process
	Output      int64         // bytes kept of stdout, and as many of stderr: half from its head, half from its tail
	Flood       int64         // bytes of both together after which the command is ended
	Scratch     int64         // bytes of /tmp, in memory, lost with the command
}

// DefaultLimits returns the limits that apply where none are configured.
func DefaultLimits() Limits {
	return Limits{
		Wall: 30 * time.Second, CPU: 20 * time.Second,
		Memory: 512 << 20, Processes: 64,
		Workspace: 256 << 20, File: 64 << 20, Entries: 20_000,
		Descriptors: 256, Output: 64 << 10, Flood: 32 << 20, Scratch: 64 << 20,
	}
}

// ImportLimit is how many bytes an import may have where the caller names no other limit.
const ImportLimit = 8 << 20

func fill[T int | int64 | time.Duration](v *T, def T) { // a zero field takes its default
	if *v == 0 {
		*v = def
	}
}

func (l Limits) filled() Limits {
	d := DefaultLimits()
	fill(&l.Wall, d.Wall)
	fill(&l.CPU, d.CPU)
	fill(&l.Memory, d.Memory)
	fill(&l.Processes, d.Processes)
	fill(&l.Workspace, d.Workspace)
	fill(&l.File, d.File)
	fill(&l.Entries, d.Entries)
	fill(&l.Descriptors, d.Descriptors)
	fill(&l.Output, d.Output)
	fill(&l.Flood, d.Flood)
	fill(&l.Scratch, d.Scratch)
	return l
}

// validate refuses limits under which not even a shell starts, so that a typing error is not taken for a broken driver.
func (l Limits) validate() error {
	for _, c := range []struct {
		name      string
		got, want int64
	}{
		{"wall milliseconds", l.Wall.Milliseconds(), 100},
		{"CPU seconds", int64(l.CPU / time.Second), 1},
		{"memory", l.Memory, 32 << 20},
		{"processes", int64(l.Processes), 4},
		{"workspace", l.Workspace, 1 << 20},
		{"file", l.File, 1 << 20},
		{"entries", int64(l.Entries), 16},
		{"descriptors", int64(l.Descriptors), 16},
		{"output", l.Output, 1 << 10},
		{"flood", l.Flood, l.Output},
		{"scratch", l.Scratch, 1 << 20},
	} {
		if c.got < c.want {
			return fmt.Errorf("check limits: %s is %d, less than the %d that a command needs", c.name, c.got, c.want)
		}
	}
	return nil
}
