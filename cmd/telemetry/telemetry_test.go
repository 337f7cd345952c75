package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"sightline/agent"
	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
	"sightline/workflows"
)

const secret = "payroll-of-everybody.png"

func traced(t *testing.T) (*Telemetry, *tracetest.InMemoryExporter) {
	t.Helper()
	e := tracetest.NewInMemoryExporter()
	tele, err := with(t.Context(), keep{e})
	if err != nil {
		t.Fatal(err)
	}
	return tele, e
}

// keep holds on to the spans after a shutdown, which empties an exporter.
type keep struct{ *tracetest.InMemoryExporter }

func (keep) Shutdown(context.Context) error { return nil }

func page(t *testing.T, tele *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tele.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func has(t *testing.T, metrics string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(metrics, l+"\n") {
			t.Errorf("no sample %q", l)
		}
	}
}

type sinks struct{ err error }

func (s sinks) Deliver(context.Context, chat.Event) error       { return s.err }
func (s sinks) Stop(context.Context, chat.ConversationID) error { return nil }

type models struct {
	agent.Model
	out agent.ModelResponse
	err error
}

func (m models) Generate(context.Context, agent.ModelRequest, func(string)) (agent.ModelResponse, error) {
	return m.out, m.err
}

type sources struct {
	data []byte
	err  error
}

func (s sources) Fetch(_ context.Context, _ attachments.Grant, dst io.Writer) error {
	if _, err := io.Copy(dst, struct{ io.Reader }{bytes.NewReader(s.data)}); err != nil {
		return err
	}
	return s.err
}

type repliers struct{ err error }

func (r repliers) Post(context.Context, chat.Reply) (chat.Posted, error) {
	return chat.Posted{NativeID: "n1"}, r.err
}
func (r repliers) Progress(context.Context, chat.Progress) {}

type drafts struct{ repliers }

func (drafts) Draft(context.Context, chat.Reply) (chat.Posted, error) { return chat.Posted{}, nil }
func (drafts) Withdraw(context.Context, chat.Reply) error             { return nil }
func (drafts) DraftsPerMinute(chat.Place) int                         { return 1 }

type rows struct {
	attachments.Inventory
	err error
}

func (r rows) RecordUses(context.Context, []chat.Use) error { return r.err }

