package openai

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const (
	maxErrorBody = 64 << 10
	maxAnswer    = 32 << 20
)

var (
	errIdle     = errors.New("the answer stopped in the middle")
	errTimeout  = errors.New("the answer took too long")
	errTooLarge = errors.New("the answer is larger than any answer may be")
)

// refusal is an answer that is no success, read up to a bound. The SDK would read it whole.
type refusal struct {
	status int
	header http.Header
	body   []byte
}

func (e *refusal) Error() string { return http.StatusText(e.status) }

// post sends the body and returns the answer's stream, which the caller closes. ctx must be cancellable by cancel: the
// watch over a silent stream uses it.
func (m *Model) post(ctx context.Context, cancel context.CancelCauseFunc, path, key string, b *body) (*http.Response, error) {
	opts := []option.RequestOption{
		option.WithHeader("Accept", "text/event-stream"),
		option.WithMiddleware(func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			req.ContentLength = b.size()
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(b.reader()), nil }
			res, err := next(req)
			if err != nil {
				return nil, err
			}
			if res.StatusCode < 200 || res.StatusCode > 299 {
				defer res.Body.Close()
				text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what could be read is what there is
				return nil, &refusal{res.StatusCode, res.Header, text}
			}
			return res, nil
		}),
	}
	if id := requestID(key); id != "" && m.provider == providerOpenAI {
		// OpenAI has no idempotency header for inference. This one makes the request findable in its logs.
		opts = append(opts, option.WithHeader("X-Client-Request-Id", id))
	}
	var res *http.Response
	if err := m.client.Post(ctx, path, b.reader(), &res, opts...); err != nil {
		return nil, err
	}
	if res == nil || res.Body == nil {
		return nil, errors.New("the answer has no body")
	}
	res.Body = watch(res.Body, m.cfg.IdleTimeout, cancel)
	return res, nil
}

// requestID is the key as a header may carry it.
func requestID(key string) string {
	clean := strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, key)
	return clean[:min(len(clean), 512)]
}

func newClient(cfg Config) sdk.Client {
	opts := []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL),
		option.WithHTTPClient(cfg.HTTPClient),
		option.WithMaxRetries(0), // Temporal owns retries
	}
	if cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(cfg.APIKey))
	}
	// Not sdk.NewClient: that one also reads OPENAI_* from the environment, and an environment's key must not travel to
	// a base URL it was not meant for.
	return sdk.Client{Options: opts}
}

// watched bounds an answer's size and the silence within it.
type watched struct {
	io.ReadCloser
	left  int64
	idle  time.Duration
	timer *time.Timer
	once  sync.Once
}

func watch(rc io.ReadCloser, idle time.Duration, cancel context.CancelCauseFunc) *watched {
	return &watched{
		ReadCloser: rc, left: maxAnswer, idle: idle,
		timer: time.AfterFunc(idle, func() { cancel(errIdle) }),
	}
}

func (w *watched) Read(p []byte) (int, error) {
	if w.left <= 0 {
		return 0, errTooLarge
	}
	n, err := w.ReadCloser.Read(p[:min(int64(len(p)), w.left)])
	w.left -= int64(n)
	if n > 0 {
		w.timer.Reset(w.idle)
	}
	return n, err
}

func (w *watched) Close() error {
	w.once.Do(func() { w.timer.Stop() })
	return w.ReadCloser.Close()
}

// isJSON reports whether the whole answer is one JSON document: a server that ignored the wish for a stream. Servers
// mislabel streams as text or JSON, so the first byte has the last word.
func isJSON(header http.Header, first byte) bool {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return first == '{' || first == '[' || (media == "application/json" && first != 'd' && first != 'e' && first != ':')
}
