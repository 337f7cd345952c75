package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"

	"sightline/agent"
	"sightline/attachments"
	"sightline/connectors/chat"
)

// ShareFile posts a file of the workspace to the conversation.
type ShareFile struct {
	Workspaces *Workspaces
}

var _ agent.Tool = (*ShareFile)(nil)

// Spec is what the model is told.
func (*ShareFile) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name:        "share_file",
		Description: "Posts a file of the workspace to this conversation, where everybody who reads here can open it.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"absolute path below /workspace"}},"required":["path"],"additionalProperties":false}`),
	}
}

// Needs a workspace; a post that died is not repeated.
func (*ShareFile) Needs() agent.Needs { return agent.Needs{Workspace: true, Effect: true} }

// Run posts the file, after everything that it may have been made of was
// authorized for the place that it goes to.
func (t *ShareFile) Run(ctx context.Context, c agent.Call) (agent.Outcome, error) {
	var args struct {
		Path string `json:"path"`
	}
	if err := decode(c.Arguments, &args); err != nil {
		return agent.Refused(err.Error(), err.Error()), nil
	}
	switch {
	case !c.Workspace: // the third door
		return agent.Refused(agent.ErrNoWorkspace.Error(), "third door: no workspace"), nil
	case c.Share == nil:
		return agent.Refused("files can't be posted here", "no way to post a file"), nil
	}
	b, sources, err := t.Workspaces.Open(ctx, c.Request, args.Path)
	var file *agent.FileError
	switch {
	case errors.As(err, &file):
		return agent.Refused(file.Person, file.Operator), nil
	case errors.Is(err, attachments.ErrNotAvailable):
		return agent.Refused("what this file was made of may not be shown here any more", err.Error()), nil
	case err != nil:
		return agent.Outcome{}, err
	}
	sum := sha256.Sum256(b)
	f := chat.ReplyFile{
		Name: agent.InertName(path.Base(args.Path)), Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:]),
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil },
	}
	err = c.Share(ctx, f)
	switch {
	case errors.Is(err, attachments.ErrNotAvailable):
		return agent.Refused("what was seen in this turn may not be shown here any more, so nothing is posted", err.Error()), nil
	case errors.Is(err, chat.ErrRefused):
		return agent.Refused("the platform does not take this file", err.Error()), nil
	case err != nil:
		return agent.Outcome{}, err
	}
	answer := struct {
		Shared string `json:"shared"`
		Bytes  int64  `json:"bytes"`
		SHA256 string `json:"sha256"`
	}{f.Name, f.Size, f.SHA256}
	return agent.Outcome{
		Verdict: chat.VerdictDone, Answer: encode(answer),
		Selected: append(sourcesOf(sources), chat.Selected{File: args.Path, Digest: f.SHA256, Sources: sources}),
	}, nil
}
