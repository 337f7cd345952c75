package slack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"
)

const maxRequest = 1 << 20

// serve takes Slack's signed requests. One is answered 200 after its event
// was delivered, and 503 if it was not, for Slack to send it again.
func (b *Bot) serve(ctx context.Context) error {
	srv := &http.Server{
		Handler: b.handler(ctx), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(b.c.EventsListener) }()
	b.connected(ctx, false)
	b.seen.hears(true)
	defer b.seen.hears(false)
	b.isReady()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if srv.Shutdown(stop) != nil {
		_ = srv.Close()
	}
	<-ended
	return ctx.Err()
}

func (b *Bot) handler(ctx context.Context) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		if err := b.signed(r.Header, body); err != nil {
			b.log.Warn("a request without a good signature was refused", "error", err)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
			b.form(ctx, body)
			return // 200 and nothing: the answer goes to the response URL
		}
		var d delivery
		if json.Unmarshal(body, &d) == nil && d.Type == "url_verification" {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, d.Challenge)
			return
		}
		if n, err := strconv.Atoi(r.Header.Get("X-Slack-Retry-Num")); err == nil && n >= lateTry {
			b.unreached(ctx)
		}
		told := make(chan error, 1)
		b.take(ctx, body, func(err error) { told <- err })
		select {
		case err = <-told:
		case <-r.Context().Done():
			err = r.Context().Err()
		}
		if err != nil {
			b.log.Warn("an event is not acknowledged; slack sends it again", "error", err)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

// lateTry is the first of Slack's tries that comes a minute after the event.
// The last comes after five: what happened in an outage before that is not sent
// any more.
const (
	lateTry     = 2
	unreachedIn = 10 * time.Minute // several such tries are of one outage
)

// unreached: Slack could not deliver here for a while.
func (b *Bot) unreached(ctx context.Context) {
	now := b.c.Now().UnixNano()
	last := b.outage.Load()
	if last != 0 && now-last < int64(unreachedIn) || !b.outage.CompareAndSwap(last, now) {
		return
	}
	b.log.Warn("slack could not deliver for a while; what was missed is read")
	b.heldBack(ctx)
}

// signed checks the signature and that the request is not an old one.
func (b *Bot) signed(h http.Header, body []byte) error {
	v, err := slackgo.NewSecretsVerifier(h, b.c.SigningSecret)
	if err != nil {
		return err
	}
	if _, err := v.Write(body); err != nil {
		return err
	}
	if v.Ensure() != nil {
		return errors.New("the signature is another secret's")
	}
	return nil
}

func (b *Bot) form(ctx context.Context, body []byte) {
	v, err := url.ParseQuery(string(body))
	if err != nil {
		return
	}
	if c, ok := menuCommand([]byte(v.Get("payload"))); ok {
		b.running.Go(func() { b.command(ctx, c) })
		return
	}
	if v.Get("command") == "" {
		return // a click: nothing else of this app can be clicked
	}
	c := slash{
		Command: v.Get("command"), Text: v.Get("text"), User: v.Get("user_id"), Name: v.Get("user_name"),
		Team: v.Get("team_id"), Channel: v.Get("channel_id"), ResponseURL: v.Get("response_url"),
	}
	b.running.Go(func() { b.command(ctx, c) })
}
