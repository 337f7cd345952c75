package workflows

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"sightline/connectors/chat"
)

// play runs a Conversation with a scripted Turn and returns the messages of
// the turns in the order in which they began.
func play(t *testing.T, in ConversationInput, turn func(workflow.Context, TurnInput) (TurnResult, error), at map[time.Duration]func(*testsuite.TestWorkflowEnvironment)) ([]chat.MessageID, error) {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	env := s.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Conversation, workflow.RegisterOptions{Name: ConversationType})
	var began []chat.MessageID
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in TurnInput) (TurnResult, error) {
		began = append(began, in.Message)
		return turn(ctx, in)
	}, workflow.RegisterOptions{Name: TurnType})
	for d, f := range at {
		env.RegisterDelayedCallback(func() { f(env) }, d)
	}
	env.ExecuteWorkflow(ConversationType, in)
	if !env.IsWorkflowCompleted() {
		t.Fatal("the conversation did not end")
	}
	return began, env.GetWorkflowError()
}

func say(m chat.MessageID) func(*testsuite.TestWorkflowEnvironment) {
	return func(e *testsuite.TestWorkflowEnvironment) { e.SignalWorkflow(SignalMessage, MessageSignal{Message: m}) }
}

func equal(a, b []chat.MessageID) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

var conv = ConversationInput{Agent: "a", Conversation: "cnv_1", Place: "plc_1", OneTimer: true}

func quick(ctx workflow.Context, _ TurnInput) (TurnResult, error) {
	return TurnResult{State: "answered"}, workflow.Sleep(ctx, time.Second)
}

func TestConversationAnswersEachMessageOnceInOrderAndEndsIdle(t *testing.T) {
	began, err := play(t, conv, quick, map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
		1 * time.Second:  say("m1"),
		2 * time.Second:  say("m1"), // sent twice, while it runs
		10 * time.Second: say("m2"),
		20 * time.Second: say("m1"), // and again later
		30 * time.Second: say("m3"),
	})
	if err != nil || !equal(began, []chat.MessageID{"m1", "m2", "m3"}) {
		t.Errorf("%v, %v", began, err)
	}
}

// It ends when nothing came for as long, counted from the end of the last turn,
// and one timer serves several turns.
func TestConversationRests(t *testing.T) {
	for _, one := range []bool{true, false} { // false: a history from before
		in := conv
		in.OneTimer = one
		var s testsuite.WorkflowTestSuite
		env := s.NewTestWorkflowEnvironment()
		env.RegisterWorkflowWithOptions(Conversation, workflow.RegisterOptions{Name: ConversationType})
		env.RegisterWorkflowWithOptions(quick, workflow.RegisterOptions{Name: TurnType})
		began, timers, turns := env.Now(), 0, 0
		env.SetOnTimerScheduledListener(func(_ string, d time.Duration) {
			if d > time.Second {
				timers++
			}
		})
		env.SetOnChildWorkflowCompletedListener(func(*workflow.Info, converter.EncodedValue, error) { turns++ })
		for n := range 5 {
			env.RegisterDelayedCallback(func() { say(chat.MessageID(fmt.Sprint("m", n)))(env) }, time.Duration(n)*idleFor*4/5)
		}
		env.ExecuteWorkflow(ConversationType, in)
		if err := env.GetWorkflowError(); err != nil || turns != 5 {
			t.Fatalf("one timer %v: %d turns, %v", one, turns, err)
		}
		if lived, want := env.Now().Sub(began), 4*idleFor*4/5+time.Second+idleFor; lived.Round(time.Second) != want {
			t.Errorf("one timer %v: it lived %v, want %v", one, lived, want)
		}
		if most := 6; one && timers > most {
			t.Errorf("%d timers, want at most %d", timers, most)
		}
	}
}

