package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The tools that the rules know.
const (
	listDocuments = "list_documents"
	viewImages    = "view_images"
)

const (
	maxViews = 4  // of one view_images
	maxCalls = 24 // of one request: a tool that never ends its pages must not hold the turn
)

// step is a tool call or an answer.
type step struct {
	tool, arguments string
	text            string
}

type viewArguments struct {
	IDs     []string        `json:"ids,omitempty"`
	Regions []regionRequest `json:"regions,omitempty"`
}

type regionRequest struct {
	ID     string `json:"id"`
	X      int    `json:"x"`
	Y      int    `json:"y"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// next decides what comes next. It depends on nothing but the request.
func (m *Model) next(ctx context.Context, t *turn) (step, error) {
	w := readWish(t.request)
	switch {
	case t.failed != "":
		return say("That did not work. " + sentence(t.failed)), nil
	case t.text != nil:
		return say(t.quote()), nil
	case t.viewed != nil:
		return m.report(ctx, t, t.viewed.asked, w)
	case t.calls > maxCalls:
		return say("I gave up: this request needed too many steps."), nil
	case w.list:
		return t.inventory(), nil
	}
	own := t.ownImages()
	if len(own) > 0 && (!w.points() || onlyOwn(w, t)) {
		return m.look(ctx, t, chosenOwn(w, t), w)
	}
	if len(t.own) > 0 && len(own) == 0 && !w.points() {
		if t.offered[readDocument] {
			return t.read(t.own[0].id), nil
		}
		return say(t.notPictures()), nil
	}
	if !w.pictures {
		return say(m.abilities()), nil
	}
	if len(w.ids) > 0 {
		return m.look(ctx, t, w.ids, w)
	}
	if !t.offered[listDocuments] {
		return say("I can't look for other pictures here: the list of files is not available to me in this conversation."), nil
	}
	if !t.listing.complete {
		return t.askList(), nil
	}
	ids, why := t.choose(w)
	if why != "" {
		return say(why + "\n\n" + t.list()), nil
	}
	if id, ok := t.readable(ids); ok {
		return t.read(id), nil
	}
	return m.look(ctx, t, ids, w)
}

func say(text string) step { return step{text: text} }

func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.ContainsAny(s[len(s)-1:], ".!?") {
		s += "."
	}
	return s
}

func call(tool string, arguments any) step {
	b, _ := json.Marshal(arguments) // structs of strings and numbers always marshal
	return step{tool: tool, arguments: string(b)}
}

func (t *turn) askList() step {
	return call(listDocuments, struct {
		After int `json:"after,omitempty"`
		Limit int `json:"limit"`
	}{t.listing.next, 100})
}

// inventory answers "what files are there".
func (t *turn) inventory() step {
	switch {
	case !t.offered[listDocuments]:
		return say("I can't list files here: the list is not available to me in this conversation.")
	case !t.listing.complete:
		return t.askList()
	}
	return say(t.list())
}

// onlyOwn reports whether everything that the request names is among the files of this very turn.
func onlyOwn(w wish, t *turn) bool {
	for _, id := range w.ids {
		if !t.owns(id) {
			return false
		}
	}
	for _, n := range w.names {
		if !slices.ContainsFunc(t.own, func(f file) bool { return sameName(f.name, n) }) {
			return false
		}
	}
	own := t.ownImages()
	for _, p := range w.places {
		switch {
		case p.before:
			return false
		case p.all && p.n == 0, p.all && p.n <= len(own), p.n == -1:
		case len(own) >= 2 && p.n != 0 && !p.all && max(p.n, -p.n) <= len(own):
		default:
			return false
		}
	}
	return true
}

// chosenOwn are the pictures of this turn that the request means; all of them when it names none.
func chosenOwn(w wish, t *turn) []string {
	own := t.ownImages()
	var all, out []string
	for _, f := range own {
		all = append(all, f.id)
	}
	out = append(out, w.ids...)
	for _, n := range w.names {
		for _, f := range t.own {
			if sameName(f.name, n) {
				out = append(out, f.id)
			}
		}
	}
	for _, p := range w.places {
		switch {
		case p.all && p.n == 0:
			out = append(out, all...)
		case p.all:
			out = append(out, all[len(all)-p.n:]...)
		case p.n < 0:
			out = append(out, all[len(all)+p.n])
		default:
			out = append(out, all[p.n-1])
		}
	}
	if len(out) == 0 {
		return all
	}
	return unique(out)
}

// look reports on pictures that are there, and asks for those that are not. A picture that was held back for a stated
// reason is asked for only when the request names it.
func (m *Model) look(ctx context.Context, t *turn, ids []string, w wish) (step, error) {
	if w.region != nil && (w.region.width == 0 || w.region.height == 0) {
		return say("That region is empty. " + regionHelp), nil
	}
	if w.region == nil {
		missing := false
		for _, id := range ids {
			if _, ok := t.shown[id]; !ok && (w.points() || t.reasons[id] == "") {
				missing = true
			}
		}
		if !missing {
			return m.report(ctx, t, ids, w)
		}
	}
	if !t.offered[viewImages] {
		return say("I can't look at " + t.nameAll(ids) + ": looking at pictures by ID is not available to me in this conversation."), nil
	}
	if w.region != nil {
		var args viewArguments
		for _, id := range ids[:min(len(ids), maxViews)] {
			args.Regions = append(args.Regions, regionRequest{id, w.region.x, w.region.y, w.region.width, w.region.height})
		}
		return call(viewImages, args), nil
	}
	return call(viewImages, viewArguments{IDs: ids[:min(len(ids), maxViews)]}), nil
}

func (t *turn) nameAll(ids []string) string {
	var names []string
	for _, id := range ids {
		names = append(names, t.name(id))
	}
	return strings.Join(names, ", ")
}

// choose picks from the inventory. Its second result says why nothing was picked.
func (t *turn) choose(w wish) (ids []string, why string) {
	docs := t.listing.docs
	if len(docs) == 0 {
		return nil, "Nothing was posted in this conversation that I may look at."
	}
	var chosen []document
	for _, n := range w.names {
		found := named(docs, n)
		if len(found) == 0 {
			return nil, fmt.Sprintf("Nothing here is called %q.", n)
		}
		chosen = append(chosen, found...)
	}
	for _, p := range w.places {
		found, why := t.at(p)
		if why != "" {
			return nil, why
		}
		chosen = append(chosen, found...)
	}
	if !w.points() {
		if chosen = mentioned(docs, t.request); len(chosen) == 0 {
			found, why := t.at(place{n: -1})
			if why != "" {
				return nil, why
			}
			chosen = found
		}
	}
	for _, d := range chosen {
		if _, ok := t.readable([]string{d.ID}); ok && len(chosen) == 1 {
			return []string{d.ID}, ""
		}
		if !d.Viewable {
			note := d.Note
			if note == "" {
				note = "its state is " + d.State
			}
			return nil, fmt.Sprintf("%s can't be looked at: %s.", t.name(d.ID), strings.TrimRight(note, "."))
		}
		ids = append(ids, d.ID)
	}
	return unique(ids), ""
}

// at resolves a place in the conversation.
func (t *turn) at(p place) ([]document, string) {
	var among []document
	kind := "picture"
	for _, d := range t.listing.docs {
		if p.documents || d.image() {
			among = append(among, d)
		}
	}
	if p.documents {
		kind = "file"
	}
	if len(among) == 0 {
		return nil, "No " + kind + " was posted in this conversation that I may look at."
	}
	if p.before {
		return t.beforeSpoken(among)
	}
	if p.all {
		n := len(among)
		if p.n > 0 {
			n = min(n, p.n)
		}
		return among[len(among)-min(n, maxViews):], ""
	}
	i := p.n - 1
	if p.n < 0 {
		i = len(among) + p.n
	}
	if i < 0 || i >= len(among) {
		return nil, fmt.Sprintf("There is no such %s: there are %d.", kind, len(among))
	}
	return among[i : i+1], ""
}

// beforeSpoken is the picture before the one under discussion: before those of this turn, else before the one that the
// last answer spoke of, else the latest.
func (t *turn) beforeSpoken(among []document) ([]document, string) {
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
		return nil, "There is no picture before that one."
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

// mentioned are the pictures whose names without ending stand in the request as whole words: "read the whiteboard".
func mentioned(docs []document, request string) []document {
	text := " " + strings.Join(words(request), " ") + " "
	var out []document
	for _, d := range docs {
		s := strings.Join(words(strings.NewReplacer("_", " ", "-", " ").Replace(stem(d.Name))), " ")
		if len(s) >= 4 && !nouns[s] && strings.Contains(text, " "+s+" ") {
			out = append(out, d)
		}
	}
	if len(out) > maxViews {
		out = out[len(out)-maxViews:]
	}
	return out
}
