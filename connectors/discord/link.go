package discord

import (
	"context"
	"errors"
	"fmt"
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
	b    *Bot
	s    *discordgo.Session
	down chan struct{}
	dead atomic.Bool // an abandoned Session may still speak

	mu   sync.Mutex
	conn net.Conn
}

func (b *Bot) newLink(ctx context.Context) (*link, error) {
	s, err := discordgo.New("Bot " + b.c.Token)
	if err != nil {
		return nil, fmt.Errorf("discord: new session: %w", err)
	}
	l := &link{b: b, s: s, down: make(chan struct{}, 1)}
	s.StateEnabled = false // it is never asked: it lags, and it is wrong about threads
	s.SyncEvents = true
	s.ShouldReconnectOnError = false
	s.ShouldReconnectVoiceOnSessionError = false
	s.Compress = false
	s.Identify.Intents = intents
	s.LogLevel = -1 // it quotes URLs and tokens
	s.Client = &http.Client{Timeout: restTimeout, Transport: rebase{b.base, http.DefaultTransport}}
	dialer := *s.Dialer
	dialer.HandshakeTimeout = 15 * time.Second
	dialer.NetDialContext = func(_ context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err == nil {
			l.mu.Lock()
			l.conn = c
			l.mu.Unlock()
		}
		return c, err
	}
	s.Dialer = &dialer
	s.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) {
		if !l.dead.Load() && e.Operation == 0 {
			b.dispatch(ctx, e.Type, e.RawData)
		}
	})
	s.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) {
		select {
		case l.down <- struct{}{}:
		default:
		}
	})
	return l, nil
}

// rebase sends discordgo's one REST call, the question for the gateway's
// address, to the configured base. Its endpoints are global variables.
type rebase struct {
	base *url.URL
	next http.RoundTripper
}

func (t rebase) RoundTrip(r *http.Request) (*http.Response, error) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/")
	if !ok || r.URL.Host != "discord.com" {
		return nil, errors.New("discord: an unexpected request of the gateway library")
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.URL.Path = t.base.Scheme, t.base.Host, t.base.Path+"/"+rest
	r.Host = ""
	return t.next.RoundTrip(r)
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
