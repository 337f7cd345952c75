package openai

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxOperatorMessage = 200

var (
	dataURL    = regexp.MustCompile(`(?i)data:[a-z0-9.+-]*/?[a-z0-9.+-]*[;,][^\s"'<>]*`)
	anyURL     = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>]*`)
	looksKey   = regexp.MustCompile(`(?i)\b(?:sk|pk|rk|key|gsk|xai|api)[-_][\w*.-]{6,}|\bAIza[\w*-]{6,}|\bbearer\s+\S+`)
	longOpaque = regexp.MustCompile(`[A-Za-z0-9+/=_*-]{40,}`)
)

// oneLine makes a provider's words fit for an operator's line: no data, no address, no key, no long run of anything
// opaque, one line, bounded.
func oneLine(s, key string) string {
	s = s[:min(len(s), 16<<10)]
	s = strings.ToValidUTF8(s, "?")
	if key != "" {
		s = strings.ReplaceAll(s, key, "(key)")
	}
	s = dataURL.ReplaceAllString(s, "(data)")
	s = anyURL.ReplaceAllString(s, "(address)")
	s = looksKey.ReplaceAllString(s, "(key)")
	s = longOpaque.ReplaceAllString(s, "(data)")
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r): // bidi marks and the like
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxOperatorMessage {
		cut := maxOperatorMessage
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "..."
	}
	return s
}

// token keeps a code, type or param: short, printable, no secret in it.
func token(s, key string) string {
	s = oneLine(s, key)
	return s[:min(len(s), 80)]
}
