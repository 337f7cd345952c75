package openai

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"sightline/agent"
	"sightline/attachments/visual"
)

// tableDate is when the tables below were last held against the providers' pages.
const tableDate = "2026-11-30"

var tableTime = time.Date(2026, time.November, 30, 0, 0, 0, 0, time.UTC)

type provider string

const (
	providerOpenAI     provider = "OpenAI"
	providerAnthropic  provider = "Anthropic"
	providerGemini     provider = "Gemini"
	providerOpenRouter provider = "OpenRouter"
	providerOther      provider = ""
)

// providerOf knows a provider by the host alone: a model's name says nothing of who serves it.
func providerOf(base *url.URL) provider {
	host := strings.ToLower(base.Hostname())
	is := func(domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }
	switch {
	case is("api.openai.com"):
		return providerOpenAI
	case is("api.anthropic.com"):
		return providerAnthropic
	case is("generativelanguage.googleapis.com"):
		return providerGemini
	case is("openrouter.ai"):
		return providerOpenRouter
	}
	return providerOther
}

// sight is one row of the vision table: what a provider's own pages say of models with such names.
type sight struct {
	provider provider
	models   *regexp.Regexp
	vision   agent.Vision
}

// sights is read from the top; a model that no row names is unknown. Names are anchored: a fine-tune or a new family
// with a familiar beginning must not inherit what was never said of it.
var sights = []sight{
	{providerOpenAI, regexp.MustCompile(`^gpt-6(\.1)?-(sol|terra|luna|astra)$`), agent.VisionYes},
	{providerOpenAI, regexp.MustCompile(`^gpt-5\.6-(sol|terra|luna)$`), agent.VisionYes},
	{providerOpenAI, regexp.MustCompile(`^gpt-5(\.[1-5])?(-mini|-nano|-pro|-chat-latest|-codex|-codex-mini|-codex-max)?` + snapshot), agent.VisionYes},
	{providerOpenAI, regexp.MustCompile(`^gpt-4\.1(-mini|-nano)?` + snapshot), agent.VisionYes},
	{providerOpenAI, regexp.MustCompile(`^(gpt-4o|chatgpt-4o-latest)(-mini)?` + snapshot), agent.VisionYes},
	{providerOpenAI, regexp.MustCompile(`^gpt-4-turbo` + snapshot), agent.VisionYes},
	{providerOpenAI, regexp.MustCompile(`^(o1|o1-pro|o3|o3-pro|o4-mini)` + snapshot), agent.VisionYes},
	{providerOpenAI, regexp.MustCompile(`^(o1-mini|o1-preview|o3-mini)` + snapshot), agent.VisionNo},
	{providerOpenAI, regexp.MustCompile(`^gpt-4(-32k|-turbo-preview|-1106-preview|-0125-preview|-0613|-0314)?$`), agent.VisionNo},
	{providerOpenAI, regexp.MustCompile(`^gpt-3\.5-turbo`), agent.VisionNo},
	{providerAnthropic, regexp.MustCompile(`^claude-(instant|2)`), agent.VisionNo},
	{providerAnthropic, regexp.MustCompile(`^claude-(3|opus|sonnet|haiku)(-|$)`), agent.VisionYes},
	{providerGemini, regexp.MustCompile(`^(models/)?gemini-[0-9.]+-(pro|flash|flash-lite)(-latest|-preview)?$`), agent.VisionYes},
	{providerGemini, regexp.MustCompile(`^(models/)?gemini-(pro|flash|flash-lite)-latest$`), agent.VisionYes},
}

const snapshot = `(-20\d\d-\d\d-\d\d)?$`

// tabled returns what the table says of the model at that provider.
func tabled(p provider, model string) agent.Capability {
	for _, s := range sights {
		if s.provider == p && s.models.MatchString(model) {
			return agent.Capability{Vision: s.vision, Source: "table", Detail: string(p) + "'s model pages, " + tableDate, At: tableTime}
		}
	}
	return agent.Capability{Source: "none", Detail: "nobody has said whether this model sees"}
}

const (
	mb  = 1_000_000
	mib = 1 << 20
)

// raw is how many bytes of picture fit into n bytes of base64.
func raw(n int64) int64 { return n / 4 * 3 }

// limitsOf returns the limits of the provider, or those of the local server that Probe found.
//
//   - OpenAI's guide allows 20 MB a picture (older models), 50 MB and 500 pictures a request; later models allow more.
//   - Anthropic counts base64, and a request of 32 MB must also hold the transcript: 2 MB are left for it.
//   - Behind OpenRouter a Claude may be served by a host that takes 5 MB of base64 a picture only.
//   - Gemini's inline requests were bounded by 20 MB before they were by 100: the smaller one is kept.
//   - llama.cpp decodes with stb_image, which knows no WebP; Ollama may run the same code.
//   - Nothing is known of other servers: PNG and JPEG are what every one of them reads.
func limitsOf(p provider, s server, model string) agent.Limits {
	all := []visual.Format{visual.PNG, visual.JPEG, visual.WebP, visual.GIF}
	noGIF := all[:3:3]
	plain := all[:2:2]
	src := func(of string) string { return of + ", table of " + tableDate }
	anthropic := agent.Limits{
		Formats: all, MaxPictures: 100, MaxEdge: 8000, ManyPictures: 20, ManyMaxEdge: 2000,
		MaxImageBytes: raw(10 * mb), MaxBytes: raw(30 * mb), Source: src("Anthropic"),
	}
	gemini := agent.Limits{Formats: noGIF, MaxImageBytes: raw(18 * mb), MaxBytes: raw(18 * mb), Source: src("Gemini")}
	switch p {
	case providerOpenAI:
		return agent.Limits{Formats: all, MaxPictures: 500, MaxImageBytes: 20 * mb, MaxBytes: raw(48 * mb), Source: src("OpenAI")}
	case providerAnthropic:
		return anthropic
	case providerGemini:
		return gemini
	case providerOpenRouter:
		switch {
		case strings.HasPrefix(model, "anthropic/"):
			anthropic.MaxImageBytes = raw(5 * mb)
			anthropic.Source = src("Anthropic through OpenRouter")
			return anthropic
		case strings.HasPrefix(model, "google/"):
			gemini.Source = src("Gemini through OpenRouter")
			return gemini
		}
		return agent.Limits{Formats: noGIF, MaxImageBytes: raw(5 * mb), MaxBytes: raw(18 * mb), Source: src("OpenRouter, the smallest of its providers")}
	}
	switch s {
	case serverOllama, serverLlamaCpp, serverLMStudio:
		return agent.Limits{Formats: plain, MaxBytes: raw(64 * mib), Source: src(string(s))}
	}
	return agent.Limits{Formats: plain, MaxImageBytes: raw(5 * mb), MaxBytes: raw(18 * mb), Source: src("unknown server")}
}
