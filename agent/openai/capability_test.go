package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sightline/agent"
	"sightline/attachments/visual"
)

// lookups are what a kind of local server answers, besides chat.
type lookups map[string]string // "METHOD path" -> body

func (l lookups) handler(chat http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if body, ok := l[r.Method+" "+r.URL.Path]; ok {
			fmt.Fprint(w, body)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			chat(w, r)
			return
		}
		http.NotFound(w, r)
	}
}

func unsaid(c *Config) { c.Vision = agent.VisionUnknown }

func TestMetadata(t *testing.T) {
	const modelList = "GET /v1/models"
	openRouter := func(modalities string) string {
		return `{"data":[{"id":"other","architecture":{"input_modalities":["text"]}},{"id":"seer-1","canonical_slug":"seer-1-2026","architecture":{"modality":"text+image->text","input_modalities":[` + modalities + `],"output_modalities":["text"]}}]}`
	}
	tests := map[string]struct {
		server lookups
		want   agent.Vision
		source string
		limits string
	}{
		"a list in OpenRouter's form, yes": {lookups{modelList: openRouter(`"text","image"`)}, agent.VisionYes, "metadata", "unknown server"},
		"a list in OpenRouter's form, no":  {lookups{modelList: openRouter(`"text"`)}, agent.VisionNo, "metadata", "unknown server"},
		"a list that says nothing":         {lookups{modelList: `{"object":"list","data":[{"id":"seer-1","object":"model"}]}`}, agent.VisionUnknown, "none", "unknown server"},
		"Ollama, yes":                      {lookups{"POST /api/show": `{"details":{"family":"qwen"},"model_info":{},"capabilities":["completion","vision"]}`}, agent.VisionYes, "metadata", "Ollama"},
		"Ollama, no":                       {lookups{"POST /api/show": `{"details":{"family":"qwen"},"model_info":{},"capabilities":["completion","tools"]}`}, agent.VisionNo, "metadata", "Ollama"},
		"old Ollama, vision layers":        {lookups{"POST /api/show": `{"details":{},"model_info":{"mllama.vision.block_count":32}}`}, agent.VisionYes, "metadata", "Ollama"},
		"old Ollama, projector":            {lookups{"POST /api/show": `{"details":{},"model_info":{},"projector_info":{"clip.has_vision_encoder":true}}`}, agent.VisionYes, "metadata", "Ollama"},
		"old Ollama, neither":              {lookups{"POST /api/show": `{"details":{},"model_info":{"llama.block_count":32}}`}, agent.VisionUnknown, "none", "Ollama"},
		"llama.cpp, yes":                   {lookups{"GET /props": `{"default_generation_settings":{"n_ctx":1},"modalities":{"vision":true,"audio":false}}`}, agent.VisionYes, "metadata", "llama.cpp"},
		"llama.cpp, no":                    {lookups{"GET /props": `{"default_generation_settings":{"n_ctx":1},"modalities":{"vision":false,"audio":false}}`}, agent.VisionNo, "metadata", "llama.cpp"},
		"old llama.cpp":                    {lookups{"GET /props": `{"default_generation_settings":{"n_ctx":1}}`}, agent.VisionUnknown, "none", "llama.cpp"},
		"llama.cpp that speaks Ollama too": {lookups{"GET /props": `{"modalities":{"vision":true}}`, "POST /api/show": `{"details":{},"model_info":{},"capabilities":["completion"]}`}, agent.VisionYes, "metadata", "llama.cpp"},
		"LM Studio, yes":                   {lookups{"GET /api/v0/models": `{"object":"list","data":[{"id":"x","type":"llm"},{"id":"seer-1","type":"vlm"}]}`}, agent.VisionYes, "metadata", "LM Studio"},
		"LM Studio, no":                    {lookups{"GET /api/v0/models": `{"object":"list","data":[{"id":"x","type":"vlm"},{"id":"seer-1","type":"llm"}]}`}, agent.VisionNo, "metadata", "LM Studio"},
		"LM Studio, another model":         {lookups{"GET /api/v0/models": `{"object":"list","data":[{"id":"x","type":"vlm"}]}`}, agent.VisionUnknown, "none", "LM Studio"},
		"nonsense":                         {lookups{"GET /props": `[]`, "POST /api/show": `"x"`, "GET /api/v0/models": `{`, modelList: `{"data":{}}`}, agent.VisionUnknown, "none", "unknown server"},
		"HTML":                             {lookups{"GET /props": `<html>`, "POST /api/show": `<html>`, "GET /api/v0/models": `<html>`, modelList: `<html>`}, agent.VisionUnknown, "none", "unknown server"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, tt.server.handler(chatText("ok")))
			m := f.model(t, APIChat, unsaid)
			m.Probe(t.Context())
			info := m.Info(t.Context())
			if info.Capability.Vision != tt.want || info.Capability.Source != tt.source || info.Capability.Detail == "" {
				t.Errorf("capability %+v", info.Capability)
			}
			if !strings.HasPrefix(info.Limits.Source, tt.limits) || !strings.Contains(info.Limits.Source, tableDate) {
				t.Errorf("limits from %q", info.Limits.Source)
			}
			if tt.source == "metadata" && time.Since(info.Capability.At) > time.Minute {
				t.Errorf("looked up at %v", info.Capability.At)
			}
			for _, r := range f.requests {
				if r.path == "/api/show" && string(r.body) != `{"model":"seer-1"}` {
					t.Errorf("Ollama was asked %s", r.body)
				}
				if r.header.Get("Authorization") != "Bearer "+testKey {
					t.Errorf("%s was asked without the key", r.path)
				}
			}
		})
	}
}

