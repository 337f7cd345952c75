package web

import (
	"errors"
	"net/http"

	"sightline/connectors/chat"
)

// The console is the owner's: what became of conversations, turns and
// attachments, without a pixel but the thumbnails that this place serves of
// its own uploads anyway.

type consoleView struct {
	Report
	TemporalUI string
	Home       bool    // the list of conversations
	Thumb      *upload // nil: none may be shown
	names      map[string]named
}

// hasConsole reports whether the person of this place may look into it.
func (p *Place) hasConsole() bool { return p.c.Console != nil && p.person.Role == chat.Owner }

// owner lets only the owner through. To anybody else there is no console.
func (p *Place) owner(h func(http.ResponseWriter, *http.Request, caller)) func(http.ResponseWriter, *http.Request, caller) {
	return func(w http.ResponseWriter, r *http.Request, c caller) {
		if !p.hasConsole() || c.user != localUser {
			p.notFound(w, r)
			return
		}
		h(w, r, c)
	}
}

func (p *Place) console(w http.ResponseWriter, r *http.Request, c caller) {
	report, err := p.c.Console.Overview(r.Context())
	if err != nil {
		p.failed(w, r, err)
		return
	}
	names, err := p.names(r.Context(), c.user)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	p.render(w, http.StatusOK, "console.html", consoleView{Report: report, TemporalUI: p.c.TemporalUI, Home: true, names: names})
}

func (p *Place) inspect(w http.ResponseWriter, r *http.Request, c caller) {
	report, err := p.c.Console.Inspect(r.Context(), r.PathValue("kind"), r.PathValue("id"))
	switch {
	case errors.Is(err, chat.ErrNotFound):
		p.render(w, http.StatusNotFound, "console.html", consoleView{Report: Report{Title: "There is nothing of that ID"}, TemporalUI: p.c.TemporalUI})
		return
	case err != nil:
		p.failed(w, r, err)
		return
	}
	v := consoleView{Report: report, TemporalUI: p.c.TemporalUI}
	if v.names, err = p.names(r.Context(), c.user); err != nil {
		p.failed(w, r, err)
		return
	}
	if report.Picture != "" {
		// What is deleted, or somebody else's, is not shown here either.
		u, err := p.db.readable(r.Context(), c.user, report.Picture)
		if err != nil && !errors.Is(err, errNotFound) {
			p.failed(w, r, err)
			return
		}
		if err == nil && pictured(u) {
			v.Thumb = &u
		}
	}
	p.render(w, http.StatusOK, "console.html", v)
}
