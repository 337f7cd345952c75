package offline

import (
	"context"
	"fmt"
	"strings"
)

// target is a file, or a page of one, that the answer will speak of.
type target struct {
	id   string
	page int // 0: the whole file
	look bool
	read bool
	why  string // why neither
}

// key is what a target is called where reasons are given.
func (g target) key() string {
	if g.page > 0 {
		return fmt.Sprintf("%s page %d", g.id, g.page)
	}
	return g.id
}

// picture is what the picture of a target is known by.
func (g target) picture() target { return target{id: g.id, page: g.page} }

// targets says how each file is dealt with: pictures are looked at, documents are read, pages of PDFs are both. At most
// maxViews documents are read, since each is a step.
func (t *turn) targets(w wish, docs []document) []target {
	var out []target
	reads := 0
	paged := len(w.pages) > 0
	documents := len(docs) > len(ofSort(docs, aPicture))
	for _, d := range docs {
		g := target{id: d.ID}
		switch {
		case d.image() && paged && !documents:
			g.why = "is a picture, and has no pages"
		case d.image() && !d.Viewable, !d.image() && d.State != "available":
			g.why = "can't be looked at: " + d.reason()
		case d.image():
			g.look = true
		case w.region != nil && !paged:
			g.why = "is a document: name its page, too (\"region x,y,width,height of page 1 of " + d.Name + "\")"
		case paged:
			for _, n := range w.pages {
				g := target{id: d.ID, page: n, look: aPDF.has(d), read: t.offered[readDocument]}
				if !g.look && !g.read {
					g.why = "can't be looked at: " + d.reason()
				}
				if reads++; reads > maxViews {
					continue
				}
				out = append(out, g)
			}
			continue
		case !t.offered[readDocument]:
			g.why = "can't be looked at: " + d.reason()
		default:
			if reads++; reads > maxViews {
				g.why = fmt.Sprintf("was left out: I read %d documents at a time", maxViews)
			} else {
				g.read = true
			}
		}
		out = append(out, g)
	}
	return out
}

func (d document) reason() string {
	switch {
	case d.Note != "":
		return strings.TrimRight(d.Note, ".")
	case d.State != "" && d.State != "available":
		return "its state is " + d.State
	}
	return "documents are not read here"
}

// carryOut reads and looks, a step at a time, and then reports. A picture that was held back for a stated reason is asked
// for only when the request names it.
func (m *Model) carryOut(ctx context.Context, t *turn, targets []target, notes []string, w wish) (step, error) {
	var looks []target
	var whys []string
	missing := false
	for _, g := range targets {
		if g.why != "" {
			whys = append(whys, t.name(g.id)+" "+g.why+".")
		}
		if !g.look {
			continue
		}
		looks = append(looks, g)
		if _, ok := t.shown[g.picture()]; !ok && (w.points() || g.page > 0 || t.reasons[g.key()] == "") {
			missing = true
		}
	}
	if len(whys) == len(targets) {
		if t.listing.complete {
			whys = append(whys, "", t.list())
		}
		return say(strings.Join(append(notes, whys...), "\n")), nil
	}
	if w.region != nil && (w.region.width == 0 || w.region.height == 0) {
		return say("That region is empty. " + regionHelp), nil
	}
	for _, g := range targets {
		if _, done := t.excerpts[g.window()]; g.read && !done {
			return t.ask(call(readDocument, g.window())), nil
		}
	}
	if t.viewed == nil && len(looks) > 0 && (missing || w.region != nil) {
		if t.offered[viewImages] {
			return t.ask(call(viewImages, view(looks[:min(len(looks), maxViews)], w.region))), nil
		}
		if len(looks) == len(targets) && len(t.excerpts) == 0 {
			return say("I can't look at " + t.nameAll(looks) + ": looking at pictures by ID is not available to me in this conversation."), nil
		}
	}
	return m.report(ctx, t, targets, notes, w)
}

// view are the arguments that show these.
func view(looks []target, region *rectangle) viewArguments {
	var args viewArguments
	for _, g := range looks {
		switch {
		case region != nil:
			args.Regions = append(args.Regions, regionRequest{g.id, region.x, region.y, region.width, region.height, g.page})
		case g.page > 0:
			args.Pages = append(args.Pages, pageRequest{g.id, g.page})
		default:
			args.IDs = append(args.IDs, g.id)
		}
	}
	return args
}

func (t *turn) nameAll(targets []target) string {
	var names []string
	for _, g := range targets {
		names = append(names, t.name(g.id))
	}
	return strings.Join(names, ", ")
}
