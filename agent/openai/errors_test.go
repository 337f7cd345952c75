package openai

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sightline/agent"
)

// badCase is one thing that a provider may answer, and what it means.
type badCase struct {
	name       string
	api        string // empty: both
	answer     http.HandlerFunc
	kind       agent.ErrorKind
	permanent  bool
	picture    int // -1 unless named
	retryAfter time.Duration
	says       string // in Operator
}

func oneError(message, typ, param, code string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":%q,"code":%q}}`, message, typ, param, code)
}

const invalid = "invalid_request_error"

var badCases = []badCase{
	// The modality.
	{name: "OpenAI: certain models", answer: reply(400, nil, oneError("Invalid content type. image_url is only supported by certain models.", invalid, "messages.[1].content.[1].type", "")), kind: agent.ErrNoVision, permanent: true},
	{name: "OpenAI: image content", answer: reply(400, nil, oneError("Image content is only supported by certain models.", invalid, "", "")), kind: agent.ErrNoVision, permanent: true},
	{name: "llama.cpp's 500", answer: reply(500, nil, `{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}`), kind: agent.ErrNoVision, permanent: true},
	{name: "vLLM", answer: reply(400, nil, `{"object":"error","message":"Qwen3-4B is not a multimodal model","type":"BadRequestError","param":null,"code":400}`), kind: agent.ErrNoVision, permanent: true, says: "type BadRequestError"},
	{name: "Ollama quoting its runner", answer: reply(500, nil, `{"error":"{\"error\":{\"message\":\"image input is not supported - hint\"}}"}`), kind: agent.ErrNoVision, permanent: true},
	{name: "Ollama", answer: reply(500, nil, `{"error":"this model is missing data required for image input"}`), kind: agent.ErrNoVision, permanent: true},
	{name: "OpenRouter", answer: reply(404, nil, `{"error":{"message":"No endpoints found that support image input","code":404}}`), kind: agent.ErrNoVision, permanent: true},
	{name: "DeepSeek", answer: reply(400, nil, oneError("Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`", invalid, "", "invalid_request_error")), kind: agent.ErrNoVision, permanent: true},
	{name: "does not support images", answer: reply(400, nil, `{"error":{"message":"This model does not support image inputs."}}`), kind: agent.ErrNoVision, permanent: true},
	{name: "modality, behind a gateway", answer: reply(400, nil, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"m is not a multimodal model\"}}"}}}`), kind: agent.ErrNoVision, permanent: true},
	{name: "modality, within a stream", answer: sse(`{"error":{"message":"image input is not supported","code":500}}`), kind: agent.ErrNoVision, permanent: true},

	// A picture.
	{name: "unsupported image", answer: reply(400, nil, oneError("You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].", invalid, "", "invalid_image_format")), kind: agent.ErrBadPicture, permanent: true, picture: -1},
	{name: "chat names the second", api: APIChat, answer: reply(400, nil, oneError("Invalid image.", invalid, "messages.[2].content.[3].image_url.url", "invalid_value")), kind: agent.ErrBadPicture, permanent: true, picture: 1},
	{name: "chat names it in the text", api: APIChat, answer: reply(400, nil, oneError("Invalid image URL: 'messages[2].content[1].image_url.url'. Expected a base64-encoded data URL with an image MIME type", invalid, "", "invalid_value")), kind: agent.ErrBadPicture, permanent: true, picture: 0},
	{name: "responses names the second", api: APIResponses, answer: reply(400, nil, oneError("Invalid 'input[1].content[3].image_url'. Expected a base64-encoded data URL with an image MIME type", invalid, "input[1].content[3].image_url", "invalid_value")), kind: agent.ErrBadPicture, permanent: true, picture: 1},
	{name: "another message is named", answer: reply(400, nil, oneError("Invalid image.", invalid, "messages.[7].content.[1]", "invalid_image")), kind: agent.ErrBadPicture, permanent: true, picture: -1},
	{name: "a label is named", api: APIChat, answer: reply(400, nil, oneError("Invalid image.", invalid, "messages.[2].content.[2]", "invalid_image")), kind: agent.ErrBadPicture, permanent: true, picture: -1},
	{name: "Anthropic: too many bytes", answer: reply(400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.9.content.1.image.source.base64: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes"}}`), kind: agent.ErrBadPicture, permanent: true, picture: -1},
	{name: "Anthropic: dimensions", answer: reply(400, nil, `{"error":{"type":"invalid_request_error","message":"At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"}}`), kind: agent.ErrBadPicture, permanent: true, picture: -1},
	{name: "Gemini's list", answer: reply(400, nil, `[{"error":{"code":400,"message":"Unable to process input image. Please retry or report","status":"INVALID_ARGUMENT"}}]`), kind: agent.ErrBadPicture, permanent: true, picture: -1},
	{name: "llama.cpp: not decodable", answer: reply(400, nil, `{"error":{"code":400,"message":"Failed to load image or audio file","type":"invalid_request_error"}}`), kind: agent.ErrBadPicture, permanent: true, picture: -1},
	{name: "a format, not the modality", answer: reply(400, nil, oneError("This endpoint does not support image type image/tiff", invalid, "", "")), kind: agent.ErrBadPicture, permanent: true, picture: -1},
	{name: "within a response", api: APIResponses, answer: sse(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"image_too_large","message":"too large","param":"input[1].content[1]"},"output":[]}}`), kind: agent.ErrBadPicture, permanent: true, picture: 0},

	// Size.
	{name: "context length", answer: reply(400, nil, oneError("This model's maximum context length is 8192 tokens.", invalid, "messages", "context_length_exceeded")), kind: agent.ErrTooLong, permanent: true},
	{name: "llama.cpp's context", answer: reply(400, nil, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_ctx":4096}}`), kind: agent.ErrTooLong, permanent: true},
	{name: "Anthropic's prompt", answer: reply(400, nil, `{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), kind: agent.ErrTooLong, permanent: true},
	{name: "413 in HTML", answer: reply(413, http.Header{"Content-Type": {"text/html"}}, "<html><h1>413 Request Entity Too Large</h1></html>"), kind: agent.ErrTooLong, permanent: true, says: "web page"},
	{name: "too many pictures", answer: reply(400, nil, `{"object":"error","message":"At most 1 image(s) may be provided in one request.","type":"BadRequestError","code":400}`), kind: agent.ErrTooLong, permanent: true},

	// Credentials and quota.
	{name: "401", answer: reply(401, nil, oneError("Incorrect API key provided: "+testKey+". You can find your API key at https://platform.openai.com/account/api-keys.", invalid, "", "invalid_api_key")), kind: agent.ErrAuth, permanent: true, says: "Incorrect API key provided"},
	{name: "403", answer: reply(403, nil, oneError("You are not allowed to sample from this model", invalid, "", "")), kind: agent.ErrAuth, permanent: true},
	{name: "401 without a body", answer: reply(401, nil, ""), kind: agent.ErrAuth, permanent: true, says: "status 401"},
	{name: "429, seconds", answer: reply(429, http.Header{"Retry-After": {"7"}}, oneError("Rate limit reached", "requests", "", "rate_limit_exceeded")), kind: agent.ErrRateLimited, retryAfter: 7 * time.Second},
	{name: "429, milliseconds", answer: reply(429, http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"2"}}, oneError("Rate limit reached", "tokens", "", "rate_limit_exceeded")), kind: agent.ErrRateLimited, retryAfter: 1500 * time.Millisecond},
	{name: "429, in words", answer: reply(429, nil, oneError("Rate limit reached. Please try again in 1m2.5s.", "tokens", "", "rate_limit_exceeded")), kind: agent.ErrRateLimited, retryAfter: 62500 * time.Millisecond},
	{name: "429, more than a minute's tokens", answer: reply(429, nil, oneError("Request too large for seer-1 on tokens per min (TPM): Limit 30000, Requested 50000.", "tokens", "", "rate_limit_exceeded")), kind: agent.ErrTooLong, permanent: true},
	{name: "429 of nobody", answer: reply(429, nil, "slow down"), kind: agent.ErrRateLimited},
	{name: "quota", answer: reply(429, http.Header{"Retry-After": {"7"}}, oneError("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota", "", "insufficient_quota")), kind: agent.ErrRateLimited, permanent: true},
	{name: "402", answer: reply(402, nil, `{"error":{"code":402,"message":"Insufficient credits"}}`), kind: agent.ErrRateLimited, permanent: true},
	{name: "rate limit within a stream", answer: sse(`{"error":{"code":429,"message":"Provider is rate limited, try again in 3s"},"choices":[]}`), kind: agent.ErrRateLimited, retryAfter: 3 * time.Second},
	{name: "rate limit within a response", api: APIResponses, answer: sse("event: error", `{"type":"error","code":"rate_limit_exceeded","message":"Rate limit reached","param":null,"sequence_number":1}`), kind: agent.ErrRateLimited},

	// Not there, or not now.
	{name: "no such model", answer: reply(404, nil, oneError("The model 'seer-1' does not exist", invalid, "", "model_not_found")), kind: agent.ErrBadRequest, permanent: true, says: `is "seer-1" a model of this server`},
	{name: "404 in HTML", answer: reply(404, nil, "<!DOCTYPE html><title>Not Found</title>"), kind: agent.ErrBadRequest, permanent: true, says: "web page"},
	{name: "500", answer: reply(500, nil, oneError("The server had an error", "server_error", "", "")), kind: agent.ErrUnavailable},
	{name: "502 in HTML", answer: reply(502, nil, "<html>Bad Gateway, context length</html>"), kind: agent.ErrUnavailable, says: "web page"},
	{name: "503 loading", answer: reply(503, http.Header{"Retry-After": {"2"}}, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`), kind: agent.ErrUnavailable, retryAfter: 2 * time.Second},
	{name: "408", answer: reply(408, nil, ""), kind: agent.ErrUnavailable},
	{name: "409", answer: reply(409, nil, ""), kind: agent.ErrUnavailable},
	{name: "529", answer: reply(529, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), kind: agent.ErrUnavailable, says: "type overloaded_error"},
	{name: "no JSON", answer: reply(500, nil, "{{{"), kind: agent.ErrUnavailable, says: "no error in a known form"},
	{name: "server error within a stream", answer: sse(`{"error":{"code":"server_error","message":"oops"}}`), kind: agent.ErrUnavailable, says: "error within the stream"},
	{name: "server error within a response", api: APIResponses, answer: sse(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"oops"},"output":[]}}`), kind: agent.ErrUnavailable},
	{name: "cut midway", api: APIChat, answer: sse(chatChunk(`{"content":"half"}`, "")), kind: agent.ErrUnavailable, says: "ended before the answer"},
	{name: "cut midway", api: APIResponses, answer: sse(`{"type":"response.output_text.delta","output_index":0,"delta":"half"}`), kind: agent.ErrUnavailable, says: "ended before the answer"},
	{name: "connection dropped", answer: func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "data: %s\n\n", chatChunk(`{"content":"half"}`, ""))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, api: APIChat, kind: agent.ErrUnavailable, says: "ended in the middle"},
	{name: "nothing at all", answer: reply(200, nil, ""), kind: agent.ErrUnavailable},
	{name: "plain text", answer: reply(200, http.Header{"Content-Type": {"text/plain"}}, "Internal problem"), kind: agent.ErrUnavailable},
	{name: "JSON of something else", answer: reply(200, nil, `{"hello":"world"}`), kind: agent.ErrUnavailable},
	{name: "a web page", answer: reply(200, http.Header{"Content-Type": {"text/html"}}, "<!doctype html><title>Welcome</title>"), kind: agent.ErrBadRequest, permanent: true, says: "base URL"},
	{name: "a redirect", answer: reply(307, http.Header{"Location": {"https://elsewhere.example/"}}, ""), kind: agent.ErrBadRequest, permanent: true, says: "status 307"},

	// The filter, and nothing.
	{name: "content filter", answer: reply(400, nil, oneError("The response was filtered", "", "prompt", "content_filter")), kind: agent.ErrContentGuard, permanent: true},
	{name: "picture policy", answer: reply(400, nil, oneError("This image was rejected by our policy", invalid, "", "image_content_policy_violation")), kind: agent.ErrContentGuard, permanent: true},
	{name: "OpenRouter's moderation", answer: reply(403, nil, `{"error":{"code":403,"message":"Flagged","metadata":{"reasons":["violence"],"flagged_input":"..."}}}`), kind: agent.ErrContentGuard, permanent: true},
	{name: "filtered to nothing", api: APIChat, answer: sse(chatChunk(`{}`, "content_filter"), "[DONE]"), kind: agent.ErrContentGuard, permanent: true},
	{name: "filtered to nothing", api: APIResponses, answer: sse(`{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}}`), kind: agent.ErrContentGuard, permanent: true},
	{name: "filtered within a call", api: APIChat, answer: sse(chatChunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}]}`, "content_filter"), "[DONE]"), kind: agent.ErrContentGuard, permanent: true},
	{name: "empty", api: APIChat, answer: sse(chatChunk(`{"content":" \n"}`, "stop"), "[DONE]"), kind: agent.ErrEmptyAnswer},
	{name: "empty", api: APIResponses, answer: sse(`{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`), kind: agent.ErrEmptyAnswer},
	{name: "thought itself out", api: APIChat, answer: sse(chatChunk(`{"reasoning_content":"hm"}`, "length"), "[DONE]"), kind: agent.ErrEmptyAnswer, says: "finish length"},

	{name: "any other 400", answer: reply(400, nil, oneError("Invalid schema for function 'x'", invalid, "tools[0].function.parameters", "invalid_function_parameters")), kind: agent.ErrBadRequest, permanent: true, says: "param tools[0].function.parameters"},
	{name: "a validator's list", answer: reply(422, nil, `{"detail":[{"loc":["body","messages",0],"msg":"field required","type":"value_error.missing"}]}`), kind: agent.ErrBadRequest, permanent: true, says: "provider says: field required"},
	{name: "501", answer: reply(501, nil, `{"error":"not implemented"}`), kind: agent.ErrBadRequest, permanent: true},
}

