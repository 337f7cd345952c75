package web

import (
	"bytes"
	"html"
	"net/url"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	goldhtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// An answer is a model's text, and what it read may have told it what to
// write. So: HTML in it is shown as text, a picture is never loaded (its
// address could carry out what the model has seen), and a link is followed
// only by a click, to http, https or mailto.
var answers = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough, extension.Linkify),
	// A line is a line, as in any chat.
	goldmark.WithRendererOptions(goldhtml.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(inert{}, 1))),
)

// markdown renders an answer; what can't be rendered is shown as it is.
func markdown(text string) string {
	var b bytes.Buffer
	if err := answers.Convert([]byte(text), &b); err != nil {
		return "<p>" + html.EscapeString(text) + "</p>"
	}
	return b.String()
}

type inert struct{}

func (inert) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, rawHTML)
	r.Register(ast.KindHTMLBlock, htmlBlock)
	r.Register(ast.KindLink, link)
	r.Register(ast.KindAutoLink, autoLink)
	r.Register(ast.KindImage, imageAsLink)
}

func rawHTML(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		s := n.(*ast.RawHTML).Segments
		for i := range s.Len() {
			seg := s.At(i)
			w.WriteString(html.EscapeString(string(seg.Value(src))))
		}
	}
	return ast.WalkSkipChildren, nil
}

func htmlBlock(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	b := n.(*ast.HTMLBlock)
	if !entering {
		return ast.WalkContinue, nil
	}
	w.WriteString("<pre>")
	lines := b.Lines()
	for i := range lines.Len() {
		seg := lines.At(i)
		w.WriteString(html.EscapeString(string(seg.Value(src))))
	}
	if b.HasClosure() {
		w.WriteString(html.EscapeString(string(b.ClosureLine.Value(src))))
	}
	w.WriteString("</pre>\n")
	return ast.WalkContinue, nil
}

func link(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	dest := string(n.(*ast.Link).Destination)
	if !followable(dest) {
		// The text stays, and the reader sees where it would have gone.
		if !entering {
			w.WriteString(" (" + html.EscapeString(dest) + ")")
		}
		return ast.WalkContinue, nil
	}
	if entering {
		openLink(w, dest)
	} else {
		w.WriteString("</a>")
	}
	return ast.WalkContinue, nil
}

func autoLink(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	a := n.(*ast.AutoLink)
	dest, label := string(a.URL(src)), html.EscapeString(string(a.Label(src)))
	if a.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(dest), "mailto:") {
		dest = "mailto:" + dest
	}
	if !followable(dest) {
		w.WriteString(label)
		return ast.WalkContinue, nil
	}
	openLink(w, dest)
	w.WriteString(label + "</a>")
	return ast.WalkContinue, nil
}

// imageAsLink keeps a picture's description and address, and loads nothing.
func imageAsLink(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	dest := string(n.(*ast.Image).Destination)
	label := plainText(n, src)
	if label == "" {
		label = dest
	}
	if !followable(dest) {
		w.WriteString("[image: " + html.EscapeString(label) + "]")
		return ast.WalkSkipChildren, nil
	}
	openLink(w, dest)
	w.WriteString("[image: " + html.EscapeString(label) + "]</a>")
	return ast.WalkSkipChildren, nil
}

func plainText(n ast.Node, src []byte) string {
	var b strings.Builder
	ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch t := c.(type) {
			case *ast.Text:
				b.Write(t.Segment.Value(src))
			case *ast.String:
				b.Write(t.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

func followable(dest string) bool {
	u, err := url.Parse(dest)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "mailto":
		return true
	}
	return false
}

func openLink(w util.BufWriter, dest string) {
	w.WriteString(`<a href="` + html.EscapeString(dest) + `" rel="noopener noreferrer nofollow" target="_blank">`)
}
