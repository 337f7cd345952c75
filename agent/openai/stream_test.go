package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"sightline/agent"
)

// TestMain fails the run when a goroutine of this package or of a connection outlives it.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leftOver(5 * time.Second); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left over:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

func leftOver(patience time.Duration) string {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		var left []string
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "TestMain") {
				continue
			}
			if strings.Contains(g, "sightline/agent/openai") || strings.Contains(g, "net/http.(*persistConn)") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

var ask = agent.ModelRequest{Messages: []agent.Message{{Role: agent.RoleUser, Text: "q"}}}

func TestAnswerAndDrafts(t *testing.T) {
	for _, api := range bothAPIs {
		t.Run(api, func(t *testing.T) {
			f := newFake(t, textIn(api, "It ", "says ", "\"hällo\""))
			var drafts []string
			res, err := f.model(t, api).Generate(t.Context(), ask, func(s string) { drafts = append(drafts, s) })
			if err != nil {
				t.Fatal(err)
			}
			want := agent.ModelResponse{
				Message: agent.Message{Role: agent.RoleAssistant, Text: `It says "hällo"`},
				Usage:   agent.Usage{InputTokens: 11, OutputTokens: 7}, Model: "seer-1-real", Finish: "stop",
			}
			if !reflect.DeepEqual(res, want) {
				t.Errorf("got  %+v\nwant %+v", res, want)
			}
			if want := []string{"It ", "It says ", `It says "hällo"`}; !reflect.DeepEqual(drafts, want) {
				t.Errorf("drafts %q", drafts)
			}
			if got := f.last(t).header.Get("Authorization"); got != "Bearer "+testKey {
				t.Errorf("authorization %q", got)
			}
		})
	}
}

func TestEnvironmentIsNotRead(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-environment")
	t.Setenv("OPENAI_ORG_ID", "org-of-the-environment")
	f := newFake(t, chatText("ok"))
	if _, err := f.model(t, APIChat, func(c *Config) { c.APIKey = "" }).Generate(t.Context(), ask, nil); err != nil {
		t.Fatal(err)
	}
	for name := range f.last(t).header {
		if v := f.last(t).header.Get(name); strings.Contains(v, "environment") {
			t.Errorf("header %s: %q", name, v)
		}
	}
}