func TestErrors(t *testing.T) {
	p1, _ := picture(t, 1, 4, 4)
	p2, _ := picture(t, 2, 4, 4)
	r := agent.ModelRequest{
		Instructions: "i", Messages: []agent.Message{{Role: agent.RoleUser, Text: "the prompt's own words"}},
		Pictures: []agent.ShownPicture{p1, p2},
	}
	for _, c := range badCases {
		for _, api := range bothAPIs {
			if c.api != "" && c.api != api {
				continue
			}
			t.Run(api+"/"+c.name, func(t *testing.T) {
				f := newFake(t, c.answer)
				_, err := f.model(t, api).Generate(t.Context(), r, nil)
				e := modelErr(t, err)
				want := c.picture
				if c.kind != agent.ErrBadPicture {
					want = -1
				}
				if e.Kind != c.kind || e.Permanent != c.permanent || e.Picture != want || e.RetryAfter != c.retryAfter {
					t.Errorf("got  kind %s, permanent %v, picture %d, after %v\nwant kind %s, permanent %v, picture %d, after %v\n%s",
						e.Kind, e.Permanent, e.Picture, e.RetryAfter, c.kind, c.permanent, want, c.retryAfter, e.Operator)
				}
				if !strings.Contains(e.Operator, c.says) {
					t.Errorf("operator's sentence %q lacks %q", e.Operator, c.says)
				}
				wellBehaved(t, e, f.URL)
			})
		}
	}
}

