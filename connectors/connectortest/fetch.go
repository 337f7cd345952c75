package connectortest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"sightline/attachments"
	"sightline/connectors/chat"
)

// testGrants: law 2. A grant that is not live opens nothing.
func testGrants(t *testing.T, s *suite) {
	_, row := s.with(noise(5000))
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	a := s.authorizer(false, clock)
	good := s.grant(t.Context(), a, row)
	var b bytes.Buffer
	if err := s.Source.Fetch(t.Context(), good, &b); err != nil {
		t.Fatalf("a live grant: %v", err)
	}

	expect := func(what string, g attachments.Grant) {
		t.Helper()
		if err := s.nothing(t.Context(), what, g); !errors.Is(err, attachments.ErrGrant) {
			t.Errorf("%s: %v, want ErrGrant", what, err)
		}
	}
	expect("the zero grant", attachments.Grant{})

	if _, err := json.Marshal(good); err == nil {
		t.Error("a grant was serialized")
	}
	var copied attachments.Grant
	json.Unmarshal([]byte(`{"s":{"attachment":"`+string(row.ID)+`"}}`), &copied)
	expect("a grant out of JSON", copied)

	activity, end := context.WithCancel(t.Context())
	ended := s.grant(activity, a, row)
	end()
	expect("the grant of an activity that ended", ended)

	foreign := chat.AgentID("somebody-else")
	p := chat.NewPlace(foreign, s.inventory.places[row.Place].Platform, s.inventory.places[row.Place].Workspace,
		s.inventory.places[row.Place].Channel, s.inventory.places[row.Place].Thread, s.inventory.places[row.Place].Kind)
	m := s.inventory.messages[row.Message]
	m.Place, m.ID = p.ID, chat.MessageOf(p.ID, m.NativeID)
	theirs := s.inventory.record(chat.Event{Place: p, Message: m, Files: []chat.File{{NativeID: row.NativeFile, State: chat.FileAvailable}}})[0]
	expect("another agent's grant", s.grant(t.Context(), s.authorizer(false, clock), theirs))

	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	expect("an expired grant", good)
}

// testFetch: the bytes are the posted ones, each of its own message.
func testFetch(t *testing.T, s *suite) {
	one, two := noise(300_000), noise(70_000)
	e := s.Send(0, "two files", Upload{"one.bin", one}, Upload{"two.bin", two})
	rows := s.record(e)
	if len(rows) != 2 {
		t.Fatalf("%d files", len(rows))
	}
	a := s.authorizer(true, nil)
	for i, want := range [][]byte{one, two} {
		g := s.grant(t.Context(), a, rows[i])
		c, err := a.Fetch(t.Context(), g, request(rows[i]), rows[i].ID)
		sum := sha256.Sum256(want)
		if err != nil || !bytes.Equal(c.Bytes(), want) || c.Digest() != hex.EncodeToString(sum[:]) {
			t.Errorf("file %d: %d bytes, %v", i, len(c.Bytes()), err)
		}
	}
	for _, u := range s.inventory.uses {
		if !u.Allowed {
			t.Errorf("recorded as refused: %+v", u)
		}
	}
}

// testCap: a file over the cap stops at the cap.
func testCap(t *testing.T, s *suite) {
	data := noise(400_000)
	_, row := s.with(data)
	a := s.authorizer(true, nil)
	for _, max := range []int64{0, 1, 1000, int64(len(data)) - 1} {
		_, err := a.FetchMax(t.Context(), s.grant(t.Context(), a, row), request(row), row.ID, max)
		var large *attachments.TooLargeError
		if !errors.As(err, &large) {
			t.Errorf("cap of %d: %v", max, err)
		}
		if u := s.inventory.uses[len(s.inventory.uses)-1]; u.BytesFetched > max || u.Allowed {
			t.Errorf("cap of %d: recorded %d bytes, allowed %v", max, u.BytesFetched, u.Allowed)
		}
	}
	if _, err := a.FetchMax(t.Context(), s.grant(t.Context(), a, row), request(row), row.ID, int64(len(data))); err != nil {
		t.Errorf("a cap of the very size: %v", err)
	}
}

// testCancel: law 5. A fetch ends with its context, before and midway.
func testCancel(t *testing.T, s *suite) {
	_, row := s.with(noise(4 << 20))
	a := s.authorizer(true, nil)
	before, cancel := context.WithCancel(t.Context())
	cancel()
	g := s.grant(t.Context(), a, row)
	if err := s.nothing(before, "a cancelled context", g); err == nil {
		t.Error("a cancelled fetch succeeded")
	}
	midway, cancel := context.WithCancel(t.Context())
	w := &cancelling{cancel: cancel}
	if err := s.Source.Fetch(midway, g, w); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled midway: %v", err)
	}
	if w.n > 1<<20 {
		t.Errorf("%d bytes went out after the cancellation", w.n)
	}
}

// cancelling ends the fetch at its first byte.
type cancelling struct {
	cancel func()
	n      int
}

func (c *cancelling) Write(b []byte) (int, error) {
	c.cancel()
	c.n += len(b)
	return len(b), nil
}

// testGone: the message is read again; a row that says otherwise is behind.
func testGone(t *testing.T, s *suite) {
	e, row := s.with(noise(5000))
	a := s.authorizer(false, nil)
	g := s.grant(t.Context(), a, row)

	// The store's idea of the revision is older than the platform's.
	m := s.inventory.messages[row.Message]
	m.Revision += "-before"
	s.inventory.messages[row.Message] = m
	if err := s.nothing(t.Context(), "another revision", s.grant(t.Context(), a, row)); !errors.Is(err, attachments.ErrGone) {
		t.Errorf("another revision: %v, want ErrGone", err)
	}
	m.Revision = e.Message.Revision
	s.inventory.messages[row.Message] = m

	s.Delete(e)
	if err := s.nothing(t.Context(), "a deleted message", g); !errors.Is(err, attachments.ErrGone) {
		t.Errorf("a deleted message: %v, want ErrGone", err)
	}
	if err := s.nothing(t.Context(), "a deleted message, asked again", s.grant(t.Context(), a, row)); !errors.Is(err, attachments.ErrGone) {
		t.Errorf("a deleted message, asked again: %v, want ErrGone", err)
	}
}

// testForeign: a row that names a file of another message, or none, gets
// nothing, and the same nothing.
func testForeign(t *testing.T, s *suite) {
	_, row := s.with(noise(5000))
	other := s.record(s.Send(0, "another message", Upload{"other.bin", noise(100)}))[0]
	elsewhere := s.record(s.Send(1, "another place", Upload{"elsewhere.bin", noise(100)}))[0]
	a := s.authorizer(false, nil)
	said := map[string]bool{}
	for what, native := range map[string]string{
		"a file of another message": other.NativeFile, "a file of another place": elsewhere.NativeFile,
		"no file": "0", "a path": "../../etc/passwd", "an address": "https://example.com/x.png", "nothing": "",
	} {
		forged := row
		forged.ID, forged.NativeFile = chat.NewAttachmentID(), native
		s.inventory.rows[forged.ID] = forged
		err := s.nothing(t.Context(), what, s.grant(t.Context(), a, forged))
		if !errors.Is(err, attachments.ErrGone) {
			t.Errorf("%s: %v, want ErrGone", what, err)
			continue
		}
		said[err.Error()] = true
	}
	if len(said) != 1 {
		t.Errorf("missing and forbidden differ: %v", said)
	}
}
