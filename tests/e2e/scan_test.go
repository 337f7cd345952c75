package e2e

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"
)

// run is the length of a copied run that law 4 forbids.
const run = 24

// detector finds runs of an image's bytes, or of its base64, in anything.
type detector struct {
	of   [][]byte
	keys map[uint64][]position // of the 8 bytes at each multiple of stride
	// maybe has a bit for each key: most bytes of a disk need no more than it.
	maybe [1 << 20]uint64
}

func bit(k uint64) (word int, mask uint64) {
	h := k * 0x9E3779B97F4A7C15 >> 38 // 26 bits
	return int(h >> 6), 1 << (h & 63)
}

// Whatever run of 24 bytes is looked at, it holds 8 that begin at a multiple
// of 16: a stride of 16 misses nothing.
const stride = 16

type position struct{ of, at int }

func newDetector(images ...[]byte) *detector {
	d := &detector{keys: map[uint64][]position{}}
	for _, b := range images {
		d.add(b)
		// base64 of a slice depends on where it begins, modulo 3.
		for skip := range 3 {
			d.add([]byte(base64.StdEncoding.EncodeToString(b[skip:])))
			d.add([]byte(base64.URLEncoding.EncodeToString(b[skip:])))
		}
	}
	return d
}

func (d *detector) add(b []byte) {
	d.of = append(d.of, b)
	for i := 0; i+8 <= len(b); i += stride {
		k := binary.LittleEndian.Uint64(b[i:])
		d.keys[k] = append(d.keys[k], position{len(d.of) - 1, i})
		word, mask := bit(k)
		d.maybe[word] |= mask
	}
}

// find reports where the first forbidden run in data is, or -1.
func (d *detector) find(data []byte) int {
	for i := 0; i+8 <= len(data); i++ {
		k := binary.LittleEndian.Uint64(data[i:])
		if word, mask := bit(k); d.maybe[word]&mask == 0 {
			continue
		}
		for _, p := range d.keys[k] {
			img := d.of[p.of]
			from, to := 0, 8
			for i+from > 0 && p.at+from > 0 && data[i+from-1] == img[p.at+from-1] {
				from--
			}
			for i+to < len(data) && p.at+to < len(img) && data[i+to] == img[p.at+to] {
				to++
			}
			if to-from >= run {
				return i + from
			}
		}
	}
	return -1
}

// The detector itself: every run of 24 is found, none of 23.
func TestDetectorFindsEveryRun(t *testing.T) {
	img, _ := noise(t, 40, 40, 99)
	d := newDetector(img)
	for at := 0; at+run <= 400; at++ {
		before := []byte{0}
		if at > 0 {
			before[0] = ^img[at-1] // the run is no longer than it is meant to be
		}
		if d.find(append(before, img[at:at+run]...)) < 0 {
			t.Fatalf("a run at %d is not found", at)
		}
		if d.find(append(before, img[at:at+run-1]...)) >= 0 {
			t.Fatalf("a run of 23 at %d is found", at)
		}
	}
	if e := base64.StdEncoding.EncodeToString(img[7:]); d.find([]byte("x"+e[100:100+run])) < 0 {
		t.Error("a run of base64 is not found")
	}
}

// incompressible drops what every PNG has: signature, header and end.
func incompressible(b []byte) []byte { return b[64 : len(b)-32] }

