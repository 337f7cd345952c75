package openai

import (
	"regexp"
	"strconv"
	"strings"

	"sightline/agent"
)

// position is where the pictures of a request stand, as the provider numbers its parts.
type position struct {
	list     string // "input" or "messages"
	message  int
	pictures int
}

// part is the part of the picture message that holds picture i: its label comes right before it.
func (at position) part(i int) int { return 2*i + 1 }

var (
	// namesModality: the model or its server sees no pictures at all. Each pattern is a sentence that a server was seen
	// to write; "unsupported image" alone is not among them, because it is said of formats too.
	namesModality = []*regexp.Regexp{
		regexp.MustCompile(`image inputs? (?:is|are) not (?:currently )?supported`), // llama.cpp, with status 500
		regexp.MustCompile(`is not a (?:multi-?modal|vision) model`),                // vLLM
		regexp.MustCompile(`(?:image content|image_url'?|image input) (?:is|are) only supported by certain models`),
		regexp.MustCompile(`(?:no endpoints found that|does(?: not|n't)|do(?: not|n't)|not|cannot|can't) support (?:the )?(?:image|images|vision|visual|multi-?modal)(?: inputs?| content| modality)?(?:[\s.,;:!"')]*$|[.,;:!"')]| (?:for|by|with|in|on|and|or|when|because)\b)`),
		regexp.MustCompile(`(?:vision|images?|multi-?modal inputs?) (?:is|are) not supported (?:for|by|with|in) (?:this|the|your)?\s?\S*\s?model`),
		regexp.MustCompile(`missing data required for image input`), // Ollama
		regexp.MustCompile("unknown variant [`'\"]?image_url"),      // DeepSeek
		regexp.MustCompile(`at most 0 images?\b|at most 0 image\(s\)`),
		regexp.MustCompile(`(?:mmproj|multi-?modal projector) (?:is )?(?:not|missing|required)|provide the mmproj`),
	}
	tooManyPictures = regexp.MustCompile(`too many images|at most [1-9]\d* image|number of images|images? per (?:request|prompt) exceed`)
	badPicture      = regexp.MustCompile(`unsupported image|invalid image|image (?:format|type)|media[_ ]type|could not process image|unable to process (?:the )?(?:input )?image|` +
		`failed to (?:decode|load|process|parse|read) (?:the )?(?:image|bitmap)|cannot identify image|can't decode image|not a valid image|image (?:is|was) (?:too (?:large|small)|corrupt|invalid|empty|truncated)|` +
		`image (?:exceeds|dimensions?|size|file size)|invalid base64|base64[- ]encoded data url|truncated image|image data`)
	tooLong = regexp.MustCompile(`context[_ ](?:length|window|size)|maximum context|(?:prompt|input|request|messages?) (?:is|are|was)? ?too (?:long|large)|too many (?:input )?tokens|` +
		`exceeds? (?:the )?(?:available context|maximum (?:number of )?(?:input )?tokens|model'?s? (?:context|max)|token limit)|request body (?:is )?too large|input token count|reduce the length`)
	quota = regexp.MustCompile(`insufficient[_ ](?:quota|credits?|balance|funds)|exceeded your current quota|billing|out of credits|credit balance`)
)

var pictureCodes = map[string]bool{
	"invalid_image": true, "invalid_image_format": true, "invalid_base64_image": true, "invalid_image_url": true,
	"image_too_large": true, "image_too_small": true, "image_parse_error": true, "invalid_image_mode": true,
	"image_file_too_large": true, "unsupported_image_media_type": true, "empty_image_file": true,
	"failed_to_download_image": true, "image_file_not_found": true, "unsupported_image_format": true,
	"sanitizer_server_error": true, // OpenAI, of a picture that its sanitizer can't read
}

var guardCodes = map[string]bool{
	"content_filter": true, "content_policy_violation": true, "image_content_policy_violation": true, "refusal": true,
	"responsibleaipolicyviolation": true, "invalid_prompt": true, "bio_policy": true, "misalignment_policy_violation": true,
}

