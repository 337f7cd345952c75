package discord

import (
	"strings"
	"unicode"
)

// oneLine makes foreign words fit into a log line or a name.
func oneLine(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if n == limit {
			b.WriteString("…")
			break
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			r = ' '
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimSpace(b.String())
}

const fence = "```"

// units is a text's length as Discord counts it at most: UTF-16 code units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// split cuts a text into parts of at most limit units, between lines where it
// can. A code fence that a cut falls into is closed and opened again, and one
// that the text leaves open is closed: Discord takes it for none.
func split(text string, limit int) []string {
	parts, open := cutUp(text, limit)
	if units(text) <= limit && !open {
		return []string{text}
	}
	return parts
}

// cutUp also says whether the text leaves a fence open.
func cutUp(text string, limit int) (parts []string, open bool) {
	var part strings.Builder
	size := 0    // of part
	opened := "" // the line that opened the fence we are in
	since := 0   // where in part its code begins
	flush := func() {
		s := part.String()
		if opened != "" {
			s += fence
		}
		if trimmed := strings.TrimSuffix(s, "\n"); strings.TrimSpace(trimmed) != "" && trimmed != opened+"\n"+fence {
			parts = append(parts, trimmed)
		}
		part.Reset()
		size = 0
		if opened != "" {
			part.WriteString(opened + "\n")
			size, since = units(opened)+1, part.Len()
		}
	}
	rest := text // after the line
	for line := range strings.Lines(text) {
		rest = rest[len(line):]
		bare := strings.TrimSpace(line)
		isFence := strings.HasPrefix(bare, fence) && !strings.Contains(strings.TrimLeft(bare, "`"), "`")
		// Room is kept for the fence that a flush may have to add.
		room := limit - len(fence) - 1
		if size > 0 && size+units(line) > room && (opened == "" || size > units(opened)+1) {
			if isFence && opened != "" {
				// The fence ends right here: its own line closes it.
				part.WriteString(fence)
				opened = ""
				s := part.String()
				part.Reset()
				size = 0
				parts = append(parts, s)
				bare, isFence = strings.TrimLeft(bare, "`"), false
				if line = bare; line == "" {
					continue
				}
				line += "\n" // what follows its marks is said as Discord shows it
			} else {
				flush()
			}
		}
		for size+units(line) > room {
			head := cut(line, room-size)
			part.WriteString(head + "\n")
			line = line[len(head):]
			flush()
		}
		part.WriteString(line)
		size += units(line)
		// Discord takes a fence anywhere in a line, if there is one to end it.
		within := !isFence && strings.Count(bare, fence)%2 == 1 && (opened != "" || strings.Contains(rest, fence))
		switch {
		case !isFence && !within:
		case opened != "":
			opened = ""
		case within:
			opened, since = fence, part.Len()
			if info := bare[strings.LastIndex(bare, fence)+len(fence):]; !strings.ContainsAny(info, " `") {
				opened += cut(info, 20)
			}
		default:
			opened, since = fence+cut(strings.TrimLeft(bare, "`"), 20), part.Len()
		}
	}
	last := strings.TrimSuffix(part.String(), "\n")
	switch {
	case strings.TrimSpace(last) == "" || last == opened && len(parts) > 0:
	case opened != "" && len(last) > since:
		return append(parts, last+"\n"+fence), true
	default:
		parts = append(parts, last)
	}
	return parts, false
}

// cut is the longest beginning of at most n units, at a space if one is near.
func cut(s string, n int) string {
	size, end, space := 0, 0, 0
	for i, r := range s {
		size++
		if r > 0xFFFF {
			size++
		}
		if size > n {
			break
		}
		end = i + len(string(r))
		if r == ' ' {
			space = end
		}
	}
	if end < len(s) && space > end/2 {
		return s[:space]
	}
	return s[:end]
}
