// Package fakemodel is an OpenAI-compatible server for tests, written from
// the API's documentation: Chat Completions and Responses, streaming.
//
// It owns what a provider would see: it keeps every request with its image
// parts decoded, and answers what the test's function says. It refuses, with
// the status a provider would use, what a provider would refuse: a malformed
// body, a picture that is no data URL or does not decode. A failure of the
// fake itself shows as a 500 that names it.
package fakemodel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif"  // a provider decodes what it is sent
	_ "image/jpeg" // by its bytes
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	_ "golang.org/x/image/webp"
)

// Call is one tool call, wished for or answered.
type Call struct {
	ID, Name, Arguments string
}

// Message is one transcript message as it arrived.
type Message struct {
	Role   string
	Text   string
	Calls  []Call
	CallID string
}

// Picture is one image part, with the text part right before it.
type Picture struct {
	Label string
	MIME  string
	Bytes []byte
	Image image.Image
}

// Request is one inference as a provider sees it.
type Request struct {
	API      string // chat or responses
	Model    string
	System   string
	Messages []Message
	Pictures []Picture
	Tools    []string
	Raw      []byte
	light    bool
}

// Last is the text of the last message of a role.
func (r Request) Last(role string) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == role && r.Messages[i].Text != "" {
			return r.Messages[i].Text
		}
	}
	return ""
}

// Reply is what the model does. The zero value answers with no text at all.
type Reply struct {
	Text       string
	Calls      []Call
	Status     int    // not 0: an error response
	Error      string // its message
	Code       string
	RetryAfter string
	Wait       <-chan struct{} // answered once closed; the connection may end before
	// Pace, if set, is how long the text's words are apart: a slow model.
	Pace time.Duration
	// Before, if set, is asked before each word of a slow model; it may wait.
	Before func(word int)

	gone <-chan struct{} // closed once nobody hears the words any more
}

// Server is the fake. Requests arrive in any order and at once.
type Server struct {
	*httptest.Server
	// Light keeps no request and decodes no picture: a model that takes no time
	// on a machine that it shares with what is measured. Set it at the start.
	Light bool
	// Blind does not even parse: the test's function gets Raw alone.
	Blind bool
	// Llama says at /props that it is llama.cpp's server, with a model that
	// sees: one that takes a picture of any size. Set it at the start.
	Llama bool

	mu       sync.Mutex
	answer   func(Request) Reply
	requests []Request
	arrived  chan struct{}
}

// New starts a server; close it.
func New(answer func(Request) Reply) *Server {
	s := &Server{answer: answer, arrived: make(chan struct{}, 1024)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.serve("chat"))
	mux.HandleFunc("POST /v1/responses", s.serve("responses"))
	mux.HandleFunc("GET /props", func(w http.ResponseWriter, r *http.Request) {
		if !s.Llama {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"default_generation_settings":{},"modalities":{"vision":true,"audio":false}}`))
	})
	s.Server = httptest.NewServer(mux)
	return s
}

// BaseURL is for OPENAI_BASE_URL.
func (s *Server) BaseURL() string { return s.URL + "/v1" }

// Requests are all so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Answer changes what the model does from now on.
func (s *Server) Answer(f func(Request) Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Arrived yields once for each request.
func (s *Server) Arrived() <-chan struct{} { return s.arrived }

type part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	ImageURL json.RawMessage `json:"image_url"`
}

func (s *Server) serve(api string) http.HandlerFunc {
	return func(w http.ResponseWriter, hr *http.Request) {
		var body bytes.Buffer
		if n := hr.ContentLength; n > 0 && n < 1<<30 {
			body.Grow(int(n) + bytes.MinRead)
		}
		_, err := body.ReadFrom(hr.Body)
		if err != nil {
			return
		}
		raw := body.Bytes()
		r := Request{API: api, Raw: raw, light: s.Light}
		switch {
		case s.Blind:
		case api == "chat":
			err = r.readChat(raw)
		default:
			err = r.readResponses(raw)
		}
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error(), "invalid_request_error", "")
			return
		}
		s.mu.Lock()
		if !s.Light && !s.Blind {
			s.requests = append(s.requests, r)
		}
		f := s.answer
		s.mu.Unlock()
		select {
		case s.arrived <- struct{}{}:
		default:
		}
		a := f(r)
		if a.Wait != nil {
			select {
			case <-a.Wait:
			case <-hr.Context().Done():
				return
			case <-time.After(2 * time.Minute):
				return
			}
		}
		if a.Status != 0 {
			if a.RetryAfter != "" {
				w.Header().Set("Retry-After", a.RetryAfter)
			}
			fail(w, a.Status, a.Error, "invalid_request_error", a.Code)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		a.gone = hr.Context().Done()
		if api == "chat" {
			streamChat(w, r.Model, a)
		} else {
			streamResponses(w, r.Model, a)
		}
	}
}

func fail(w http.ResponseWriter, status int, msg, typ, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": msg, "type": typ, "code": code, "param": nil}})
}

// content reads text and image parts of one message, in order.
func (r *Request) content(raw json.RawMessage) (string, error) {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []part
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("content is neither text nor parts")
	}
	var texts []string
	label := ""
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text":
			texts = append(texts, p.Text)
			label = p.Text
		case "image_url", "input_image":
			pic, err := picture(p.ImageURL, r.light)
			if err != nil {
				return "", err
			}
			pic.Label = label
			r.Pictures = append(r.Pictures, pic)
		default:
			return "", fmt.Errorf("unknown part type %q", p.Type)
		}
	}
	return strings.Join(texts, "\n"), nil
}

func picture(raw json.RawMessage, light bool) (Picture, error) {
	var u string
	if json.Unmarshal(raw, &u) != nil {
		var o struct {
			URL string `json:"url"`
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return Picture{}, fmt.Errorf("image_url has no url")
		}
		u = o.URL
	}
	head, data, ok := strings.Cut(u, ";base64,")
	if !ok || !strings.HasPrefix(head, "data:") {
		return Picture{}, fmt.Errorf("image_url is no data URL")
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return Picture{}, fmt.Errorf("image data is no base64")
	}
	if light {
		return Picture{MIME: strings.TrimPrefix(head, "data:"), Bytes: b}, nil
	}
	img, _, err := image.Decode(bytes.NewReader(b))
	if err != nil {
		return Picture{}, fmt.Errorf("invalid image: %w", err)
	}
	return Picture{MIME: strings.TrimPrefix(head, "data:"), Bytes: b, Image: img}, nil
}
