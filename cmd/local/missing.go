package local

import "strings"

// Progress receives one human line at a time about a step that may take long. It may be nil.
type Progress func(format string, args ...any)

func (p Progress) say(format string, args ...any) {
	if p != nil {
		p(format, args...)
	}
}

// MissingError says that a service is not installed, and what a person can do about it.
type MissingError struct {
	// Service is what was looked for.
	Service string
	// Tried are the places that were looked at, each with what was wrong there.
	Tried []string
	// Ways are the ways out, most convenient first.
	Ways []string
}

func (e *MissingError) Error() string {
	var b strings.Builder
	b.WriteString("no " + e.Service + " found")
	if len(e.Tried) > 0 {
		b.WriteString(" (" + strings.Join(e.Tried, "; ") + ")")
	}
	if len(e.Ways) > 0 {
		b.WriteString(": " + strings.Join(e.Ways, ", or "))
	}
	return b.String()
}
