package discord

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"sightline/tests/fakediscord"
)

// As many sessions as Discord recommends, at its pace; every event once,
// direct messages by the first.
func TestShards(t *testing.T) {
	w := newWorld(t)
	w.Shards, w.IdentifyWindow, w.identifyEvery = 2, 200*time.Millisecond, 200*time.Millisecond
	channels := map[int]string{}
	for id := range 2 {
		channels[id] = w.AddChannel(w.AddGuildOn(id, 2, w.alice))
	}
	dm := w.AddDM(w.alice)
	w.run()
	if n := w.Sessions(); n[0] != 1 || n[1] != 1 {
		t.Fatalf("sessions %v", n)
	}
	say := func(channel string) string { return w.Post(channel, w.alice, draft{Text: w.at() + " hi"}).ID }
	expect := func(ids ...string) {
		t.Helper()
		left := map[string]bool{}
		for _, id := range ids {
			left[id] = true
		}
		for range ids {
			if e := w.next(); !left[e.Message.NativeID] {
				t.Errorf("unexpected %+v", e)
			} else {
				delete(left, e.Message.NativeID)
			}
		}
	}
	expect(say(channels[0]), say(channels[1]), say(dm))
	// Each has its own gap.
	w.Lose(true)
	missed := []string{say(channels[0]), say(channels[1]), say(dm)}
	w.Forget()
	w.Lose(false)
	expect(missed...)
	expect(say(channels[0]), say(channels[1]), say(dm))
	for _, c := range channels {
		w.nothing(c)
	}
	w.nothing(dm)
}

// The bot grows out of its sessions while it runs.
func TestMoreShardsAreDemanded(t *testing.T) {
	w := newWorld(t).run()
	w.Reshard(3)
	w.until("three sessions", func() bool { n := w.Sessions(); return n[0] == 1 && n[1] == 1 && n[2] == 1 })
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " still here?"})
	if e := w.next(); e.Message.NativeID != m.ID {
		t.Errorf("%+v", e)
	}
	w.nothing(w.channel)
	// Demanded, and not recommended: nothing here can help.
	w.stop()
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/gateway/bot") {
			_ = json.NewEncoder(rw).Encode(map[string]any{"shards": 1, "session_start_limit": map[string]any{"remaining": 100, "max_concurrency": 1}})
			return true
		}
		return false
	})
	w.start()
	var f *FatalError
	if err := <-w.ended; !errors.As(err, &f) || f.Code != 4011 {
		t.Errorf("%v", err)
	}
	w.ended <- nil
}

// Op 9 is not answered on the same connection: what can be resumed is, and
// what can't waits for its turn.
func TestInvalidSession(t *testing.T) {
	w := newWorld(t)
	w.IdentifyWindow, w.identifyEvery = 300*time.Millisecond, 300*time.Millisecond
	w.run()
	counts := func() (identifies, resumes int) { _, i, r := w.Connections(); return i, r }
	identifies, resumes := counts()
	w.Invalidate(true)
	a := w.Post(w.channel, w.alice, draft{Text: w.at() + " a"})
	if e := w.next(); e.Message.NativeID != a.ID {
		t.Errorf("%+v", e)
	}
	if i, r := counts(); i != identifies || r != resumes+1 {
		t.Errorf("%d identifications and %d resumptions, want %d and %d", i, r, identifies, resumes+1)
	}
	for n := range 3 {
		w.Invalidate(false)
		b := w.Post(w.channel, w.alice, draft{Text: w.at() + " b"})
		if e := w.next(); e.Message.NativeID != b.ID {
			t.Errorf("%d: %+v", n, e)
		}
		w.until("a session", func() bool { return w.Sessions()[0] == 1 })
	}
	if i, r := counts(); i != identifies+3 || r != resumes+1 {
		t.Errorf("%d identifications and %d resumptions, want %d and %d", i, r, identifies+3, resumes+1)
	}
	w.nothing(w.channel)
}

// Today's identifications are used up: Discord is asked when there will be
// more, and left alone until then.
func TestNoIdentificationsAreLeft(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int64
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/gateway/bot") || asked.Add(1) > 3 { // the findings of the start ask as well
			return false
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"shards": 1,
			"session_start_limit": map[string]any{"remaining": 0, "reset_after": 300, "max_concurrency": 1}})
		return true
	})
	began := time.Now()
	w.run()
	if d := time.Since(began); d < 300*time.Millisecond || !strings.Contains(w.log.String(), "no more sessions today") {
		t.Errorf("after %v\n%s", d, w.log)
	}
}

// The question for the gateway's address is asked with our own patience, and
// ends with its context; discordgo would sleep for as long as it is told.
func TestGatewayIsLimited(t *testing.T) {
	w := newWorld(t)
	var limited atomic.Int64
	limited.Store(2)
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/gateway") || limited.Add(-1) < 0 {
			return false
		}
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(rw, `{"message":"You are being rate limited.","retry_after":1.0,"global":false}`)
		return true
	})
	w.run()
	limited.Store(1000)
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/gateway") {
			return false
		}
		rw.Header().Set("Retry-After", "40")
		rw.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(rw, `{"message":"You are being rate limited.","retry_after":40.0,"global":false}`)
		return true
	})
	w.Forget()
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	w.stop()
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("stopping took %v", d)
	}
}