// classify says what kind of failure e is. Order matters: what names the pictures comes before what names their size,
// and both before the status, because servers disagree about statuses more than about words.
func classify(e *providerError, at position) (kind agent.ErrorKind, permanent bool, picture int) {
	code, typ := strings.ToLower(e.code), strings.ToLower(e.typ)
	said := strings.ToLower(e.message + "\n" + e.inner)
	status := e.status
	if n, err := strconv.Atoi(e.code); err == nil && n >= 400 && n <= 599 && (status == 0 || status == 200) {
		status = n // OpenRouter's code within a stream
	}
	limited := status == 429 || code == "rate_limit_exceeded" || typ == "rate_limit_error" || typ == "rate_limit_exceeded" || typ == "resource_exhausted"
	refused := status == 401 || status == 402 || status == 403 || limited

	if at.pictures > 0 && !refused {
		switch {
		case matchesAny(namesModality, said):
			return agent.ErrNoVision, true, -1
		case tooManyPictures.MatchString(said):
			return agent.ErrTooLong, true, -1
		case pictureCodes[code] || pictureCodes[typ] || ((status < 500 || status == 0) && badPicture.MatchString(said)):
			return agent.ErrBadPicture, true, namedPicture(e, at)
		}
	}
	switch {
	case guardCodes[code] || guardCodes[typ] || e.moderated:
		return agent.ErrContentGuard, true, -1
	case code == "context_length_exceeded" || typ == "context_length_exceeded" || typ == "exceed_context_size_error" || code == "string_above_max_length":
		return agent.ErrTooLong, true, -1
	case status == 402 || code == "insufficient_quota" || typ == "insufficient_quota" || (limited && quota.MatchString(said)):
		return agent.ErrRateLimited, true, -1
	case limited && strings.Contains(said, "request too large"): // larger than a whole minute's tokens: waiting never helps
		return agent.ErrTooLong, true, -1
	case limited:
		return agent.ErrRateLimited, false, -1
	case status == 401 || status == 403 || code == "invalid_api_key" || typ == "authentication_error" || typ == "permission_error":
		return agent.ErrAuth, true, -1
	case status == 413 || (status != 404 && status < 501 && !e.html && tooLong.MatchString(said)):
		return agent.ErrTooLong, true, -1
	case status == 501:
		return agent.ErrBadRequest, true, -1
	case status == 408 || status == 409 || status == 425 || status >= 500:
		return agent.ErrUnavailable, false, -1
	case status >= 300:
		return agent.ErrBadRequest, true, -1
	case code == "model_not_found" || typ == "invalid_request_error":
		return agent.ErrBadRequest, true, -1
	}
	// Within a stream, with a word that nobody has seen yet: the next try may well succeed.
	return agent.ErrUnavailable, false, -1
}

func matchesAny(patterns []*regexp.Regexp, s string) bool {
	for _, p := range patterns {
		if p.MatchString(s) {
			return true
		}
	}
	return false
}

// input[3].content[1].image_url, messages.[4].content.[3], messages.2.content.1.image.source.base64
var partPath = regexp.MustCompile(`\b(input|messages)\W{1,3}(\d{1,6})\W{1,3}content\W{1,3}(\d{1,6})`)

// namedPicture is the index of the picture that the error names, or -1. A number that does not fit the request as it was
// sent (a gateway may have merged messages) names nothing: quarantining the wrong picture is worse than none.
func namedPicture(e *providerError, at position) int {
	if at.pictures == 1 {
		return 0
	}
	for _, s := range []string{e.param, e.message} {
		match := partPath.FindStringSubmatch(s)
		if match == nil || match[1] != at.list {
			continue
		}
		message, _ := strconv.Atoi(match[2])
		part, _ := strconv.Atoi(match[3])
		if message != at.message {
			continue
		}
		for i := range at.pictures {
			if at.part(i) == part {
				return i
			}
		}
	}
	return -1
}
