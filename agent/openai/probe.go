package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sightline/agent"
)

// maxMetadata bounds one look-up's answer: OpenRouter's list, the longest, is a few MB.
const maxMetadata = 16 << 20

// Probe looks up whether the model sees, at most for the configured time, and keeps what it finds. A failure changes
// nothing: what is not found stays as unknown as it was. It may be called again at any time, also while Generate runs.
func (m *Model) Probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
	defer cancel()
	looks := m.lookups()
	found := make([]finding, len(looks))
	var wg sync.WaitGroup
	for i, look := range looks {
		wg.Go(func() { found[i] = look(ctx) })
	}
	wg.Wait()
	// The look-ups are in order of trust; the first that knows the model's sight wins.
	best := finding{}
	for _, f := range found {
		if best.server == serverUnknown {
			best.server = f.server
		}
		if best.vision == agent.VisionUnknown {
			best.vision, best.detail = f.vision, f.detail
		}
	}
	m.known.found(best, time.Now())
	m.cfg.Log.Debug("model looked up", "model", m.name, "vision", best.vision.String(), "detail", best.detail, "server", string(best.server))
}

func (m *Model) lookups() []func(context.Context) finding {
	modelList := func(ctx context.Context) finding {
		return parseModelList(m.lookup(ctx, http.MethodGet, m.base.JoinPath("models"), nil), m.cfg.Model)
	}
	switch m.provider {
	case providerOpenRouter:
		return []func(context.Context) finding{modelList}
	case providerOther:
	default: // these publish no modalities: the table speaks for them
		return nil
	}
	// The server's own endpoints lie beside the compatible ones, which are mounted under /v1.
	root := *m.base
	root.Path = strings.TrimSuffix(root.Path, "/v1")
	show, _ := json.Marshal(map[string]string{"model": m.cfg.Model})
	props := root.JoinPath("props")
	props.RawQuery = url.Values{"model": {m.cfg.Model}}.Encode() // only its router mode reads it
	return []func(context.Context) finding{
		// llama.cpp comes first: it also answers Ollama's /api/show, and there it names no vision even where it has it.
		func(ctx context.Context) finding {
			return parseLlamaProps(m.lookup(ctx, http.MethodGet, props, nil))
		},
		func(ctx context.Context) finding {
			return parseOllamaShow(m.lookup(ctx, http.MethodPost, root.JoinPath("api", "show"), show))
		},
		func(ctx context.Context) finding {
			return parseLMStudio(m.lookup(ctx, http.MethodGet, root.JoinPath("api", "v0", "models"), nil), m.cfg.Model)
		},
		modelList,
	}
}

// lookup returns the body of a 200, or nil. It goes to the configured host only: the key goes with it.
func (m *Model) lookup(ctx context.Context, method string, u *url.URL, body []byte) []byte {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if m.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+m.cfg.APIKey)
	}
	res, err := m.cfg.HTTPClient.Do(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxMetadata+1))
	if err != nil || len(b) > maxMetadata {
		return nil
	}
	return b
}