func TestChatToolCalls(t *testing.T) {
	call := func(id, name, args string) agent.ToolCall { return agent.ToolCall{ID: id, Name: name, Arguments: args} }
	tc := func(s string) string { return chatChunk(`{"tool_calls":[`+s+`]}`, "") }
	end := []string{chatChunk(`{}`, "tool_calls"), "[DONE]"}
	tests := map[string]struct {
		lines []string
		want  []agent.ToolCall // an ID of "*" is any that is not empty
	}{
		"by the rules": {[]string{
			tc(`{"index":0,"id":"call_1","type":"function","function":{"name":"view_images","arguments":""}}`),
			tc(`{"index":0,"function":{"arguments":"{\"ids\":"}}`),
			tc(`{"index":1,"id":"call_2","type":"function","function":{"name":"list_documents","arguments":""}}`),
			tc(`{"index":0,"function":{"arguments":"[\"a\"]}"}}`),
			tc(`{"index":1,"function":{"arguments":"{}"}}`),
		}, []agent.ToolCall{call("call_1", "view_images", `{"ids":["a"]}`), call("call_2", "list_documents", `{}`)}},
		"whole calls in one chunk": {[]string{
			tc(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}},{"index":1,"id":"b","function":{"name":"y","arguments":"{}"}}`),
		}, []agent.ToolCall{call("a", "x", `{"n":1}`), call("b", "y", `{}`)}},
		"no index": {[]string{
			tc(`{"id":"a","function":{"name":"x","arguments":"{\"n\""}}`), tc(`{"function":{"arguments":":1}"}}`),
			tc(`{"id":"b","function":{"name":"y","arguments":"{}"}}`),
		}, []agent.ToolCall{call("a", "x", `{"n":1}`), call("b", "y", `{}`)}},
		"neither index nor id": {[]string{
			tc(`{"function":{"name":"x","arguments":"{\"n\":1}"}}`), tc(`{"function":{"name":"x","arguments":"{\"n\":2}"}}`),
		}, []agent.ToolCall{call("*", "x", `{"n":1}`), call("*", "x", `{"n":2}`)}},
		"several calls under index 0": {[]string{
			tc(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`), tc(`{"index":0,"id":"b","function":{"name":"x","arguments":"{\"n\":2}"}}`),
		}, []agent.ToolCall{call("a", "x", `{}`), call("b", "x", `{"n":2}`)}},
		"name repeated": {[]string{
			tc(`{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}`), tc(`{"index":0,"id":"a","function":{"name":"x","arguments":"}"}}`),
		}, []agent.ToolCall{call("a", "x", `{}`)}},
		"arguments as an object": {[]string{
			tc(`{"index":0,"id":"a","function":{"name":"x","arguments":{"n":1}}}`),
		}, []agent.ToolCall{call("a", "x", `{"n":1}`)}},
		"null arguments stay none": {[]string{
			tc(`{"index":0,"id":"a","function":{"name":"x","arguments":null}}`),
		}, []agent.ToolCall{call("a", "x", "")}},
		"no JSON stays as it is": {[]string{
			tc(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":"}}`),
		}, []agent.ToolCall{call("a", "x", `{"n":`)}},
		"an id that the transcript has": {[]string{
			tc(`{"index":0,"id":"call_0","function":{"name":"x","arguments":"{}"}}`),
		}, []agent.ToolCall{call("*", "x", `{}`)}},
	}
	past := ask
	past.Messages = []agent.Message{
		{Role: agent.RoleUser, Text: "q"},
		{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "call_0", Name: "x", Arguments: "{}"}}},
		{Role: agent.RoleTool, CallID: "call_0", Text: "{}"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, sse(append(tt.lines, end...)...))
			res, err := f.model(t, APIChat).Generate(t.Context(), past, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.Finish != "tool_calls" || len(res.Message.Calls) != len(tt.want) {
				t.Fatalf("finish %q, calls %q", res.Finish, res.Message.Calls)
			}
			ids := map[string]bool{"": true, "call_0": true}
			for i, got := range res.Message.Calls {
				if ids[got.ID] {
					t.Errorf("call %d: the id %q is taken", i, got.ID)
				}
				ids[got.ID] = true
				if tt.want[i].ID == "*" {
					got.ID = "*"
				}
				if got != tt.want[i] {
					t.Errorf("call %d: %q, want %q", i, got, tt.want[i])
				}
			}
		})
	}
}

func TestNamelessCallIsNoAnswer(t *testing.T) {
	f := newFake(t, sse(chatChunk(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}`, "tool_calls"), "[DONE]"))
	_, err := f.model(t, APIChat).Generate(t.Context(), ask, nil)
	if e := modelErr(t, err); e.Kind != agent.ErrUnavailable || e.Permanent {
		t.Errorf("got %+v", e)
	}
}

func TestResponsesToolCalls(t *testing.T) {
	completed := `{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","model":"m","output":[]}}`
	tests := map[string][]string{
		"finished items": {
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"fc","type":"function_call","status":"in_progress","call_id":"c1","name":"x","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc","delta":"{\"n\":"}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc","delta":"1}"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"id":"fc","type":"function_call","status":"completed","call_id":"c1","name":"x","arguments":"{\"n\":1}"}}`, completed,
		},
		"deltas only": {
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"fc","type":"function_call","status":"in_progress","call_id":"c1","name":"x","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc","delta":"{\"n\":1}"}`, completed,
		},
		"output only": {
			`{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","model":"m","output":[{"id":"fc","type":"function_call","status":"completed","call_id":"c1","name":"x","arguments":"{\"n\":1}"}]}}`,
		},
	}
	for name, lines := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, sse(lines...))
			res, err := f.model(t, APIResponses).Generate(t.Context(), ask, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := []agent.ToolCall{{ID: "c1", Name: "x", Arguments: `{"n":1}`}}; !reflect.DeepEqual(res.Message.Calls, want) || res.Finish != "tool_calls" {
				t.Errorf("calls %q, finish %q", res.Message.Calls, res.Finish)
			}
		})
	}
}

