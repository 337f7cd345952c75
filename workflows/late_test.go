package workflows

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"sightline/connectors/chat"
)

// A message that comes while the answer is being posted is not the turn's, and
// nothing to warn of.
func TestLateMessageIsNoWarning(t *testing.T) {
	var s testsuite.WorkflowTestSuite
	var out bytes.Buffer
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	env := s.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Turn, workflow.RegisterOptions{Name: TurnType})
	env.RegisterActivity(&Activities{})
	env.OnActivity("Infer", mock.Anything, mock.Anything).Return(InferResult{Posted: &PostResult{Kind: chat.ReplyAnswer}}, nil).After(time.Second)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(SignalSteer, SteerSignal{Message: "m2"}) }, 500*time.Millisecond)
	env.ExecuteWorkflow(TurnType, TurnInput{Agent: "a", Conversation: "cnv_1", Place: "plc_1", Turn: "trn_1", Message: "m1", Platform: "web", Brief: true})
	var r TurnResult
	if err := env.GetWorkflowResult(&r); err != nil || len(r.Joined) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if strings.Contains(out.String(), "unhandled") {
		t.Error(out.String())
	}
}
