package offline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"sightline/agent"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

// world is a conversation with posted files, and the tools as the real ones answer.
type world struct {
	t        *testing.T
	model    *Model
	docs     []*posted
	messages []agent.Message
	pageSize int
	noTools  bool
	reads    bool             // read_document is offered
	calls    []agent.ToolCall // of the last turn
	selected []chat.AttachmentID
	regions  map[chat.AttachmentID][4]int
	pages    []pageRequest // of documents, shown as pictures
	explicit bool
	own      []*posted
}

type posted struct {
	id     chat.AttachmentID
	name   string
	mime   string
	bytes  []byte
	notes  []string
	reason string // why it can't be viewed
	state  string
	pages  []string // the text of a document, by page
	page   []byte   // the picture of each of its pages
}

func newWorld(t *testing.T, m *Model) *world { return &world{t: t, model: m, pageSize: 50} }

func (w *world) post(name string, mime string, b []byte) *posted {
	p := &posted{id: chat.NewAttachmentID(), name: name, mime: mime, bytes: b, state: "available"}
	w.docs = append(w.docs, p)
	return p
}

func (w *world) postText(name, text string) *posted {
	return w.post(name, "image/png", pngOf(w.t, textPicture(text, 32)))
}

// say runs a whole turn and returns its answer.
func (w *world) say(text string, files ...*posted) string {
	w.t.Helper()
	var b strings.Builder
	b.WriteString(text)
	for i, f := range files {
		kind := "File"
		if strings.HasPrefix(f.mime, "image/") {
			kind = "Image"
		} else if f.mime == "application/pdf" {
			kind = "PDF"
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "[%s #%d: %s (%s)]", kind, i+1, f.name, f.id)
	}
	w.messages = append(w.messages, agent.Message{Role: agent.RoleUser, Text: b.String()})
	w.calls, w.explicit, w.own, w.selected, w.regions, w.pages = nil, false, files, nil, map[chat.AttachmentID][4]int{}, nil
	for _, f := range files {
		if strings.HasPrefix(f.mime, "image/") {
			w.selected = append(w.selected, f.id)
		}
	}
	for range 40 {
		res := w.infer()
		w.messages = append(w.messages, res.Message)
		if len(res.Message.Calls) == 0 {
			// The next turn retells this one without its steps.
			kept := w.messages[:0:0]
			for _, m := range w.messages {
				if m.Role == agent.RoleUser || (m.Role == agent.RoleAssistant && len(m.Calls) == 0) {
					kept = append(kept, m)
				}
			}
			w.messages = kept
			return res.Message.Text
		}
		for _, c := range res.Message.Calls {
			w.calls = append(w.calls, c)
			w.messages = append(w.messages, agent.Message{Role: agent.RoleTool, CallID: c.ID, Text: w.run(c)})
		}
	}
	w.t.Fatal("the turn does not end")
	return ""
}