// A message that the running turn takes is not answered again; one that it
// does not take begins the next turn, before anything newer.
func TestConversationSteersTheRunningTurn(t *testing.T) {
	for name, c := range map[string]struct {
		joins int
		want  []chat.MessageID
	}{
		"taken":     {2, []chat.MessageID{"m1", "m4"}},
		"one taken": {1, []chat.MessageID{"m1", "m3", "m4"}},
		"not taken": {0, []chat.MessageID{"m1", "m2", "m3", "m4"}},
	} {
		turn := func(ctx workflow.Context, in TurnInput) (TurnResult, error) {
			var r TurnResult
			if err := workflow.Sleep(ctx, 10*time.Second); err != nil {
				return r, err
			}
			ch := workflow.GetSignalChannel(ctx, SignalSteer)
			for range c.joins {
				var s SteerSignal
				if ch.ReceiveAsync(&s) {
					r.Joined = append(r.Joined, s.Message)
				}
			}
			return r, nil
		}
		began, err := play(t, conv, turn, map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			1 * time.Second:  say("m1"),
			2 * time.Second:  say("m2"),
			3 * time.Second:  say("m3"),
			60 * time.Second: say("m4"),
		})
		if err != nil || !equal(began, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, began, err, c.want)
		}
	}
}

func TestConversationGoesOnAfterAFailedTurn(t *testing.T) {
	turn := func(ctx workflow.Context, in TurnInput) (TurnResult, error) {
		if in.Message == "m1" {
			return TurnResult{}, errors.New("broken")
		}
		return quick(ctx, in)
	}
	began, err := play(t, conv, turn, map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
		1 * time.Second:  say("m1"),
		10 * time.Second: say("m2"),
	})
	if err != nil || !equal(began, []chat.MessageID{"m1", "m2"}) {
		t.Errorf("%v, %v", began, err)
	}
}

func TestStopCancelsTheRunningTurnAlone(t *testing.T) {
	var cancelled []chat.MessageID
	turn := func(ctx workflow.Context, in TurnInput) (TurnResult, error) {
		if err := workflow.Sleep(ctx, 10*time.Second); err != nil {
			cancelled = append(cancelled, in.Message)
		}
		return TurnResult{State: "stopped"}, nil
	}
	stop := func(e *testsuite.TestWorkflowEnvironment) { e.SignalWorkflow(SignalStop, StopSignal{}) }
	began, err := play(t, conv, turn, map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
		1 * time.Second:  stop, // nothing runs
		2 * time.Second:  say("m1"),
		3 * time.Second:  stop,
		20 * time.Second: say("m2"),
	})
	if err != nil || !equal(began, []chat.MessageID{"m1", "m2"}) || !equal(cancelled, []chat.MessageID{"m1"}) {
		t.Errorf("began %v, cancelled %v, %v", began, cancelled, err)
	}
}

func TestConversationContinuesAsNewWithItsQueueAndMemory(t *testing.T) {
	at := map[time.Duration]func(*testsuite.TestWorkflowEnvironment){}
	for i := range turnsPerRun + 1 {
		at[time.Duration(i+1)*5*time.Second] = say(chat.MessageID("m" + string(rune('0'+i%10)) + time.Duration(i).String()))
	}
	began, err := play(t, conv, quick, at)
	var next *workflow.ContinueAsNewError
	if !errors.As(err, &next) || len(began) != turnsPerRun {
		t.Fatalf("%d turns, %v", len(began), err)
	}
	if len(next.Input.Payloads) != 1 || len(next.Input.Payloads[0].Data) > 16<<10 {
		t.Errorf("carried over: %d payloads, %d bytes", len(next.Input.Payloads), len(next.Input.Payloads[0].Data))
	}
}

// turnEnv plays a Turn whose activities are mocked by name.
func turnEnv(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	env := s.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Turn, workflow.RegisterOptions{Name: TurnType})
	env.RegisterActivity(&Activities{})
	return env
}

func TestTurnNumbersItsStepsAndPostsTheAnswer(t *testing.T) {
	env := turnEnv(t)
	env.OnActivity("Begin", mock.Anything, mock.Anything).Return(BeginResult{}, nil).Once()
	env.OnActivity("Infer", mock.Anything, InferInput{Turn: "t", Seq: 1, Step: 1}).Return(InferResult{Calls: 2}, nil).Once()
	env.OnActivity("Tool", mock.Anything, ToolInput{Turn: "t", Infer: 1, Index: 0, Seq: 2}).Return(nil).Once()
	env.OnActivity("Tool", mock.Anything, ToolInput{Turn: "t", Infer: 1, Index: 1, Seq: 3}).Return(nil).Once()
	env.OnActivity("Infer", mock.Anything, InferInput{Turn: "t", Seq: 4, Step: 2}).Return(InferResult{}, nil).Once()
	env.OnActivity("Post", mock.Anything, PostInput{Turn: "t", Kind: chat.ReplyAnswer, Answer: 4}).Return(PostResult{Kind: chat.ReplyAnswer}, nil).Once()
	env.OnActivity("Finish", mock.Anything, FinishInput{Turn: "t", State: "answered"}).Return(nil).Once()
	env.ExecuteWorkflow(TurnType, TurnInput{Turn: "t"})
	var r TurnResult
	if err := env.GetWorkflowResult(&r); err != nil || r.State != "answered" {
		t.Errorf("%+v, %v", r, err)
	}
	env.AssertExpectations(t)
}

