package slack

import (
	"regexp"
	"strings"
)

// A fence that is opened again must not fill a part.
const (
	longestFence = 20
	longestLead  = 40
	longestInfo  = 200 // no language is that long
)

// fenceForm is a line that begins or ends a block of code: what it is within
// (a list, a quote), its marks, and what follows.
var fenceForm = regexp.MustCompile("^((?:[ \t>]|(?:[-*+]|[0-9]{1,9}[.)])[ \t])*)(```+|~~~+)(.*)$")

// fence is a block of code that is open. The zero fence is none.
type fence struct {
	lead  string
	marks string
	// What ends it, and what opens it again where it was cut: outside of its
	// list, which is not there any more.
	closer, opener string
	indent         int // that its lines had in the list
	moved          bool
}

func (f fence) open() bool { return f.marks != "" }

// begun reads a line that opens a block.
func begun(line string) (f fence, ok bool) {
	line = strings.TrimRight(line, "\r\n")
	m := fenceForm.FindStringSubmatch(line)
	if m == nil || len(m[1]) > longestLead || len(m[2]) > longestFence {
		return f, false
	}
	lead, marks, info := m[1], m[2], m[3]
	if marks[0] == '`' && strings.Contains(info, "`") {
		return f, false // it ends in its own line
	}
	if len(info) > longestInfo {
		info = ""
	}
	f = fence{lead: lead, marks: marks, closer: blank(lead) + marks, opener: marks + info, indent: len(lead)}
	if n := strings.LastIndexByte(lead, '>'); n >= 0 {
		f.opener, f.indent = blank(lead[:n+1])+" "+marks+info, 0
	}
	return f, true
}

// blank is what the lines below the first of a list have before their words.
func blank(lead string) string {
	return strings.Map(func(r rune) rune {
		if r == '>' || r == '\t' {
			return r
		}
		return ' '
	}, lead)
}

// ends reports whether a line ends the block.
func (f fence) ends(line string) bool {
	m := fenceForm.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
	return m != nil && strings.HasPrefix(m[2], f.marks) && strings.TrimSpace(m[3]) == "" && strings.Trim(m[1], " \t>") == "" &&
		strings.Contains(m[1], ">") == strings.Contains(f.lead, ">") && len(m[1]) <= len(f.lead)+3
}

// cut is the block as it goes on in another part.
func (f fence) cut() fence {
	f.moved = true
	f.closer = f.opener[:strings.Index(f.opener, f.marks)+len(f.marks)]
	return f
}

// line is a line of a block that may have left its list.
func (f fence) line(s string) string {
	for n := 0; f.moved && n < f.indent && s != "" && (s[0] == ' ' || s[0] == '\t'); n++ {
		s = s[1:]
	}
	return s
}