func (w *world) infer() agent.ModelResponse {
	w.t.Helper()
	r := agent.ModelRequest{Messages: w.messages, Key: "k"}
	if !w.noTools {
		r.Tools = []agent.ToolSpec{{Name: listDocuments}, {Name: viewImages}}
	}
	if w.reads {
		r.Tools = append(r.Tools, agent.ToolSpec{Name: readDocument})
	}
	var hiddenLines []string
	for _, id := range w.selected {
		p := w.find(id)
		if p.reason != "" {
			hiddenLines = append(hiddenLines, fmt.Sprintf("- %s (%s): %s", p.id, p.name, p.reason))
			continue
		}
		b, notes := p.bytes, p.notes
		if reg, ok := w.regions[id]; ok {
			b = w.crop(p.bytes, reg)
			notes = append(notes, fmt.Sprintf("region %d,%d,%d,%d", reg[0], reg[1], reg[2], reg[3]))
		}
		extent := "whole"
		if len(notes) > 0 {
			extent = strings.Join(notes, "; ")
		}
		r.Pictures = append(r.Pictures, agent.ShownPicture{
			ID: id, Label: fmt.Sprintf("Picture %s (%s), %s, 1x1 pixels: %s", p.id, p.name, p.mime, extent),
			Picture: visual.Picture{MIME: p.mime, Bytes: b, Notes: notes},
		})
	}
	for _, g := range w.pages {
		p := w.find(chat.AttachmentID(g.ID))
		r.Pictures = append(r.Pictures, agent.ShownPicture{
			ID: p.id, Label: fmt.Sprintf("Picture %s page %d (%s), %s, 1x1 pixels: whole", p.id, g.Page, p.name, p.mime),
			Picture: visual.Picture{MIME: "image/png", Bytes: p.page},
		})
	}
	r.Instructions = "You are a test.\n\nPICTURES IN THIS REQUEST\n" + strings.Join(hiddenLines, "\n") + "\n"
	drafts := 0
	res, err := w.model.Generate(w.t.Context(), r, func(text string) {
		if drafts++; drafts > 1 || text == "" {
			w.t.Errorf("draft %d: %q", drafts, text)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if (res.Message.Text == "") == (len(res.Message.Calls) == 0) {
		w.t.Fatalf("neither answer nor call, or both: %+v", res)
	}
	return res
}

func (w *world) find(id chat.AttachmentID) *posted {
	for _, p := range w.docs {
		if p.id == id {
			return p
		}
	}
	return nil
}

// run is the tools, as strict as the real ones.
func (w *world) run(c agent.ToolCall) string {
	w.t.Helper()
	strict := func(into any) {
		d := json.NewDecoder(strings.NewReader(c.Arguments))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			w.t.Fatalf("%s %s: %v", c.Name, c.Arguments, err)
		}
	}
	answer := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			w.t.Fatal(err)
		}
		return string(b)
	}
	switch c.Name {
	case listDocuments:
		var args struct{ After, Limit int }
		strict(&args)
		var docs []document
		next := 0
		for i := args.After; i < len(w.docs); i++ {
			if len(docs) == w.pageSize {
				next = i
				break
			}
			p := w.docs[i]
			docs = append(docs, document{ID: string(p.id), Ordinal: i + 1, Name: p.name, Type: p.mime, Size: int64(len(p.bytes)), PostedBy: "ann",
				PostedAt: "2026-01-02T15:04:05Z", State: p.state, Viewable: p.reason == "" && strings.HasPrefix(p.mime, "image/"), Note: p.reason})
		}
		return answer(map[string]any{"documents": docs, "total": len(w.docs), "next": next})
	case viewImages:
		var args viewArguments
		strict(&args)
		if n := len(args.IDs) + len(args.Regions) + len(args.Pages); n < 1 || n > 4 {
			return `{"error":"name 1 to 4 pictures by id"}`
		}
		type line struct {
			ID     string `json:"id"`
			Reason string `json:"reason,omitempty"`
			Page   int    `json:"page,omitempty"`
		}
		selected, refused := []line{}, []line{}
		var ids []chat.AttachmentID
		take := func(s string) {
			id, err := chat.ParseAttachmentID(s)
			if err != nil {
				w.t.Fatalf("view_images of %q", s)
			}
			switch p := w.find(id); {
			case p == nil:
				refused = append(refused, line{ID: s, Reason: "no such attachment is available here"})
			case p.reason != "":
				refused = append(refused, line{ID: s, Reason: p.reason})
			default:
				selected = append(selected, line{ID: s})
				ids = append(ids, id)
			}
		}
		for _, s := range args.IDs {
			take(s)
		}
		for _, r := range args.Regions {
			take(r.ID)
			w.regions[chat.AttachmentID(r.ID)] = [4]int{r.X, r.Y, r.Width, r.Height}
		}
		var pages []pageRequest
		for _, g := range args.Pages {
			if p := w.find(chat.AttachmentID(g.ID)); p == nil || g.Page > len(p.pages) {
				refused = append(refused, line{ID: g.ID, Page: g.Page, Reason: "there is no such page"})
				continue
			}
			selected = append(selected, line{ID: g.ID, Page: g.Page})
			pages = append(pages, g)
		}
		if len(ids)+len(pages) > 0 {
			w.selected, w.pages = ids, pages
		}
		return answer(map[string]any{"selected": selected, "refused": refused, "note": "shown in the next step"})
	case readDocument:
		var args readArguments
		strict(&args)
		p := w.find(chat.AttachmentID(args.ID))
		if p == nil || p.pages == nil {
			return `{"error":"This file is no document."}`
		}
		pages, missing, said, from := p.pages, []int{}, "", 1
		if args.Pages != "" {
			n, err := strconv.Atoi(args.Pages)
			if err != nil || n < 1 || n > len(p.pages) {
				return `{"error":"There is no such page."}`
			}
			pages, from = p.pages[n-1:n], n
		}
		for i, text := range pages {
			said += fmt.Sprintf("[page %d of %d]\n%s\n", from+i, len(p.pages), text)
			if text == "" {
				missing = append(missing, from+i)
			}
		}
		return answer(map[string]any{"id": args.ID, "kind": "pdf", "unit": "page", "total": len(p.pages), "text": said, "end": "the end", "pages_without_text": missing})
	}
	return `{"error":"no tool of that name"}`
}