// wellBehaved: neither sentence quotes an address, a key or much of anything.
func wellBehaved(t *testing.T, e *agent.ModelError, url string) {
	t.Helper()
	if e.Person == "" || e.Operator == "" {
		t.Errorf("a sentence is missing: %+v", e)
	}
	for _, s := range []string{e.Person, e.Operator, e.Error()} {
		for _, not := range []string{"://", testKey, strings.TrimPrefix(url, "http://"), "base64,", "own words", "<html", "\n"} {
			if strings.Contains(s, not) {
				t.Errorf("%q holds %q", s, not)
			}
		}
		if len(s) > 600 {
			t.Errorf("%d bytes: %q", len(s), s)
		}
	}
	if strings.Contains(e.Person, "status") || strings.Contains(e.Person, "seer") {
		t.Errorf("a person is told %q", e.Person)
	}
}

func TestOnlyPictureIsTheBadOne(t *testing.T) {
	p, _ := picture(t, 1, 4, 4)
	f := newFake(t, reply(400, nil, oneError("Invalid image.", invalid, "", "invalid_image")))
	_, err := f.model(t, APIChat).Generate(t.Context(), agent.ModelRequest{Pictures: []agent.ShownPicture{p}}, nil)
	if e := modelErr(t, err); e.Picture != 0 {
		t.Errorf("picture %d", e.Picture)
	}
}

