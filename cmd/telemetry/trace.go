package telemetry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"sightline/connectors/chat"
)

// exporter is where spans go, or nil where nobody asked for them. The other
// standard names (headers, certificates, timeouts, sampling, batching) are read
// by the exporter and the SDK themselves.
func exporter(ctx context.Context, env func(string) string) (sdktrace.SpanExporter, error) {
	url, whole := env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), true
	if url == "" {
		url, whole = env("OTEL_EXPORTER_OTLP_ENDPOINT"), false
	}
	if url == "" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || env("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is not an http(s) URL")
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := env(name); p != "" && p != "http/protobuf" {
			return nil, fmt.Errorf("%s is %q; only http/protobuf is spoken here (port 4318 of most collectors)", name, p)
		}
	}
	if !whole {
		url = strings.TrimRight(url, "/") + "/v1/traces"
	}
	e, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(url))
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	return e, nil
}

// provider makes spans of e.
func provider(ctx context.Context, e sdktrace.SpanExporter) (*sdktrace.TracerProvider, error) {
	res, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "sightline")),
		resource.WithTelemetrySDK(), resource.WithFromEnv()) // the last one wins: OTEL_SERVICE_NAME
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("the OTEL_ variables are not usable: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(mute{e}), sdktrace.WithResource(res), sdktrace.WithIDGenerator(ids{})), nil
}

// mute leaves out of every span what an error said: its text may quote a
// file's name or a provider's answer. That there was one stays.
type mute struct{ sdktrace.SpanExporter }

func (m mute) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	out := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		out[i] = muted{s}
	}
	return m.SpanExporter.ExportSpans(ctx, out)
}

type muted struct{ sdktrace.ReadOnlySpan }

func (m muted) Events() []sdktrace.Event { return nil }
func (m muted) Status() sdktrace.Status  { return sdktrace.Status{Code: m.ReadOnlySpan.Status().Code} }

// A turn's trace has the IDs that follow from the turn's, so that every
// process and every replay finds the same parent without anything being
// carried along: a conversation outlives the trace of the event that began it.

type seedKey struct{}

// seeded makes the next root span under ctx that of a turn.
func seeded(ctx context.Context, t chat.TurnID) context.Context {
	return context.WithValue(ctx, seedKey{}, t)
}

func derived(t chat.TurnID) (tid trace.TraceID, sid trace.SpanID) {
	h := sha256.Sum256([]byte("sightline trace\x00" + t))
	copy(tid[:], h[:16])
	copy(sid[:], h[16:24])
	return tid, sid
}

// TraceID is the trace of a turn, as a tracing system names it.
func TraceID(t chat.TurnID) string {
	id, _ := derived(t)
	return id.String()
}

// ids are random but for the roots of turns.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

func (g ids) NewIDs(ctx context.Context) (tid trace.TraceID, sid trace.SpanID) {
	if t, ok := ctx.Value(seedKey{}).(chat.TurnID); ok {
		return derived(t)
	}
	for !tid.IsValid() {
		fill(tid[:])
	}
	return tid, g.NewSpanID(ctx, tid)
}

func (ids) NewSpanID(context.Context, trace.TraceID) (sid trace.SpanID) {
	for !sid.IsValid() {
		fill(sid[:])
	}
	return sid
}

// fill needs no secrecy: an ID only has to differ from others.
func fill(b []byte) {
	for i := 0; i < len(b); i += 8 {
		v := rand.Uint64()
		for j := i; j < min(i+8, len(b)); j++ {
			b[j] = byte(v)
			v >>= 8
		}
	}
}

// parentOf is the event span of a turn as a parent for others. It is started
// and never ended, and so never exported: that asks the sampler for its
// verdict on this trace, whatever sampler the environment chose.
func parentOf(tr trace.Tracer, t chat.TurnID) context.Context {
	ctx, _ := tr.Start(seeded(context.Background(), t), "event")
	return ctx
}
