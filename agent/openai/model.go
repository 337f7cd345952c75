package openai

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"sightline/agent"
)

// Model is one model at one server. It is safe for concurrent use.
type Model struct {
	cfg      Config
	base     *url.URL
	provider provider
	name     string
	key      string
	since    time.Time
	client   sdk.Client
	known    knowledge
}

var _ agent.Model = (*Model)(nil)

// New validates the configuration; it asks nobody anything. Probe does.
func New(c Config) (*Model, error) {
	cfg, base, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Model{
		cfg:      cfg,
		base:     base,
		provider: providerOf(base),
		name:     fmt.Sprintf("%s (%s, %s)", cfg.Model, cfg.API, base.Host),
		key:      cfg.BaseURL + "|" + cfg.API + "|" + cfg.Model,
		since:    time.Now(),
		client:   newClient(cfg),
	}, nil
}

// Info says what is known now. It never waits.
func (m *Model) Info(context.Context) agent.ModelInfo {
	return agent.ModelInfo{
		Name:       m.name,
		Key:        m.key,
		Capability: m.capability(),
		Limits:     limitsOf(m.provider, m.known.foundServer(), m.cfg.Model),
	}
}

func (m *Model) capability() agent.Capability {
	return m.known.capability(m.cfg.Vision, m.provider, m.cfg.Model, m.since)
}

// Generate asks once. See agent.Model.
func (m *Model) Generate(ctx context.Context, r agent.ModelRequest, draft func(text string)) (agent.ModelResponse, error) {
	if err := ctx.Err(); err != nil {
		return agent.ModelResponse{}, err
	}
	if draft == nil {
		draft = func(string) {}
	}
	if c := m.capability(); len(r.Pictures) > 0 && c.Vision != agent.VisionYes {
		return agent.ModelResponse{}, &agent.ModelError{
			Kind: agent.ErrNoVision, Permanent: true, Picture: -1,
			Person:   "The model in use is not known to see pictures, so none was shown to it.",
			Operator: fmt.Sprintf("pictures refused before sending: vision is %s (source %s)", c.Vision, c.Source),
		}
	}
	parent := ctx
	ctx, stop := context.WithTimeoutCause(ctx, m.cfg.Timeout, errTimeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	start := time.Now()
	res, at, err := m.generate(ctx, cancel, r, draft)
	m.cfg.Log.Debug("model asked", "inference", r.Key, "model", m.name, "messages", len(r.Messages), "pictures", len(r.Pictures),
		"took", time.Since(start).Round(time.Millisecond), "finish", res.Finish, "failed", err != nil)
	if err == nil {
		return res, nil
	}
	if parent.Err() != nil {
		return agent.ModelResponse{}, parent.Err()
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause // the idle watch or the timeout, not how the connection took it
	}
	return agent.ModelResponse{}, m.translate(err, at)
}

// dialect is one of the two APIs.
type dialect interface {
	path() string
	// request marshals the request, with placeholders for its pictures, and says where their message stands.
	request(m *Model, r agent.ModelRequest, p placeholders) (marshalled []byte, pictures position, err error)
	// stream returns what accumulates an answer.
	stream(m *Model, draft func(string)) accumulator
}

// accumulator takes the events of a stream, or one whole document.
type accumulator interface {
	event(kind string, data []byte) (done bool, err error)
	whole(data []byte) error
	// complete says that nothing of the answer is missing, whatever may still come.
	complete() bool
	// end returns the answer, or errCut when the stream ended before it.
	end() (agent.ModelResponse, error)
}

func (m *Model) dialect() dialect {
	if m.cfg.API == APIResponses {
		return responsesAPI{}
	}
	return chatAPI{}
}

func (m *Model) generate(ctx context.Context, cancel context.CancelCauseFunc, r agent.ModelRequest, draft func(string)) (agent.ModelResponse, position, error) {
	none := agent.ModelResponse{}
	d := m.dialect()
	holders := newPlaceholders(r.Pictures)
	marshalled, at, err := d.request(m, r, holders)
	if err != nil {
		return none, at, &unsendable{err}
	}
	b, err := holders.fill(marshalled)
	if err != nil {
		return none, at, &unsendable{err}
	}
	res, err := m.post(ctx, cancel, d.path(), r.Key, b)
	if err != nil {
		return none, at, err
	}
	defer res.Body.Close()
	acc := d.stream(m, draft)
	if err := read(res, acc); err != nil {
		return none, at, err
	}
	answer, err := acc.end()
	if err != nil {
		return none, at, err
	}
	answer.Message.Role = agent.RoleAssistant
	makeIDsUnique(answer.Message.Calls, r.Messages)
	return answer, at, nil
}

var (
	errCut  = errors.New("the stream ended before the answer did")
	errHTML = errors.New("the answer is a web page")
	errNoAI = errors.New("the answer is in no form that this API has")
)

// read feeds the answer to acc, in whichever form it came.
func read(res *http.Response, acc accumulator) error {
	buffered := bufio.NewReader(res.Body)
	first, err := firstByte(buffered)
	if err == io.EOF {
		return errCut
	}
	if err != nil {
		return err
	}
	switch {
	case first == '<':
		return errHTML
	case isJSON(res.Header, first):
		data, err := io.ReadAll(buffered)
		if err != nil {
			return err
		}
		return acc.whole(data)
	}
	events := ssestream.NewDecoder(&http.Response{Header: http.Header{}, Body: struct {
		io.Reader
		io.Closer
	}{buffered, res.Body}})
	any := false
	for events.Next() {
		any = true
		e := events.Event()
		data := bytes.TrimSpace(e.Data)
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			_, err := acc.event(doneEvent, nil)
			return err
		}
		done, err := acc.event(e.Type, data)
		if err != nil || done {
			return err
		}
	}
	if err := events.Err(); err != nil && !acc.complete() {
		if errors.Is(err, bufio.ErrTooLong) {
			return errTooLarge
		}
		return err
	}
	if !any && first != ':' && first != 'd' && first != 'e' {
		return errNoAI
	}
	return nil
}

// doneEvent is how an accumulator hears of "data: [DONE]".
const doneEvent = "\x00done"

// firstByte peeks past white space and a byte order mark.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.Peek(1)
		if err != nil {
			return 0, err
		}
		switch b[0] {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf:
			_, _ = r.Discard(1) // it was just peeked at
		default:
			return b[0], nil
		}
	}
}