// Every port is counted as it went, and passes on what it got.
func TestPortsAreCounted(t *testing.T) {
	tele, _ := traced(t)
	ctx := t.Context()
	event := chat.Event{Kind: chat.MessagePosted, Place: chat.NewPlace("a", "slack", "w", "c", "", chat.Channel), Message: chat.Message{NativeID: "1"}}
	down := errors.New("down")
	if err := tele.Sink(sinks{}).Deliver(ctx, event); err != nil {
		t.Error(err)
	}
	if err := tele.Sink(sinks{down}).Deliver(ctx, event); err != down {
		t.Error(err)
	}
	answer := agent.ModelResponse{Usage: agent.Usage{InputTokens: 100, OutputTokens: 9}, Model: "made up by the provider"}
	if out, err := tele.Model("m-1", models{out: answer}).Generate(ctx, agent.ModelRequest{}, nil); err != nil || out.Usage != answer.Usage {
		t.Error(out, err)
	}
	limited := &agent.ModelError{Kind: agent.ErrRateLimited}
	if _, err := tele.Model("m-1", models{err: limited}).Generate(ctx, agent.ModelRequest{}, nil); err != limited {
		t.Error(err)
	}
	for _, s := range []sources{{data: make([]byte, 3000)}, {data: make([]byte, 10), err: fmt.Errorf("x: %w", attachments.ErrGone)}, {err: fmt.Errorf("x: %w", context.Canceled)}} {
		var b bytes.Buffer
		if err := tele.Source("slack", s).Fetch(ctx, attachments.Grant{}, &b); !errors.Is(err, s.err) || b.Len() != len(s.data) {
			t.Errorf("%v, %d bytes", err, b.Len())
		}
	}
	uses := []chat.Use{{Action: "show", Allowed: true, Rule: "S1"}, {Action: "show", Rule: "member"}, {Action: "show", Rule: "member"}}
	if err := tele.Inventory(rows{}).RecordUses(ctx, uses); err != nil {
		t.Error(err)
	}
	if err := tele.Inventory(rows{err: down}).RecordUses(ctx, uses); err != down { // what left no trail did not happen
		t.Error(err)
	}
	for _, err := range []error{nil, down, fmt.Errorf("x: %w", chat.ErrRefused)} {
		if out, got := tele.Replier("slack", repliers{err}).Post(ctx, chat.Reply{Kind: chat.ReplyAnswer}); got != err || out.NativeID != "n1" {
			t.Error(out, got)
		}
	}
	if _, ok := tele.Replier("slack", repliers{}).(workflows.Drafter); ok {
		t.Error("a connector without drafts got some")
	}
	if _, ok := tele.Replier("slack", drafts{}).(workflows.Drafter); !ok {
		t.Error("a connector lost its drafts")
	}
	tele.Limited("slack")(2 * time.Second)
	tele.Decoded(20*time.Millisecond, nil)
	tele.Decoded(time.Millisecond, &visual.Refusal{})
	has(t, page(t, tele),
		`sightline_events_total{kind="posted",outcome="ok",platform="slack"} 1`, `sightline_events_total{kind="posted",outcome="failed",platform="slack"} 1`,
		`sightline_model_tokens_total{direction="input",model="m-1"} 100`, `sightline_model_tokens_total{direction="output",model="m-1"} 9`,
		`sightline_model_request_seconds_count{model="m-1",outcome="ok"} 1`, `sightline_model_request_seconds_count{model="m-1",outcome="rate_limited"} 1`,
		`sightline_fetches_total{outcome="ok",platform="slack"} 1`, `sightline_fetches_total{outcome="gone",platform="slack"} 1`,
		`sightline_fetches_total{outcome="cancelled",platform="slack"} 1`, `sightline_fetched_bytes_total{platform="slack"} 3010`,
		`sightline_attachment_uses_total{action="show",rule="S1",verdict="allowed"} 1`, `sightline_attachment_uses_total{action="show",rule="member",verdict="refused"} 2`,
		`sightline_posts_total{kind="answer",outcome="ok",platform="slack"} 1`, `sightline_posts_total{kind="answer",outcome="failed",platform="slack"} 1`,
		`sightline_posts_total{kind="answer",outcome="refused",platform="slack"} 1`,
		`sightline_platform_wait_seconds_sum{platform="slack"} 2`, `sightline_platform_wait_seconds_count{platform="slack"} 1`,
		`sightline_decode_seconds_count{outcome="ok"} 1`, `sightline_decode_seconds_count{outcome="refused"} 1`)
	if strings.Contains(page(t, tele), "made up") {
		t.Error("a provider's word is a label")
	}
}

// However many values somebody makes up, a label has fifty and "other", and a
// long one is no label at all.
func TestLabelsAreBounded(t *testing.T) {
	tele, _ := traced(t)
	var uses []chat.Use
	for i := range 500 {
		uses = append(uses, chat.Use{Action: "show", Rule: fmt.Sprintf("rule %d", i)})
	}
	uses = append(uses, chat.Use{Action: strings.Repeat("x", 200), Rule: "rule 1"})
	if err := tele.Inventory(rows{}).RecordUses(t.Context(), uses); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		tele.handler.WithTags(map[string]string{"operation": fmt.Sprint("op", i), "workflow_id": "wf", "task_queue": "host:uuid"}).Counter("temporal_x").Inc(1)
	}
	text := page(t, tele)
	if n := strings.Count(text, "sightline_attachment_uses_total{"); n != maxValues+2 {
		t.Errorf("%d series of uses", n)
	}
	if n := strings.Count(text, "temporal_x_total{"); n != maxValues+1 {
		t.Errorf("%d series of the SDK's", n)
	}
	has(t, text, fmt.Sprintf(`sightline_attachment_uses_total{action="show",rule="other",verdict="refused"} %d`, 500-maxValues))
	if strings.Contains(text, "uuid") || strings.Contains(text, "workflow_id") || strings.Contains(text, "xxxxx") {
		t.Error("an identifier is a label")
	}
}

