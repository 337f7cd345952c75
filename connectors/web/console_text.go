package web

import (
	"context"
	"net/url"
	"regexp"
)

// A report's text names things by IDs alone. The console gives them a form
// that can be read and copied, and adds what only this place knows: the names
// that its owner gave to conversations.

// maxNamed is how many conversations a report may be told the names of.
const maxNamed = 5000

// piece is a part of a cell that leads somewhere as a whole, or nowhere.
type piece struct {
	Href string
	Away bool // out of this place
	Tone string
	Runs []run
}

// run is text of one form. Class is id, digest, day, long (it has no word's
// end to break at) or empty.
type run struct {
	Text, Class string
	Name        *named // of the conversation that the ID stands for
}

// named is a name, and where it leads.
type named struct{ Text, Href string }

var notWords = regexp.MustCompile(`\b[0-9a-f]{64}\b|\b[a-z]{1,4}_[0-9a-z]{26}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b|\b\d{4}-\d\d-\d\d\b`)

var unbroken = regexp.MustCompile(`\S{30,}`)

// Runs splits text by its form. A name leads to its conversation unless the
// whole leads somewhere already.
func (v consoleView) Runs(text string, linked bool) []run {
	var out []run
	split(notWords, text, func(s string, is bool) {
		if !is {
			split(unbroken, s, func(s string, is bool) {
				if is {
					out = append(out, run{Text: s, Class: "long"})
				} else {
					out = append(out, run{Text: s})
				}
			})
			return
		}
		r := run{Text: s, Class: "id"}
		switch len(s) {
		case 64:
			r.Class = "digest"
		case len("2026-11-30"):
			r.Class = "day"
		}
		out = append(out, r)
	})
	told := map[string]bool{} // a place has two IDs; its name is said once
	for i := range out {
		if n, ok := v.names[out[i].Text]; ok && !told[n.Href] {
			told[n.Href] = true
			if linked {
				n.Href = ""
			}
			out[i].Name = &n
		}
	}
	return out
}

// split tells of every part of text, in order, whether it is a match.
func split(re *regexp.Regexp, text string, part func(s string, is bool)) {
	at := 0
	for _, m := range re.FindAllStringIndex(text, -1) {
		if at < m[0] {
			part(text[at:m[0]], false)
		}
		part(text[m[0]:m[1]], true)
		at = m[1]
	}
	if at < len(text) {
		part(text[at:], false)
	}
}

// Pieces is what the page shows of a cell.
func (v consoleView) Pieces(c Cell) []piece {
	var out []piece
	for _, part := range c.Parts {
		out = append(out, v.Pieces(part)...)
	}
	if len(c.Parts) > 0 || c.Text == "" {
		return out
	}
	p := piece{Tone: c.Tone}
	switch {
	case c.ID != "":
		p.Href = "/console/" + url.PathEscape(c.Kind) + "/" + url.PathEscape(c.ID)
	case c.URL != "":
		p.Href, p.Away = c.URL, true
	}
	p.Runs = v.Runs(c.Text, p.Href != "")
	return []piece{p}
}

// names are those of the owner's conversations, by each ID that a report may
// have for them.
func (p *Place) names(ctx context.Context, owner string) (map[string]named, error) {
	list, err := p.db.opened(ctx, owner, maxNamed)
	if err != nil {
		return nil, err
	}
	out := make(map[string]named, 3*len(list))
	for _, c := range list {
		n, at := named{c.Name, "/c/" + c.ID}, p.placeOf(c.ID)
		out[c.ID], out[string(at.ID)], out[string(at.Conversation())] = n, n, n
	}
	return out, nil
}
