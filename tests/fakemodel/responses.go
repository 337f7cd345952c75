package fakemodel

import (
	"encoding/json"
	"fmt"
	"io"
)

func (r *Request) readResponses(raw []byte) error {
	var b struct {
		Model        string          `json:"model"`
		Instructions string          `json:"instructions"`
		Stream       bool            `json:"stream"`
		Input        json.RawMessage `json:"input"`
		Tools        []struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return fmt.Errorf("body is no JSON: %w", err)
	}
	if b.Model == "" || !b.Stream {
		return fmt.Errorf("model or stream missing")
	}
	r.Model, r.System = b.Model, b.Instructions
	var items []struct {
		Type      string          `json:"type"`
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"`
		Output    json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(b.Input, &items); err != nil {
		return fmt.Errorf("input is no list of items")
	}
	pending := map[string]bool{}
	for _, it := range items {
		switch it.Type {
		case "message", "":
			text, err := r.content(it.Content)
			if err != nil {
				return err
			}
			if it.Role == "system" || it.Role == "developer" {
				r.System += text
				continue
			}
			r.Messages = append(r.Messages, Message{Role: it.Role, Text: text})
		case "function_call":
			pending[it.CallID] = true
			r.Messages = append(r.Messages, Message{Role: "assistant", Calls: []Call{{ID: it.CallID, Name: it.Name, Arguments: it.Arguments}}})
		case "function_call_output":
			if !pending[it.CallID] {
				return fmt.Errorf("output answers no call")
			}
			delete(pending, it.CallID)
			text, err := r.content(it.Output)
			if err != nil {
				return err
			}
			r.Messages = append(r.Messages, Message{Role: "tool", Text: text, CallID: it.CallID})
		case "reasoning":
		default:
			return fmt.Errorf("unknown item type %q", it.Type)
		}
	}
	if len(pending) > 0 {
		return fmt.Errorf("%d function calls have no output", len(pending))
	}
	for _, t := range b.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	return nil
}

func streamResponses(w io.Writer, model string, a Reply) {
	seq := 0
	send := func(typ string, v map[string]any) {
		v["type"], v["sequence_number"] = typ, seq
		seq++
		event(w, typ, v)
	}
	resp := map[string]any{"id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": "in_progress", "output": []any{}}
	send("response.created", map[string]any{"response": resp})
	var output []any
	if a.Text != "" {
		i := len(output)
		item := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}
		send("response.output_item.added", map[string]any{"output_index": i, "item": item})
		for _, h := range a.pieces() {
			send("response.output_text.delta", map[string]any{"output_index": i, "content_index": 0, "item_id": "msg_1", "delta": h})
		}
		done := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": a.Text, "annotations": []any{}}}}
		send("response.output_text.done", map[string]any{"output_index": i, "content_index": 0, "item_id": "msg_1", "text": a.Text})
		send("response.output_item.done", map[string]any{"output_index": i, "item": done})
		output = append(output, done)
	}
	for n, c := range a.Calls {
		i := len(output)
		id := fmt.Sprintf("fc_%d", n)
		item := map[string]any{"id": id, "type": "function_call", "status": "in_progress", "call_id": c.ID, "name": c.Name, "arguments": ""}
		send("response.output_item.added", map[string]any{"output_index": i, "item": item})
		for _, h := range halves(c.Arguments) {
			send("response.function_call_arguments.delta", map[string]any{"output_index": i, "item_id": id, "delta": h})
		}
		send("response.function_call_arguments.done", map[string]any{"output_index": i, "item_id": id, "arguments": c.Arguments})
		done := map[string]any{"id": id, "type": "function_call", "status": "completed", "call_id": c.ID, "name": c.Name, "arguments": c.Arguments}
		send("response.output_item.done", map[string]any{"output_index": i, "item": done})
		output = append(output, done)
	}
	final := map[string]any{"id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": "completed", "output": output,
		"usage": map[string]any{"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}}
	send("response.completed", map[string]any{"response": final})
}
