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
	parts, _ := splitOpen(text, max)
	return parts
}

// splitOpen also says what the last part got to close a fence that the text
// leaves open.
func splitOpen(text string, max int) (parts []string, added string) {
	var part strings.Builder
	size, bare := 0, 0 // of part, and of one that nothing was put into
	var in fence
	put := func(s string) { part.WriteString(s); size += utf8.RuneCountInString(s) }
	flush := func() {
		s := part.String()
		added = ""
		if in.open() {
			added = "\n" + in.closer
			s = strings.TrimSuffix(s, "\n") + added
		}
		if strings.TrimSpace(s) != "" && !(in.open() && s == in.opener+"\n"+in.closer) {
			parts = append(parts, strings.TrimRight(s, "\n"))
		}
		part.Reset()
		size = 0
		if in.open() {
			put(in.opener + "\n")
			in = in.cut()
		}
		bare = size
	}
	room := func() int {
		if in.open() {
			return max - size - utf8.RuneCountInString(in.closer) - 1
		}
		return max - size
	}
	for _, line := range strings.SplitAfter(text, "\n") {
		if !in.open() {
			if f, ok := begun(line); ok {
				if room() < utf8.RuneCountInString(line)+len(f.closer)+80 && size > 0 {
					flush()
				}
				if utf8.RuneCountInString(line) <= max/2 {
					put(line)
					in = f
					continue
				}
			}
		} else if in.ends(line) {
			put(in.line(line))
			in = fence{}
			continue
		}
		line = in.line(line)
		for line != "" {
			if n := utf8.RuneCountInString(line); n <= room() {
				put(line)
				break
			}
			if size > bare && utf8.RuneCountInString(line) <= max/2 || room() < 1 {
				moved := in.moved
				flush()
				if !moved { // else it has lost its list's indentation already
					line = in.line(line)
				}
				continue
			}
			head := cut(line, room())
			put(head)
			line = line[len(head):]
			flush()
		}
		if !in.open() && strings.TrimSpace(line) == "" && size > max*3/4 {
			flush() // a paragraph's end this late is the best place there is
		}
	}
	flush()
	if len(parts) == 0 && strings.TrimSpace(text) != "" {
		return []string{cut(text, max)}, "" // a fence with nothing in it
	}
	return parts, added
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
	span    = regexp.MustCompile("(?s)```.*?```|``[^\n]*?``|`[^`\n]*`")
	control = regexp.MustCompile(`<([!@#])`)
	// What Slack reads as a call, and nothing else that code may have: an HTML
	// comment that is copied from here has to stay one.
	controlInCode = regexp.MustCompile(`<(![A-Za-z]+[\^|>]|@[UWB][A-Z0-9]+[|>]|#[CDG][A-Z0-9]+[|>])`)
	callAll       = regexp.MustCompile(`(?i)@(channel|here|everyone)\b`)
)

// inert takes the force of mentions: nobody is called by what a model wrote.
// In code, where escapes would be seen, a joiner breaks them, in case Slack
// takes less for code than this does.
func inert(text string) string {
	var b, run strings.Builder
	quiet := func(s, as string, form *regexp.Regexp) {
		b.WriteString(callAll.ReplaceAllString(form.ReplaceAllString(s, as), "@"+joiner+"$1"))
	}
	plain := func() {
		s, at := run.String(), 0
		for _, c := range span.FindAllStringIndex(s, -1) {
			quiet(s[at:c[0]], "&lt;$1", control)
			quiet(s[c[0]:c[1]], "<"+joiner+"$1", controlInCode)
			at = c[1]
		}
		quiet(s[at:], "&lt;$1", control)
		run.Reset()
	}
	var in fence
	for line := range strings.Lines(text) {
		if !in.open() {
			f, ok := begun(line)
			if !ok {
				run.WriteString(line)
				continue
			}
			plain()
			in = f
		} else if in.ends(line) {
			in = fence{}
		}
		quiet(line, "<"+joiner+"$1", controlInCode)
	}
	plain()
	return b.String()
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// notice is the plain text that Slack shows where it shows no blocks.
func notice(part string) string { return literal(cut(part, 3000)) }

// literal is a text that Slack shows as it is.
func literal(s string) string {
	return callAll.ReplaceAllString(escapes.Replace(s), "@"+joiner+"$1")
}
