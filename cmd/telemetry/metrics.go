package telemetry

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the service's own numbers, each with few labels of few values.
type metrics struct {
	registry *prometheus.Registry
	labels   limiter

	events       *prometheus.CounterVec   // platform, kind, outcome
	modelTime    *prometheus.HistogramVec // model, outcome
	modelTokens  *prometheus.CounterVec   // model, direction
	fetches      *prometheus.CounterVec   // platform, outcome
	fetchedBytes *prometheus.CounterVec   // platform
	fetchTime    *prometheus.HistogramVec // platform
	decodeTime   *prometheus.HistogramVec // outcome
	uses         *prometheus.CounterVec   // action, verdict, rule
	posts        *prometheus.CounterVec   // platform, kind, outcome
	limited      *prometheus.HistogramVec // platform
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), labels: limiter{seen: map[string]map[string]bool{}}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.events = counter("sightline_events_total", "Events that connectors handed in.", "platform", "kind", "outcome")
	m.modelTime = histogram("sightline_model_request_seconds", "Time of one request to a model.", []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160}, "model", "outcome")
	m.modelTokens = counter("sightline_model_tokens_total", "Tokens that a model's provider counted.", "model", "direction")
	m.fetches = counter("sightline_fetches_total", "Fetches of attachments from their platforms.", "platform", "outcome")
	m.fetchedBytes = counter("sightline_fetched_bytes_total", "Bytes of attachments fetched from their platforms.", "platform")
	m.fetchTime = histogram("sightline_fetch_seconds", "Time of one fetch.", []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30}, "platform")
	m.decodeTime = histogram("sightline_decode_seconds", "Time to bound, decode and normalise one picture, waiting for its turn included.", []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, "outcome")
	m.uses = counter("sightline_attachment_uses_total", "Decisions about attachments, by the rule that allowed or refused.", "action", "verdict", "rule")
	m.posts = counter("sightline_posts_total", "Replies handed to their platforms.", "platform", "kind", "outcome")
	m.limited = histogram("sightline_platform_wait_seconds", "Time that a call to a platform waited for its rate limits, of those that did.", []float64{.05, .25, 1, 5, 15, 60}, "platform")
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers a scrape.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// maxValues bounds the values of one label: what a connector or a provider
// could make up must not make the scrape grow.
const maxValues = 50

type limiter struct {
	mu   sync.Mutex
	seen map[string]map[string]bool // label -> values
}

// value is v while the label has room for it, else "other".
func (l *limiter) value(label, v string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(v) > 80 {
		return "other"
	}
	known := l.seen[label]
	if known == nil {
		known = map[string]bool{}
		l.seen[label] = known
	}
	if !known[v] && len(known) >= maxValues {
		return "other"
	}
	known[v] = true
	return v
}
