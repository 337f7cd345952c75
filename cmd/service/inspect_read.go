package service

import (
	"context"
	"encoding/json"
	"time"

	"sightline/agent"
	"sightline/checkpoints"
	"sightline/cmd/telemetry"
	"sightline/connectors/chat"
)

// How much of each list is read; more is counted.
const (
	shownTurns       = 50
	shownAttachments = 100
	shownUses        = 500
)

// The views are what `inspect --json` writes. None has a message's text, a
// request's body or a pixel: those are where they belong, in the database.

type workflowView struct {
	ID    string `json:"id"`
	Run   string `json:"run,omitempty"`
	URL   string `json:"url,omitempty"`
	State string `json:"state,omitempty"` // as the workflow itself says now
}

type turnLine struct {
	ID       chat.TurnID           `json:"id"`
	State    checkpoints.TurnState `json:"state"`
	Reason   string                `json:"reason,omitempty"`
	Asker    chat.Actor            `json:"asker"`
	Message  chat.MessageID        `json:"message"`
	Started  time.Time             `json:"started"`
	Finished *time.Time            `json:"finished,omitempty"`
}

type attachmentLine struct {
	ID           chat.AttachmentID `json:"id"`
	Message      chat.MessageID    `json:"message"`
	Name         string            `json:"name"`
	DeclaredType string            `json:"declared_type,omitempty"`
	SniffedType  string            `json:"sniffed_type,omitempty"`
	Size         int64             `json:"size"`
	Width        int               `json:"width,omitempty"`
	Height       int               `json:"height,omitempty"`
	Origin       chat.Origin       `json:"origin"`
	State        chat.FileState    `json:"state"`
	StateReason  string            `json:"state_reason,omitempty"`
	Digest       string            `json:"sha256,omitempty"`
	Poster       chat.Actor        `json:"poster"`
	Posted       time.Time         `json:"posted"`
}

type messageLine struct {
	ID      chat.MessageID `json:"id"`
	Seq     int            `json:"seq"` // 0 began the turn, others joined it
	Poster  chat.Actor     `json:"poster"`
	At      time.Time      `json:"at"`
	Bytes   int            `json:"text_bytes"`
	Deleted bool           `json:"deleted,omitempty"`
}

type modelCall struct {
	Seq          int             `json:"seq"`
	Attempt      int             `json:"attempt"`
	Model        string          `json:"model"`
	Outcome      string          `json:"outcome,omitempty"` // empty: under way, or the process died
	InputTokens  int64           `json:"input_tokens"`
	OutputTokens int64           `json:"output_tokens"`
	Took         float64         `json:"seconds"`
	BodyBytes    int64           `json:"body_bytes"`
	Pictures     []chat.Selected `json:"pictures"`
	At           time.Time       `json:"at"`
}

type toolCall struct {
	Seq      int             `json:"seq"`
	Tool     string          `json:"tool"`
	Verdict  chat.Verdict    `json:"verdict"`
	Reason   string          `json:"reason,omitempty"`
	Selected []chat.Selected `json:"selected"`
	At       time.Time       `json:"at"`
}

type decision struct {
	At          time.Time           `json:"at"`
	Turn        chat.TurnID         `json:"turn,omitempty"`
	Attachment  chat.AttachmentID   `json:"attachment"`
	Asker       chat.Actor          `json:"asker"`
	Destination chat.PlaceID        `json:"destination"`
	In          chat.ConversationID `json:"conversation"`
	Action      string              `json:"action"`
	Allowed     bool                `json:"allowed"`
	Rule        string              `json:"rule"`
	Reason      string              `json:"reason,omitempty"`
	Epochs      [2]int64            `json:"epochs"` // source, destination
	Digest      string              `json:"sha256,omitempty"`
	Bytes       int64               `json:"bytes_fetched"`
}

type postLine struct {
	Key      string         `json:"key"`
	Kind     chat.ReplyKind `json:"kind"`
	NativeID string         `json:"native_id,omitempty"` // empty: not known to be posted
	Bytes    int            `json:"text_bytes"`
	At       time.Time      `json:"intended"`
	Posted   *time.Time     `json:"posted,omitempty"`
}

