package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	callTimeout = 20 * time.Second
	maxAnswer   = 8 << 20
	maxTries    = 4
	maxWait     = time.Minute // of one Retry-After; longer ones are the caller's to wait
)

// apiError is Slack's no.
type apiError struct {
	Method string
	Code   string // Slack's word, or "http_503"
	Needed string // the missing scope, when Slack names it
	Retry  time.Duration
}

func (e *apiError) Error() string {
	s := "slack: " + e.Method + ": " + e.Code
	if e.Needed != "" {
		s += " (the bot token lacks the scope " + e.Needed + ")"
	}
	return s
}

// passing: asking again may help.
func (e *apiError) passing() bool {
	switch e.Code {
	case "ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout":
		return true
	}
	return strings.HasPrefix(e.Code, "http_5")
}

// final: Slack has said no, and asking again does not help.
func final(err error) bool {
	var e *apiError
	return errors.As(err, &e) && !e.passing()
}

func codeOf(err error) string {
	var e *apiError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// client calls Web API methods. Its token is sent to its base and nowhere
// else.
type client struct {
	base  *url.URL
	token string
	http  *http.Client
	pause time.Duration // before the second try
	holds holds

	limited func(waited time.Duration) // nil: nobody is told
}

func newClient(base *url.URL, token string) *client {
	return &client{base: base, token: token, http: plainClient(callTimeout), pause: 200 * time.Millisecond}
}

// plainClient follows no redirects and always ends.
func plainClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call asks until there is an answer, within bounds: for what may be asked
// twice.
func (c *client) call(ctx context.Context, method string, in url.Values, out any) (http.Header, error) {
	return c.retry(ctx, c.token, method, in, out, true)
}

// retry asks again after a refusal for the rate, and, if the method may be
// repeated, after failures that leave open whether it was done.
func (c *client) retry(ctx context.Context, token, method string, in url.Values, out any, repeat bool) (http.Header, error) {
	pause := c.pause
	for try := 1; ; try++ {
		h, err := c.once(ctx, token, method, in, out)
		if err == nil || ctx.Err() != nil || try == maxTries {
			return h, err
		}
		var e *apiError
		limited := errors.As(err, &e) && e.Retry > 0
		switch {
		case limited && e.Retry > maxWait:
			return h, err
		case limited:
			pause = e.Retry
		case !repeat, e != nil && !e.passing():
			return h, err
		}
		if limited && c.limited != nil {
			c.limited(pause)
		}
		if err := sleep(ctx, pause); err != nil {
			return h, err
		}
		pause *= 2
	}
}

// What is read of a list at most, in pages.
const (
	maxPages    = 5
	missedPages = 50 // of a channel or a thread, after a gap
)

// page is one of a list of any kind.
type page struct {
	Messages []message     `json:"messages"`
	Channels []channelInfo `json:"channels"`
	Members  []string      `json:"members"`
	Next     struct {
		Cursor string `json:"next_cursor"`
	} `json:"response_metadata"`
}

// pages reads a list until there is enough of it. whole: nothing that was asked
// for is beyond what was read.
func (c *client) pages(ctx context.Context, method string, in url.Values, most int, each func(page) (enough bool)) (whole bool, err error) {
	for range most {
		var p page
		if _, err := c.call(ctx, method, in, &p); err != nil {
			return false, err
		}
		if each(p) || p.Next.Cursor == "" {
			return true, nil
		}
		in.Set("cursor", p.Next.Cursor)
	}
	return false, nil
}

// once is one request, or none while Slack wants none.
func (c *client) once(ctx context.Context, token, method string, in url.Values, out any) (http.Header, error) {
	subject := subject(method, in)
	if left := c.holds.left(subject); left > 0 {
		return nil, &apiError{Method: method, Code: "ratelimited", Retry: left}
	}
	h, err := c.send(ctx, token, method, in, out)
	var e *apiError
	if errors.As(err, &e) && e.Retry > 0 {
		c.holds.put(subject, e.Retry)
	}
	return h, err
}

func (c *client) send(ctx context.Context, token, method string, in url.Values, out any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(method).String(), strings.NewReader(in.Encode()))
	if err != nil {
		return nil, fmt.Errorf("slack: %s: the request could not be made", method)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("slack: %s: %w", method, bare(err))
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		return res.Header, &apiError{Method: method, Code: "ratelimited", Retry: retryAfter(res.Header)}
	case res.StatusCode != http.StatusOK:
		return res.Header, &apiError{Method: method, Code: "http_" + strconv.Itoa(res.StatusCode)}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return res.Header, fmt.Errorf("slack: %s: read answer: %w", method, bare(err))
	}
	if len(body) > maxAnswer {
		return res.Header, fmt.Errorf("slack: %s: the answer is too large", method)
	}
	var head struct {
		OK     bool   `json:"ok"`
		Error  string `json:"error"`
		Needed string `json:"needed"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return res.Header, fmt.Errorf("slack: %s: the answer is not JSON", method)
	}
	if !head.OK {
		e := &apiError{Method: method, Code: head.Error, Needed: head.Needed}
		if e.Code == "" {
			e.Code = "not ok, and no reason"
		}
		if e.Code == "ratelimited" {
			e.Retry = retryAfter(res.Header)
		}
		return res.Header, e
	}
	if out == nil {
		return res.Header, nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return res.Header, fmt.Errorf("slack: %s: the answer has an unknown shape: %w", method, err)
	}
	return res.Header, nil
}

func retryAfter(h http.Header) time.Duration {
	s, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || s < 1 {
		s = 1
	}
	return time.Duration(s) * time.Second
}

// bare drops what an HTTP error says of the URL: Slack's carry secrets.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
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
