package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// handler routes everything. streams ends the live streams at shutdown.
func (p *Place) handler(streams context.Context) http.Handler {
	mux := http.NewServeMux()
	page := func(pattern string, h func(http.ResponseWriter, *http.Request, caller)) {
		mux.HandleFunc(pattern, p.signedIn(h))
	}
	mux.HandleFunc("GET /sign-in", p.signIn)
	mux.HandleFunc("POST /sign-out", p.signOut)
	mux.Handle("GET /static/", staticFiles())
	page("GET /{$}", p.home)
	page("GET /c/{conv}", p.inConversation(p.page))
	page("POST /conversations", p.openByForm)
	page("GET /console", p.owner(p.console))
	page("GET /console/{kind}/{id}", p.owner(p.inspect))

	page("GET /api/conversations", p.listConversations)
	page("POST /api/conversations", p.openConversation)
	page("GET /api/conversations/{conv}", p.inConversation(p.readConversation))
	page("GET /api/conversations/{conv}/events", p.inConversation(p.events(streams)))
	page("POST /api/conversations/{conv}/messages", p.inConversation(p.sendMessage))
	page("GET /api/conversations/{conv}/messages/{message}", p.inConversation(p.readMessage))
	page("DELETE /api/conversations/{conv}/messages/{message}", p.inConversation(p.deleteMessage))
	page("POST /api/conversations/{conv}/uploads", p.inConversation(p.receiveUpload))
	page("DELETE /api/conversations/{conv}/uploads/{upload}", p.inConversation(p.dropUpload))
	page("POST /api/conversations/{conv}/stop", p.inConversation(p.stop))
	page("POST /api/sign-in-link", p.mintLink)
	page("GET /uploads/{upload}", p.serveUpload)
	page("/", func(w http.ResponseWriter, r *http.Request, _ caller) { p.notFound(w, r) })
	return p.guard(mux)
}

// signedIn lets only callers through that are somebody. Without a session
// every address answers alike, so none tells whether something is there.
func (p *Place) signedIn(h func(http.ResponseWriter, *http.Request, caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if c, ok := p.caller(r); ok {
			h(w, r, c)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/uploads/") {
			p.notFound(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/") {
			p.fail(w, r, http.StatusUnauthorized, "Sign in first.")
			return
		}
		p.signInPage(w, "")
	}
}

// inConversation looks the conversation up for its owner; one of somebody
// else is one that is not there.
func (p *Place) inConversation(h func(http.ResponseWriter, *http.Request, caller, conversation)) func(http.ResponseWriter, *http.Request, caller) {
	return func(w http.ResponseWriter, r *http.Request, c caller) {
		conv, err := p.db.conversation(r.Context(), c.user, r.PathValue("conv"))
		if err != nil {
			p.failed(w, r, err)
			return
		}
		h(w, r, c, conv)
	}
}

func (p *Place) notFound(w http.ResponseWriter, r *http.Request) {
	p.fail(w, r, http.StatusNotFound, "There is nothing here.")
}

// fail answers with a sentence for a person, and on a page with a way back.
func (p *Place) fail(w http.ResponseWriter, r *http.Request, status int, sentence string) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		writeJSON(w, status, map[string]string{"error": sentence})
		return
	}
	p.render(w, status, "notice.html", noticeView{Title: failureTitle(status), Sentence: sentence})
}

type noticeView struct{ Title, Sentence string }

func failureTitle(status int) string {
	switch status {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusForbidden:
		return "Refused"
	case http.StatusServiceUnavailable:
		return "Not just now"
	}
	return "That did not work"
}

// failed answers for an error: its text is for operators and goes to the log.
func (p *Place) failed(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errNotFound):
		p.notFound(w, r)
	case errors.Is(err, errConflict):
		p.fail(w, r, http.StatusConflict, "This key was used for another message already. Send it again as a new one.")
	case errors.Is(err, errUploads):
		p.fail(w, r, http.StatusConflict, "One of the files is no longer there or was sent already. Attach it again.")
	case r.Context().Err() != nil: // nobody is listening any more
	default:
		p.c.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		w.Header().Set("Retry-After", "2")
		p.fail(w, r, http.StatusServiceUnavailable, "The service can't answer just now. Try again in a moment.")
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"The answer could not be written."}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	w.Write(b)
}

// readJSON reads a bounded body of known fields.
func (p *Place) readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 512<<10))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		p.fail(w, r, http.StatusRequestEntityTooLarge, "The message is too long. Send the long part as a file.")
	case err != nil:
		p.fail(w, r, http.StatusBadRequest, "The request is not the JSON that belongs here.")
	}
	return err == nil
}