// Whether the heartbeats of a connection are answered is watched.
func TestHeartbeatsUnanswered(t *testing.T) {
	w := newWorld(t)
	w.Heartbeat = 100 * time.Millisecond
	w.run()
	n, _, _ := w.Connections()
	w.Deaf(true)
	w.until("another connection", func() bool { m, _, _ := w.Connections(); return m > n })
	w.Deaf(false)
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " hi"})
	if e := w.next(); e.Message.NativeID != m.ID {
		t.Errorf("%+v", e)
	}
	w.nothing(w.channel)
}

type pipe struct {
	net.Conn
	r io.Reader
}

func (p pipe) Read(b []byte) (int, error) { return p.r.Read(b) }
func (p pipe) Close() error               { return nil }

// The stream is followed however it is cut into pieces.
func TestGuard(t *testing.T) {
	frame := func(kind byte, data string) string {
		h := []byte{0x80 | kind}
		switch n := len(data); {
		case n < 126:
			h = append(h, byte(n))
		case n < 1<<16:
			h = append(h, 126, byte(n>>8), byte(n))
		default:
			h = append(h, 127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		}
		return string(h) + data
	}
	talk := `{"op":0,"d":{"content":"{\"op\":9,\"d\":false}"}}`
	before := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n" + frame(1, `{"op":10,"d":{"heartbeat_interval":41250}}`) +
		frame(1, talk) + frame(9, "") + frame(1, strings.Repeat("x", 300)) + frame(1, strings.Repeat("{\"op\":9}", 10_000))
	nine := frame(1, `{"t":null,"s":null,"op":9,"d":true}`)
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "as it comes": func(r io.Reader) io.Reader { return r },
	} {
		var invalid []bool
		var codes []int
		g := &guard{Conn: pipe{r: cut(strings.NewReader(before + nine + frame(1, "never read")))}, closed: func(c int) { codes = append(codes, c) },
			invalid: func(r bool) { invalid = append(invalid, r) }}
		got, err := io.ReadAll(g)
		// The frame may be cut: then its beginning has gone through, and nobody
		// can make anything of that.
		if !errors.Is(err, errInvalidSession) || !strings.HasPrefix(string(got), before) || len(got) >= len(before)+len(nine) {
			t.Errorf("%s: %v, %d bytes of %d", name, err, len(got), len(before))
		}
		if len(invalid) != 1 || !invalid[0] || len(codes) != 0 {
			t.Errorf("%s: %v %v", name, invalid, codes)
		}
		g = &guard{Conn: pipe{r: cut(strings.NewReader(before + frame(8, "\x0f\xaeDisallowed intent(s).")))}, closed: func(c int) { codes = append(codes, c) },
			invalid: func(bool) { t.Error("invalid") }}
		if got, err := io.ReadAll(g); err != nil || !bytes.HasPrefix(got, []byte(before)) || len(codes) != 1 || codes[0] != 4014 {
			t.Errorf("%s: %v, %v", name, err, codes)
		}
	}
}

// A close code that is fatal ends Run at once, in the middle of a session too.
func TestFatalCodeInTheMiddle(t *testing.T) {
	w := newWorld(t).run()
	n, _, _ := w.Connections()
	w.Close(4014, "Disallowed intent(s).")
	select {
	case err := <-w.ended:
		var f *FatalError
		if !errors.As(err, &f) || f.Code != 4014 || !strings.Contains(f.Error(), "Message Content Intent") {
			t.Errorf("%v", err)
		}
		w.ended <- nil
	case <-time.After(patience):
		t.Fatalf("it goes on trying\n%s", w.log)
	}
	if m, _, _ := w.Connections(); m != n {
		t.Errorf("%d more connections", m-n)
	}
}

// What is missing is said at the start, before the first picture.
func TestMissingPermissionsAreSaidAtStart(t *testing.T) {
	w := newWorld(t)
	w.SetRole(w.guild, w.guild, fakediscord.ViewChannel|fakediscord.SendMessages|fakediscord.SendMessagesInThreads)
	told := make(chan string, 10)
	w.change = func(c *Config) { c.Missing = func(what, fix string) { told <- what + " -> " + fix } }
	w.run()
	w.until("it is said", func() bool {
		l := w.log.String()
		return strings.Contains(l, "Read Message History") && strings.Contains(l, "fix=")
	})
	if strings.Contains(w.log.String(), "Send Messages in Threads") {
		t.Errorf("more is said than is missing:\n%s", w.log)
	}
	select {
	case got := <-told: // whoever started it reads no log
		if !strings.Contains(got, "missing: Read Message History -> give the bot's role there: Read Message History") {
			t.Errorf("whoever started it is told %q", got)
		}
	case <-time.After(patience):
		t.Error("whoever started it is told nothing")
	}
}
