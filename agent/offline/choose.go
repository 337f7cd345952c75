package offline

import (
	"fmt"
	"slices"
	"strings"
)

// choice is which files a request means.
type choice struct {
	docs  []document
	notes []string // what was left to a rule, or left out
	why   string   // why it means none
}

// choose picks from docs, oldest first.
func (t *turn) choose(w wish, docs []document) choice {
	var c choice
	if len(docs) == 0 {
		return choice{why: "Nothing was posted in this conversation that I may look at."}
	}
	for _, id := range w.ids {
		c.take(t.byID(docs, id))
	}
	for _, n := range w.names {
		found := named(docs, n)
		if len(found) == 0 {
			return choice{why: fmt.Sprintf("Nothing here is called %q.", n)}
		}
		c.take(found...)
	}
	for _, p := range w.places {
		found, why := t.at(docs, p)
		if why != "" {
			return choice{why: why}
		}
		if n := len(found); p.all && n > maxViews && !t.owns(found[0].ID) {
			found = found[n-maxViews:]
			c.notes = append(c.notes, fmt.Sprintf("There are %d; these are the newest %d.", n, maxViews))
		}
		c.take(found...)
	}
	if !w.points() {
		c.take(mentioned(docs, t.request)...)
	}
	t.bySort(w, docs, &c)
	return c
}

func (c *choice) take(docs ...document) {
	for _, d := range docs {
		if !slices.ContainsFunc(c.docs, func(e document) bool { return e.ID == d.ID }) {
			c.docs = append(c.docs, d)
		}
	}
}

// byID finds a file by its ID; one that is not listed is still asked for, so that the tool can say why not.
func (t *turn) byID(docs []document, id string) document {
	for _, d := range docs {
		if d.ID == id {
			return d
		}
	}
	if f, ok := t.known[id]; ok {
		return f.document()
	}
	return document{ID: id, Viewable: true}
}

// bySort adds the files of the sorts that the request names, and that nothing else in it named already: those of this
// message, else the newest. Where no sort is named and nothing else is, that is the newest file.
func (t *turn) bySort(w wish, docs []document, c *choice) {
	wanted := w.sorts
	switch {
	case len(w.ids) > 0:
		return
	case len(wanted) > 0:
	case len(c.docs) > 0:
		return
	case len(w.pages) > 0 || w.endPage:
		wanted = []*sort{aDocument}
	default:
		wanted = []*sort{anyFile}
	}
	var missing []string
	for _, s := range wanted {
		if len(ofSort(c.docs, s)) > 0 {
			continue
		}
		among := ofSort(docs, s)
		own := ofSort(t.attached(), s)
		switch {
		case len(own) > 0:
			c.take(own...)
		case len(among) == 0:
			missing = append(missing, s.name)
		case w.several[s] && len(among) > maxViews:
			c.take(among[len(among)-maxViews:]...)
			c.notes = append(c.notes, fmt.Sprintf("There are %d %s here; these are the newest %d.", len(among), s.many, maxViews))
		case w.several[s]:
			c.take(among...)
		default:
			d := among[len(among)-1]
			c.take(d)
			if len(among) > 1 {
				c.notes = append(c.notes, fmt.Sprintf("There are %d %s here, and you did not say which: I took the newest, %s. Another one I take by its name.", len(among), s.many, d.Name))
			}
		}
	}
	if len(missing) == 0 {
		return
	}
	none := "No " + strings.Join(missing, " and no ") + " was posted in this conversation that I may look at."
	if len(c.docs) == 0 && slices.Equal(wanted, []*sort{aDocument}) && len(t.own) > 0 && len(w.pages) == 0 && !w.endPage {
		c.take(t.attached()...) // a photo of a document is one to whoever sends it
	}
	if len(c.docs) == 0 {
		c.why = none
		return
	}
	c.notes = append(c.notes, none)
}

// besides says what of this message a choice from the whole conversation leaves out, or adds it where the request
// compares or points at it.
func (t *turn) besides(w wish, c *choice) {
	var out []string
	for _, d := range t.attached() {
		if slices.ContainsFunc(c.docs, func(e document) bool { return e.ID == d.ID }) {
			continue
		}
		if w.both && !w.points() {
			c.docs = append([]document{d}, c.docs...)
			continue
		}
		out = append(out, d.Name)
	}
	if len(out) > 0 {
		c.notes = append(c.notes, "You asked for another file, so I left out what came with this message: "+strings.Join(out, ", ")+".")
	}
}

