package web

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxName = 100

// oneLine makes s inert where names go: one line, no control or direction
// characters, no square brackets (they close a marker in a prompt), at most
// max characters. It may return "".
func oneLine(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '[':
			return '('
		case r == ']':
			return ')'
		case unicode.IsSpace(r): // line and paragraph separators too
			return ' '
		case r == utf8.RuneError, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > max {
		s = strings.TrimSpace(string(r[:max]))
	}
	return s
}

// fileName is a posted file's name as it is kept: the last element of what
// may be a path, shortened before its extension.
func fileName(s string) string {
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	s = oneLine(s, utf8.RuneCountInString(s))
	if r := []rune(s); len(r) > maxName {
		ext := []rune(path.Ext(s))
		if len(ext) > 10 {
			ext = nil
		}
		s = strings.TrimSpace(string(r[:maxName-len(ext)-1])) + "…" + string(ext)
	}
	if strings.Trim(s, ". ") == "" {
		return "file"
	}
	return s
}
