package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// providerError is what a provider said went wrong, whichever of its many forms it came in. It is never returned:
// translate makes an agent.ModelError of it.
type providerError struct {
	status     int // 0: said in the middle of a stream, without a status
	code       string
	typ        string
	param      string
	message    string
	inner      string // what a gateway quotes of the provider behind it: for classifying only
	moderated  bool   // a gateway's list of moderation reasons was there
	retryAfter time.Duration
	html       bool
	nothing    bool // no error could be read from the body
}

func (e *providerError) Error() string { return "provider error" }

// errorFields is the union of the error objects seen: OpenAI's, Anthropic's, OpenRouter's, Gemini's, vLLM's, llama.cpp's.
type errorFields struct {
	Code     json.RawMessage `json:"code"` // a string, a number or null
	Type     json.RawMessage `json:"type"`
	Status   json.RawMessage `json:"status"`
	Param    json.RawMessage `json:"param"`
	Message  json.RawMessage `json:"message"`
	Detail   json.RawMessage `json:"detail"`
	Error    json.RawMessage `json:"error"`
	Metadata struct {
		Raw     json.RawMessage   `json:"raw"`
		Reasons []json.RawMessage `json:"reasons"`
	} `json:"metadata"`
}

// parseError reads an error body. It never fails: what it can't read is "nothing".
func parseError(status int, header http.Header, body []byte) *providerError {
	e := &providerError{status: status, retryAfter: retryAfter(header, time.Now())}
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if len(body) > 0 && body[0] == '<' {
		e.html, e.nothing = true, true
		return e
	}
	e.fill(body, 0)
	e.nothing = e.message == "" && e.code == "" && e.typ == ""
	if e.retryAfter == 0 {
		e.retryAfter = retryAfterText(e.message)
	}
	return e
}

const maxErrorDepth = 4

func (e *providerError) fill(body []byte, depth int) {
	if depth > maxErrorDepth {
		return
	}
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' { // Gemini wraps its error in a list; a validator lists several
		var list []json.RawMessage
		if json.Unmarshal(body, &list) == nil && len(list) > 0 {
			e.fill(list[0], depth+1)
		}
		return
	}
	var f errorFields
	if json.Unmarshal(body, &f) != nil {
		var s string
		if json.Unmarshal(body, &s) == nil {
			e.setMessage(s, depth)
		}
		return
	}
	keep(&e.code, text(f.Code))
	keep(&e.typ, text(f.Type))
	keep(&e.typ, text(f.Status))
	keep(&e.param, text(f.Param))
	if len(f.Metadata.Reasons) > 0 {
		e.moderated = true
	}
	if raw := text(f.Metadata.Raw); raw != "" {
		e.inner = raw[:min(len(raw), 4<<10)]
	}
	switch {
	case present(f.Error):
		if e.typ == "error" {
			e.typ = "" // the envelope's, not the error's
		}
		e.fill(f.Error, depth+1)
	case present(f.Message):
		e.setMessage(text(f.Message), depth)
	case present(f.Detail):
		e.fill(f.Detail, depth+1)
	}
	var located struct {
		Loc []json.RawMessage `json:"loc"`
		Msg string            `json:"msg"`
	}
	if e.message == "" && json.Unmarshal(body, &located) == nil && located.Msg != "" {
		e.message = located.Msg
		parts := make([]string, 0, len(located.Loc))
		for _, p := range located.Loc {
			parts = append(parts, text(p))
		}
		keep(&e.param, strings.TrimPrefix(strings.Join(parts, "."), "body."))
	}
}

// setMessage keeps a message; one that is itself an error document (Ollama quotes its runner so) is opened.
func (e *providerError) setMessage(s string, depth int) {
	if t := strings.TrimSpace(s); strings.HasPrefix(t, "{") && json.Valid([]byte(t)) {
		before := *e
		if e.fill([]byte(t), depth+1); e.message != before.message {
			return
		}
	}
	keep(&e.message, s)
}

func keep(to *string, s string) {
	if *to == "" {
		*to = s
	}
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// text is a JSON string, or the literal of a number; objects and null are empty.
func text(raw json.RawMessage) string {
	if !present(raw) {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if raw[0] == '-' || (raw[0] >= '0' && raw[0] <= '9') {
		return string(raw)
	}
	return ""
}
