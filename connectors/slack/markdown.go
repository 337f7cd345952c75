package slack

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxBlock is what Slack takes in the markdown blocks of one message.
const maxBlock = 12_000

// split cuts a reply into parts of at most max characters. It cuts between
// paragraphs, else lines, else words; a fence that is open at a cut is closed
// before it and opened again, with its language, after it.
func split(text string, max int) []string {
	var parts []string
	var part strings.Builder
	size := 0
	fence, open := "", "" // the fence's marks, and its whole first line
	put := func(s string) { part.WriteString(s); size += utf8.RuneCountInString(s) }
	flush := func() {
		s := part.String()
		if fence != "" {
			s = strings.TrimSuffix(s, "\n") + "\n" + fence
		}
		if strings.TrimSpace(s) != "" && !(open != "" && s == open+"\n"+fence) {
			parts = append(parts, strings.TrimRight(s, "\n"))
		}
		part.Reset()
		size = 0
		if fence != "" {
			put(open + "\n")
		}
	}
	room := func() int {
		if fence != "" {
			return max - size - utf8.RuneCountInString(fence) - 1
		}
		return max - size
	}
	for _, line := range strings.SplitAfter(text, "\n") {
		marks := fenceOf(line)
		switch {
		case fence == "" && marks != "":
			if room() < utf8.RuneCountInString(line)+len(marks)+80 && size > 0 {
				flush()
			}
			put(line)
			fence, open = marks, strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(open) > 200 { // no language is that long
				open = marks
			}
			continue
		case fence != "" && strings.HasPrefix(marks, fence) && strings.TrimSpace(line) == marks:
			fence, open = "", ""
			put(line)
			continue
		}
		for line != "" {
			if n := utf8.RuneCountInString(line); n <= room() {
				put(line)
				break
			}
			if size > 0 && utf8.RuneCountInString(line) <= max/2 || room() < 1 {
				flush()
				continue
			}
			head := cut(line, room())
			put(head)
			line = line[len(head):]
			flush()
		}
		if fence == "" && strings.TrimSpace(line) == "" && size > max*3/4 {
			flush() // a paragraph's end this late is the best place there is
		}
	}
	flush()
	return parts
}

// longestFence keeps a fence that is opened again from filling a part.
const longestFence = 20

var fenceForm = regexp.MustCompile("^ {0,3}(```+|~~~+)")

func fenceOf(line string) string {
	m := fenceForm.FindStringSubmatch(line)
	if m == nil || len(m[1]) > longestFence {
		return ""
	}
	return m[1]
}

// cut takes at most n characters, up to the last space in the second half.
func cut(s string, n int) string {
	end, count, space := len(s), 0, 0
	for i, r := range s {
		if count == n {
			end = i
			break
		}
		if count++; r == ' ' && count > n/2 {
			space = i + 1
		}
	}
	if end < len(s) && space > 0 {
		return s[:space]
	}
	return s[:end]
}

const joiner = "\u2060" // of no width, and no place to break at

var (
	code    = regexp.MustCompile("(?s)```.*?(?:```|$)|`[^`\n]*`")
	control = regexp.MustCompile(`<([!@#])`)
	callAll = regexp.MustCompile(`(?i)@(channel|here|everyone)\b`)
)

// inert takes the force of mentions: nobody is called by what a model wrote.
// In code, where escapes would be seen, a joiner breaks them, in case Slack
// takes less for code than this does.
func inert(text string) string {
	var b strings.Builder
	plain := func(s string) string {
		return callAll.ReplaceAllString(control.ReplaceAllString(s, "&lt;$1"), "@"+joiner+"$1")
	}
	at := 0
	for _, span := range code.FindAllStringIndex(text, -1) {
		b.WriteString(plain(text[at:span[0]]))
		c := control.ReplaceAllString(text[span[0]:span[1]], "<"+joiner+"$1")
		b.WriteString(callAll.ReplaceAllString(c, "@"+joiner+"$1"))
		at = span[1]
	}
	b.WriteString(plain(text[at:]))
	return b.String()
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// notice is the plain text that Slack shows where it shows no blocks.
func notice(part string) string {
	return callAll.ReplaceAllString(escapes.Replace(cut(part, 3000)), "@"+joiner+"$1")
}
