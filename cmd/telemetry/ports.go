package telemetry

import (
	"context"
	"errors"
	"io"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"sightline/agent"
	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
	"sightline/workflows"
)

// Sink takes events from a connector.
type Sink interface {
	Deliver(ctx context.Context, e chat.Event) error
	Stop(ctx context.Context, c chat.ConversationID) error
}

// Sink counts events and begins the trace of those that may begin a turn.
func (t *Telemetry) Sink(next Sink) Sink { return sink{next, t} }

type sink struct {
	Sink
	t *Telemetry
}

func (s sink) Deliver(ctx context.Context, e chat.Event) error {
	if e.Kind == chat.MessagePosted && !e.Silent {
		ctx = seeded(ctx, chat.TurnOf(chat.MessageOf(e.Place.ID, e.Message.NativeID)))
	}
	ctx, span := s.t.tracer.Start(ctx, "event", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("sightline.platform", string(e.Place.Platform)), attribute.String("sightline.event", string(e.Kind)),
		attribute.Int("sightline.files", len(e.Files)), attribute.Bool("sightline.silent", e.Silent)))
	err := s.Sink.Deliver(ctx, e)
	end(span, err)
	m := s.t.metrics
	m.events.WithLabelValues(m.labels.value("platform", string(e.Place.Platform)), m.labels.value("event", string(e.Kind)), okOr(err, "failed")).Inc()
	return err
}

// end closes a span, with no word of the error.
func end(s trace.Span, err error) {
	if err != nil {
		s.SetStatus(codes.Error, "")
	}
	s.End()
}

func okOr(err error, bad string) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return bad
}

// Model times a model's requests and counts its tokens. name is the
// configured one, never what a provider answers.
func (t *Telemetry) Model(name string, next agent.Model) agent.Model { return model{next, t, name} }

type model struct {
	agent.Model
	t    *Telemetry
	name string
}

func (m model) Generate(ctx context.Context, r agent.ModelRequest, draft func(string)) (agent.ModelResponse, error) {
	ctx, span := m.t.tracer.Start(ctx, "chat", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", m.name),
		attribute.Int("sightline.pictures", len(r.Pictures)), attribute.Int("sightline.messages", len(r.Messages))))
	began := time.Now()
	out, err := m.Model.Generate(ctx, r, draft)
	outcome := okOr(err, "failed")
	var me *agent.ModelError
	if errors.As(err, &me) {
		outcome = string(me.Kind)
	}
	span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", out.Usage.InputTokens), attribute.Int64("gen_ai.usage.output_tokens", out.Usage.OutputTokens),
		attribute.String("sightline.outcome", outcome))
	end(span, err)
	ms := m.t.metrics
	name := ms.labels.value("model", m.name)
	ms.modelTime.WithLabelValues(name, ms.labels.value("model outcome", outcome)).Observe(time.Since(began).Seconds())
	ms.modelTokens.WithLabelValues(name, "input").Add(float64(max(out.Usage.InputTokens, 0)))
	ms.modelTokens.WithLabelValues(name, "output").Add(float64(max(out.Usage.OutputTokens, 0)))
	return out, err
}

// Source counts a platform's fetches and their bytes.
func (t *Telemetry) Source(p chat.Platform, next attachments.Source) attachments.Source {
	return source{next, t, p}
}

type source struct {
	next     attachments.Source
	t        *Telemetry
	platform chat.Platform
}

func (s source) Fetch(ctx context.Context, g attachments.Grant, dst io.Writer) error {
	ctx, span := s.t.tracer.Start(ctx, "fetch", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("sightline.platform", string(s.platform))))
	began := time.Now()
	w := &counted{dst: dst}
	err := s.next.Fetch(ctx, g, w)
	outcome := fetched(err)
	span.SetAttributes(attribute.Int64("sightline.bytes", w.n), attribute.String("sightline.outcome", outcome))
	end(span, err)
	m := s.t.metrics
	p := m.labels.value("platform", string(s.platform))
	m.fetches.WithLabelValues(p, outcome).Inc()
	m.fetchedBytes.WithLabelValues(p).Add(float64(w.n))
	m.fetchTime.WithLabelValues(p).Observe(time.Since(began).Seconds())
	return err
}

func fetched(err error) string {
	switch {
	case errors.Is(err, attachments.ErrGone):
		return "gone"
	case errors.Is(err, attachments.ErrDenied):
		return "denied"
	case errors.Is(err, attachments.ErrUnreachable):
		return "unreachable"
	}
	return okOr(err, "failed")
}

// counted passes bytes on as fast as it gets them: the writer behind it reads
// whole streams by itself where it can.
type counted struct {
	dst io.Writer
	n   int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.dst.Write(b)
	c.n += int64(n)
	return n, err
}

// ReadFrom is what io.Copy uses.
func (c *counted) ReadFrom(r io.Reader) (n int64, err error) {
	if rf, ok := c.dst.(io.ReaderFrom); ok {
		n, err = rf.ReadFrom(r)
		c.n += n
		return n, err
	}
	return io.Copy(struct{ io.Writer }{c}, r)
}

// Replier counts what is posted. A connector that shows drafts still does.
func (t *Telemetry) Replier(p chat.Platform, next workflows.Replier) workflows.Replier {
	r := replier{next, t, p}
	if d, ok := next.(workflows.Drafter); ok {
		return drafter{r, d}
	}
	return r
}

type replier struct {
	workflows.Replier
	t        *Telemetry
	platform chat.Platform
}

type drafter struct {
	replier
	workflows.Drafter
}

func (r replier) Post(ctx context.Context, reply chat.Reply) (chat.Posted, error) {
	ctx, span := r.t.tracer.Start(ctx, "post", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("sightline.platform", string(r.platform)), attribute.String("sightline.reply", string(reply.Kind))))
	out, err := r.Replier.Post(ctx, reply)
	end(span, err)
	outcome := okOr(err, "failed")
	if errors.Is(err, chat.ErrRefused) {
		outcome = "refused"
	}
	m := r.t.metrics
	m.posts.WithLabelValues(m.labels.value("platform", string(r.platform)), m.labels.value("reply", string(reply.Kind)), outcome).Inc()
	return out, err
}

// Inventory counts what was decided about attachments.
func (t *Telemetry) Inventory(next attachments.Inventory) attachments.Inventory {
	return inventory{next, t}
}

type inventory struct {
	attachments.Inventory
	t *Telemetry
}

func (i inventory) RecordUses(ctx context.Context, uses []chat.Use) error {
	err := i.Inventory.RecordUses(ctx, uses)
	if err != nil {
		return err
	}
	m := i.t.metrics
	for _, u := range uses {
		verdict := "refused"
		if u.Allowed {
			verdict = "allowed"
		}
		m.uses.WithLabelValues(m.labels.value("action", u.Action), verdict, m.labels.value("rule", u.Rule)).Inc()
	}
	return nil
}

// Decoded is told how long a picture took to bound, decode and normalise.
func (t *Telemetry) Decoded(took time.Duration, err error) {
	outcome := okOr(err, "failed")
	var r *visual.Refusal
	if errors.As(err, &r) {
		outcome = "refused"
	}
	t.metrics.decodeTime.WithLabelValues(outcome).Observe(took.Seconds())
}

// Limited is told how long calls to a platform waited for its rate limits.
func (t *Telemetry) Limited(p chat.Platform) func(waited time.Duration) {
	if t == nil { // doctor only looks
		return nil
	}
	wait := t.metrics.limited.WithLabelValues(t.metrics.labels.value("platform", string(p)))
	return func(d time.Duration) { wait.Observe(d.Seconds()) }
}
