package openai

import (
	"encoding/json"
	"fmt"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"sightline/agent"
)

// chatAPI is Chat Completions.
type chatAPI struct{}

func (chatAPI) path() string { return "chat/completions" }

func (chatAPI) request(m *Model, r agent.ModelRequest, p placeholders) ([]byte, position, error) {
	params := sdk.ChatCompletionNewParams{Model: m.cfg.Model}
	if !m.known.isDropped("stream_options") {
		params.StreamOptions.IncludeUsage = sdk.Bool(true)
	}
	if r.Instructions != "" {
		params.Messages = append(params.Messages, sdk.SystemMessage(r.Instructions))
	}
	for i, msg := range r.Messages {
		switch msg.Role {
		case agent.RoleUser:
			params.Messages = append(params.Messages, sdk.UserMessage(msg.Text))
		case agent.RoleTool:
			params.Messages = append(params.Messages, sdk.ToolMessage(msg.Text, msg.CallID))
		case agent.RoleAssistant:
			if msg.Text == "" && len(msg.Calls) == 0 {
				continue // says nothing, and servers refuse it
			}
			params.Messages = append(params.Messages, chatAssistant(msg))
		default:
			return nil, position{}, fmt.Errorf("message %d has the unknown role %q", i, msg.Role)
		}
	}
	at := position{list: "messages", message: len(params.Messages), pictures: len(r.Pictures)}
	if len(r.Pictures) > 0 {
		var parts []sdk.ChatCompletionContentPartUnionParam
		for i, pic := range r.Pictures {
			parts = append(parts, sdk.TextContentPart(pic.Label), sdk.ImageContentPart(
				sdk.ChatCompletionContentPartImageImageURLParam{URL: p.dataURL(i), Detail: m.cfg.Detail}))
		}
		params.Messages = append(params.Messages, sdk.UserMessage(parts))
	}
	for _, t := range r.Tools {
		schema, err := parameters(t)
		if err != nil {
			return nil, at, err
		}
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: schema}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		params.Tools = append(params.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	params.SetExtraFields(map[string]any{"stream": true})
	b, err := params.MarshalJSON()
	return b, at, err
}

func chatAssistant(msg agent.Message) sdk.ChatCompletionMessageParamUnion {
	a := sdk.ChatCompletionAssistantMessageParam{}
	if msg.Text != "" {
		a.Content.OfString = sdk.String(msg.Text)
	}
	for _, c := range msg.Calls {
		a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: pastArguments(c.Arguments)},
			},
		})
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

// pastArguments are the arguments of a call in the transcript. Compatible servers parse them and refuse the whole
// conversation, for good, when a model once wrote no JSON; so what is none is quoted inside of some.
func pastArguments(s string) string {
	if s == "" {
		return "{}"
	}
	if json.Valid([]byte(s)) {
		return s
	}
	quoted, _ := json.Marshal(map[string]string{"not_json": s}) // a map of strings always marshals
	return string(quoted)
}

// parameters is the tool's schema as the SDK wants it.
func parameters(t agent.ToolSpec) (map[string]any, error) {
	if len(t.Parameters) == 0 {
		return map[string]any{"type": "object", "properties": map[string]any{}}, nil
	}
	var schema map[string]any
	if err := json.Unmarshal(t.Parameters, &schema); err != nil || schema == nil {
		return nil, fmt.Errorf("the parameters of tool %q are no JSON object", t.Name)
	}
	return schema, nil
}
