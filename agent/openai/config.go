package openai

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sightline/agent"
)

// The two APIs that are spoken.
const (
	APIResponses = "responses"
	APIChat      = "chat"
)

const (
	// DefaultBaseURL is where requests go when no base URL is given.
	DefaultBaseURL = "https://api.openai.com/v1"
	// DefaultModel is used at DefaultBaseURL when no model is named. It takes text and images, and calls tools through
	// the Responses API only (its model page, read 2026-11-30).
	DefaultModel = "gpt-6.1-terra"
)

// How much detail of a picture the model is asked to look at.
const (
	DetailAuto     = "auto"
	DetailLow      = "low"
	DetailHigh     = "high"
	DetailOriginal = "original"
)

const (
	defaultTimeout      = 10 * time.Minute
	defaultIdleTimeout  = 3 * time.Minute
	defaultProbeTimeout = 3 * time.Second
)

// Config is what New needs. Only APIKey (at OpenAI itself) or BaseURL and Model (elsewhere) must be set.
type Config struct {
	APIKey  string
	BaseURL string
	Model   string
	// API is "responses" or "chat"; empty: responses at OpenAI, chat everywhere else.
	API string
	// Vision is the operator's word on whether the model sees; VisionUnknown means that nothing was said.
	Vision agent.Vision
	// Detail is asked for with each picture; empty: auto.
	Detail string

	HTTPClient *http.Client // empty: a client of its own; no redirect is followed with either
	Log        *slog.Logger // empty: nothing is logged

	Timeout      time.Duration // one whole Generate; zero: ten minutes
	IdleTimeout  time.Duration // silence in the middle of an answer; zero: three minutes
	ProbeTimeout time.Duration // all look-ups of one Probe; zero: three seconds
}

func (c Config) withDefaults() (Config, *url.URL, error) {
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
	}
	base, err := parseBaseURL(c.BaseURL)
	if err != nil {
		return c, nil, err
	}
	c.BaseURL = base.String()

	provider := providerOf(base)
	if c.Model == "" && provider == providerOpenAI {
		c.Model = DefaultModel
	}
	c.Model = strings.TrimSpace(c.Model)
	if c.Model == "" {
		return c, nil, errors.New("openai: a base URL other than OpenAI's needs the name of a model")
	}
	if strings.ContainsFunc(c.Model, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return c, nil, errors.New("openai: the name of the model has control characters")
	}
	if c.APIKey == "" && provider == providerOpenAI {
		return c, nil, errors.New("openai: OpenAI's own API needs a key")
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return c, nil, errors.New("openai: the key has characters that no key has (a space, a line break?)")
	}
	switch c.API {
	case "":
		c.API = APIChat
		if provider == providerOpenAI {
			c.API = APIResponses
		}
	case APIResponses, APIChat:
	default:
		return c, nil, fmt.Errorf("openai: unknown API %q: it is %q or %q", c.API, APIResponses, APIChat)
	}
	switch c.Detail {
	case "":
		c.Detail = DetailAuto
	case DetailAuto, DetailLow, DetailHigh, DetailOriginal:
	default:
		return c, nil, fmt.Errorf("openai: unknown picture detail %q: it is auto, low, high or original", c.Detail)
	}
	if c.Vision < agent.VisionUnknown || c.Vision > agent.VisionNo {
		return c, nil, fmt.Errorf("openai: unknown vision %d", c.Vision)
	}
	if c.Timeout < 0 || c.IdleTimeout < 0 || c.ProbeTimeout < 0 {
		return c, nil, errors.New("openai: a timeout is negative")
	}
	setDefault(&c.Timeout, defaultTimeout)
	setDefault(&c.IdleTimeout, defaultIdleTimeout)
	setDefault(&c.ProbeTimeout, defaultProbeTimeout)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.HTTPClient == nil {
		c.HTTPClient = newHTTPClient()
	} else {
		mine := *c.HTTPClient
		mine.CheckRedirect = noRedirect
		c.HTTPClient = &mine
	}
	return c, base, nil
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d == 0 {
		*d = to
	}
}

// parseBaseURL accepts what a request path can be joined to. Its errors do not quote the URL, which may hold a secret.
func parseBaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	switch {
	case err != nil:
		return nil, errors.New("openai: the base URL is no URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("openai: the base URL must begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("openai: the base URL has no host")
	case u.User != nil:
		return nil, errors.New("openai: the base URL holds a user name or password; the key goes into the key")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("openai: the base URL has a query or a fragment; it ends where the API's paths begin, often in /v1")
	}
	u.Host = strings.ToLower(u.Host)
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	for _, suffix := range []string{"/chat/completions", "/responses"} {
		if strings.HasSuffix(u.Path, suffix) {
			return nil, fmt.Errorf("openai: the base URL must not end in %s: leave that part out", suffix)
		}
	}
	return u, nil
}

// newHTTPClient is the default: no redirects, because one would carry pictures to where nobody sent them.
func newHTTPClient() *http.Client {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          8,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   15 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	return &http.Client{Transport: t, CheckRedirect: noRedirect}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
