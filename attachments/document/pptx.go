package document

import "strings"

// readPPTX returns the slides of a presentation in their order, each with its speaker's notes.
func readPPTX(j *job) error {
	a, part, err := j.mainPart()
	if err != nil {
		return err
	}
	rel, err := j.relationsOf(a, part)
	if err != nil {
		return err
	}
	var slides []string
	err = j.each(a, part, func(n node) error {
		if n.start && n.name == "sldId" {
			slides = append(slides, rel[n.attrIn("id")].target)
			if len(slides) > j.limits.MaxPages {
				return tooComplex(j.Kind, "more than %d slides", j.limits.MaxPages)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p := newPager(j.Result, j.window, j.stop, j.limits)
	if err := p.paged(len(slides)); err != nil {
		return err
	}
	for i, slide := range slides {
		if !p.wants(i + 1) {
			continue
		}
		p.begin(i + 1)
		if err := j.slide(a, slide, p); err != nil {
			return err
		}
		if err := p.end(); err != nil {
			return err
		}
	}
	p.finish()
	return nil
}

func (j *job) slide(a *archive, part string, p *pager) error {
	b := &blanks{line: p.add}
	text := &prose{line: b.add}
	err := j.each(a, part, func(n node) error {
		switch {
		case n.start && n.name == "sld" && n.attr("show") == "0":
			return b.add("[this slide is hidden in the presentation]")
		case n.start && n.name == "cNvPr":
			if alt := oneLine(n.attr("descr")); alt != "" {
				return b.add("[picture: " + alt + "]")
			}
		}
		return text.visit(n)
	})
	if err != nil {
		return err
	}
	rel, err := j.relationsOf(a, part)
	if err != nil {
		return err
	}
	notes := rel.first("notesSlide")
	if notes == "" || !a.has(notes) {
		return nil
	}
	var lines []string
	text = &prose{line: func(s string) error { lines = append(lines, strings.TrimSpace(s)); return nil }}
	number := 0 // depth inside of the field that repeats the number of the slide
	err = j.each(a, notes, func(n node) error {
		switch {
		case number > 0 && n.start:
			number++
		case number > 0 && n.end:
			number--
		case number > 0:
		case n.start && n.name == "fld" && strings.HasPrefix(n.attr("type"), "slidenum"):
			number = 1
		default:
			return text.visit(n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if said := strings.TrimSpace(strings.Join(lines, "\n")); said != "" {
		if err := b.heading("[speaker's notes]"); err != nil {
			return err
		}
		return b.add(said)
	}
	return nil
}