// ownSuffices reports whether everything that the request names is among the files of this very turn.
func (t *turn) ownSuffices(w wish) bool {
	own := t.attached()
	for _, id := range w.ids {
		if !t.owns(id) {
			return false
		}
	}
	for _, n := range w.names {
		if !slices.ContainsFunc(own, func(d document) bool { return sameName(d.Name, n) }) {
			return false
		}
	}
	for _, p := range w.places {
		n := len(ofSort(own, p.sort))
		switch {
		case p.before, n == 0:
			return false
		case p.all && p.n <= n, p.n == -1:
		case n >= 2 && p.n != 0 && !p.all && max(p.n, -p.n) <= n:
		default:
			return false
		}
	}
	for _, s := range w.sorts {
		if len(ofSort(own, s)) == 0 {
			return false
		}
	}
	return len(w.pages) == 0 && !w.endPage || len(ofSort(own, aDocument)) > 0
}

// like is the sort of "the last one": what the last answer spoke of, where that was one file.
func (t *turn) like(docs []document, p place) *sort {
	switch {
	case p.sort != nil:
		return p.sort
	case p.all && len(ofSort(docs, aPicture)) >= p.n: // "both"
		return aPicture
	case !p.all && t.spokenOne:
		for _, d := range docs {
			if d.ID == t.spoken && d.image() {
				return aPicture
			} else if d.ID == t.spoken {
				return aDocument
			}
		}
	}
	return anyFile
}

// at resolves a place in the conversation.
func (t *turn) at(docs []document, p place) ([]document, string) {
	s := t.like(docs, p)
	among := ofSort(docs, s)
	if len(among) == 0 {
		return nil, "No " + s.name + " was posted in this conversation that I may look at."
	}
	if p.before {
		return t.beforeSpoken(among, s)
	}
	if p.all {
		n := len(among)
		if p.n > 0 {
			n = min(n, p.n)
		}
		return among[len(among)-n:], ""
	}
	i := p.n - 1
	if p.n < 0 {
		i = len(among) + p.n
	}
	if i < 0 || i >= len(among) {
		return nil, fmt.Sprintf("There is no such %s: there are %d.", s.name, len(among))
	}
	return among[i : i+1], ""
}

// beforeSpoken is the file before the one under discussion: before those of this turn, else before the one that the
// last answer spoke of, else the latest.
func (t *turn) beforeSpoken(among []document, s *sort) ([]document, string) {
	end := len(among)
	reference := false
	for i, d := range among {
		if t.owns(d.ID) {
			end, reference = i, true
			break
		}
	}
	if !reference && t.spoken != "" {
		for i, d := range among {
			if d.ID == t.spoken {
				end = i
			}
		}
	}
	if end == 0 {
		return nil, "There is no " + s.name + " before that one."
	}
	return among[end-1 : end], ""
}

func sameName(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b)) }

// named are the files with that name; where none has it, those that have it without the ending.
func named(docs []document, name string) []document {
	var out []document
	for _, d := range docs {
		if sameName(d.Name, name) {
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		for _, d := range docs {
			if sameName(stem(d.Name), name) {
				out = append(out, d)
			}
		}
	}
	if len(out) > maxViews {
		out = out[len(out)-maxViews:] // the newest
	}
	return out
}

func stem(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// mentioned are the files whose names without ending stand in the request as whole words: "read the whiteboard".
func mentioned(docs []document, request string) []document {
	text := " " + strings.Join(words(request), " ") + " "
	var out []document
	for _, d := range docs {
		s := strings.Join(words(strings.NewReplacer("_", " ", "-", " ").Replace(stem(d.Name))), " ")
		if len(s) >= 4 && (titles[s] || !isNoun(s)) && strings.Contains(text, " "+s+" ") {
			out = append(out, d)
		}
	}
	if len(out) > maxViews {
		out = out[len(out)-maxViews:]
	}
	return out
}
