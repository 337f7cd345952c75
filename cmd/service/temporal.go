package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"sightline/workflows"
)

func namespace(env func(string) string) string {
	if n := env("TEMPORAL_NAMESPACE"); n != "" {
		return n
	}
	return "default"
}

// lookup lets the SDK's own loader read the given environment.
type lookup func(string) string

func (l lookup) LookupEnv(k string) (string, bool) { v := l(k); return v, v != "" }
func (l lookup) Environ() []string                 { return nil }

func temporalOptions(env func(string) string) (client.Options, error) {
	o, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: lookup(env)})
	if err != nil {
		return o, fmt.Errorf("the TEMPORAL_ variables are not usable: %w", err)
	}
	if o.HostPort == "" {
		return o, fmt.Errorf("the TEMPORAL_ variables name no address")
	}
	return o, nil
}

func (s *service) dial(ctx context.Context, p places) (client.Client, error) {
	o := p.temporal
	if s.c.TemporalSet {
		var err error
		if o, err = temporalOptions(s.o.Env); err != nil {
			return nil, err
		}
	}
	o.Logger = tlog.NewStructuredLogger(slog.New(calm{s.log.Handler()}))
	o.DataConverter = workflows.DataConverter()
	o = s.c.codec.encrypt(o)
	if s.tele != nil { // doctor only looks
		o = s.tele.Options(o)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("temporal at %s can't be reached; check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE, or unset them for a managed server", o.HostPort)
	}
	// A server answers without it as well, and whatever is asked of it later
	// fails in words that name no setting.
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.namespace()})
	if missing := (*serviceerror.NamespaceNotFound)(nil); errors.As(err, &missing) {
		c.Close()
		return nil, fmt.Errorf("temporal at %s has no namespace %q; correct TEMPORAL_NAMESPACE, or make it: temporal operator namespace create --namespace %[2]s", o.HostPort, s.namespace())
	}
	return c, nil
}

// workers runs the workflows and activities of this process.
func (s *service) workers(tc client.Client, a *workflows.Activities) error {
	if !s.c.Roles["workers"] {
		return nil
	}
	w := worker.New(tc, workflows.TaskQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: 64,
		// Two each, the default, are all that a burst of conversations gets.
		MaxConcurrentWorkflowTaskPollers: 8,
		MaxConcurrentActivityTaskPollers: 8,
		WorkerStopTimeout:                5 * time.Second,
		MaxHeartbeatThrottleInterval:     workflows.HurryEvery,
		// A worker whose server went away for good ends the process rather
		// than looking alive.
		OnFatalError: func(err error) { s.fatal(fmt.Errorf("the worker ended: %w", err)) },
	})
	workflows.Register(w, a)
	if err := w.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	s.later(func(context.Context) { w.Stop() })
	return nil
}