func (w *world) crop(b []byte, r [4]int) []byte {
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		w.t.Fatal(err)
	}
	out := image.NewNRGBA(image.Rect(0, 0, r[2], r[3]))
	draw.Draw(out, out.Bounds(), img, image.Pt(r[0], r[1]), draw.Src)
	return pngOf(w.t, out)
}

// called are the names and IDs of the last turn's calls.
func (w *world) called() string {
	var out []string
	for _, c := range w.calls {
		s := c.Name
		for _, id := range anyID.FindAllString(c.Arguments, -1) {
			if p := w.find(chat.AttachmentID(id)); p != nil {
				s += " " + p.name
			} else {
				s += " ?"
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// textPicture renders lines of text, size pixels high.
func textPicture(text string, size float64) image.Image {
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		panic(err)
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		panic(err)
	}
	lines := strings.Split(text, "\n")
	widest, step := 0, int(size*1.4)
	for _, l := range lines {
		widest = max(widest, font.MeasureString(face, l).Ceil())
	}
	img := image.NewGray(image.Rect(0, 0, widest+20, step*len(lines)+20))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	d := font.Drawer{Dst: img, Src: image.Black, Face: face}
	for i, l := range lines {
		d.Dot = fixed.P(10, 10+int(size)+step*i)
		d.DrawString(l)
	}
	return img
}

// pixelPicture renders text in basicfont's 7x13 pixels, each enlarged to a square: coarse for any reader.
func pixelPicture(text string, scale int) image.Image {
	small := image.NewGray(image.Rect(0, 0, len(text)*7+20, 38))
	draw.Draw(small, small.Bounds(), image.White, image.Point{}, draw.Src)
	d := font.Drawer{Dst: small, Src: image.Black, Face: basicfont.Face7x13, Dot: fixed.P(10, 20)}
	d.DrawString(text)
	b := small.Bounds()
	out := image.NewGray(image.Rect(0, 0, b.Dx()*scale, b.Dy()*scale))
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			out.SetGray(x, y, small.GrayAt(x/scale, y/scale))
		}
	}
	return out
}

func plain(c color.Color, w, h int) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	draw.Draw(img, img.Bounds(), image.NewUniform(c), image.Point{}, draw.Src)
	return img
}

func pngOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gifOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gif.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// reader is a model with the real tesseract.
func reader(t *testing.T) *Model {
	t.Helper()
	if _, err := exec.LookPath("tesseract"); err != nil {
		if os.Getenv("SIGHTLINE_NO_SKIP") == "1" {
			t.Fatal("tesseract is not installed: apt install tesseract-ocr")
		}
		t.Skip("tesseract is not installed: apt install tesseract-ocr")
	}
	return New(Config{})
}

// blind is a model without tesseract.
func blind() *Model { return New(Config{Tesseract: "/nonexistent/tesseract"}) }

func ctxDone() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
