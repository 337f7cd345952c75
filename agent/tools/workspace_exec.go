package tools

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"sightline/agent"
	"sightline/connectors/chat"
	"sightline/sandbox"
)

// WorkspaceExec runs one command in the workspace.
type WorkspaceExec struct {
	Workspaces *Workspaces
}

var _ agent.Tool = (*WorkspaceExec)(nil)

// Spec is what the model is told.
func (*WorkspaceExec) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: "workspace_exec",
		Description: "Runs a shell command in the isolated workspace at /workspace: no network, bounded time, memory and disk. " +
			"Returns stdout, stderr, exit code, what was cut, and the files changed. Files stay for later calls; nothing else does.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"command":{"type":"string","description":"for /bin/sh"},` +
			`"timeout":{"type":"integer","minimum":1,"maximum":30,"description":"seconds; 30 when absent"}},` +
			`"required":["command"],"additionalProperties":false}`),
	}
}

// Needs a workspace; a command that died is not run again.
func (*WorkspaceExec) Needs() agent.Needs { return agent.Needs{Workspace: true, Effect: true} }

type output struct {
	Text  string `json:"text"`
	Bytes int64  `json:"bytes"`
	Cut   int64  `json:"cut,omitempty"` // bytes left out of text
}

type change struct {
	Path string `json:"path"`
	What string `json:"what"`
	Kind string `json:"kind,omitempty"`
	Size int64  `json:"size"`
}

type execution struct {
	ExitCode     int      `json:"exit_code"`
	Signal       string   `json:"signal,omitempty"`
	Ended        string   `json:"ended_by,omitempty"`
	ForksRefused bool     `json:"process_limit_reached,omitempty"`
	Seconds      float64  `json:"seconds"`
	Stdout       output   `json:"stdout"`
	Stderr       output   `json:"stderr"`
	Changes      []change `json:"changes"`
	ChangesTotal int      `json:"changes_total"`
	Notes        []string `json:"notes,omitempty"`
}

// Run runs one command.
func (t *WorkspaceExec) Run(ctx context.Context, c agent.Call) (agent.Outcome, error) {
	var args struct {
		Command string `json:"command"`
		Timeout int    `json:"timeout"`
	}
	if err := decode(c.Arguments, &args); err != nil {
		return agent.Refused(err.Error(), err.Error()), nil
	}
	if !c.Workspace { // the third door
		return agent.Refused(agent.ErrNoWorkspace.Error(), "third door: no workspace"), nil
	}
	if args.Timeout < 0 {
		return agent.Refused("timeout is a number of seconds from 1", "negative timeout"), nil
	}
	w := t.Workspaces
	o, err := w.open(ctx, c.Request)
	if out, ok := refused(err); ok {
		return out, nil
	}
	if err != nil {
		return agent.Outcome{}, err
	}
	defer o.done()
	r, err := o.Exec(ctx, args.Command, time.Duration(args.Timeout)*time.Second)
	if out, ok := refused(err); ok {
		return out, nil
	}
	if err != nil {
		return agent.Outcome{}, err
	}
	answer := execution{
		ExitCode: r.ExitCode, Signal: r.Signal, Ended: string(r.Ended), ForksRefused: r.ForksRefused, Seconds: r.Wall.Seconds(),
		Stdout: shorten(r.Stdout), Stderr: shorten(r.Stderr), Changes: []change{}, ChangesTotal: r.ChangesTotal,
	}
	var labels []chat.WorkspaceFile
	var gone []string
	for i, ch := range r.Changes {
		if i < maxListed {
			answer.Changes = append(answer.Changes, change{Path: agent.InertName(ch.Path), What: string(ch.What), Kind: kindOf(ch.Kind), Size: ch.Size})
		}
		if ch.What == sandbox.Removed {
			gone = append(gone, ch.Path)
			continue
		}
		labels = append(labels, chat.WorkspaceFile{Name: ch.Path, Sources: o.ever})
	}
	// Files whose label is not written are made of everything: a crash here
	// makes nothing public.
	if err := w.Store.PutWorkspaceFiles(ctx, o.id, labels); err != nil {
		return agent.Outcome{}, err
	}
	if err := w.Store.DropWorkspaceFiles(ctx, o.id, gone); err != nil {
		return agent.Outcome{}, err
	}
	answer.Notes = w.notes(ctx, o)
	return agent.Outcome{Verdict: chat.VerdictDone, Answer: encode(answer), Selected: sourcesOf(o.ever)}, nil
}

// maxListed bounds the files that one answer names, maxOutput the bytes of
// each stream: an answer has to fit into the transcript.
const (
	maxListed = 50
	maxOutput = 8 << 10
)

// shorten keeps head and tail, and counts what it leaves out as the sandbox
// does.
func shorten(o sandbox.Output) output {
	t := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return '\uFFFD' // no use to a model, and six bytes of an answer
		}
		return r
	}, o.Text)
	out := output{Text: t, Bytes: o.Total, Cut: o.Cut}
	if len(t) <= maxOutput {
		return out
	}
	head, tail := strings.ToValidUTF8(t[:maxOutput/2], ""), strings.ToValidUTF8(t[len(t)-maxOutput/2:], "")
	out.Cut = o.Total - maxOutput
	out.Text = head + "\n[...]\n" + tail
	return out
}

func kindOf(k sandbox.FileKind) string {
	if k == sandbox.Regular {
		return ""
	}
	return string(k)
}
