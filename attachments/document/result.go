package document

import (
	"fmt"
	"strconv"
	"strings"
)

// Result is a window of a document. Text ends at whole lines, and is everything that From and To say.
type Result struct {
	Kind     Kind
	Encoding string // of plain text and HTML, as detected
	Text     string

	Unit     Unit
	From, To int // in units; 0 where the document is empty
	Total    int // units of the document, or rows of the sheet
	// Lines and LinesTotal count within the one page, slide or chapter that was not returned whole.
	Lines      Span
	LinesTotal int

	Sheet  string   // the sheet that was read
	Sheets []string // all of them, in order

	// End says where Text stands in the document, and how to go on: "end of document" or "lines 1-200 of 5,400; continue
	// with lines=201-400".
	End string
	// Next is what End names; nil at the end.
	Next *Window
	// Notes say what was left out or changed, for person and model.
	Notes []string
	// Pictures are the pages of this window that hold no text and can be looked at with RenderPage.
	Pictures []int
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// count writes a number with thousands separators.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// spanText writes "line 3" or "lines 3-7".
func spanText(u Unit, from, to int) string {
	if from == to {
		return fmt.Sprintf("%s %s", u, count(from))
	}
	return fmt.Sprintf("%ss %s-%s", u, count(from), count(to))
}

// follow returns the span after from-to, of the same length, within total.
func follow(from, to, total int) Span { return Span{From: to + 1, To: min(total, to+1+to-from)} }

// finish states the end from what was read.
func (r *Result) finish() {
	var where string
	switch {
	case r.Total == 0:
		r.End = "end of document: it is empty"
		return
	case r.LinesTotal > 0:
		where = fmt.Sprintf("%s of %s, %s of %s", spanText(r.Unit, r.From, r.To), count(r.Total), spanText(Line, r.Lines.From, r.Lines.To), count(r.LinesTotal))
		if r.Lines.To < r.LinesTotal {
			r.Next = &Window{Pages: Span{From: r.From, To: r.To}, Lines: follow(r.Lines.From, r.Lines.To, r.LinesTotal)}
		}
	default:
		where = fmt.Sprintf("%s of %s", spanText(r.Unit, r.From, r.To), count(r.Total))
	}
	if r.Next == nil && r.To < r.Total {
		next := follow(r.From, r.To, r.Total)
		if r.Unit == Line {
			r.Next = &Window{Lines: next}
		} else {
			r.Next = &Window{Pages: next}
		}
	}
	if r.Next == nil {
		r.End = "end of document: " + where
		return
	}
	r.End = where + "; continue with " + r.Next.Arguments()
}

// bullets are those of the symbol fonts of office programs, which have no meaning outside of these.
var bullets = strings.NewReplacer("\uf0b7", "•", "\uf0a7", "•", "\uf076", "•", "\uf0d8", "•", "\uf06e", "•", "\uf0fc", "✓")

// clean drops what a line of text has no use for: control characters, and the escape sequences that colour terminals.
func clean(s string) string {
	if strings.Contains(s, "\xef") {
		s = bullets.Replace(s)
	}
	if strings.IndexFunc(s, control) < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '[' {
			j := i + 2
			for j < len(s) && s[j] >= 0x20 && s[j] < 0x40 {
				j++
			}
			i = min(j+1, len(s))
			continue
		}
		n := 1
		for i+n < len(s) && s[i+n]&0xc0 == 0x80 {
			n++
		}
		if strings.IndexFunc(s[i:i+n], control) < 0 {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func control(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f && r <= 0x9f }
