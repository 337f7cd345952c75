package document

import "strings"

// prose gathers the paragraphs and tables of a word processor's or a slide's XML as lines. Both name the elements of
// text alike: p, r, t, br, tab, tbl, tr, tc.
type prose struct {
	line  func(string) error
	buf   strings.Builder
	lead  string
	inT   int   // inside of a text element
	skip  int   // depth inside of an alternative that repeats what was there before
	cells []int // of each row that is open, so far
	space bool  // due before the next text of the cell
}

func (p *prose) visit(n node) error {
	switch {
	case p.skip > 0:
		if n.start {
			p.skip++
		} else if n.end {
			p.skip--
		}
	case n.start:
		p.open(n)
	case n.end:
		return p.close(n)
	case p.inT > 0:
		p.start()
		p.buf.Write(n.text)
		if p.buf.Len() > maxParagraph {
			return p.flush()
		}
	}
	return nil
}

func (p *prose) start() {
	if p.space {
		p.buf.WriteByte(' ')
		p.space = false
	}
	p.buf.WriteString(p.lead)
	p.lead = ""
}

func (p *prose) open(n node) {
	switch n.name {
	case "Fallback":
		p.skip = 1
	case "t":
		p.inT++
	case "tab":
		if len(n.attrs) == 0 { // with attributes it is the definition of a tab stop
			p.buf.WriteByte('\t')
		}
	case "br", "cr":
		if p.inTable() {
			p.buf.WriteByte(' ')
		} else {
			p.buf.WriteByte('\n')
		}
	case "noBreakHyphen":
		p.buf.WriteByte('-')
	case "pStyle":
		if level, ok := strings.CutPrefix(strings.ToLower(n.attr("val")), "heading"); ok && len(level) == 1 && level >= "1" && level <= "6" {
			p.lead = strings.Repeat("#", int(level[0]-'0')) + " "
		}
	case "numPr":
		if p.lead == "" {
			p.lead = "- "
		}
	case "tr":
		p.cells = append(p.cells, 0)
	case "tc":
		if i := len(p.cells) - 1; i >= 0 {
			if p.cells[i]++; p.cells[i] > 1 {
				p.space = false
				p.buf.WriteString(" | ")
			}
		}
	case "footnoteReference", "endnoteReference":
		p.buf.WriteString("[note " + n.attr("id") + "]")
	case "docPr":
		if alt := oneLine(n.attr("descr")); alt != "" {
			p.start()
			p.buf.WriteString("[picture: " + alt + "]")
		}
	}
}

func (p *prose) inTable() bool { return len(p.cells) > 0 }

func (p *prose) close(n node) error {
	switch n.name {
	case "t":
		p.inT = max(p.inT-1, 0)
	case "p":
		if p.inTable() {
			p.lead, p.space = "", true
			return nil
		}
		return p.flush()
	case "tr":
		p.cells = p.cells[:max(len(p.cells)-1, 0)]
		if p.inTable() { // a table within a cell
			p.space = true
			return nil
		}
		return p.flush()
	}
	return nil
}

func (p *prose) flush() error {
	s := p.buf.String()
	p.buf.Reset()
	p.lead, p.space = "", false
	return p.line(s)
}

// readDOCX returns the paragraphs of a Word document, then its notes, comments, headers and footers.
func readDOCX(j *job) error {
	a, part, err := j.mainPart()
	if err != nil {
		return err
	}
	rel, err := j.relationsOf(a, part)
	if err != nil {
		return err
	}
	p := newPager(j.Result, j.window, j.stop, j.limits)
	b := &blanks{line: p.add}
	if err := j.each(a, part, (&prose{line: b.add}).visit); err != nil {
		return err
	}
	for _, extra := range []struct{ kind, title string }{
		{"footnotes", "[footnotes]"}, {"endnotes", "[endnotes]"}, {"comments", "[comments]"}, {"header", "[header]"}, {"footer", "[footer]"},
	} {
		if err := j.extra(a, rel, extra.kind, extra.title, b); err != nil {
			return err
		}
	}
	if err := p.flat(); err != nil {
		return err
	}
	p.finish()
	return nil
}

// extra appends the parts of a kind, under a title, where they hold any text. Headers that several sections repeat are
// said once.
func (j *job) extra(a *archive, rel relations, kind, title string, b *blanks) error {
	said := map[string]bool{}
	for _, id := range rel.of(kind) {
		if !a.has(rel[id].target) {
			continue
		}
		var lines []string
		number := ""
		p := &prose{line: func(s string) error {
			if s = strings.TrimSpace(s); s != "" {
				if number != "" {
					s, number = "[note "+number+"] "+s, ""
				}
				lines = append(lines, s)
			}
			return nil
		}}
		err := j.each(a, rel[id].target, func(n node) error {
			if n.start && (n.name == "footnote" || n.name == "endnote") {
				number = n.attr("id")
			}
			return p.visit(n)
		})
		if err != nil {
			return err
		}
		text := strings.Join(lines, "\n")
		if text == "" || said[text] {
			continue
		}
		if len(said) == 0 {
			if err := b.heading(title); err != nil {
				return err
			}
		}
		said[text] = true
		if err := b.add(text); err != nil {
			return err
		}
	}
	return nil
}

// blanks passes lines on without more than one empty line in a row, and none at the beginning or end.
type blanks struct {
	line  func(string) error
	wrote bool
	due   bool
}

func (b *blanks) add(s string) error {
	if strings.TrimSpace(s) == "" {
		b.due = b.wrote
		return nil
	}
	if b.due {
		if err := b.line(""); err != nil {
			return err
		}
	}
	b.wrote, b.due = true, false
	return b.line(s)
}

// heading sets a line apart from what came before.
func (b *blanks) heading(s string) error {
	b.due = b.wrote
	return b.add(s)
}
