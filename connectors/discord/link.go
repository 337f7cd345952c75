package discord

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"
)

var errStuck = errors.New("the gateway connection got stuck while opening")

// link is one discordgo Session. Its own reconnection is off: it neither
// stops at fatal codes nor ends with a context.
type link struct {
	b     *Bot
	shard shard
	s     *discordgo.Session
	down  chan struct{}
	dead  atomic.Bool // an abandoned Session may still speak
	began atomic.Bool // it has identified: the next time it resumes

	mu      sync.Mutex
	conn    net.Conn
	code    int  // of the close, if the gateway gave one
	invalid bool // the gateway ended the connection's session
	gone    bool // ... and it can't be resumed
}

func (b *Bot) newLink(ctx context.Context, sh shard) (*link, error) {
	s, err := discordgo.New("Bot " + b.c.Token)
	if err != nil {
		return nil, fmt.Errorf("discord: new session: %w", err)
	}
	l := &link{b: b, shard: sh, s: s, down: make(chan struct{}, 1)}
	s.StateEnabled = false // it is never asked: it lags, and it is wrong about threads
	s.SyncEvents = true
	s.ShouldReconnectOnError = false
	s.ShouldReconnectVoiceOnSessionError = false
	s.Compress = false
	s.Identify.Intents = intents
	s.ShardID, s.ShardCount = sh.id, sh.of
	s.LogLevel = -1 // it quotes URLs and tokens
	s.Client = &http.Client{Transport: gatewayURL{ctx, b.rest}}
	dialer := *s.Dialer
	dialer.HandshakeTimeout = 15 * time.Second
	dialer.NetDialContext = func(_ context.Context, network, addr string) (net.Conn, error) {
		return l.dial(ctx, network, addr, nil)
	}
	if u, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: "gateway.discord.gg"}}); u == nil && err == nil {
		// Behind a proxy the encrypted stream can't be read along; there
		// discordgo handles op 9 in its own way, and backfill makes up for it.
		dialer.NetDialTLSContext = func(_ context.Context, network, addr string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(addr)
			return l.dial(ctx, network, addr, &tls.Config{ServerName: host, NextProtos: []string{"http/1.1"}})
		}
	}
	s.Dialer = &dialer
	s.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) {
		if l.dead.Load() || e.Operation != 0 {
			return
		}
		if e.Type == "READY" {
			l.began.Store(true)
		}
		b.dispatch(ctx, sh, e.Type, e.RawData)
	})
	s.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) {
		select {
		case l.down <- struct{}{}:
		default:
		}
	})
	return l, nil
}

// dial connects and reads along.
func (l *link) dial(ctx context.Context, network, addr string, secure *tls.Config) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn, l.code, l.invalid = c, 0, false
	l.mu.Unlock()
	if secure != nil {
		t := tls.Client(c, secure)
		hctx, cancel := context.WithTimeout(ctx, l.s.Dialer.HandshakeTimeout)
		defer cancel()
		if err := t.HandshakeContext(hctx); err != nil {
			_ = c.Close()
			return nil, err
		}
		c = t
	}
	plain := secure != nil || l.b.base.Scheme == "http"
	if !plain {
		return c, nil
	}
	return &guard{Conn: c, closed: l.closed, invalid: l.invalidate}, nil
}

// unresumable are close codes after which a session has to begin anew.
var unresumable = map[int]bool{4003: true, 4007: true, 4009: true}

func (l *link) closed(code int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.code = code
	l.gone = l.gone || unresumable[code]
}

func (l *link) invalidate(resumable bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.invalid, l.gone = true, l.gone || !resumable
}

func (l *link) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

func (l *link) invalidated() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.invalid
}

// fatal is why there is no use in trying again, if so.
func (l *link) fatal(err error) *FatalError {
	l.mu.Lock()
	code := l.code
	l.mu.Unlock()
	if f := fatalCode(code); f != nil {
		return f
	}
	return fatal(err)
}

// gatewayURL answers discordgo's one REST call, the question for the gateway's
// address, through our own client: discordgo's endpoints are global variables,
// and it sleeps through cancellation when it is told to wait.
type gatewayURL struct {
	ctx  context.Context
	rest *rest
}

func (t gatewayURL) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/gateway") {
		return nil, errors.New("discord: an unexpected request of the gateway library")
	}
	var answer json.RawMessage
	if err := t.rest.do(t.ctx, "GET", "/gateway", nil, &answer); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(answer)), ContentLength: int64(len(answer)), Request: r,
	}, nil
}

// connect opens, and waits for its turn if that identifies.
func (l *link) connect(ctx context.Context, starts *starts) error {
	if l.began.Load() {
		return l.open(ctx)
	}
	done, err := starts.begin(ctx, l.shard.id)
	if err != nil {
		return err
	}
	defer done()
	return l.open(ctx)
}

// open connects. A Session that is told to reconnect while it opens waits for
// its own lock for ever, so the wait is bounded and the Session given up.
func (l *link) open(ctx context.Context) error {
	select {
	case <-l.down:
	default:
	}
	done := make(chan error, 1)
	go func() { done <- l.s.Open() }()
	t := time.NewTimer(l.b.openTimeout)
	defer t.Stop()
	select {
	case err := <-done:
		if errors.Is(err, discordgo.ErrWSAlreadyOpen) {
			return nil
		}
		return err
	case <-ctx.Done():
		l.abandon()
		return ctx.Err()
	case <-t.C:
		l.abandon()
		return errStuck
	}
}

// abandon silences the link and cuts its connection.
func (l *link) abandon() {
	l.dead.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// last is how an open link ends.
func (l *link) last(ctx context.Context) error {
	select {
	case <-l.down:
		return errDown
	case <-ctx.Done():
		l.abandon()
		// discordgo takes a second to let go of what it has.
		select {
		case <-l.down:
		case <-time.After(3 * time.Second):
		}
		return ctx.Err()
	}
}
