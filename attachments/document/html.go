package document

import (
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readHTML returns the text of a page as lines. Nothing that the page refers to is fetched, and no script is run.
func readHTML(j *job) error {
	d, ok := decode(j.bytes, true)
	if !ok {
		return corrupt(j.Kind, "not text in any known encoding")
	}
	j.Encoding = d.encoding
	p := newPager(j.Result, j.window, j.stop, j.limits)
	if err := htmlText(j, strings.NewReader(d.text), false, p.add); err != nil {
		return err
	}
	if err := p.flat(); err != nil {
		return err
	}
	p.finish()
	return nil
}

// htmlText hands the text of a page to line. It goes through tokens and builds no tree, so that nesting costs nothing.
// In XHTML, unlike in HTML, every element can close itself.
func htmlText(j *job, r io.Reader, xhtml bool, line func(string) error) error {
	z := html.NewTokenizer(r)
	f := &flow{line: line}
	skip := atom.Atom(0) // the element that is left out
	for {
		if err := j.token(); err != nil {
			return err
		}
		token := z.Next()
		switch token {
		case html.ErrorToken:
			if err := z.Err(); err != io.EOF {
				if stopped := j.stop.err; stopped != nil {
					return stopped
				}
				return err
			}
			return f.flush()
		case html.TextToken:
			if skip == 0 {
				f.text(string(z.Text()))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attributes := z.TagName()
			a := atom.Lookup(name)
			closed := token == html.SelfClosingTagToken && (xhtml || a == atom.Svg)
			if closed {
				z.NextIsNotRawText()
			} else if skip == 0 && hidden(a) {
				skip = a
			}
			if skip != 0 {
				continue
			}
			alt := ""
			for attributes && a == atom.Img {
				var k, v []byte
				if k, v, attributes = z.TagAttr(); string(k) == "alt" {
					alt = string(v)
				}
			}
			if err := f.open(a, alt); err != nil {
				return err
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			a := atom.Lookup(name)
			if skip != 0 {
				if a == skip {
					skip = 0
				}
				continue
			}
			if err := f.close(a); err != nil {
				return err
			}
		}
	}
}

// hidden are elements that are not text of the page.
func hidden(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Svg, atom.Select, atom.Iframe, atom.Object, atom.Noembed, atom.Noframes:
		return true
	}
	return false
}

// flow gathers text into lines as a browser does: white space is one space, and blocks begin lines of their own.
type flow struct {
	line  func(string) error
	buf   strings.Builder
	space bool // a space is due before the next word
	pre   int
	wrote bool // a line
	blank bool // the last one was empty
	cells int  // in the row so far
	lead  string
}

// maxParagraph bounds what is gathered before it is handed on.
const maxParagraph = 1 << 20

func (f *flow) text(s string) {
	if f.buf.Len() > maxParagraph {
		_ = f.flush() // the error is met again at the next line
	}
	if f.pre > 0 {
		f.start()
		f.buf.WriteString(strings.ReplaceAll(s, "\r", ""))
		return
	}
	for i, word := range strings.Fields(s) {
		f.start()
		if f.buf.Len() > 0 && (f.space || i > 0 || leadingSpace(s)) && !strings.HasSuffix(f.buf.String(), " ") {
			f.buf.WriteByte(' ')
		}
		f.space = false
		f.buf.WriteString(word)
	}
	if s != "" && leadingSpace(s[len(s)-1:]) {
		f.space = true
	}
}

func leadingSpace(s string) bool {
	return s[0] == ' ' || s[0] == '\n' || s[0] == '\t' || s[0] == '\r' || s[0] == '\f'
}

func (f *flow) start() {
	if f.lead != "" {
		f.buf.WriteString(f.lead)
		f.lead = ""
	}
}

// flush ends the line.
func (f *flow) flush() error {
	s := f.buf.String()
	f.buf.Reset()
	f.space, f.cells = false, 0
	if f.pre == 0 {
		s = strings.TrimSpace(s)
	}
	if s == "" {
		return nil
	}
	f.wrote, f.blank = true, false
	return f.line(strings.TrimSuffix(s, "\n"))
}

// gap ends the line and leaves an empty one after it, never two.
func (f *flow) gap() error {
	if f.lead != "" { // a paragraph at the beginning of an entry
		return nil
	}
	if err := f.flush(); err != nil || !f.wrote || f.blank {
		return err
	}
	f.blank = true
	return f.line("")
}

func (f *flow) open(a atom.Atom, alt string) error {
	switch a {
	case atom.Br:
		if f.pre > 0 {
			f.buf.WriteByte('\n')
			return nil
		}
		return f.flush()
	case atom.Img:
		if alt = strings.Join(strings.Fields(alt), " "); alt != "" {
			f.text(" [picture: " + alt + "] ")
		}
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		err := f.gap()
		f.lead = strings.Repeat("#", int(a.String()[1]-'0')) + " "
		return err
	case atom.Li:
		err := f.flush()
		f.lead = "- "
		return err
	case atom.Td, atom.Th:
		if f.cells++; f.cells > 1 {
			f.buf.WriteString(" | ")
			f.space = false
		}
	case atom.Pre, atom.Textarea:
		err := f.gap()
		f.pre++
		return err
	default:
		return f.block(a)
	}
	return nil
}

func (f *flow) close(a atom.Atom) error {
	switch a {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		f.lead = ""
		return f.gap()
	case atom.Pre, atom.Textarea:
		err := f.flush()
		f.pre = max(f.pre-1, 0)
		return err
	case atom.Li:
		f.lead = ""
		return f.flush()
	}
	return f.block(a)
}

// block ends the line at elements that browsers set apart.
func (f *flow) block(a atom.Atom) error {
	switch a {
	case atom.P, atom.Table, atom.Ul, atom.Ol, atom.Dl, atom.Blockquote, atom.Section, atom.Article, atom.Hr:
		if f.cells > 0 && a == atom.P { // in a cell
			f.space = true
			return nil
		}
		return f.gap()
	case atom.Div, atom.Tr, atom.Header, atom.Footer, atom.Main, atom.Aside, atom.Nav, atom.Dt, atom.Dd, atom.Title, atom.Body, atom.Head, atom.Caption,
		atom.Figure, atom.Figcaption, atom.Form, atom.Fieldset, atom.Option, atom.Address, atom.Details, atom.Summary, atom.Thead, atom.Tbody:
		if f.cells > 0 && a == atom.Div {
			f.space = true
			return nil
		}
		return f.flush()
	}
	return nil
}
