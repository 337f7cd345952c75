package offline

import (
	"context"
	"log/slog"
	"os/exec"
	"time"

	"sightline/agent"
	"sightline/attachments/visual"
)

// Config is what New needs; its zero value is fine.
type Config struct {
	Tesseract string       // path of the program; empty: looked for on PATH
	Log       *slog.Logger // empty: nothing is logged
}

// Model is the offline model. It is safe for concurrent use; text is read from one picture at a time.
type Model struct {
	tesseract string // empty: not installed
	log       *slog.Logger
	since     time.Time
	busy      chan struct{} // one token: text is read from one picture at a time
}

var _ agent.Model = (*Model)(nil)

// New looks for tesseract; without it the model still works, and says what it can't do.
func New(c Config) *Model {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	name := c.Tesseract
	if name == "" {
		name = "tesseract"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		path = ""
	}
	return &Model{tesseract: path, log: c.Log, since: time.Now(), busy: make(chan struct{}, 1)}
}

// Info is the same at all times.
func (m *Model) Info(context.Context) agent.ModelInfo {
	return agent.ModelInfo{
		Name:       "offline (built in, no language model)",
		Key:        "offline",
		Capability: agent.Capability{Vision: agent.VisionYes, Source: "built in", Detail: "decodes pictures; " + m.readsText(), At: m.since},
		Limits: agent.Limits{
			Formats: []visual.Format{visual.PNG, visual.JPEG, visual.WebP, visual.GIF}, MaxPictures: 8, Source: "built in",
		},
		Offline: true,
	}
}

func (m *Model) readsText() string {
	if m.tesseract == "" {
		return "can't read text, tesseract is not installed"
	}
	return "reads text with tesseract"
}

// Generate follows the rules for one step of a turn. See agent.Model.
func (m *Model) Generate(ctx context.Context, r agent.ModelRequest, draft func(text string)) (agent.ModelResponse, error) {
	if err := ctx.Err(); err != nil {
		return agent.ModelResponse{}, err
	}
	t := readTurn(r)
	step, err := m.next(ctx, t)
	if err != nil {
		return agent.ModelResponse{}, err
	}
	if err := ctx.Err(); err != nil {
		return agent.ModelResponse{}, err
	}
	m.log.Debug("offline step", "inference", r.Key, "pictures", len(r.Pictures), "tool", step.tool)
	res := agent.ModelResponse{Model: "offline", Finish: "stop", Message: agent.Message{Role: agent.RoleAssistant}}
	if step.tool != "" {
		res.Finish = "tool_calls"
		res.Message.Calls = []agent.ToolCall{{ID: t.callID(), Name: step.tool, Arguments: step.arguments}}
		return res, nil
	}
	res.Message.Text = step.text
	if t.first {
		res.Message.Text = introduction + "\n\n" + step.text
	}
	if draft != nil {
		draft(res.Message.Text)
	}
	return res, nil
}

const introduction = "I am not a language model: no model is configured, so Sightline's built-in offline reader answers, by fixed rules."