// TestNoPictureNoModality: without a picture in the request, no error can be about one.
func TestNoPictureNoModality(t *testing.T) {
	f := newFake(t, reply(400, nil, oneError("seer-1 is not a multimodal model; invalid image", invalid, "", "")))
	m := f.model(t, APIChat, func(c *Config) { c.Vision = agent.VisionUnknown })
	_, err := m.Generate(t.Context(), ask, nil)
	if e := modelErr(t, err); e.Kind != agent.ErrBadRequest {
		t.Errorf("kind %s", e.Kind)
	}
	if c := m.Info(t.Context()).Capability; c.Vision != agent.VisionUnknown {
		t.Errorf("capability %+v", c)
	}
}

func TestNetworkErrors(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	refused := closed.URL
	closed.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // hangs up on everybody
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyN(io.Discard, c, 1)
			c.Close()
		}
	}()
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = nil
	tlsServer.StartTLS()
	defer tlsServer.Close()
	for name, c := range map[string]struct{ url, says string }{
		"refused":   {refused, "nobody listens"},
		"hung up":   {"http://" + l.Addr().String(), "connection"},
		"untrusted": {tlsServer.URL, "certificate is not trusted"},
		"no name":   {"http://no-such-host.invalid", "does not resolve"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := New(Config{BaseURL: c.url + "/v1", Model: "m", APIKey: testKey})
			if err != nil {
				t.Fatal(err)
			}
			_, err = m.Generate(t.Context(), ask, nil)
			e := modelErr(t, err)
			if e.Kind != agent.ErrUnavailable || e.Permanent || !strings.Contains(e.Operator, c.says) {
				t.Errorf("got %+v", e)
			}
			wellBehaved(t, e, c.url)
			m.cfg.HTTPClient.CloseIdleConnections()
		})
	}
}

