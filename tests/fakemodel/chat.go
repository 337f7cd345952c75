package fakemodel

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"
)

type chatCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (r *Request) readChat(raw []byte) error {
	var b struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role       string          `json:"role"`
			Content    json.RawMessage `json:"content"`
			ToolCalls  []chatCall      `json:"tool_calls"`
			ToolCallID string          `json:"tool_call_id"`
		} `json:"messages"`
		Tools []struct {
			Type     string `json:"type"`
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return fmt.Errorf("body is no JSON: %w", err)
	}
	if b.Model == "" || len(b.Messages) == 0 || !b.Stream {
		return fmt.Errorf("model, messages or stream missing")
	}
	r.Model = b.Model
	pending := map[string]bool{}
	for _, m := range b.Messages {
		text, err := r.content(m.Content)
		if err != nil {
			return err
		}
		switch m.Role {
		case "system", "developer":
			r.System += text
			continue
		case "user":
		case "assistant":
			for _, c := range m.ToolCalls {
				pending[c.ID] = true
			}
		case "tool":
			// A provider refuses an answer to a call that was not made.
			if !pending[m.ToolCallID] {
				return fmt.Errorf("tool message answers no call")
			}
			delete(pending, m.ToolCallID)
		default:
			return fmt.Errorf("unknown role %q", m.Role)
		}
		out := Message{Role: m.Role, Text: text, CallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			out.Calls = append(out.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		r.Messages = append(r.Messages, out)
	}
	if len(pending) > 0 {
		return fmt.Errorf("%d tool calls have no answer", len(pending))
	}
	for _, t := range b.Tools {
		if t.Type != "function" || !json.Valid(t.Function.Parameters) {
			return fmt.Errorf("a tool is no function with a schema")
		}
		r.Tools = append(r.Tools, t.Function.Name)
	}
	return nil
}

func event(w io.Writer, name string, v any) {
	b, _ := json.Marshal(v)
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", b)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

// halves splits a text so that every answer is streamed in two deltas.
func halves(s string) []string {
	r := []rune(s)
	return []string{string(r[:len(r)/2]), string(r[len(r)/2:])}
}

// pieces are the deltas of the text, a word at a time where the model is slow.
func (a Reply) pieces() iter.Seq2[int, string] {
	list := halves(a.Text)
	if a.Pace > 0 {
		list = strings.SplitAfter(a.Text, " ")
	}
	return func(yield func(int, string) bool) {
		for i, p := range list {
			if i > 0 && a.Pace > 0 {
				select {
				case <-time.After(a.Pace):
				case <-a.gone:
					return
				}
			}
			if a.Pace > 0 && a.Before != nil {
				a.Before(i)
			}
			if !yield(i, p) {
				return
			}
		}
	}
}

func streamChat(w io.Writer, model string, a Reply) {
	chunk := func(delta map[string]any, finish any, usage any) {
		m := map[string]any{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
		}
		if usage != nil {
			m["usage"], m["choices"] = usage, []any{}
		}
		event(w, "", m)
	}
	chunk(map[string]any{"role": "assistant", "content": ""}, nil, nil)
	if a.Text != "" {
		for _, h := range a.pieces() {
			chunk(map[string]any{"content": h}, nil, nil)
		}
	}
	finish := "stop"
	for i, c := range a.Calls {
		finish = "tool_calls"
		head := chatCall{Index: &i, ID: c.ID, Type: "function"}
		head.Function.Name = c.Name
		chunk(map[string]any{"tool_calls": []any{head}}, nil, nil)
		for _, h := range halves(c.Arguments) {
			d := chatCall{Index: &i}
			d.Function.Arguments = h
			chunk(map[string]any{"tool_calls": []any{d}}, nil, nil)
		}
	}
	chunk(map[string]any{}, finish, nil)
	chunk(nil, nil, map[string]any{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})
	fmt.Fprint(w, "data: [DONE]\n\n")
}
