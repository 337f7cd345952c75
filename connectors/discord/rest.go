package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	restTimeout   = 20 * time.Second
	uploadTimeout = 2 * time.Minute
	restBody      = 16 << 20 // more is no answer to anything asked here
	restAttempts  = 4
	longestWait   = time.Minute // a longer Retry-After is the caller's affair
	deadToken     = time.Minute
)

var (
	errNetwork = errors.New("discord could not be reached")
	errToken   = errors.New("discord refused the bot token")
)

// apiError is the platform's refusal. Message is the platform's own, bounded.
type apiError struct {
	Status  int
	Code    int
	Message string
}

func (e *apiError) Error() string {
	return fmt.Sprintf("discord answered %d (code %d): %s", e.Status, e.Code, e.Message)
}

func hasStatus(err error, status ...int) bool {
	var e *apiError
	if !errors.As(err, &e) {
		return false
	}
	for _, s := range status {
		if e.Status == s {
			return true
		}
	}
	return false
}

// rest is the HTTP API. discordgo's own client retries 502 alone and sleeps
// through cancellation; this one retries what is worth it and ends with its
// context.
type rest struct {
	base  string
	token string
	http  *http.Client
	slow  *http.Client // for files
	now   func() time.Time
	pace  pace
	skew  atomic.Int64 // of our clock from Discord's, as its last answer had it

	limited func(waited time.Duration) // nil: nobody is told

	mu    sync.Mutex
	until map[string]time.Time // by route; "" is everything
	dead  time.Time            // after a 401: invalid requests get the host banned
}

func newRest(base *url.URL, token string, now func() time.Time) *rest {
	client := func(d time.Duration) *http.Client {
		return &http.Client{Timeout: d, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token goes nowhere else
		}}
	}
	return &rest{
		base: base.String() + "/v" + apiVersion, token: token, now: now, until: map[string]time.Time{},
		pace: newPace(),
		http: client(restTimeout), slow: client(uploadTimeout),
	}
}

// form is a body that carries files.
type form struct {
	kind string
	data []byte
}