type conversationView struct {
	ID          chat.ConversationID `json:"conversation"`
	Agent       chat.AgentID        `json:"agent"`
	Place       chat.Place          `json:"place"`
	Messages    int                 `json:"messages"`
	Attachments int                 `json:"attachments"`
	Turns       int                 `json:"turns"`
	Workflow    workflowView        `json:"workflow"`
	LastTurns   []turnLine          `json:"last_turns"`
	LastFiles   []attachmentLine    `json:"last_attachments"`
}

type turnView struct {
	turnLine
	Agent        chat.AgentID        `json:"agent"`
	Conversation chat.ConversationID `json:"conversation"`
	Destination  chat.Place          `json:"destination"`
	Workflow     workflowView        `json:"workflow"`
	Trace        string              `json:"trace"`
	Messages     []messageLine       `json:"messages"`
	Files        []attachmentLine    `json:"attachments"`
	Model        []modelCall         `json:"model_calls"`
	Tools        []toolCall          `json:"tool_calls"`
	Wanted       []string            `json:"wanted_tools,omitempty"` // called by the model, without a receipt
	Decisions    []decision          `json:"decisions"`
	Posts        []postLine          `json:"posts"`
}

type attachmentView struct {
	attachmentLine
	Agent        chat.AgentID        `json:"agent"`
	Conversation chat.ConversationID `json:"conversation"`
	Source       chat.Place          `json:"source"`
	NativeFile   string              `json:"native_file"`
	Decisions    []decision          `json:"decisions"`
	Earlier      int                 `json:"earlier_decisions,omitempty"` // not listed
}

func (i *inspector) conversation(ctx context.Context, id chat.ConversationID) (*conversationView, error) {
	c, err := i.db.InspectConversation(ctx, i.agent, id)
	if err != nil {
		return nil, err
	}
	v := &conversationView{ID: c.ID, Agent: c.Agent, Place: c.Place, Messages: c.Messages, Attachments: c.Attachments, Turns: c.Turns,
		Workflow: workflowView{ID: string(id), URL: i.workflow(string(id), "")}, LastTurns: []turnLine{}, LastFiles: []attachmentLine{}}
	if i.live != nil {
		v.Workflow.State = i.live(ctx, string(id))
	}
	turns, err := i.db.RecentTurns(ctx, c.Agent, id, shownTurns)
	if err != nil {
		return nil, err
	}
	for _, t := range turns {
		v.LastTurns = append(v.LastTurns, lineOf(t))
	}
	files, err := i.db.NewestAttachments(ctx, c.Agent, id, shownAttachments)
	if err != nil {
		return nil, err
	}
	v.LastFiles = filesOf(files)
	return v, nil
}

