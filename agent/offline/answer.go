package offline

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

const regionHelp = "To look closer, name a region in pixels of the whole picture: region x,y,width,height of att_..."

const installHint = "tesseract is not installed where I run (Debian and Ubuntu: apt install tesseract-ocr; macOS: brew install tesseract)"

func (m *Model) abilities(t *turn) string {
	text := "I can't chat or reason. What I can do: list the files of this conversation (\"list the files\"), "
	if t.offered[readDocument] {
		text += "read out its documents by name, sort or place (\"what does the PDF say?\", \"page 2 of manual.pdf\"), "
	}
	text += "and look at its pictures by name, ID or place (\"what does the first picture say?\", \"describe the last picture\", \"region 0,0,200,100 of att_...\"). " +
		"Of a picture I state type, size and main colours, "
	if m.tesseract == "" {
		return text + "but I can't read text in it: " + installHint + "."
	}
	return text + "and read the text with tesseract."
}

// notPictures answers a message whose files are none.
func (t *turn) notPictures() string {
	var b strings.Builder
	b.WriteString("Nothing of what is attached was shown to me as a picture:")
	for _, f := range t.own {
		fmt.Fprintf(&b, "\n- %s: %s", t.name(f.id), t.reason(target{id: f.id}))
	}
	return b.String()
}

func (t *turn) reason(g target) string {
	if t.viewed != nil && t.viewed.refused[g.key()] != "" {
		return t.viewed.refused[g.key()]
	}
	if r := t.reasons[g.key()]; r != "" {
		return strings.TrimPrefix(r, "not shown; ")
	}
	if !t.offered[viewImages] {
		return "looking at pictures by ID is not available to me in this conversation"
	}
	return "it was not shown, and no reason was given"
}

// report speaks of exactly these: of pictures that arrived from their pixels, of documents from what was read, of the
// others that they did not arrive. Pictures that arrived but were not asked for are not spoken of.
func (m *Model) report(ctx context.Context, t *turn, targets []target, notes []string, w wish) (step, error) {
	parts := slices.Clone(notes)
	looks := 0
	for _, g := range targets {
		if g.why != "" {
			parts = append(parts, t.name(g.id)+" "+g.why+".")
		}
		said := g.read && t.excerpts[g.window()].says(g.page)
		if g.look {
			i, arrived := t.shown[g.picture()]
			looks++
			switch {
			case arrived:
				text, err := m.describe(ctx, t, t.pictures[i], !said || w.region != nil)
				if err != nil {
					return step{}, err
				}
				parts = append(parts, text)
			case t.viewed != nil && looks > maxViews:
				parts = append(parts, fmt.Sprintf("%s was left out: I look at %d pictures at a time.", t.called(g), maxViews))
			default:
				parts = append(parts, fmt.Sprintf("%s was not shown to me, so I can say nothing of what is in it: %s", t.called(g), sentence(t.reason(g))))
			}
		}
		if g.read && (said || !g.look) {
			parts = append(parts, t.quote(g))
		}
	}
	if w.closer && w.region == nil {
		parts = append(parts, regionHelp)
	}
	return say(strings.Join(parts, "\n\n")), nil
}

const maxListed = 40

// list is the inventory for people.
func (t *turn) list() string {
	docs := t.listing.docs
	if len(docs) == 0 {
		return "No files were posted in this conversation that I may see."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s in this conversation:", plural(len(docs), "file"))
	for _, d := range docs[:min(len(docs), maxListed)] {
		fmt.Fprintf(&b, "\n%d. %s, %s", d.Ordinal, t.name(d.ID), d.Type)
		if d.Width > 0 && d.Height > 0 {
			fmt.Fprintf(&b, ", %dx%d", d.Width, d.Height)
		}
		if d.Size > 0 {
			fmt.Fprintf(&b, ", %d bytes", d.Size)
		}
		if d.PostedBy != "" {
			fmt.Fprintf(&b, ", from %s", d.PostedBy)
		}
		if d.PostedAt != "" {
			fmt.Fprintf(&b, " at %s", d.PostedAt)
		}
		if d.State != "" && d.State != "available" {
			fmt.Fprintf(&b, " [%s]", d.State)
		}
		if d.Note != "" {
			fmt.Fprintf(&b, " - %s", d.Note)
		}
	}
	if n := len(docs) - maxListed; n > 0 {
		fmt.Fprintf(&b, "\n... and %d more", n)
	}
	return b.String()
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
