package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"sightline/agent"
)

// server is a kind of local server, known by the look-up it answered.
type server string

const (
	serverUnknown  server = ""
	serverOllama   server = "Ollama"
	serverLlamaCpp server = "llama.cpp"
	serverLMStudio server = "LM Studio"
)

// finding is what one look-up said. The parsers below return the zero value for anything that is not exactly the answer
// they know: these are foreign bytes, and a guess here would show a picture to a blind model.
type finding struct {
	server server
	vision agent.Vision
	detail string
}

func seen(yes bool) agent.Vision {
	if yes {
		return agent.VisionYes
	}
	return agent.VisionNo
}

// parseModelList reads a list of models in OpenRouter's form, which some gateways share:
// {"data":[{"id":..., "canonical_slug":..., "architecture":{"input_modalities":["text","image"]}}]}.
func parseModelList(b []byte, model string) finding {
	var list struct {
		Data []struct {
			ID            string `json:"id"`
			CanonicalSlug string `json:"canonical_slug"`
			Architecture  struct {
				InputModalities []string `json:"input_modalities"`
			} `json:"architecture"`
		} `json:"data"`
	}
	if json.Unmarshal(b, &list) != nil {
		return finding{}
	}
	// OpenRouter lists "x" and "x:free" but not its routing suffixes, such as "x:nitro".
	names := []string{model}
	if i := strings.LastIndexByte(model, ':'); i > 0 {
		names = append(names, model[:i])
	}
	for _, name := range names {
		for _, m := range list.Data {
			if (m.ID == name || m.CanonicalSlug == name) && len(m.Architecture.InputModalities) > 0 {
				return finding{
					vision: seen(slices.Contains(m.Architecture.InputModalities, "image")),
					detail: "input_modalities of the provider's model list",
				}
			}
		}
	}
	return finding{}
}

// parseOllamaShow reads POST /api/show. Servers before 0.6.4 list no capabilities: there the vision layers in model_info
// or a projector say yes, and their absence says nothing.
func parseOllamaShow(b []byte) finding {
	var show struct {
		Capabilities  []string                   `json:"capabilities"`
		ModelInfo     map[string]json.RawMessage `json:"model_info"`
		ProjectorInfo map[string]json.RawMessage `json:"projector_info"`
		Details       *struct {
			Family string `json:"family"`
		} `json:"details"`
	}
	if json.Unmarshal(b, &show) != nil || (show.Details == nil && show.ModelInfo == nil && show.Capabilities == nil) {
		return finding{}
	}
	if len(show.Capabilities) > 0 {
		return finding{serverOllama, seen(slices.Contains(show.Capabilities, "vision")), "capabilities in /api/show"}
	}
	if len(show.ProjectorInfo) > 0 {
		return finding{serverOllama, agent.VisionYes, "projector_info in /api/show"}
	}
	for key := range show.ModelInfo {
		if strings.Contains(key, ".vision.") {
			return finding{serverOllama, agent.VisionYes, "vision layers in /api/show"}
		}
	}
	return finding{server: serverOllama}
}

// parseLlamaProps reads GET /props: {"modalities":{"vision":true,"audio":false}, "default_generation_settings":...}.
func parseLlamaProps(b []byte) finding {
	var props struct {
		Settings   json.RawMessage `json:"default_generation_settings"`
		Modalities *struct {
			Vision *bool `json:"vision"`
		} `json:"modalities"`
	}
	if json.Unmarshal(b, &props) != nil {
		return finding{}
	}
	if props.Modalities != nil && props.Modalities.Vision != nil {
		return finding{serverLlamaCpp, seen(*props.Modalities.Vision), "modalities in /props"}
	}
	if len(props.Settings) > 0 {
		return finding{server: serverLlamaCpp}
	}
	return finding{}
}

// parseLMStudio reads GET /api/v0/models: {"data":[{"id":..., "type":"vlm"|"llm"|"embeddings"}]}.
func parseLMStudio(b []byte, model string) finding {
	var list struct {
		Data []struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		} `json:"data"`
	}
	if json.Unmarshal(b, &list) != nil {
		return finding{}
	}
	found := finding{}
	for _, m := range list.Data {
		switch m.Type {
		case "vlm", "llm", "embeddings":
			found.server = serverLMStudio
			if m.ID == model {
				return finding{serverLMStudio, seen(m.Type == "vlm"), "type in /api/v0/models"}
			}
		}
	}
	return found
}
