package telemetry

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
)

// Telemetry is what one process counts and traces.
type Telemetry struct {
	metrics  *metrics
	handler  handler
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider // nil: no spans are made
	temporal interceptor.Tracer
}

// New reads the standard OTEL_ names through env: without an endpoint there
// are metrics and no traces.
func New(ctx context.Context, env func(string) string, log *slog.Logger) (*Telemetry, error) {
	e, err := exporter(ctx, env)
	if err != nil {
		return nil, err
	}
	if e != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans could not be exported", "error", err) }))
	}
	return with(ctx, e)
}

func with(ctx context.Context, e sdktrace.SpanExporter) (*Telemetry, error) {
	t := &Telemetry{metrics: newMetrics(), tracer: noop.NewTracerProvider().Tracer("")}
	t.handler = newHandler(t.metrics)
	if e == nil {
		return t, nil
	}
	var err error
	if t.provider, err = provider(ctx, e); err != nil {
		return nil, err
	}
	t.tracer = t.provider.Tracer("sightline")
	t.temporal, err = opentelemetry.NewTracer(opentelemetry.TracerOptions{
		Tracer: t.tracer, DisableQueryTracing: true, DisableSignalTracing: true, DisableBaggage: true,
		// A workflow that another version began is answered, traced or not.
		AllowInvalidParentSpans: true, SpanContextKey: spanKey{},
	})
	if err != nil {
		return nil, fmt.Errorf("trace Temporal: %w", err)
	}
	return t, nil
}

// Options makes a Temporal client, and the workers on it, report here.
func (t *Telemetry) Options(o client.Options) client.Options {
	o.MetricsHandler = t.handler
	if t.temporal != nil {
		o.Interceptors = append(o.Interceptors, interceptor.NewTracingInterceptor(t.temporal))
	}
	// The last one is the nearest to the workflow, so it names the parent
	// before the other one makes a child of it.
	o.Interceptors = append(o.Interceptors, &turns{t: t})
	return o
}

// Close exports what is left.
func (t *Telemetry) Close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("export the last spans: %w", err)
	}
	return nil
}