// Law 4: after whole turns with pictures, refused ones and failed ones too,
// nothing that rests anywhere holds a run of a picture, but for the web
// place's own store of uploads.
func TestNothingDurableHoldsPixels(t *testing.T) {
	m, env := fake(t, scripted)
	dir := home(t)
	traces, ops := newOTLP(t), freePort(t)
	p := start(t, dir, append(env, "SIGHTLINE_OPS_ADDR="+ops, "OTEL_EXPORTER_OTLP_ENDPOINT="+traces.URL, "OTEL_BSP_SCHEDULE_DELAY=100")...)
	older, _ := noise(t, 1300, 1300, 21) // 5 MB
	newer, _ := noise(t, 80, 50, 22)
	half, _ := noise(t, 70, 40, 23)
	ask(t, p.Client, "c", "q older", file{"older.png", older})
	if a := ask(t, p.Client, "c", "q newer", file{"newer.png", newer}, file{"half.png", half[:len(half)-400]}); a.State != "answered" {
		t.Fatalf("%+v", a)
	}
	m.Answer(calls("view_images", `{"ids":["att_0123456789abcdefghjkmnpqrs"]}`))
	ask(t, p.Client, "c", "q until it gives up", file{"again.png", newer})

	secrets := [][]byte{incompressible(older), incompressible(newer), incompressible(half[:len(half)-400])}
	// What was sent may have been encoded anew to fit: that too rests nowhere.
	for _, r := range m.Requests() {
		for _, pic := range r.Pictures {
			secrets = append(secrets, incompressible(pic.Bytes))
		}
	}
	d := newDetector(secrets...)
	look := func(where string, data []byte) {
		t.Helper()
		if at := d.find(data); at >= 0 {
			t.Errorf("%s holds a run of a picture at byte %d", where, at)
		}
	}
	histories(t, p, look)
	rows(t, p, look)
	look("stderr", []byte(p.stderr.String()))
	metrics := scrape(t, ops)
	look("the metrics", []byte(metrics))
	if n, _ := sample(metrics, "sightline_fetches_total"); n < 4 {
		t.Errorf("the metrics count %v fetches: they are of something else", n)
	}
	p.Stop() // exports the last spans
	for _, b := range traces.raw {
		look("a span", b)
	}
	if len(traces.spans) < 20 {
		t.Errorf("only %d spans", len(traces.spans))
	}

	// Everything on disk, the database's own files and write-ahead log too.
	found := map[string]int{}
	files := 0
	for _, root := range roots(dir) {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.HasPrefix(path, filepath.Join(dir, "uploads")) {
				if d.find(b) >= 0 {
					found["uploads"]++
				}
				return nil
			}
			files++
			look(path, b)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The detector works: it finds the pictures where they may be.
	if found["uploads"] != 4 {
		t.Errorf("found %d uploads, want 4: the detector is blind", found["uploads"])
	}
	if files < 100 {
		t.Errorf("only %d files were scanned: the database's are not among them", files)
	}
	for _, r := range m.Requests() {
		if len(r.Pictures) > 0 && d.find(r.Raw) < 0 {
			t.Error("the detector does not see the base64 of a request")
		}
	}
}

// roots are the state directory and what its links lead to.
func roots(dir string) []string {
	out := []string{dir}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type()&fs.ModeSymlink != 0 {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				out = append(out, real)
			}
		}
		return nil
	})
	return out
}

// histories exports every workflow's history as the server has it.
func histories(t *testing.T, p *process, look func(string, []byte)) {
	t.Helper()
	ctx := context.Background()
	c, err := client.Dial(client.Options{HostPort: p.Ready.Temporal})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Executions) < 4 {
		t.Errorf("%d workflows listed, want the conversation and its turns", len(list.Executions))
	}
	for _, e := range list.Executions {
		it := c.GetWorkflowHistory(ctx, e.Execution.WorkflowId, e.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			ev, err := it.Next()
			if err != nil {
				t.Fatal(err)
			}
			b, err := proto.Marshal(ev)
			if err != nil {
				t.Fatal(err)
			}
			look(fmt.Sprintf("history of %s, event %d", e.Execution.WorkflowId, ev.EventId), b)
		}
	}
}

// rows reads every row of every table as text: on disk large ones are
// compressed.
func rows(t *testing.T, p *process, look func(string, []byte)) {
	t.Helper()
	ctx := context.Background()
	db, err := pgx.Connect(ctx, p.Ready.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	list, err := db.Query(ctx, `SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) FROM information_schema.tables
		WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(list, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, table := range tables {
		r, err := db.Query(ctx, "SELECT x::text FROM "+table+" x")
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(r, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range texts {
			n++
			look("table "+table, []byte(s))
		}
	}
	if n < 50 {
		t.Errorf("only %d rows in %d tables", n, len(tables))
	}
}