// TestCapabilityOrder walks down from the best source to none.
func TestCapabilityOrder(t *testing.T) {
	server := lookups{"GET /props": `{"modalities":{"vision":true}}`}
	blind := reply(400, nil, `{"error":{"message":"seer-1 is not a multimodal model"}}`)
	pic, _ := picture(t, 1, 4, 4)
	r := agent.ModelRequest{Pictures: []agent.ShownPicture{pic}}
	f := newFake(t, server.handler(blind))

	word := f.model(t, APIChat)
	word.Probe(t.Context())
	if c := word.Info(t.Context()).Capability; c.Source != "operator" || c.Vision != agent.VisionYes {
		t.Errorf("the operator's word: %+v", c)
	}
	if _, err := word.Generate(t.Context(), r, nil); modelErr(t, err).Kind != agent.ErrNoVision {
		t.Error(err)
	}
	if c := word.Info(t.Context()).Capability; c.Source != "operator" || c.Vision != agent.VisionYes {
		t.Errorf("the operator's word after a refusal: %+v", c)
	}
	no := f.model(t, APIChat, func(c *Config) { c.Vision = agent.VisionNo })
	no.Probe(t.Context())
	if c := no.Info(t.Context()).Capability; c.Source != "operator" || c.Vision != agent.VisionNo {
		t.Errorf("the operator's no: %+v", c)
	}

	m := f.model(t, APIChat, unsaid)
	if c := m.Info(t.Context()).Capability; c.Source != "none" || c.Vision != agent.VisionUnknown {
		t.Errorf("nothing is known yet: %+v", c)
	}
	asked := f.count()
	if _, err := m.Generate(t.Context(), r, nil); modelErr(t, err).Kind != agent.ErrNoVision || f.count() != asked {
		t.Errorf("a picture for a model of unknown sight: %v, %d requests", err, f.count()-asked)
	}
	if c := m.Info(t.Context()).Capability; c.Source != "none" {
		t.Errorf("our own refusal became an observation: %+v", c)
	}
	m.Probe(t.Context())
	if c := m.Info(t.Context()).Capability; c.Source != "metadata" || c.Vision != agent.VisionYes {
		t.Errorf("metadata: %+v", c)
	}
	if _, err := m.Generate(t.Context(), r, nil); modelErr(t, err).Kind != agent.ErrNoVision {
		t.Error(err)
	}
	if c := m.Info(t.Context()).Capability; c.Source != "observed" || c.Vision != agent.VisionNo {
		t.Errorf("an observed refusal refutes metadata: %+v", c)
	}
	m.Probe(t.Context())
	if c := m.Info(t.Context()).Capability; c.Source != "metadata" || c.Vision != agent.VisionYes {
		t.Errorf("newer metadata: %+v", c)
	}
}