// TestTolerance feeds what compatible servers really send.
func TestTolerance(t *testing.T) {
	whole := `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`
	wholeResponse := `{"id":"r","object":"response","status":"completed","model":"m","error":null,"output":[{"id":"m","type":"message","role":"assistant","content":[{"type":"output_text","text":"hello","annotations":[]}]}]}`
	nullError := strings.Replace(chatChunk(`{"content":"hello"}`, ""), `"model"`, `"error":null,"model"`, 1)
	tests := map[string]struct {
		api    string
		answer http.HandlerFunc
	}{
		"no stream":                {APIChat, reply(200, nil, whole)},
		"no stream, responses":     {APIResponses, reply(200, nil, wholeResponse)},
		"comments before":          {APIChat, sse(": OPENROUTER PROCESSING\n", chatChunk(`{"content":"hello"}`, "stop"), "[DONE]")},
		"null error in each chunk": {APIChat, sse(nullError, chatChunk(`{}`, "stop"), "[DONE]")},
		"no [DONE]":                {APIChat, sse(chatChunk(`{"content":"hello"}`, "stop"))},
		"no finish reason":         {APIChat, sse(chatChunk(`{"content":"hello"}`, ""), "[DONE]")},
		"content in parts":         {APIChat, sse(chatChunk(`{"content":[{"type":"thinking","text":"hm"},{"type":"text","text":"hello"}]}`, "stop"), "[DONE]")},
		"ids that change":          {APIChat, sse(chatChunk(`{"content":"hel"}`, ""), strings.Replace(chatChunk(`{"content":"lo"}`, "stop"), "c1", "c2", 1), "[DONE]")},
		"a stream called JSON": {APIChat, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", chatChunk(`{"content":"hello"}`, "stop"))
		}},
		"a byte order mark":       {APIChat, reply(200, nil, "\xef\xbb\xbf\n "+whole)},
		"a refusal is an answer":  {APIChat, sse(chatChunk(`{"refusal":"hello"}`, "stop"), "[DONE]")},
		"responses without items": {APIResponses, sse(`{"type":"response.output_text.delta","output_index":0,"delta":"hello"}`, `{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`)},
		"event names only":        {APIResponses, sse("event: response.output_text.delta", `{"output_index":0,"delta":"hello"}`, "event: response.completed", `{"response":{"id":"r","status":"completed","output":[]}}`)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, tt.answer)
			res, err := f.model(t, tt.api).Generate(t.Context(), ask, nil)
			if err != nil || res.Message.Text != "hello" || res.Finish != "stop" {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
}

func TestLength(t *testing.T) {
	for api, answer := range map[string]http.HandlerFunc{
		APIChat:      sse(chatChunk(`{"content":"cut"}`, "length"), "[DONE]"),
		APIResponses: sse(`{"type":"response.output_text.delta","output_index":0,"delta":"cut"}`, `{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}}`),
	} {
		res, err := newFake(t, answer).model(t, api).Generate(t.Context(), ask, nil)
		if err != nil || res.Finish != "length" || res.Message.Text != "cut" {
			t.Errorf("%s: %+v, %v", api, res, err)
		}
	}
}

func TestCancelMidStream(t *testing.T) {
	for _, api := range bothAPIs {
		t.Run(api, func(t *testing.T) {
			gone := make(chan struct{})
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				line := chatChunk(`{"content":"so far"}`, "")
				if api == APIResponses {
					line = `{"type":"response.output_text.delta","output_index":0,"delta":"so far"}`
				}
				fmt.Fprintf(w, "data: %s\n\n", line)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				close(gone)
			})
			ctx, cancel := context.WithCancel(t.Context())
			_, err := f.model(t, api).Generate(ctx, ask, func(string) { cancel() })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			<-gone // the provider noticed: the connection was given up
		})
	}
}

