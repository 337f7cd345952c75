// Package sandbox runs one command at a time in a workspace of its own, and
// keeps the files of that workspace.
//
// It owns the Runner with its drivers and limits, the canaries that prove the
// chosen driver at start-up, and the Workspace of one (agent, conversation,
// run): importing, viewing, listing and removing files, running commands, and
// cleaning up. It knows nothing of attachments, grants or chats: who may do
// what was decided before it is asked.
//
// Drivers:
//
//	docker      only when configured; no network, read-only root, no capabilities
//	bubblewrap  the default on Linux; all namespaces, seccomp, rlimits, cgroups where it may
//	landlock    reduced, only when asked for; Landlock, seccomp, rlimits, no namespaces
//
// It never falls back from one driver to another: what the operator chose is
// proved by canaries or refused with an *Unavailable error that says why and
// what to do. A limit that this machine can't enforce in full is in
// Runner.Notes.
//
//	New ──▶ driver found? ──▶ canaries ──▶ Runner
//	             │ no            │ one fails
//	             └───────────────┴──▶ *Unavailable (reason, fix, checks)
//
// A workspace:
//
//	            Workspace()           Exec, Import, View, List, Delete: one at a time, in order
//	(nothing) ─────────────▶ present ──────────────────────────────────▶ present
//	                            │ Remove, Sweep (they wait for their turn)
//	                            ▼
//	                         trash ──▶ (nothing)   a crash in between is ended by the next Sweep
//
// A command:
//
//	waiting ──▶ gated ──▶ running ──▶ killed or exited ──▶ tree dead ──▶ Result
//	   │          │          └ watched: wall, CPU, memory, disk, output, ctx
//	   │          └ limits and cgroup are set before anything of the command is executed
//	   └ ctx ends: nothing was started
//
// Paths are absolute and below /workspace, whatever the driver. Every path is
// resolved component by component from an open directory; "..", links, hard
// links, devices, FIFOs and sockets are refused with a *Refused error that has
// a sentence for the person and one for the operator. Nothing here follows a
// link that a command left behind, during cleaning up either.
//
// Failure: an import replaces a file whole or not at all; what an interrupted
// one leaves is outside of what commands see. An Exec whose outcome is not
// known returns an error, and its command may have had effects: list before
// running it again. Disk use is watched while a command runs, so a fast writer
// can pass the quota for as long as one look takes.
package sandbox