func TestObservationBeatsTable(t *testing.T) {
	m, err := New(Config{APIKey: testKey})
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Info(t.Context()).Capability; c.Source != "table" || c.Vision != agent.VisionYes || !strings.Contains(c.Detail, tableDate) {
		t.Errorf("the default model: %+v", c)
	}
	m.known.refused("status 400", time.Now())
	if c := m.Info(t.Context()).Capability; c.Source != "observed" || c.Vision != agent.VisionNo {
		t.Errorf("observed: %+v", c)
	}
}

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		base, model string
		want        agent.Vision
	}{
		{DefaultBaseURL, DefaultModel, agent.VisionYes},
		{DefaultBaseURL, "gpt-5.4-mini-2026-03-17", agent.VisionYes},
		{DefaultBaseURL, "gpt-4o", agent.VisionYes},
		{DefaultBaseURL, "gpt-4o-audio-preview", agent.VisionUnknown},
		{DefaultBaseURL, "gpt-6-rosalind", agent.VisionUnknown},
		{DefaultBaseURL, "gpt-4", agent.VisionNo},
		{DefaultBaseURL, "gpt-3.5-turbo-0125", agent.VisionNo},
		{DefaultBaseURL, "o3-mini", agent.VisionNo},
		{DefaultBaseURL, "ft:gpt-4o:mine", agent.VisionUnknown},
		{"https://eu.api.openai.com/v1", "gpt-4o", agent.VisionYes},
		{"https://api.openai.com.evil.example/v1", "gpt-4o", agent.VisionUnknown},
		{"https://proxy.example/v1", "gpt-4o", agent.VisionUnknown}, // the name alone says nothing
		{"https://api.anthropic.com/v1", "claude-sonnet-4-5", agent.VisionYes},
		{"https://api.anthropic.com/v1", "claude-2.1", agent.VisionNo},
		{"https://api.anthropic.com/v1", "gpt-4o", agent.VisionUnknown},
		{"https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-flash", agent.VisionYes},
		{"https://openrouter.ai/api/v1", "openai/gpt-4o", agent.VisionUnknown}, // its metadata says
	} {
		m, err := New(Config{BaseURL: tt.base, Model: tt.model, APIKey: testKey})
		if err != nil {
			t.Fatal(err)
		}
		if c := m.Info(t.Context()).Capability; c.Vision != tt.want {
			t.Errorf("%s at %s: %+v, want %s", tt.model, tt.base, c, tt.want)
		}
	}
}

func TestLimits(t *testing.T) {
	has := func(l agent.Limits, f visual.Format) bool {
		for _, g := range l.Formats {
			if f == g {
				return true
			}
		}
		return false
	}
	get := func(base, model string) agent.Limits {
		m, err := New(Config{BaseURL: base, Model: model, APIKey: testKey})
		if err != nil {
			t.Fatal(err)
		}
		return m.Info(t.Context()).Limits
	}
	if l := get("", ""); !has(l, visual.GIF) || l.MaxBytes == 0 || !strings.HasPrefix(l.Source, "OpenAI") {
		t.Errorf("OpenAI: %+v", l)
	}
	l := get("https://api.anthropic.com/v1", "claude-sonnet-4-5")
	if l.MaxEdge != 8000 || l.ManyPictures != 20 || l.ManyMaxEdge != 2000 || l.MaxImageBytes != 7_500_000 || l.MaxBytes > 24_000_000 {
		t.Errorf("Anthropic: %+v", l)
	}
	if l := get("https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5"); l.MaxEdge != 8000 || l.MaxImageBytes != 3_750_000 {
		t.Errorf("Anthropic through OpenRouter: %+v", l)
	}
	if l := get("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-pro"); has(l, visual.GIF) || !has(l, visual.WebP) {
		t.Errorf("Gemini: %+v", l)
	}
	if l := get("http://127.0.0.1:11434/v1", "llava"); has(l, visual.GIF) || has(l, visual.WebP) || !has(l, visual.PNG) || !has(l, visual.JPEG) {
		t.Errorf("an unknown server: %+v", l)
	}
	if l := limitsOf(providerOther, serverOllama, "llava"); has(l, visual.GIF) || !strings.HasPrefix(l.Source, "Ollama") {
		t.Errorf("Ollama: %+v", l)
	}
}

