package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"time"
)

//go:embed static pages
var assets embed.FS

var (
	scripts   = must(fs.Sub(assets, "static"))
	assetHash = hashOf(scripts)
	pages     = template.Must(template.New("").Funcs(template.FuncMap{
		"asset":    func(name string) string { return "/static/" + name + "?v=" + assetHash },
		"bytes":    bytesText,
		"picture":  pictured,
		"thumb":    thumb,
		"short":    shortType,
		"markdown": func(s string) template.HTML { return template.HTML(markdown(s)) }, // its output is escaped, see there
		"stamp":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":    func(t time.Time) string { return t.Local().Format("2 Jan 15:04") },
		"message":  func(m message, v pageView) messageView { return messageView{m, v.Person, v.Console} },
	}).ParseFS(assets, "pages/*.html"))
)

// messageView is a message with the name of the person who wrote it, and
// whether its turn can be looked at.
type messageView struct {
	message
	Person  string
	Console bool
}

type pageView struct {
	Agent, Model, TemporalUI string
	Person                   string
	Conversations            []conversation
	Current                  conversation
	Messages                 []message
	Busy                     bool
	Limits                   limitsJSON
	Complaint                string
	Console                  bool // there is one to go to
}

func hashOf(f fs.FS) string {
	h := sha256.New()
	fs.WalkDir(f, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, _ := fs.ReadFile(f, path)
			fmt.Fprintf(h, "%s %d\n", path, len(b))
			h.Write(b)
		}
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func staticFiles() http.Handler {
	files := http.StripPrefix("/static/", http.FileServerFS(scripts))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("v") == assetHash {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		files.ServeHTTP(w, r)
	})
}

// render writes a page whole, or a plain error.
func (p *Place) render(w http.ResponseWriter, status int, name string, v any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, v); err != nil {
		p.c.Log.Error("rendering a page failed", "page", name, "error", err)
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}

// home goes to the conversation used last.
func (p *Place) home(w http.ResponseWriter, r *http.Request, c caller) {
	list, err := p.db.conversations(r.Context(), c.user)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	if len(list) == 0 {
		p.render(w, http.StatusOK, "page.html", p.view(list))
		return
	}
	http.Redirect(w, r, "/c/"+list[0].ID, http.StatusSeeOther)
}

func (p *Place) view(list []conversation) pageView {
	return pageView{
		Agent: string(p.c.Agent), Model: p.c.Model, TemporalUI: p.c.TemporalUI, Person: p.person.Name,
		Conversations: list, Console: p.hasConsole(), Limits: p.conversationJSON(conversation{}).Limits,
	}
}

func (p *Place) page(w http.ResponseWriter, r *http.Request, c caller, conv conversation) {
	list, err := p.db.conversations(r.Context(), c.user)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	v := p.view(list)
	v.Current = conv
	if v.Messages, err = p.db.messages(r.Context(), conv.ID, shownMessages); err != nil {
		p.failed(w, r, err)
		return
	}
	if v.Busy, err = p.busy(r.Context(), conv.ID); err != nil {
		p.failed(w, r, err)
		return
	}
	p.render(w, http.StatusOK, "page.html", v)
}

// openByForm is how the page opens a conversation, script or not.
func (p *Place) openByForm(w http.ResponseWriter, r *http.Request, c caller) {
	r.Body = http.MaxBytesReader(w, r.Body, 8<<10)
	name, complaint := conversationName(r.PostFormValue("name"))
	if complaint != "" {
		list, err := p.db.conversations(r.Context(), c.user)
		if err != nil {
			p.failed(w, r, err)
			return
		}
		v := p.view(list)
		v.Complaint = complaint
		p.render(w, http.StatusBadRequest, "page.html", v)
		return
	}
	conv, created, err := p.db.named(r.Context(), c.user, name)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	if created {
		p.hub.opened()
	}
	http.Redirect(w, r, "/c/"+conv.ID, http.StatusSeeOther)
}

func (p *Place) renderMessage(m message) (string, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, "message", messageView{m, p.person.Name, p.hasConsole()}); err != nil {
		return "", fmt.Errorf("web: render message: %w", err)
	}
	return b.String(), nil
}

// signIn turns the one-time token into a session. It answers with a page that
// moves on by itself: a redirect would still count as coming from wherever the
// link was clicked, and the strict cookie would not be sent.
func (p *Place) signIn(w http.ResponseWriter, r *http.Request) {
	if !p.links.use(r.URL.Query().Get("token")) {
		p.signInPage(w, "This link was used already, or is too old.")
		return
	}
	p.setCookie(w, p.sessions.issue(localUser), int(sessionLife/time.Second))
	p.render(w, http.StatusOK, "signed-in.html", nil)
}

func (p *Place) signInPage(w http.ResponseWriter, complaint string) {
	p.render(w, http.StatusUnauthorized, "sign-in.html", complaint)
}

func (p *Place) signOut(w http.ResponseWriter, r *http.Request) {
	p.setCookie(w, "", -1)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// mintLink gives a new link to whoever can read the state directory.
func (p *Place) mintLink(w http.ResponseWriter, r *http.Request, c caller) {
	if !c.bearer {
		p.notFound(w, r)
		return
	}
	writeJSON(w, http.StatusCreated, map[string]string{"link": p.SignInLink()})
}

// pictured reports whether a browser may show an upload by itself.
func pictured(u upload) bool { return raster(u.SniffedType) && u.Note == "" && u.Width > 0 }

type extent struct{ Width, Height int }

// thumb fits a picture into the transcript; a strip is cropped rather than
// made too thin to see.
func thumb(w, h int) extent {
	const maxW, maxH, least = 260, 200, 48
	if w <= 0 || h <= 0 {
		return extent{}
	}
	scale := min(1, float64(maxW)/float64(w), float64(maxH)/float64(h))
	return extent{max(int(float64(w)*scale), min(w, least)), max(int(float64(h)*scale), min(h, least))}
}

// shortType is a file's kind in a few letters: pdf, svg, tiff, text.
func shortType(mimeType string) string {
	_, s, _ := strings.Cut(mimeType, "/")
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "vnd."), "+")
	switch s {
	case "plain":
		return "text"
	case "octet-stream":
		return "file"
	}
	return s[:min(len(s), 5)]
}

func bytesText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", (n+512)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
