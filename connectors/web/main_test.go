package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sightline/checkpoints"
	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
)

func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := testenv.Main(m)
	// Everything that the tests started has to end, and is given a moment to.
	for range 100 {
		if runtime.NumGoroutine() <= before+2 {
			os.Exit(code)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if code == 0 {
		buf := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "goroutines are left over:\n%s\n", buf[:runtime.Stack(buf, true)])
		code = 1
	}
	os.Exit(code)
}

const agent chat.AgentID = "main"

// sink keeps what it was told. fail, when set, is asked before.
type sink struct {
	mu      sync.Mutex
	events  []chat.Event
	stopped []chat.ConversationID
	fail    func(chat.Event) error
	got     chan chat.Event
}

func newSink() *sink { return &sink{got: make(chan chat.Event, 100)} }

func (s *sink) Deliver(_ context.Context, e chat.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(e); err != nil {
			return err
		}
	}
	s.events = append(s.events, e)
	s.got <- e
	return nil
}

func (s *sink) Stop(_ context.Context, c chat.ConversationID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = append(s.stopped, c)
	return nil
}

func (s *sink) failing(f func(chat.Event) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

func (s *sink) all() []chat.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]chat.Event(nil), s.events...)
}

// served is a place that runs, with a signed-in browser.
type served struct {
	*Place
	t    testing.TB
	base string
	sink *sink
	home string
	pool *pgxpool.Pool
	http *http.Client
	stop func()
}

func database(t testing.TB) *pgxpool.Pool {
	t.Helper()
	db, err := checkpoints.Open(t.Context(), testenv.Postgres(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Migrate(t.Context(), "web", Migrations); err != nil {
		t.Fatal(err)
	}
	return db.Pool()
}

// open serves a new place and signs a browser in.
func open(t testing.TB, change ...func(*Config)) *served {
	t.Helper()
	s := &served{t: t, sink: newSink(), home: t.TempDir(), pool: database(t)}
	s.start("127.0.0.1:0", change...)
	s.signIn()
	return s
}

func (s *served) start(addr string, change ...func(*Config)) {
	s.t.Helper()
	l, err := Listen(addr, false)
	if err != nil {
		s.t.Fatal(err)
	}
	c := Config{Agent: agent, Pool: s.pool, Dir: s.home, Home: s.home, Listener: l, Sink: s.sink, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c)
	}
	if s.Place, err = New(c); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("serve: %v", err)
		}
		if s.http != nil {
			s.http.CloseIdleConnections()
		}
	})
	s.t.Cleanup(s.stop)
	s.base = "http://" + l.Addr().String()
	await(s.t, "service.json", func() bool {
		info, err := readService(filepath.Join(s.home, serviceFile))
		return err == nil && info.Token == s.token
	})
}

func (s *served) signIn() {
	s.t.Helper()
	jar, _ := cookiejar.New(nil)
	s.http = &http.Client{Jar: jar, Timeout: 30 * time.Second, Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if res := s.do("GET", strings.TrimPrefix(s.SignInLink(), s.base), nil); res.status != http.StatusOK {
		s.t.Fatalf("sign in: %d %s", res.status, res.body)
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}

// do sends a request as the page would, unless headers say otherwise; an
// empty value removes a header.
func (s *served) do(method, path string, body io.Reader, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, s.base+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if method != "GET" {
		req.Header.Set("Origin", s.base)
	}
	client := s.http
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			req.Host = headers[i+1]
		case headers[i] == "Cookie" && headers[i+1] == "":
			c := *s.http
			c.Jar = nil
			client = &c
		case headers[i+1] == "":
			req.Header.Del(headers[i])
		default:
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

func (s *served) json(method, path string, v any, headers ...string) answer {
	s.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do(method, path, bytes.NewReader(b), headers...)
}

// conv opens a conversation and answers its API address.
func (s *served) conv(name string) (id, api string) {
	s.t.Helper()
	var c conversationJSON
	s.json("POST", "/api/conversations", map[string]string{"name": name}).into(s.t, &c)
	if c.ID == "" {
		s.t.Fatal("no conversation")
	}
	return c.ID, "/api/conversations/" + c.ID
}

func (s *served) upload(api, name string, data []byte, headers ...string) answer {
	s.t.Helper()
	return s.do("POST", api+"/uploads", bytes.NewReader(data), append([]string{"X-File-Name", url.PathEscape(name), "Content-Type", "image/png"}, headers...)...)
}

func (s *served) uploaded(api, name string, data []byte) uploadJSON {
	s.t.Helper()
	a := s.upload(api, name, data)
	if a.status != http.StatusCreated {
		s.t.Fatalf("upload %s: %d %s", name, a.status, a.body)
	}
	var u uploadJSON
	a.into(s.t, &u)
	return u
}

func (s *served) send(api, key, text string, uploads ...string) answer {
	s.t.Helper()
	return s.json("POST", api+"/messages", map[string]any{"client_key": key, "text": text, "uploads": append([]string{}, uploads...)})
}

func (s *served) sent(api, key, text string, uploads ...string) sentJSON {
	s.t.Helper()
	a := s.send(api, key, text, uploads...)
	if a.status != http.StatusAccepted {
		s.t.Fatalf("send: %d %s", a.status, a.body)
	}
	var m sentJSON
	a.into(s.t, &m)
	return m
}

// reply posts what an agent would say to a message.
func (s *served) reply(conv string, m sentJSON, kind chat.ReplyKind, text string) {
	s.t.Helper()
	_, err := s.Post(s.t.Context(), chat.Reply{Key: "post-" + string(m.Turn), Turn: m.Turn, Place: s.placeOf(conv), Kind: kind, Text: text})
	if err != nil {
		s.t.Fatal(err)
	}
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

func picture(w, h int) []byte {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.Set(x, y, color.RGBA{uint8(40 + 180*x/w), uint8(60 + 120*y/h), 160, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

var errSink = errors.New("the sink is down")
