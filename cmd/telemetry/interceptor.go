package telemetry

import (
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"sightline/workflows"
)

type spanKey struct{}

// turns puts each turn into the trace of its own event.
type turns struct {
	interceptor.InterceptorBase
	t *Telemetry
}

func (i *turns) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	w := &workflowIn{t: i.t}
	w.Next = next
	return w
}

type workflowIn struct {
	interceptor.WorkflowInboundInterceptorBase
	t *Telemetry
}

func (w *workflowIn) Init(out interceptor.WorkflowOutboundInterceptor) error {
	o := &workflowOut{t: w.t}
	o.Next = out
	return w.Next.Init(o)
}

type workflowOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	t *Telemetry
}

// ExecuteChildWorkflow: the conversation's own span belongs to the event that
// began the conversation, perhaps days ago.
func (o *workflowOut) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	if o.t.temporal != nil && !workflow.IsReplaying(ctx) && len(args) == 1 {
		if in, ok := args[0].(workflows.TurnInput); ok {
			if span := o.t.temporal.SpanFromContext(parentOf(o.t.tracer, in.Turn)); span != nil {
				ctx = workflow.WithValue(ctx, spanKey{}, span)
			}
		}
	}
	return o.Next.ExecuteChildWorkflow(ctx, name, args...)
}