func TestCancelledBefore(t *testing.T) {
	f := newFake(t, chatText("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.model(t, APIChat).Generate(ctx, ask, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if f.count() != 0 {
		t.Error("the provider was asked")
	}
}

func TestSlowServers(t *testing.T) {
	hang := func(r *http.Request) { <-r.Context().Done() }
	tests := map[string]struct {
		answer http.HandlerFunc
		change func(*Config)
		says   string
	}{
		"never begins": {func(_ http.ResponseWriter, r *http.Request) { hang(r) },
			func(c *Config) { c.Timeout = 50 * time.Millisecond }, "took too long"},
		"falls silent": {func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "data: %s\n\n", chatChunk(`{"content":"a"}`, ""))
			w.(http.Flusher).Flush()
			hang(r)
		}, func(c *Config) { c.IdleTimeout = 50 * time.Millisecond }, "stopped in the middle"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, tt.answer)
			_, err := f.model(t, APIChat, tt.change).Generate(t.Context(), ask, nil)
			e := modelErr(t, err)
			if e.Kind != agent.ErrUnavailable || e.Permanent || !strings.Contains(e.Operator, tt.says) {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// TestSilenceAfterTheAnswer: a server that never closes its stream can't take back a complete answer.
func TestSilenceAfterTheAnswer(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "data: %s\n\n", chatChunk(`{"content":"a"}`, "stop"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	res, err := f.model(t, APIChat, func(c *Config) { c.IdleTimeout = 50 * time.Millisecond }).Generate(t.Context(), ask, nil)
	if err != nil || res.Message.Text != "a" {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestEndlessAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 32 MiB")
	}
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		line := "data: " + chatChunk(`{"content":"`+strings.Repeat("a", 1<<20)+`"}`, "") + "\n\n"
		for range 40 {
			if _, err := fmt.Fprint(w, line); err != nil {
				return
			}
		}
	})
	_, err := f.model(t, APIChat).Generate(t.Context(), ask, nil)
	if e := modelErr(t, err); e.Kind != agent.ErrUnavailable || !strings.Contains(e.Operator, "larger") {
		t.Errorf("got %+v", e)
	}
}

func TestOneTryOnly(t *testing.T) {
	f := newFake(t, reply(503, nil, `{"error":{"message":"overloaded"}}`))
	if _, err := f.model(t, APIChat).Generate(t.Context(), ask, nil); err == nil {
		t.Fatal("no error")
	}
	if f.count() != 1 {
		t.Errorf("%d requests; Temporal owns retries", f.count())
	}
}

func TestOptionalParameterIsDropped(t *testing.T) {
	for api, p := range map[string]string{APIChat: "stream_options", APIResponses: "include"} {
		f := newFake(t, reply(400, nil, `{"error":{"message":"Unknown parameter: '`+p+`'.","type":"invalid_request_error","param":"`+p+`","code":"unknown_parameter"}}`))
		m := f.model(t, api)
		_, err := m.Generate(t.Context(), ask, nil)
		if e := modelErr(t, err); e.Permanent {
			t.Errorf("%s: permanent, though the next try goes without", api)
		}
		_, err = m.Generate(t.Context(), ask, nil)
		if e := modelErr(t, err); !e.Permanent {
			t.Errorf("%s: refused again without it, and still not permanent", api)
		}
		var body map[string]any
		if json.Unmarshal(f.last(t).body, &body) != nil || body[p] != nil {
			t.Errorf("%s: %s was sent again", api, p)
		}
		if api == APIResponses && body["store"] != false {
			t.Error("store is no longer false")
		}
	}
}

func modelErr(t *testing.T, err error) *agent.ModelError {
	t.Helper()
	var e *agent.ModelError
	if !errors.As(err, &e) {
		t.Fatalf("no ModelError: %v", err)
	}
	return e
}
