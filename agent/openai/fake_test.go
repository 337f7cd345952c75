package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sightline/agent"
	"sightline/attachments/visual"
)

// fake is a provider that speaks both APIs. Each request's body is kept; answer decides what comes back.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	requests []recorded
	answer   http.HandlerFunc
}

type recorded struct {
	path   string
	header http.Header
	length int64
	body   []byte
}

func newFake(t *testing.T, answer http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{answer: answer}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("fake: reading the request: %v", err)
		}
		f.mu.Lock()
		f.requests = append(f.requests, recorded{r.URL.Path, r.Header.Clone(), r.ContentLength, b})
		f.mu.Unlock()
		f.answer(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) last(t *testing.T) recorded {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.requests) == 0 {
		t.Fatal("the provider was asked nothing")
	}
	return f.requests[len(f.requests)-1]
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// model is a model at the fake. Its sight is the operator's word, unless the test says otherwise.
func (f *fake) model(t *testing.T, api string, change ...func(*Config)) *Model {
	t.Helper()
	c := Config{APIKey: testKey, BaseURL: f.URL + "/v1", Model: "seer-1", API: api, Vision: agent.VisionYes}
	for _, ch := range change {
		ch(&c)
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const testKey = "sk-test-0123456789abcdef0123456789"

// sse answers with a stream of the given data lines; a line that begins with "event:" names the next one's event.
func sse(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, l := range lines {
			if strings.HasPrefix(l, "event:") || strings.HasPrefix(l, ":") {
				fmt.Fprintf(w, "%s\n", l)
				continue
			}
			fmt.Fprintf(w, "data: %s\n\n", l)
			w.(http.Flusher).Flush()
		}
	}
}

func reply(status int, header http.Header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range header {
			w.Header()[k] = v
		}
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func chatChunk(delta, finish string) string {
	f := "null"
	if finish != "" {
		f = `"` + finish + `"`
	}
	return `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"seer-1-real","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + f + `}]}`
}

const chatUsage = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"seer-1-real","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`

// chatText is a whole, well-behaved chat stream.
func chatText(pieces ...string) http.HandlerFunc {
	lines := []string{chatChunk(`{"role":"assistant","content":""}`, "")}
	for _, p := range pieces {
		b, _ := json.Marshal(p)
		lines = append(lines, chatChunk(`{"content":`+string(b)+`}`, ""))
	}
	return sse(append(lines, chatChunk(`{}`, "stop"), chatUsage, "[DONE]")...)
}

// responseText is a whole, well-behaved stream of the Responses API.
func responseText(pieces ...string) http.HandlerFunc {
	lines := []string{
		"event: response.created", `{"type":"response.created","sequence_number":0,"response":{"id":"r1","object":"response","status":"in_progress","model":"seer-1-real","output":[],"error":null}}`,
		"event: response.output_item.added", `{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}`,
	}
	for i, p := range pieces {
		b, _ := json.Marshal(p)
		lines = append(lines, "event: response.output_text.delta", fmt.Sprintf(
			`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","output_index":0,"content_index":0,"delta":%s}`, i+2, b))
	}
	text, _ := json.Marshal(strings.Join(pieces, ""))
	item := `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":` + string(text) + `,"annotations":[]}]}`
	lines = append(lines,
		"event: response.output_item.done", `{"type":"response.output_item.done","sequence_number":90,"output_index":0,"item":`+item+`}`,
		"event: response.completed", `{"type":"response.completed","sequence_number":91,"response":{"id":"r1","object":"response","status":"completed","model":"seer-1-real","error":null,"output":[`+item+`],"usage":{"input_tokens":11,"output_tokens":7,"total_tokens":18}}}`,
	)
	return sse(lines...)
}

// text answers well in the API's own way.
func textIn(api string, pieces ...string) http.HandlerFunc {
	if api == APIResponses {
		return responseText(pieces...)
	}
	return chatText(pieces...)
}

// picture is a PNG whose pixels depend on seed.
func picture(t *testing.T, seed, w, h int) (agent.ShownPicture, image.Image) {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.Set(x, y, color.NRGBA{uint8(x*7 + seed), uint8(y * 5), uint8(seed * 31), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return agent.ShownPicture{
		Label:   fmt.Sprintf("Image #%d: shot%d.png, whole", seed, seed),
		Picture: visual.Picture{MIME: "image/png", Bytes: b.Bytes(), Width: w, Height: h, NativeWidth: w, NativeHeight: h},
	}, img
}

// sentPart is a part of the picture message as any API has it.
type sentPart struct {
	kind, text, url, detail string
}

// sentParts digs the last message's parts out of a request body, without any type of the SDK.
func sentParts(t *testing.T, api string, body []byte) (role string, parts []sentPart) {
	t.Helper()
	list := "messages"
	if api == APIResponses {
		list = "input"
	}
	var req map[string]json.RawMessage
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatalf("request body: %v", err)
	}
	var messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(req[list], &messages); err != nil || len(messages) == 0 {
		t.Fatalf("%s: %v", list, err)
	}
	last := messages[len(messages)-1]
	var raw []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Detail   string          `json:"detail"`
		ImageURL json.RawMessage `json:"image_url"`
	}
	if json.Unmarshal(last.Content, &raw) != nil {
		return last.Role, nil
	}
	for _, p := range raw {
		out := sentPart{kind: p.Type, text: p.Text, detail: p.Detail}
		if api == APIResponses {
			_ = json.Unmarshal(p.ImageURL, &out.url)
		} else {
			var o struct{ URL, Detail string }
			_ = json.Unmarshal(p.ImageURL, &o)
			out.url, out.detail = o.URL, o.Detail
		}
		parts = append(parts, out)
	}
	return last.Role, parts
}

func decodeDataURL(t *testing.T, url string) image.Image {
	t.Helper()
	data, ok := strings.CutPrefix(url, "data:image/png;base64,")
	if !ok {
		t.Fatalf("no data URL of a PNG: %.40q", url)
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func samePixels(a, b image.Image) bool {
	if a.Bounds() != b.Bounds() {
		return false
	}
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			r1, g1, b1, a1 := a.At(x, y).RGBA()
			r2, g2, b2, a2 := b.At(x, y).RGBA()
			if r1 != r2 || g1 != g2 || b1 != b2 || a1 != a2 {
				return false
			}
		}
	}
	return true
}