// TestProbeIsBounded: a server that answers nothing holds the start up for the configured time at most, and one that
// answers without end is not read to its end.
func TestProbeIsBounded(t *testing.T) {
	f := newFake(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	m := f.model(t, APIChat, unsaid, func(c *Config) { c.ProbeTimeout = 50 * time.Millisecond })
	start := time.Now()
	m.Probe(t.Context())
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.model(t, APIChat, unsaid).Probe(ctx)

	endless := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	m = endless.model(t, APIChat, unsaid)
	m.Probe(t.Context())
	if c := m.Info(t.Context()).Capability; c.Vision != agent.VisionUnknown {
		t.Errorf("capability %+v", c)
	}
}

func TestProbeAsksNoStranger(t *testing.T) {
	stranger := newFake(t, reply(200, nil, `{"modalities":{"vision":true}}`))
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, stranger.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	m := f.model(t, APIChat, unsaid, func(c *Config) { c.HTTPClient = &http.Client{} })
	m.Probe(t.Context())
	pic, _ := picture(t, 1, 4, 4)
	sure := f.model(t, APIChat, func(c *Config) { c.HTTPClient = &http.Client{} })
	_, err := sure.Generate(t.Context(), agent.ModelRequest{Pictures: []agent.ShownPicture{pic}}, nil)
	if e := modelErr(t, err); e.Kind != agent.ErrBadRequest {
		t.Errorf("got %+v", e)
	}
	if stranger.count() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestNew(t *testing.T) {
	m, err := New(Config{APIKey: testKey})
	if err != nil {
		t.Fatal(err)
	}
	info := m.Info(t.Context())
	if info.Key != DefaultBaseURL+"|responses|"+DefaultModel || info.Offline || !strings.Contains(info.Name, "api.openai.com") {
		t.Errorf("default: %+v", info)
	}
	m, err = New(Config{BaseURL: "HTTP://LocalHost:8080/v1/", Model: " llava "})
	if err != nil {
		t.Fatal(err)
	}
	if k := m.Info(t.Context()).Key; k != "http://localhost:8080/v1|chat|llava" {
		t.Errorf("key %q", k)
	}
	for name, c := range map[string]Config{
		"no URL":          {BaseURL: "://", Model: "m"},
		"no scheme":       {BaseURL: "api.example.com/v1", Model: "m"},
		"another scheme":  {BaseURL: "file:///etc/passwd", Model: "m"},
		"no host":         {BaseURL: "https:///v1", Model: "m"},
		"a password":      {BaseURL: "https://u:hunter2@api.example.com/v1", Model: "m"},
		"a query":         {BaseURL: "https://api.example.com/v1?key=hunter2", Model: "m"},
		"a whole path":    {BaseURL: "https://api.example.com/v1/chat/completions", Model: "m"},
		"unknown API":     {APIKey: testKey, API: "assistants"},
		"missing model":   {BaseURL: "http://localhost:8080/v1"},
		"missing key":     {},
		"broken key":      {APIKey: "sk-a b"},
		"key with a line": {APIKey: "hunter2\n"},
		"unknown detail":  {APIKey: testKey, Detail: "most"},
		"unknown vision":  {APIKey: testKey, Vision: 9},
		"negative time":   {APIKey: testKey, Timeout: -1},
	} {
		m, err := New(c)
		if err == nil || m != nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if s := err.Error(); strings.Contains(s, "\n") || strings.Contains(s, "hunter2") || strings.Contains(s, "api.example") || !strings.HasPrefix(s, "openai: ") {
			t.Errorf("%s: %q", name, s)
		}
	}
}

func TestRequestID(t *testing.T) {
	if got := requestID("turn 7/step\n2é"); got != "turn7/step2" {
		t.Errorf("%q", got)
	}
	f := newFake(t, chatText("ok"))
	m := f.model(t, APIChat)
	if _, err := m.Generate(t.Context(), agent.ModelRequest{Key: "k"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.last(t).header.Get("X-Client-Request-Id"); got != "" {
		t.Errorf("a stranger was told the key: %q", got)
	}
	m.provider = providerOpenAI
	if _, err := m.Generate(t.Context(), agent.ModelRequest{Key: "k"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.last(t).header.Get("X-Client-Request-Id"); got != "k" {
		t.Errorf("OpenAI was told %q", got)
	}
}

// Doctor's question: is anybody there, and is the key taken.
func TestReach(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   error
		said   string
	}{
		"an empty list":             {200, `{"data":[]}`, nil, "answers"},
		"a list with it":            {200, `{"data":[{"id":"other"},{"id":"seer-1"}]}`, nil, "answers"},
		"Ollama's":                  {200, `{"data":[{"id":"seer-1:latest"}]}`, nil, "answers"},
		"a list without it":         {200, `{"data":[{"id":"seer-1:7b"}]}`, nil, "answers; seer-1 is not in its list of models"},
		"no list":                   {404, "", nil, "answers 404"},
		"a wrong key":               {401, `{"error":{"code":"invalid_api_key","message":"Incorrect API key provided"}}`, ErrKey, ""},
		"a key that may not list":   {401, `{"error":{"message":"You have insufficient permissions for this operation. Missing scopes: api.model.read"}}`, nil, "may not list"},
		"a server that is not well": {502, "<html>", ErrServer, ""},
	} {
		f := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		m := f.model(t, APIChat)
		said, err := m.Reach(t.Context())
		if !errors.Is(err, c.want) || c.want == nil && err != nil || !strings.Contains(said, c.said) || c.said == "answers" && said != c.said {
			t.Errorf("%s: %q, %v", name, said, err)
		}
		f.Close()
		if _, err := m.Reach(t.Context()); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), f.URL) {
			t.Errorf("nobody there: %v", err)
		}
	}
}
