package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"sightline/agent"
)

// chatStream accumulates the chunks of a chat completion, by hand: the SDK's accumulator rejects what compatible servers
// really send (chunks whose id changes, calls without an index).
type chatStream struct {
	draft    func(string)
	text     strings.Builder
	refusal  strings.Builder
	calls    toolCalls
	finish   string
	model    string
	usage    agent.Usage
	finished bool
}

func (chatAPI) stream(_ *Model, draft func(string)) accumulator { return &chatStream{draft: draft} }

func (s *chatStream) event(kind string, data []byte) (bool, error) {
	if kind == doneEvent {
		s.finished = true
		return true, nil
	}
	if e := streamError(kind, data); e != nil {
		return true, e
	}
	var chunk sdk.ChatCompletionChunk
	if json.Unmarshal(data, &chunk) != nil {
		return true, errNoAI
	}
	s.identify(chunk.Model, chunk.Usage)
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue // one was asked for
		}
		d := choice.Delta
		s.write(content(d.Content, d.JSON.Content.Raw()), content(d.Refusal, d.JSON.Refusal.Raw()))
		for _, tc := range d.ToolCalls {
			index := -1
			if tc.JSON.Index.Valid() {
				index = int(tc.Index)
			}
			s.calls.delta(index, tc.ID, tc.Function.Name, arguments(tc.Function.Arguments, tc.Function.JSON.Arguments.Raw()))
		}
		if choice.FinishReason != "" {
			s.finish = choice.FinishReason
			s.finished = true
		}
	}
	return false, nil
}

func (s *chatStream) complete() bool { return s.finished }

func (s *chatStream) whole(data []byte) error {
	if e := streamError("", data); e != nil {
		return e
	}
	var answer sdk.ChatCompletion
	if json.Unmarshal(data, &answer) != nil || len(answer.Choices) == 0 {
		return errNoAI
	}
	s.identify(answer.Model, answer.Usage)
	msg := answer.Choices[0].Message
	s.write(content(msg.Content, msg.JSON.Content.Raw()), content(msg.Refusal, msg.JSON.Refusal.Raw()))
	for i, tc := range msg.ToolCalls {
		f := tc.Function
		s.calls.delta(i, tc.ID, f.Name, arguments(f.Arguments, f.JSON.Arguments.Raw()))
	}
	s.finish = answer.Choices[0].FinishReason
	s.finished = true
	return nil
}

func (s *chatStream) identify(model string, usage sdk.CompletionUsage) {
	keep(&s.model, model)
	if usage.PromptTokens > 0 || usage.CompletionTokens > 0 {
		s.usage = agent.Usage{InputTokens: usage.PromptTokens, OutputTokens: usage.CompletionTokens}
	}
}

func (s *chatStream) write(text, refusal string) {
	s.refusal.WriteString(refusal)
	if text != "" {
		s.text.WriteString(text)
		s.draft(s.text.String())
	}
}

func (s *chatStream) end() (agent.ModelResponse, error) {
	if !s.finished {
		return agent.ModelResponse{}, errCut
	}
	text := s.text.String()
	if text == "" {
		text = s.refusal.String() // the model's own "no" is its answer
	}
	calls, err := s.calls.all()
	if err != nil {
		return agent.ModelResponse{}, err
	}
	return finished(agent.ModelResponse{
		Message: agent.Message{Text: text, Calls: calls},
		Usage:   s.usage, Model: s.model, Finish: s.finish,
	})
}

// finished settles how an answer ended, for both APIs.
func finished(res agent.ModelResponse) (agent.ModelResponse, error) {
	calls := len(res.Message.Calls) > 0
	switch {
	case calls && res.Finish == "content_filter":
		// The filter cut in: what the last call was meant to be is not known.
		return agent.ModelResponse{}, &empty{res.Finish}
	case res.Finish == "length", res.Finish == "content_filter":
	case calls:
		res.Finish = "tool_calls" // some servers say "stop"
	default:
		res.Finish = "stop"
	}
	if strings.TrimSpace(res.Message.Text) == "" && !calls {
		return agent.ModelResponse{}, &empty{res.Finish}
	}
	return res, nil
}

// content is a message's text: a string, or a list of parts as Mistral sends it.
func content(s, raw string) string {
	if !strings.HasPrefix(raw, "[") {
		if strings.HasPrefix(raw, `"`) {
			return s
		}
		return ""
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal([]byte(raw), &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// arguments are a string by the API's rules; servers that send the object itself are taken at their word.
func arguments(s, raw string) string {
	if strings.HasPrefix(raw, "{") {
		return raw
	}
	if strings.HasPrefix(raw, `"`) {
		return s
	}
	return ""
}

// streamError recognises an error in place of an answer: {"error":{...}}, or an event named error.
func streamError(kind string, data []byte) error {
	var envelope struct {
		Type  string          `json:"type"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &envelope) != nil {
		if kind == "error" {
			return parseError(0, nil, data)
		}
		return nil
	}
	if kind == "error" || envelope.Type == "error" || (present(envelope.Error) && envelope.Type == "") {
		e := parseError(0, nil, data)
		if e.typ == "error" {
			e.typ = ""
		}
		return e
	}
	return nil
}
