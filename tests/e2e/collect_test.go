package e2e

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlp is a collector of traces as others run one.
type otlp struct {
	*httptest.Server
	mu    sync.Mutex
	raw   [][]byte
	spans []*tracepb.Span
}

func newOTLP(t *testing.T) *otlp {
	t.Helper()
	o := &otlp{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		var in io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			in = z
		}
		b, err := io.ReadAll(in)
		var req collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(b, &req)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.raw = append(o.raw, b)
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				o.spans = append(o.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	})
	o.Server = httptest.NewServer(mux)
	t.Cleanup(o.Close)
	return o
}

// trace is the spans of one trace by name, and those whose ancestors do not
// end at its root.
func (o *otlp) trace(id string) (names map[string]int, lost []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	byID := map[string]*tracepb.Span{}
	names = map[string]int{}
	for _, s := range o.spans {
		if hex.EncodeToString(s.TraceId) == id {
			byID[string(s.SpanId)] = s
			names[s.Name]++
		}
	}
	for _, s := range byID {
		at := s
		for range 50 {
			if len(at.ParentSpanId) == 0 {
				break
			}
			if at = byID[string(at.ParentSpanId)]; at == nil {
				break
			}
		}
		if at == nil || at.Name != "event" {
			lost = append(lost, s.Name)
		}
	}
	return names, lost
}

// freePort is an address that a program of this test may listen on later: where
// the machine has them, one of the loopback addresses that nobody else uses, so
// that the port is not given to another test meanwhile.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func scrape(t *testing.T, addr string) string {
	t.Helper()
	res, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("scrape: %d, %v", res.StatusCode, err)
	}
	return string(b)
}

// sample sums the samples of a name whose labels contain all of these.
func sample(metrics, name string, labels ...string) (sum float64, found bool) {
lines:
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue lines
			}
		}
		var v float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(strings.TrimSpace(rest), ' '):], &v); err == nil {
			sum, found = sum+v, true
		}
	}
	return sum, found
}

// query reads one text from the program's database, "" for none.
func query(t *testing.T, p *process, sql string) (v string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := pgx.Connect(ctx, p.Ready.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	if err := db.QueryRow(ctx, sql).Scan(&v); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}