func TestTurnTellsOfFailure(t *testing.T) {
	for name, c := range map[string]struct {
		result InferResult
		err    error
		want   string
	}{
		"a permanent model error":        {InferResult{Failed: "auth", Reason: "401"}, nil, "auth"},
		"a model that keeps being away":  {InferResult{}, retryable("unavailable"), "unavailable"},
		"a model that only calls tools":  {InferResult{Calls: 1}, nil, failSteps},
		"something that broke for good":  {InferResult{}, final(failInternal), failInternal},
		"an error without a type at all": {InferResult{}, errors.New("x"), failInternal},
	} {
		t.Run(name, func(t *testing.T) {
			env := turnEnv(t)
			env.OnActivity("Begin", mock.Anything, mock.Anything).Return(BeginResult{}, nil)
			env.OnActivity("Infer", mock.Anything, mock.Anything).Return(c.result, c.err)
			env.OnActivity("Tool", mock.Anything, mock.Anything).Return(nil)
			var posted PostInput
			env.OnActivity("Post", mock.Anything, mock.Anything).Run(func(a mock.Arguments) { posted = a.Get(1).(PostInput) }).Return(PostResult{Kind: chat.ReplyFailure}, nil)
			var fin FinishInput
			env.OnActivity("Finish", mock.Anything, mock.Anything).Run(func(a mock.Arguments) { fin = a.Get(1).(FinishInput) }).Return(nil)
			env.ExecuteWorkflow(TurnType, TurnInput{Turn: "t"})
			if err := env.GetWorkflowError(); err != nil || posted.Kind != chat.ReplyFailure || posted.Failed != c.want || fin.State != "failed" {
				t.Errorf("%v, posted %+v, finished %+v", err, posted, fin)
			}
		})
	}
}

func TestStoppedTurnSaysSoAndFinishes(t *testing.T) {
	env := turnEnv(t)
	env.OnActivity("Begin", mock.Anything, mock.Anything).Return(BeginResult{}, nil)
	env.OnActivity("Infer", mock.Anything, mock.Anything).After(time.Minute).Return(InferResult{}, nil)
	var posted PostInput
	env.OnActivity("Post", mock.Anything, mock.Anything).Run(func(a mock.Arguments) { posted = a.Get(1).(PostInput) }).Return(PostResult{Kind: chat.ReplyStopped}, nil).Once()
	var fin FinishInput
	env.OnActivity("Finish", mock.Anything, mock.Anything).Run(func(a mock.Arguments) { fin = a.Get(1).(FinishInput) }).Return(nil).Once()
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Second)
	env.ExecuteWorkflow(TurnType, TurnInput{Turn: "t"})
	if err := env.GetWorkflowError(); err != nil || posted.Kind != chat.ReplyStopped || fin.State != "stopped" {
		t.Errorf("%v, posted %+v, finished %+v", err, posted, fin)
	}
}

func TestSkippedTurnSaysNothing(t *testing.T) {
	env := turnEnv(t)
	env.OnActivity("Begin", mock.Anything, mock.Anything).Return(BeginResult{Skip: true}, nil)
	env.ExecuteWorkflow(TurnType, TurnInput{Turn: "t"})
	var r TurnResult
	if err := env.GetWorkflowResult(&r); err != nil || r.State != "skipped" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A turn that can't begin is told of, and the conversation hears that it
// failed.
func TestTurnThatCantBeginIsToldOf(t *testing.T) {
	env := turnEnv(t)
	env.OnActivity("Begin", mock.Anything, mock.Anything).Return(BeginResult{}, final(failInternal)).Once()
	env.OnActivity("Tell", mock.Anything, TurnInput{Turn: "t", Message: "m"}).Return(nil).Once()
	env.ExecuteWorkflow(TurnType, TurnInput{Turn: "t", Message: "m"})
	if err := env.GetWorkflowError(); err == nil {
		t.Error("the turn did not fail")
	}
	env.AssertExpectations(t)
}
