package attachments

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestGrantIsUselessUnlessMintedLiveAndForThisAttachment(t *testing.T) {
	w, rows := newWorld(agentA, agentB)
	a := w.authorizer(t, agentA, agentB)
	ra, rb := rows[agentA], rows[agentB]
	ctx := context.Background()
	good, _, err := a.Authorize(ctx, request(ra), ra.ID, "view")
	if err != nil {
		t.Fatal(err)
	}
	foreign, _, err := a.Authorize(ctx, request(rb), rb.ID, "view")
	if err != nil {
		t.Fatal(err)
	}
	activity, end := context.WithCancel(ctx)
	ended, _, err := a.Authorize(activity, request(ra), ra.ID, "view")
	if err != nil {
		t.Fatal(err)
	}
	end()
	var copied Grant
	b, err := json.Marshal(struct{ G Grant }{good})
	if err == nil {
		t.Errorf("a grant was marshalled: %s", b)
	}
	if err := json.Unmarshal([]byte(`{}`), &copied); err == nil {
		t.Error("a grant was unmarshalled")
	}
	if err := gob.NewEncoder(&bytes.Buffer{}).Encode(good); err == nil {
		t.Error("a grant was encoded by gob")
	}
	for name, g := range map[string]Grant{"zero": {}, "copied through JSON": copied, "of another attachment": foreign, "of an ended activity": ended} {
		c, err := a.Fetch(ctx, g, request(ra), ra.ID)
		if !errors.Is(err, ErrGrant) || c.Bytes() != nil || w.fetched != 0 {
			t.Errorf("grant %s: error %v, %d bytes, %d fetches", name, err, len(c.Bytes()), w.fetched)
		}
	}
	if _, err := good.Locator(agentB); !errors.Is(err, ErrGrant) {
		t.Errorf("another agent opened the grant: %v", err)
	}
	c, err := a.Fetch(ctx, good, request(ra), ra.ID)
	if err != nil || string(c.Bytes()) != "picture bytes" {
		t.Fatalf("a good grant: %q, %v", c.Bytes(), err)
	}
	w.now = w.now.Add(3 * time.Minute)
	if _, err := a.Fetch(ctx, good, request(ra), ra.ID); !errors.Is(err, ErrGrant) || w.fetched != 1 {
		t.Errorf("an expired grant: %v, %d fetches", err, w.fetched)
	}
}

func TestGrantAndContentPrintAsNothing(t *testing.T) {
	w, rows := newWorld(agentA)
	a := w.authorizer(t, agentA)
	r := rows[agentA]
	g, _, err := a.Authorize(context.Background(), request(r), r.ID, "view")
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Fetch(context.Background(), g, request(r), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	l := slog.New(slog.NewJSONHandler(&log, nil))
	l.Info("x", "grant", g, "content", c, "in", struct{ G Grant }{g})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		fmt.Fprintf(&log, verb+"\n"+verb+"\n", g, c)
	}
	for _, secret := range []string{"picture bytes", fmt.Sprintf("%x", "picture"), r.NativeFile + "\"", "f1", "chan-a"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q shows in %s", secret, log.String())
		}
	}
	if _, err := json.Marshal(c); err == nil {
		t.Error("content was marshalled")
	}
}