func TestUnsendable(t *testing.T) {
	for name, r := range map[string]agent.ModelRequest{
		"role":   {Messages: []agent.Message{{Role: "system", Text: "x"}}},
		"schema": {Tools: []agent.ToolSpec{{Name: "x", Parameters: []byte(`[1]`)}}},
	} {
		for _, api := range bothAPIs {
			f := newFake(t, textIn(api, "x"))
			_, err := f.model(t, api).Generate(t.Context(), r, nil)
			if e := modelErr(t, err); e.Kind != agent.ErrBadRequest || !e.Permanent || f.count() != 0 {
				t.Errorf("%s, %s: %+v", api, name, e)
			}
		}
	}
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "-3": 0, "": 0, "soon": 0, "NaN": 0, "Inf": maxRetryAfter, "1e300": maxRetryAfter,
		"Mon, 30 Nov 2026 12:00:30 GMT": 30 * time.Second, "Mon, 30 Nov 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {in}}, now); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\t c":                                   "a b c",
		"see https://x.example/?k=v now":             "see (address) now",
		"got data:image/png;base64,iVBORw0KGgo= !":   "got (data) !",
		"key sk-abc123***xyz9 is wrong":              "key (key) is wrong",
		"Bearer abc.def is wrong":                    "(key) is wrong",
		"raw " + strings.Repeat("QUJD", 20) + " end": "raw (data) end",
		"\u202eevil\u200b":                           "evil",
		"my secret!!":                                "my (key)",
	} {
		if got := oneLine(in, "secret!!"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := oneLine(strings.Repeat("é ", 1000), ""); len(got) > maxOperatorMessage+3 {
		t.Errorf("%d bytes", len(got))
	}
}
