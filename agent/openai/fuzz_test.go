package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sightline/agent"
)

// FuzzError: whatever a provider answers becomes one well-formed error.
func FuzzError(f *testing.F) {
	for _, c := range badCases {
		w := &sink{header: http.Header{}}
		func() {
			defer func() { _ = recover() }() // one of them drops its connection so
			c.answer(w, &http.Request{})
		}()
		f.Add(w.status, "3", w.body.Bytes())
	}
	f.Add(400, "Mon, 30 Nov 2026 12:00:30 GMT", []byte(`[[[[[[{"error":{"error":{"error":{"error":{"error":"x"}}}}}]]]]]]`))
	m, err := New(Config{APIKey: testKey})
	if err != nil {
		f.Fatal(err)
	}
	at := position{list: "input", message: 3, pictures: 4}
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		err := m.translate(&refusal{status, http.Header{"Retry-After": {after}}, body}, at)
		e := modelErr(t, err)
		if e.Kind == "" || e.Person == "" || e.Operator == "" {
			t.Errorf("%+v", e)
		}
		if e.Picture < -1 || e.Picture >= at.pictures || (e.Picture >= 0 && e.Kind != agent.ErrBadPicture) {
			t.Errorf("%s names picture %d", e.Kind, e.Picture)
		}
		if e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter || (e.Permanent && e.RetryAfter != 0) {
			t.Errorf("retry after %v", e.RetryAfter)
		}
		if !utf8.ValidString(e.Operator) || strings.ContainsAny(e.Operator, "\r\n\x00") || len(e.Operator) > 700 || strings.Contains(e.Operator, testKey) || strings.Contains(e.Operator, "://") {
			t.Errorf("operator: %q", e.Operator)
		}
	})
}

type sink struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return s.body.Write(p) }
func (s *sink) Flush()                      {}

// FuzzMetadata: a yes must have been said by the bytes.
func FuzzMetadata(f *testing.F) {
	for _, s := range []string{
		`{"data":[{"id":"m","architecture":{"input_modalities":["text","image"]}}]}`, `{"data":[{"id":"m","type":"vlm"}]}`,
		`{"details":{},"capabilities":["vision"]}`, `{"model_info":{"a.vision.b":1}}`, `{"projector_info":{"x":1},"details":{}}`,
		`{"modalities":{"vision":true}}`, `{"modalities":{"vision":null},"default_generation_settings":{}}`, `[]`, `{`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, got := range map[string]finding{
			"list": parseModelList(b, "m"), "ollama": parseOllamaShow(b), "llama.cpp": parseLlamaProps(b), "lm studio": parseLMStudio(b, "m"),
		} {
			if got.vision != agent.VisionUnknown && (got.detail == "" || !json.Valid(b)) {
				t.Errorf("%s: %+v out of %q", name, got, b)
			}
		}
	})
}

// FuzzStream: no event of a stream makes an accumulator panic, invent a call, or answer with nothing.
func FuzzStream(f *testing.F) {
	f.Add("", []byte(chatChunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}]}`, "tool_calls")))
	f.Add("", []byte(chatChunk(`{"content":[{"type":"text","text":"x"}]}`, "stop")))
	f.Add("response.completed", []byte(`{"response":{"status":"completed","output":[{"type":"function_call","name":"x","call_id":"c","arguments":"{}"}]}}`))
	f.Add("", []byte(`{"type":"response.output_item.done","output_index":5,"item":{"type":"reasoning","id":"r","encrypted_content":"s"}}`))
	f.Add("error", []byte(`{"message":"x"}`))
	m, err := New(Config{APIKey: testKey})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		for _, d := range []dialect{chatAPI{}, responsesAPI{}} {
			for _, feed := range []func(accumulator) error{
				func(a accumulator) error { _, err := a.event(kind, data); return err },
				func(a accumulator) error { return a.whole(data) },
			} {
				acc := d.stream(m, func(string) {})
				if feed(acc) != nil {
					continue
				}
				res, err := acc.end()
				if err != nil {
					continue
				}
				if strings.TrimSpace(res.Message.Text) == "" && len(res.Message.Calls) == 0 {
					t.Errorf("an empty answer: %+v", res)
				}
				for _, c := range res.Message.Calls {
					if c.Name == "" {
						t.Errorf("a nameless call: %+v", c)
					}
				}
			}
		}
	})
}

// FuzzOpaque: what a checkpoint hands back is sent whole or not at all.
func FuzzOpaque(f *testing.F) {
	f.Add([]byte(`{"key":"k","items":[{"reasoning":"r","sealed":"s"},{"text":5},{"call":"c"}]}`), "hello")
	f.Add([]byte(`{"key":"k","items":[{"text":2},{"text":3}]}`), "he\n\nllo")
	f.Add([]byte(`{"key":"k","items":[{"text":-1}]}`), "")
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		msg := agent.Message{Role: agent.RoleAssistant, Text: text, Calls: []agent.ToolCall{{ID: "c", Name: "x", Arguments: "{}"}}, Opaque: raw}
		calls, said := 0, ""
		for _, it := range responsesAssistant(msg, "k") {
			if it.OfFunctionCall != nil {
				calls++
			}
			if it.OfMessage != nil {
				said += it.OfMessage.Content.OfString.Value
			}
		}
		if calls != 1 || strings.ReplaceAll(said, textSeparator, "") != strings.ReplaceAll(text, textSeparator, "") {
			t.Errorf("%d calls, %q of %q", calls, said, text)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("5", "try again in 3s")
	f.Add("Mon, 30 Nov 2026 12:00:30 GMT", "try again in 9999m999999ms")
	f.Fuzz(func(t *testing.T, header, words string) {
		for _, d := range []time.Duration{retryAfter(http.Header{"Retry-After": {header}, "Retry-After-Ms": {words}}, time.Now()), retryAfterText(words)} {
			if d < 0 || d > maxRetryAfter {
				t.Errorf("%v", d)
			}
		}
	})
}
