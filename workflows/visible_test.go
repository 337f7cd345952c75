package workflows

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"sightline/connectors/chat"
)

var seen = ConversationInput{Agent: "a", Conversation: "cnv_1", Place: "plc_1", Platform: "web", Visible: true, OneTimer: true}

func sayWith(m chat.MessageID, files int) func(*testsuite.TestWorkflowEnvironment) {
	return func(e *testsuite.TestWorkflowEnvironment) {
		e.SignalWorkflow(SignalMessage, MessageSignal{Message: m, Attachments: files})
	}
}

func noteUpserts(env *testsuite.TestWorkflowEnvironment, out *[]shown) {
	env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe().Run(func(args mock.Arguments) {
		a := args.Get(0).(temporal.SearchAttributes)
		state, _ := a.GetKeyword(attrState)
		n, _ := a.GetInt64(attrAttachments)
		*out = append(*out, shown{state, int(n)})
	})
}

// upserts are the attribute updates that a workflow asked for.
func upserts(t *testing.T, in ConversationInput, inputs *[]TurnInput) (out []shown, states []ConversationState) {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	env := s.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Conversation, workflow.RegisterOptions{Name: ConversationType})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in TurnInput) (TurnResult, error) {
		*inputs = append(*inputs, in)
		var r TurnResult
		err := workflow.Sleep(ctx, 10*time.Second)
		var s SteerSignal
		for workflow.GetSignalChannel(ctx, SignalSteer).ReceiveAsync(&s) {
			if s.Attachments != 1 {
				t.Errorf("steered with %+v", s)
			}
			r.Joined = append(r.Joined, s.Message)
		}
		return r, err
	}, workflow.RegisterOptions{Name: TurnType})
	noteUpserts(env, &out)
	for d, f := range map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
		time.Second: sayWith("m1", 2), 2 * time.Second: sayWith("m1", 2), 3 * time.Second: sayWith("m2", 1), 20 * time.Second: sayWith("m3", 0),
	} {
		env.RegisterDelayedCallback(func() { f(env) }, d)
	}
	for _, d := range []time.Duration{5 * time.Second, 40 * time.Second} {
		env.RegisterDelayedCallback(func() {
			v, err := env.QueryWorkflow(QueryState)
			var s ConversationState
			if err == nil {
				err = v.Get(&s)
			}
			if err != nil {
				t.Errorf("query: %v", err)
			}
			states = append(states, s)
		}, d)
	}
	env.ExecuteWorkflow(ConversationType, in)
	if err := env.GetWorkflowError(); !env.IsWorkflowCompleted() || err != nil {
		t.Fatalf("the conversation did not end well: %v", err)
	}
	return out, states
}

// Attributes change with the attachments, and only then; a message that came
// twice counts once.
func TestConversationIsVisible(t *testing.T) {
	var inputs []TurnInput
	got, states := upserts(t, seen, &inputs)
	want := []shown{{"open", 2}, {"open", 3}}
	if len(got) != len(want) {
		t.Fatalf("upserts %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("upsert %d is %v, want %v", i, got[i], want[i])
		}
	}
	if len(inputs) != 2 || inputs[0].Attachments != 2 || inputs[1].Attachments != 0 || !inputs[0].Visible || inputs[0].Platform != "web" {
		t.Errorf("turns began with %+v", inputs)
	}
	if len(states) != 2 || states[0].State != "running" || states[0].Running != chat.TurnOf("m1") || len(states[0].Steered) != 1 || states[0].Attachments != 3 ||
		states[1].State != "waiting" || states[1].Seen != 3 || states[1].Turns != 2 {
		t.Errorf("states %+v", states)
	}
}

// Where no attributes are registered a command that names one would wedge the
// workflow, and a history from before has none.
func TestConversationWithoutAttributesWritesNone(t *testing.T) {
	in := seen
	in.Visible = false
	var inputs []TurnInput
	if got, _ := upserts(t, in, &inputs); len(got) != 0 || inputs[0].Visible {
		t.Errorf("upserts %v, turns %+v", got, inputs)
	}
}

// A turn tells what it does, and how it ended; its details name no one.
func TestTurnIsVisible(t *testing.T) {
	var s testsuite.WorkflowTestSuite
	env := s.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Turn, workflow.RegisterOptions{Name: TurnType})
	env.RegisterActivity(&Activities{})
	env.OnActivity("Begin", mock.Anything, mock.Anything).Return(BeginResult{}, nil).Maybe()
	env.OnActivity("Join", mock.Anything, mock.Anything).Return(nil)
	calls := 1
	var during []TurnProgress
	ask := func() {
		v, err := env.QueryWorkflow(QueryState)
		var p TurnProgress
		if err == nil {
			err = v.Get(&p)
		}
		if err != nil {
			t.Errorf("query: %v", err)
		}
		during = append(during, p)
	}
	env.OnActivity("Infer", mock.Anything, mock.Anything).Return(func(context.Context, InferInput) (InferResult, error) {
		defer func() { calls = 0 }()
		return InferResult{Calls: calls}, nil
	}).After(time.Second)
	env.OnActivity("Tool", mock.Anything, mock.Anything).Return(nil).After(time.Second)
	env.OnActivity("Post", mock.Anything, mock.Anything).Return(PostResult{Kind: chat.ReplyAnswer}, nil).After(time.Second)
	env.OnActivity("Finish", mock.Anything, mock.Anything).Return(nil).Maybe()
	var got []shown
	noteUpserts(env, &got)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(SignalSteer, SteerSignal{Message: "m2", Attachments: 3}) }, 500*time.Millisecond)
	for _, d := range []time.Duration{700 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, 3500 * time.Millisecond} {
		env.RegisterDelayedCallback(ask, d)
	}
	env.ExecuteWorkflow(TurnType, TurnInput{Agent: "a", Conversation: "cnv_1", Place: "plc_1", Turn: "trn_1", Message: "m1", Platform: "web", Visible: true, Attachments: 1})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	ask()
	var told []string
	for _, p := range during {
		told = append(told, p.State+"/"+p.Doing)
	}
	if s := strings.Join(told, " "); s != "running/infer running/tool running/infer running/post answered/ended" {
		t.Errorf("told %s", s)
	}
	last := during[len(during)-1]
	if last.Step != 2 || last.Attachments != 4 || len(last.Joined) != 1 {
		t.Errorf("ended as %+v", last)
	}
	if len(got) != 2 || got[0] != (shown{"running", 4}) || got[1] != (shown{"answered", 4}) {
		t.Errorf("upserts %v", got)
	}
}

// Whoever registers the attributes finds all of them, with types that
// Temporal knows.
func TestSearchAttributes(t *testing.T) {
	got := SearchAttributes()
	want := map[string]string{"SightlineAgent": "Keyword", "SightlinePlatform": "Keyword", "SightlineConversation": "Keyword",
		"SightlineState": "Keyword", "SightlineAttachments": "Int"}
	if len(got) != len(want) {
		t.Fatal(got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q", k, got[k])
		}
	}
}
