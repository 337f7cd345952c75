package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

func newKey() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// With a key no payload of a history can be read; a new key in front of it
// goes on with what runs, and without it the service does not start: it says
// which key is missing instead of failing every workflow.
func TestHistoriesAreEncrypted(t *testing.T) {
	m, env := fake(t, nil)
	dir := home(t)
	before, after := newKey(), newKey()
	m.Answer(steps(calls("list_documents", `{}`), says("fine")))
	p := start(t, dir, append(env, "SIGHTLINE_TEMPORAL_KEY="+before)...)
	shot, _ := noise(t, 40, 40, 5)
	for _, c := range []string{"c", "d", "e"} {
		if a := ask(t, p.Client, c, "hello "+c, file{c + ".png", shot}); a.State != "answered" {
			t.Fatalf("%+v", a)
		}
	}
	place, message := query(t, p, `SELECT place FROM turn LIMIT 1`), query(t, p, `SELECT message FROM turn LIMIT 1`)
	sealed := 0
	histories(t, p, func(where string, b []byte) {
		if bytes.Contains(b, []byte("binary/encrypted")) {
			sealed++
		}
		for _, s := range []string{place, message, "plc_", "msg_", "json/plain"} {
			// Attributes are for searching, and tagged with their types.
			if bytes.Contains(b, []byte(s)) && !(s == "json/plain" && bytes.Contains(b, []byte("Keyword"))) {
				t.Errorf("%s shows %s", where, s)
			}
		}
	})
	if sealed < 10 {
		t.Errorf("only %d events hold encrypted payloads", sealed)
	}
	p.Stop()

	// The conversations still run, with the old key in their histories.
	p = start(t, dir, append(env, "SIGHTLINE_TEMPORAL_KEY="+after+","+before)...)
	if a := ask(t, p.Client, "c", "and again"); a.State != "answered" || a.Text != "fine" {
		t.Errorf("after the rotation: %+v", a)
	}
	p.Stop()

	for name, v := range map[string]string{"which is not in SIGHTLINE_TEMPORAL_KEY": newKey(), "SIGHTLINE_TEMPORAL_KEY is not set": ""} {
		q := launch(t, dir, append(env, "SIGHTLINE_TEMPORAL_KEY="+v)...)
		select {
		case <-q.exited:
		case <-time.After(patience):
			t.Fatalf("it started with %s", name)
		}
		if !strings.Contains(q.stderr.String(), name) || strings.Contains(q.stderr.String(), before) {
			t.Errorf("want %q: %s", name, q.stderr)
		}
	}
	// None of the refused starts did any harm.
	p = start(t, dir, append(env, "SIGHTLINE_TEMPORAL_KEY="+after+","+before)...)
	if a := ask(t, p.Client, "d", "still there?"); a.State != "answered" {
		t.Errorf("at last: %+v", a)
	}
}