// What an error says stays out of spans, and that there was one stays in.
func TestSpansDoNotQuoteErrors(t *testing.T) {
	tele, e := traced(t)
	told := fmt.Errorf("can't read %s", secret)
	_ = tele.Sink(sinks{told}).Deliver(t.Context(), chat.Event{Kind: chat.MessagePosted, Message: chat.Message{NativeID: "1", Text: secret}, Files: []chat.File{{Name: secret}}})
	_, _ = tele.Model("m", models{err: told}).Generate(t.Context(), agent.ModelRequest{Instructions: secret}, nil)
	_ = tele.Source("web", sources{err: told}).Fetch(t.Context(), attachments.Grant{}, io.Discard)
	_, span := tele.tracer.Start(t.Context(), "RunActivity:Infer") // as Temporal's own interceptor ends them
	span.RecordError(told)
	span.SetStatus(1, told.Error())
	span.End()
	if err := tele.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := e.GetSpans()
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	for _, s := range spans {
		if text := fmt.Sprintf("%+v", s); strings.Contains(text, "payroll") {
			t.Errorf("span %s says it: %s", s.Name, text)
		}
		if s.Status.Code != 1 {
			t.Errorf("span %s does not say that it failed", s.Name)
		}
	}
}

// The event of a message and its turn share a trace that follows from the
// turn's ID, in every process; a sampler's verdict on it is the same for both.
func TestTracesFollowFromTurns(t *testing.T) {
	place := chat.NewPlace("a", "slack", "w", "c", "", chat.Channel)
	turn := chat.TurnOf(chat.MessageOf(place.ID, "17"))
	for _, c := range []struct {
		sampler string
		want    int
	}{{"always_on", 1}, {"always_off", 0}} {
		t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
		tele, e := traced(t)
		_ = tele.Sink(sinks{}).Deliver(t.Context(), chat.Event{Kind: chat.MessagePosted, Place: place, Message: chat.Message{NativeID: "17"}})
		ref := tele.temporal.SpanFromContext(parentOf(tele.tracer, turn))
		if ref == nil {
			t.Fatalf("%s: no parent", c.sampler)
		}
		m, err := tele.temporal.MarshalSpan(ref)
		if err != nil {
			t.Fatal(err)
		}
		flag := map[int]string{1: "-01", 0: "-00"}[c.want]
		if !strings.HasPrefix(m["traceparent"], "00-"+TraceID(turn)+"-") || !strings.HasSuffix(m["traceparent"], flag) {
			t.Errorf("%s: the turn's parent is %v", c.sampler, m)
		}
		if err := tele.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		spans := e.GetSpans()
		if len(spans) != c.want {
			t.Fatalf("%s: %d spans", c.sampler, len(spans))
		}
		if c.want == 1 && (spans[0].SpanContext.TraceID().String() != TraceID(turn) || !strings.Contains(m["traceparent"], spans[0].SpanContext.SpanID().String())) {
			t.Errorf("the event's span is %v, the turn's parent %v", spans[0].SpanContext, m)
		}
	}
	if TraceID(turn) == TraceID(turn+"x") {
		t.Error("two turns share a trace")
	}
}

// Settings of the standard names that can't be followed are errors of one
// line, and none of them means no spans.
func TestExporterSettings(t *testing.T) {
	none := slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		env  map[string]string
		want string // of the error; "on" or "off" without one
	}{
		"nothing":  {nil, "off"},
		"endpoint": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, "on"},
		"traces":   {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, "on"},
		"disabled": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, "off"},
		"none":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, "off"},
		"no URL":   {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, "not an http(s) URL"},
		"grpc":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"},
	} {
		tele, err := New(t.Context(), func(k string) string { return c.env[k] }, none)
		got := "off"
		switch {
		case err != nil:
			got = err.Error()
		case tele.provider != nil:
			got = "on"
			_ = tele.Close(t.Context())
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A collector that takes connections and says nothing costs spans, and no waiting.
func TestACollectorThatIsSilentHoldsUpNothing(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	tele, err := New(t.Context(), func(k string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + silent.Addr().String()}[k]
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan error, 1)
	go func() {
		sink := tele.Sink(sinks{})
		for range 5000 { // more than wait to be sent
			if err := sink.Deliver(t.Context(), chat.Event{Kind: chat.MessageEdited}); err != nil {
				all <- err
				return
			}
		}
		all <- nil
	}()
	select {
	case err := <-all:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("an event waits for the collector")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = tele.Close(ctx)
}

var _ sdktrace.SpanExporter = keep{}
