package openai

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"sightline/agent"
)

// responsesStream accumulates the events of a response. The finished items are what counts; deltas feed the draft, and
// fill in for servers that send no finished items.
type responsesStream struct {
	key      string
	draft    func(string)
	text     map[int64]*strings.Builder // by output index
	args     map[int64]*strings.Builder
	items    map[int64]responses.ResponseOutputItemUnion
	order    []int64 // output indexes that have text, as they came
	final    *responses.Response
	finish   string
	finished bool
}

func (responsesAPI) stream(m *Model, draft func(string)) accumulator {
	return &responsesStream{
		key: m.key, draft: draft,
		text:  map[int64]*strings.Builder{},
		args:  map[int64]*strings.Builder{},
		items: map[int64]responses.ResponseOutputItemUnion{},
	}
}

func (s *responsesStream) event(kind string, data []byte) (bool, error) {
	if kind == doneEvent {
		return true, nil
	}
	if e := streamError(kind, data); e != nil {
		return true, e
	}
	var e responses.ResponseStreamEventUnion
	if json.Unmarshal(data, &e) != nil {
		return true, errNoAI
	}
	keep(&e.Type, kind)
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		if s.text[e.OutputIndex] == nil {
			s.text[e.OutputIndex] = &strings.Builder{}
			s.order = append(s.order, e.OutputIndex)
		}
		s.text[e.OutputIndex].WriteString(e.Delta)
		s.draft(s.soFar())
	case "response.function_call_arguments.delta":
		if s.args[e.OutputIndex] == nil {
			s.args[e.OutputIndex] = &strings.Builder{}
		}
		s.args[e.OutputIndex].WriteString(e.Delta)
	case "response.output_item.added":
		if _, ok := s.items[e.OutputIndex]; !ok {
			s.items[e.OutputIndex] = e.Item
		}
	case "response.output_item.done":
		s.items[e.OutputIndex] = e.Item
	case "response.completed", "response.incomplete", "response.failed":
		return true, s.last(e.Type, e.Response)
	}
	return false, nil
}

func (s *responsesStream) complete() bool { return s.finished }

func (s *responsesStream) whole(data []byte) error {
	if e := streamError("", data); e != nil {
		return e
	}
	var res responses.Response
	if json.Unmarshal(data, &res) != nil || (len(res.Output) == 0 && res.Status == "") {
		// An error document of this API has a null "error" where all is well, so it is looked at again here.
		if e := parseError(0, nil, data); !e.nothing {
			return e
		}
		return errNoAI
	}
	return s.last("response."+string(res.Status), res)
}

// last takes the last event.
func (s *responsesStream) last(kind string, res responses.Response) error {
	switch {
	case kind == "response.failed" || res.Status == "failed":
		e := &providerError{
			code: string(res.Error.Code), typ: res.Error.Type, param: res.Error.Param, message: res.Error.Message,
			retryAfter: retryAfterText(res.Error.Message),
		}
		e.nothing = e.message == "" && e.code == ""
		return e
	case kind == "response.incomplete" || res.Status == "incomplete":
		s.finish = "length"
		if res.IncompleteDetails.Reason == "content_filter" {
			s.finish = "content_filter"
		}
	case res.Status == "cancelled":
		return &providerError{code: "cancelled", message: "the response was cancelled"}
	}
	s.final, s.finished = &res, true
	return nil
}

// soFar is the text of all items, as far as it came.
func (s *responsesStream) soFar() string {
	if len(s.order) == 1 {
		return s.text[s.order[0]].String()
	}
	texts := make([]string, 0, len(s.order))
	for _, i := range s.order {
		texts = append(texts, s.text[i].String())
	}
	return strings.Join(texts, textSeparator)
}

func (s *responsesStream) end() (agent.ModelResponse, error) {
	if !s.finished {
		return agent.ModelResponse{}, errCut
	}
	items := s.items
	if len(items) == 0 {
		for i, item := range s.final.Output {
			items[int64(i)] = item
		}
	}
	for i := range s.text { // text that no item was announced for
		if _, ok := items[i]; !ok {
			items[i] = responses.ResponseOutputItemUnion{Type: "message"}
		}
	}
	msg := agent.Message{}
	o := opaque{Key: s.key}
	sealed := false
	for _, i := range slices.Sorted(maps.Keys(items)) {
		item := items[i]
		switch item.Type {
		case "reasoning":
			if item.EncryptedContent != "" {
				o.Items = append(o.Items, opaqueItem{Reasoning: item.ID, Sealed: item.EncryptedContent})
				sealed = true
			}
		case "message":
			text := itemText(item)
			if text == "" && s.text[i] != nil {
				text = s.text[i].String()
			}
			if text == "" {
				continue
			}
			if msg.Text != "" {
				msg.Text += textSeparator
			}
			msg.Text += text
			o.Items = append(o.Items, opaqueItem{Text: len(text), Phase: string(item.Phase)})
			sealed = sealed || item.Phase != ""
		case "function_call":
			args := item.AsFunctionCall().Arguments
			if args == "" && s.args[i] != nil {
				args = s.args[i].String()
			}
			if item.Name == "" {
				return agent.ModelResponse{}, &providerError{code: "nameless_tool_call", message: errNamelessCall.Error()}
			}
			msg.Calls = append(msg.Calls, agent.ToolCall{ID: item.CallID, Name: item.Name, Arguments: args})
			o.Items = append(o.Items, opaqueItem{Call: item.CallID})
		}
	}
	if sealed {
		msg.Opaque, _ = json.Marshal(o) // strings and numbers always marshal
	}
	return finished(agent.ModelResponse{
		Message: msg,
		Usage:   agent.Usage{InputTokens: s.final.Usage.InputTokens, OutputTokens: s.final.Usage.OutputTokens},
		Model:   s.final.Model, Finish: s.finish,
	})
}

func itemText(item responses.ResponseOutputItemUnion) string {
	var b strings.Builder
	for _, c := range item.Content {
		switch c.Type {
		case "output_text":
			b.WriteString(c.Text)
		case "refusal":
			b.WriteString(c.Refusal)
		}
	}
	return b.String()
}
