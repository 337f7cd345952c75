package agent

import (
	"fmt"
	"strings"
	"unicode"

	"sightline/connectors/chat"
)

// nameLength bounds a name in a prompt, in runes.
const nameLength = 100

// InertName makes one harmless line of a file or person name: no line breaks,
// no control or bidirectional marks, no brackets that could close a marker,
// no @ that a platform could read as a mention, at most nameLength runes.
func InertName(s string) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		if n == nameLength {
			b.WriteString("…")
			break
		}
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			continue
		case r == '[' || r == '<' || r == '{':
			r = '('
		case r == ']' || r == '>' || r == '}':
			r = ')'
		case r == '@':
			r = '＠'
		case r == '`' || r == '"':
			r = '\''
		}
		if space {
			b.WriteByte(' ')
			n++
			space = false
		}
		b.WriteRune(r)
		n++
	}
	if b.Len() == 0 {
		return "unnamed"
	}
	return b.String()
}

// Markers are the lines under a message that name its files, each kind
// numbered on its own.
func Markers(files []chat.Attachment) string {
	var b strings.Builder
	count := map[string]int{}
	for _, f := range files {
		kind := "File"
		switch t := typeOf(f); {
		case strings.HasPrefix(t, "image/"):
			kind = "Image"
		case t == "application/pdf":
			kind = "PDF"
		}
		count[kind]++
		fmt.Fprintf(&b, "\n[%s #%d: %s (%s)]", kind, count[kind], InertName(f.Name), f.ID)
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// typeOf trusts what was sniffed over what was declared.
func typeOf(a chat.Attachment) string {
	if a.SniffedType != "" {
		return a.SniffedType
	}
	return a.DeclaredType
}
