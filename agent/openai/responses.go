package openai

import (
	"encoding/json"
	"fmt"
	"regexp"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"sightline/agent"
)

// responsesAPI is the Responses API, used without any state on the provider's side.
type responsesAPI struct{}

func (responsesAPI) path() string { return "responses" }

// noReasoning are OpenAI's models that refuse a request for encrypted reasoning.
var noReasoning = regexp.MustCompile(`^(gpt-3|gpt-4|chatgpt-|.*-chat-latest$)`)

func (responsesAPI) request(m *Model, r agent.ModelRequest, p placeholders) ([]byte, position, error) {
	params := responses.ResponseNewParams{Model: m.cfg.Model, Store: sdk.Bool(false)}
	if r.Instructions != "" {
		params.Instructions = sdk.String(r.Instructions)
	}
	if !noReasoning.MatchString(m.cfg.Model) && !m.known.isDropped("include") {
		params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	items := responses.ResponseInputParam{}
	for i, msg := range r.Messages {
		switch msg.Role {
		case agent.RoleUser:
			items = append(items, inputMessage(msg.Text, responses.EasyInputMessageRoleUser))
		case agent.RoleTool:
			out := responses.ResponseInputItemFunctionCallOutputParam{CallID: sdk.String(msg.CallID)}
			out.Output.OfString = sdk.String(msg.Text)
			items = append(items, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &out})
		case agent.RoleAssistant:
			items = append(items, responsesAssistant(msg, m.key)...)
		default:
			return nil, position{}, fmt.Errorf("message %d has the unknown role %q", i, msg.Role)
		}
	}
	at := position{list: "input", message: len(items), pictures: len(r.Pictures)}
	if len(r.Pictures) > 0 {
		var parts responses.ResponseInputMessageContentListParam
		for i, pic := range r.Pictures {
			parts = append(parts,
				responses.ResponseInputContentUnionParam{OfInputText: &responses.ResponseInputTextParam{Text: pic.Label}},
				responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
					ImageURL: sdk.String(p.dataURL(i)), Detail: responses.ResponseInputImageDetail(m.cfg.Detail)}},
			)
		}
		items = append(items, inputMessage(parts, responses.EasyInputMessageRoleUser))
	}
	params.Input.OfInputItemList = items
	for _, t := range r.Tools {
		schema, err := parameters(t)
		if err != nil {
			return nil, at, err
		}
		// Strict would demand schemas without optional parameters; it is on unless it is said to be off.
		f := responses.FunctionToolParam{Name: t.Name, Parameters: schema, Strict: sdk.Bool(false)}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		params.Tools = append(params.Tools, responses.ToolUnionParam{OfFunction: &f})
	}
	params.SetExtraFields(map[string]any{"stream": true})
	b, err := params.MarshalJSON()
	return b, at, err
}

// opaque is what goes into agent.Message.Opaque: the order of an answer's items, and the reasoning among them, sealed by
// the provider. It repeats neither text nor arguments.
type opaque struct {
	Key   string       `json:"key"` // another model can't open the seal
	Items []opaqueItem `json:"items"`
}

// opaqueItem is one of: a reasoning item, the next Text bytes of the message's text, the call with this ID.
type opaqueItem struct {
	Reasoning string `json:"reasoning,omitempty"` // its id
	Sealed    string `json:"sealed,omitempty"`
	Text      int    `json:"text,omitempty"`
	Phase     string `json:"phase,omitempty"`
	Call      string `json:"call,omitempty"`
}

const textSeparator = "\n\n" // between the texts of an answer with several messages

// responsesAssistant rebuilds the items of an answer. Where the opaque part is missing, of another model or no longer fits
// the message, text and calls go alone.
func responsesAssistant(msg agent.Message, key string) responses.ResponseInputParam {
	if items, ok := replay(msg, key); ok {
		return items
	}
	var items responses.ResponseInputParam
	if msg.Text != "" {
		items = append(items, assistantText(msg.Text, ""))
	}
	for _, c := range msg.Calls {
		items = append(items, responses.ResponseInputItemParamOfFunctionCall(c.Arguments, c.ID, c.Name))
	}
	return items
}

func replay(msg agent.Message, key string) (responses.ResponseInputParam, bool) {
	var o opaque
	if len(msg.Opaque) == 0 || json.Unmarshal(msg.Opaque, &o) != nil || o.Key != key {
		return nil, false
	}
	var items responses.ResponseInputParam
	text, calls := msg.Text, msg.Calls
	for _, it := range o.Items {
		switch {
		case it.Reasoning != "":
			items = append(items, responses.ResponseInputItemUnionParam{OfReasoning: &responses.ResponseReasoningItemParam{
				ID: it.Reasoning, Summary: []responses.ResponseReasoningItemSummaryParam{}, EncryptedContent: param.NewOpt(it.Sealed),
			}})
		case it.Call != "":
			if len(calls) == 0 || calls[0].ID != it.Call {
				return nil, false
			}
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(calls[0].Arguments, calls[0].ID, calls[0].Name))
			calls = calls[1:]
		default:
			if it.Text <= 0 || it.Text > len(text) {
				return nil, false
			}
			items = append(items, assistantText(text[:it.Text], it.Phase))
			text = text[it.Text:]
			if len(text) >= len(textSeparator) && text[:len(textSeparator)] == textSeparator {
				text = text[len(textSeparator):]
			}
		}
	}
	return items, text == "" && len(calls) == 0
}

func assistantText(text, phase string) responses.ResponseInputItemUnionParam {
	item := inputMessage(text, responses.EasyInputMessageRoleAssistant)
	item.OfMessage.Phase = responses.EasyInputMessagePhase(phase)
	return item
}

// inputMessage says its type, which the API lets one leave out and some servers then trip over.
func inputMessage[T string | responses.ResponseInputMessageContentListParam](content T, role responses.EasyInputMessageRole) responses.ResponseInputItemUnionParam {
	item := responses.ResponseInputItemParamOfMessage(content, role)
	item.OfMessage.Type = responses.EasyInputMessageTypeMessage
	return item
}
