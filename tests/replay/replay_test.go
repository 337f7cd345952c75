package replay

import (
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sightline/workflows"
)

func replayer(turn any) worker.WorkflowReplayer {
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(workflows.Conversation, workflow.RegisterOptions{Name: workflows.ConversationType})
	r.RegisterWorkflowWithOptions(turn, workflow.RegisterOptions{Name: workflows.TurnType})
	r.RegisterWorkflowWithOptions(workflows.Compaction, workflow.RegisterOptions{Name: workflows.CompactionType})
	return r
}

func stored(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("histories/*/*.json")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d stored histories, %v", len(files), err)
	}
	return files
}

func TestStoredHistoriesReplay(t *testing.T) {
	for _, f := range stored(t) {
		if err := replayer(workflows.Turn).ReplayWorkflowHistoryFromJSONFile(nil, f); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// An incompatible change is noticed: a turn that posts before it begins.
func TestAnIncompatibleChangeFailsToReplay(t *testing.T) {
	changed := func(ctx workflow.Context, in workflows.TurnInput) (workflows.TurnResult, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 1e9})
		if err := workflow.ExecuteActivity(ctx, "Post", workflows.PostInput{}).Get(ctx, nil); err != nil {
			return workflows.TurnResult{}, err
		}
		return workflows.Turn(ctx, in)
	}
	failed := 0
	for _, f := range stored(t) {
		if err := replayer(changed).ReplayWorkflowHistoryFromJSONFile(nil, f); err != nil {
			failed++
		}
	}
	if failed < 5 {
		t.Errorf("only %d histories noticed", failed)
	}
}