// do makes one call. Every call made through it may be repeated: posts carry
// a nonce.
func (r *rest) do(ctx context.Context, method, path string, body, out any) error {
	var payload *form
	var err error
	switch b := body.(type) {
	case nil:
	case *form:
		payload = b
	default:
		payload = &form{kind: "application/json"}
		if payload.data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	for attempt := range restAttempts {
		began := time.Now()
		err = r.turn(ctx, method, path)
		r.waited(time.Since(began))
		if err != nil {
			return err
		}
		var again time.Duration
		if again, err = r.paced(ctx, method, path, payload, out); err == nil || again < 0 {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if again == 0 {
			again = 200 * time.Millisecond << attempt
		}
		if again > longestWait || attempt == restAttempts-1 {
			return err
		}
		if hasStatus(err, http.StatusTooManyRequests) {
			r.waited(again)
		}
		if serr := sleep(ctx, again); serr != nil {
			return serr
		}
	}
	return err
}

// waited tells of a wait that is more than the time it takes to find out.
func (r *rest) waited(d time.Duration) {
	if r.limited != nil && d > 5*time.Millisecond {
		r.limited(d)
	}
}

// paced makes a request whose place was taken, and lets go of it whatever
// becomes of the request.
func (r *rest) paced(ctx context.Context, method, path string, payload *form, out any) (time.Duration, error) {
	if !ownToken(path) {
		defer r.pace.answered()
	}
	return r.once(ctx, method, path, payload, out)
}

// once answers how long to wait before another try: negative for never, zero
// for as the caller likes.
func (r *rest) once(ctx context.Context, method, path string, payload *form, out any) (time.Duration, error) {
	var data []byte
	client := r.http
	if payload != nil {
		data = payload.data
		if payload.kind != "application/json" {
			client = r.slow
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(data))
	if err != nil {
		return -1, errors.New("discord: the request is malformed")
	}
	if !ownToken(path) {
		req.Header.Set("Authorization", "Bot "+r.token)
	}
	req.Header.Set("User-Agent", "DiscordBot (https://github.com/bwmarrin/discordgo, sightline)")
	if payload != nil {
		req.Header.Set("Content-Type", payload.kind)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, network(ctx, err)
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(io.LimitReader(resp.Body, restBody+1))
	if err != nil {
		return 0, network(ctx, err)
	}
	if len(data) > restBody {
		return -1, errors.New("discord: the answer is too long")
	}
	r.budget(route(method, path), resp.Header)
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		r.skew.Store(int64(r.now().Sub(at)))
	}
	if resp.StatusCode < 300 {
		if out == nil || resp.StatusCode == http.StatusNoContent {
			return -1, nil
		}
		if err := json.Unmarshal(data, out); err != nil {
			return -1, fmt.Errorf("discord: the answer to %s can't be read: %w", route(method, path), err)
		}
		return -1, nil
	}
	return r.refused(route(method, path), !ownToken(path), resp, data)
}

// ownToken: an interaction's answers are authorized by the token in their
// path. When that has expired, the bot's is as good as before.
func ownToken(path string) bool {
	return strings.HasPrefix(path, "/interactions/") || strings.HasPrefix(path, "/webhooks/")
}

func (r *rest) refused(route string, authorized bool, resp *http.Response, data []byte) (time.Duration, error) {
	var said struct {
		Code       int     `json:"code"`
		Message    string  `json:"message"`
		RetryAfter float64 `json:"retry_after"`
		Global     bool    `json:"global"`
	}
	_ = json.Unmarshal(data, &said) // a proxy's page is as good as no words
	e := &apiError{Status: resp.StatusCode, Code: said.Code, Message: oneLine(said.Message, 200)}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		wait := said.RetryAfter
		if h, err := strconv.ParseFloat(resp.Header.Get("Retry-After"), 64); err == nil && h > wait {
			wait = h
		}
		d := max(time.Duration(wait*float64(time.Second)), 50*time.Millisecond)
		if said.Global || resp.Header.Get("X-RateLimit-Global") != "" {
			route = ""
		}
		r.hold(route, d)
		return d, e
	case resp.StatusCode >= 500:
		return 0, errors.Join(errNetwork, e)
	case resp.StatusCode == http.StatusUnauthorized && authorized:
		r.mu.Lock()
		r.dead = r.now().Add(deadToken)
		r.mu.Unlock()
		return -1, errors.Join(errToken, e)
	}
	return -1, e
}

// network strips the URL that net/http puts into its errors.
func network(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%w: %v", errNetwork, err)
}

// budget waits out a bucket that the last answer said is empty, rather than
// being told so.
func (r *rest) budget(route string, h http.Header) {
	if h.Get("X-RateLimit-Remaining") != "0" {
		return
	}
	if s, err := strconv.ParseFloat(h.Get("X-RateLimit-Reset-After"), 64); err == nil && s > 0 {
		r.hold(route, min(time.Duration(s*float64(time.Second)), longestWait))
	}
}

func (r *rest) hold(route string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for k, t := range r.until {
		if now.After(t) {
			delete(r.until, k)
		}
	}
	if t := now.Add(d); t.After(r.until[route]) {
		r.until[route] = t
	}
}

// turn waits until a call may be made, and takes its place in the pace. Being
// refused costs a request as well, and those who are refused together come back
// together.
func (r *rest) turn(ctx context.Context, method, path string) error {
	route := route(method, path)
	for {
		d, err := r.ahead(route)
		if err == nil {
			err = sleep(ctx, d)
		}
		if err != nil || ownToken(path) {
			return err
		}
		if err := r.pace.take(ctx); err != nil {
			return err
		}
		if d, err = r.ahead(route); err == nil && d <= 0 {
			return nil
		}
		r.pace.unused() // for others, while what was learned meanwhile is waited out
	}
}

// ahead is how long the platform's limits have calls of this route wait. The
// limit of everything is none of interactions', which have 3 s.
func (r *rest) ahead(route string) (time.Duration, error) {
	_, path, _ := strings.Cut(route, " ")
	r.mu.Lock()
	d := time.Until(r.until[route])
	if all := time.Until(r.until[""]); all > d && !ownToken(path) {
		d = all
	}
	dead := r.now().Before(r.dead) && !ownToken(path)
	r.mu.Unlock()
	if dead {
		return 0, errToken
	}
	if d > longestWait {
		return 0, fmt.Errorf("%w: it asked to wait for %s", errNetwork, d.Round(time.Second))
	}
	return d, nil
}

// route names a call's rate limit bucket: the method, the major resource with
// its id, and the kind of what is below it.
func route(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	p := strings.SplitN(strings.Trim(path, "/"), "/", 4)
	if len(p) == 4 {
		p[3] = "*"
	}
	return method + " /" + strings.Join(p, "/")
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
