package telemetry

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
)

// temporalTags are the tags of the Temporal SDK that become labels: those with
// few values. A name has the same labels whoever reports it, since a registry
// refuses one name with two sets; a label that does not apply is empty.
var temporalTags = []string{"operation", "workflow_type", "activity_type", "task_queue", "worker_type", "poller_type", "status_code", "failure_reason", "state", "platform"}

// handler hands the numbers of the Temporal SDK, and those that workflows
// report through it, to the registry. The adapters that Temporal offers bring
// a second metrics library each.
type handler struct {
	root *collectorsByName
	tags map[string]string
}

type collectorsByName struct {
	m *metrics

	mu         sync.Mutex
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
}

var _ client.MetricsHandler = handler{}

func newHandler(m *metrics) handler {
	return handler{root: &collectorsByName{m: m, counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{},
		histograms: map[string]*prometheus.HistogramVec{}}}
}

func (h handler) WithTags(tags map[string]string) client.MetricsHandler {
	all := maps.Clone(h.tags)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, tags)
	return handler{h.root, all}
}

func (h handler) labels() []string {
	out := make([]string, len(temporalTags))
	for i, name := range temporalTags {
		v := h.tags[name]
		if v == "none" { // the SDK's word for what does not apply
			v = ""
		}
		// A worker's own sticky queue is named after its host and a random ID.
		if name == "task_queue" && strings.Contains(v, ":") {
			v = "sticky"
		}
		out[i] = h.root.m.labels.value(name, v)
	}
	return out
}

func (h handler) Counter(name string) client.MetricsCounter {
	c := h.root.counter(strings.TrimSuffix(name, "_total") + "_total").WithLabelValues(h.labels()...)
	return counterFunc(func(n int64) { c.Add(float64(max(n, 0))) })
}

func (h handler) Gauge(name string) client.MetricsGauge {
	g := h.root.gauge(name).WithLabelValues(h.labels()...)
	return gaugeFunc(g.Set)
}

func (h handler) Timer(name string) client.MetricsTimer {
	o := h.root.histogram(name + "_seconds").WithLabelValues(h.labels()...)
	return timerFunc(func(d time.Duration) { o.Observe(d.Seconds()) })
}

type (
	counterFunc func(int64)
	gaugeFunc   func(float64)
	timerFunc   func(time.Duration)
)

func (f counterFunc) Inc(n int64)          { f(n) }
func (f gaugeFunc) Update(v float64)       { f(v) }
func (f timerFunc) Record(d time.Duration) { f(d) }

func help(name string) string {
	if strings.HasPrefix(name, "sightline_") {
		return "Reported by the workflows, once however often they are replayed."
	}
	return "Reported by the Temporal SDK."
}

func (c *collectorsByName) counter(name string) *prometheus.CounterVec {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.counters[name]
	if v == nil {
		v = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help(name)}, temporalTags)
		c.m.registry.MustRegister(v)
		c.counters[name] = v
	}
	return v
}

func (c *collectorsByName) gauge(name string) *prometheus.GaugeVec {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.gauges[name]
	if v == nil {
		v = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help(name)}, temporalTags)
		c.m.registry.MustRegister(v)
		c.gauges[name] = v
	}
	return v
}

func (c *collectorsByName) histogram(name string) *prometheus.HistogramVec {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.histograms[name]
	if v == nil {
		v = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help(name), Buckets: []float64{.005, .025, .1, .5, 1, 5, 10, 30, 60, 300}}, temporalTags)
		c.m.registry.MustRegister(v)
		c.histograms[name] = v
	}
	return v
}