func (i *inspector) turn(ctx context.Context, id chat.TurnID) (*turnView, error) {
	t, err := i.db.Turn(ctx, id)
	if err != nil {
		return nil, err
	}
	if i.agent != "" && t.Agent != i.agent {
		return nil, chat.ErrNotFound
	}
	v := &turnView{turnLine: lineOf(t), Agent: t.Agent, Conversation: t.Conversation, Trace: telemetry.TraceID(id),
		Workflow: workflowView{ID: t.WorkflowID, Run: t.RunID, URL: i.workflow(t.WorkflowID, t.RunID)},
		Messages: []messageLine{}, Model: []modelCall{}, Tools: []toolCall{}, Posts: []postLine{}}
	if v.Destination, err = i.db.Place(ctx, t.Agent, t.Place); err != nil {
		return nil, err
	}
	if i.live != nil && t.State == checkpoints.TurnRunning {
		v.Workflow.State = i.live(ctx, t.WorkflowID)
	}
	if err := i.said(ctx, v); err != nil {
		return nil, err
	}
	calls, err := i.db.ModelCalls(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, c := range calls {
		v.Model = append(v.Model, modelCall{c.Seq, c.Attempt, c.Model, c.Outcome, c.InputTokens, c.OutputTokens, c.Took.Seconds(), c.BodyBytes, some(c.Pictures), c.At})
	}
	uses, err := i.db.TurnUses(ctx, t.Agent, id)
	if err != nil {
		return nil, err
	}
	v.Decisions = decisionsOf(uses)
	posts, err := i.db.Posts(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, p := range posts {
		v.Posts = append(v.Posts, postLine{p.Key, p.Kind, p.NativeID, len(p.Text), p.At, when(p.PostedAt)})
	}
	return v, nil
}

// said fills in the turn's messages, their files and its tool calls.
func (i *inspector) said(ctx context.Context, v *turnView) error {
	steps, err := i.db.Steps(ctx, v.ID)
	if err != nil {
		return err
	}
	seq := map[chat.MessageID]int{}
	var wanted []agent.ToolCall
	for _, s := range steps {
		switch s.Kind {
		case checkpoints.StepUser:
			seq[s.Message] = s.Seq
		case checkpoints.StepAssistant:
			var m agent.Message
			if json.Unmarshal(s.Body, &m) == nil {
				wanted = append(wanted, m.Calls...)
			}
		}
	}
	msgs, err := i.db.TurnMessages(ctx, v.ID)
	if err != nil {
		return err
	}
	var of []chat.MessageID
	for _, m := range msgs {
		of = append(of, m.ID)
		v.Messages = append(v.Messages, messageLine{m.ID, seq[m.ID], m.Author, m.At, len(m.Text), m.Deleted})
	}
	files, err := i.db.MessageAttachments(ctx, v.Agent, v.Conversation, of)
	if err != nil {
		return err
	}
	v.Files = filesOf(files)
	receipts, err := i.db.Receipts(ctx, v.ID)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, r := range receipts {
		done[r.CallID] = true
		v.Tools = append(v.Tools, toolCall{r.Seq, r.Tool, r.Verdict, r.Reason, some(r.Selected), r.At})
	}
	for _, c := range wanted {
		if !done[c.ID] {
			v.Wanted = append(v.Wanted, c.Name)
		}
	}
	return nil
}

func (i *inspector) attachment(ctx context.Context, id chat.AttachmentID) (*attachmentView, error) {
	a, err := i.db.InspectAttachment(ctx, i.agent, id)
	if err != nil {
		return nil, err
	}
	v := &attachmentView{attachmentLine: fileOf(a), Agent: a.Agent, Conversation: a.Conversation, NativeFile: a.NativeFile}
	if v.Source, err = i.db.Place(ctx, a.Agent, a.Place); err != nil {
		return nil, err
	}
	uses, err := i.db.Uses(ctx, a.Agent, id)
	if err != nil {
		return nil, err
	}
	if n := len(uses) - shownUses; n > 0 {
		v.Earlier, uses = n, uses[n:]
	}
	v.Decisions = decisionsOf(uses)
	return v, nil
}

func lineOf(t checkpoints.Turn) turnLine {
	return turnLine{t.ID, t.State, t.Reason, t.Actor, t.Message, t.StartedAt, when(t.FinishedAt)}
}

func fileOf(a chat.Attachment) attachmentLine {
	return attachmentLine{a.ID, a.Message, a.Name, a.DeclaredType, a.SniffedType, a.Size, a.Width, a.Height, a.Origin, a.State, a.StateReason,
		a.Digest, a.Author, a.PostedAt}
}

func filesOf(as []chat.Attachment) []attachmentLine {
	out := make([]attachmentLine, len(as))
	for i, a := range as {
		out[i] = fileOf(a)
	}
	return out
}

func decisionsOf(uses []chat.Use) []decision {
	out := make([]decision, len(uses))
	for i, u := range uses {
		out[i] = decision{u.At, u.Turn, u.Attachment, u.Actor, u.Destination, u.Conversation, u.Action, u.Allowed, u.Rule, u.Reason,
			[2]int64{u.SourceEpoch, u.DestEpoch}, u.Digest, u.BytesFetched}
	}
	return out
}

// some keeps an empty list from being null.
func some(s []chat.Selected) []chat.Selected {
	if s == nil {
		return []chat.Selected{}
	}
	return s
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
