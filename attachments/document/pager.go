package document

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// pager takes the lines of a document in their order and keeps those of the window, so that no more than the window is
// held. Documents without pages are one unit.
type pager struct {
	res     *Result
	w       Window
	stop    *stop
	maxText int
	maxLine int

	unit    int // the one that is being read, from 1
	line    int // lines in it so far
	buf     strings.Builder
	kept    Span // of the lines in buf
	cut     bool // lines of the window did not fit into buf
	out     strings.Builder
	done    bool
	wrapped bool
}

func newPager(res *Result, w Window, s *stop, l Limits) *pager {
	return &pager{res: res, w: w, stop: s, maxText: l.MaxText, maxLine: max(l.MaxLine, utf8.UTFMax)}
}

// paged is for documents with pages, whose number is known: it refuses a window that begins behind the last.
func (p *pager) paged(total int) error {
	p.res.Total = total
	return p.outside(p.w.Pages.from(), total, p.res.Unit)
}

func (p *pager) outside(from, total int, u Unit) error {
	if from <= max(total, 1) {
		return nil
	}
	return refuse(OutsideDocument, fmt.Sprintf("This %s has %s %s; there is no %s %s.", p.res.Kind.display(), count(total), plural(u, total), u, count(from)),
		"%s: %s %d of %d", p.res.Kind, u, from, total)
}

func plural(u Unit, n int) string {
	if n == 1 {
		return string(u)
	}
	return string(u) + "s"
}

// wants reports whether page n is to be read.
func (p *pager) wants(n int) bool { return !p.done && p.w.Pages.has(n) }

// begin starts page n, whose heading is said if it is returned.
func (p *pager) begin(n int) {
	p.unit, p.line, p.kept, p.cut = n, 0, Span{}, false
	p.buf.Reset()
}

// add takes a line, or several.
func (p *pager) add(text string) error {
	for {
		line, rest, more := strings.Cut(text, "\n")
		if err := p.one(clean(strings.TrimRight(line, " \t\r"))); err != nil {
			return err
		}
		if !more {
			return nil
		}
		text = rest
	}
}

func (p *pager) one(line string) error {
	for len(line) > p.maxLine {
		p.wrapped = true
		at := p.maxLine
		for at > 0 && !utf8.RuneStart(line[at]) {
			at--
		}
		if at == 0 { // no UTF-8; decoders above make sure that there is none
			at = p.maxLine
		}
		if err := p.put(line[:at]); err != nil {
			return err
		}
		line = line[at:]
	}
	return p.put(line)
}

func (p *pager) put(line string) error {
	p.line++
	if p.line%256 == 0 {
		if err := p.stop.check(); err != nil {
			return err
		}
	}
	if p.cut || !p.w.Lines.has(p.line) {
		return nil
	}
	if p.buf.Len()+len(line)+1 > p.maxText && p.kept.From > 0 {
		p.cut = true
		return nil
	}
	p.buf.WriteString(line)
	p.buf.WriteByte('\n')
	if p.kept.From == 0 {
		p.kept.From = p.line
	}
	p.kept.To = p.line
	return nil
}

// end closes page n. Pages are returned whole; one that alone is too long, or of which lines were asked for, is returned
// in part, and is then the only one.
func (p *pager) end() error {
	if r := p.outside(p.w.Lines.from(), p.line, Line); r != nil && p.w.Lines.From > 0 {
		return r
	}
	partial := p.cut || p.w.Lines != Span{}
	text := fmt.Sprintf("[%s %d of %d]\n%s\n", p.res.Unit, p.unit, p.res.Total, p.buf.String())
	first := p.res.From == 0
	if !first && (partial || p.out.Len()+len(text) > p.maxText) {
		p.done = true
		return nil
	}
	if first {
		p.res.From = p.unit
	}
	p.res.To = p.unit
	p.out.WriteString(text)
	if partial {
		p.res.Lines, p.res.LinesTotal, p.done = p.kept, p.line, true
	}
	if p.w.Pages.To == p.unit {
		p.done = true
	}
	return nil
}

// flat closes a document without pages.
func (p *pager) flat() error {
	if r := p.outside(p.w.Lines.from(), p.line, Line); r != nil {
		return r
	}
	p.res.Total, p.res.From, p.res.To = p.line, p.kept.From, p.kept.To
	p.out.WriteString(p.buf.String())
	return nil
}

// finish writes the result.
func (p *pager) finish() {
	p.res.Text = strings.TrimRight(p.out.String(), "\n")
	if p.res.Text != "" {
		p.res.Text += "\n"
	}
	if p.wrapped {
		p.res.note("lines longer than %s bytes are broken, and each part is counted as a line", count(p.maxLine))
	}
	p.res.finish()
}
