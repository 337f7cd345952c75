package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"sightline/connectors/chat"
)

// What the API answers with.
type (
	conversationJSON struct {
		ID     string     `json:"id"`
		Name   string     `json:"name"`
		Limits limitsJSON `json:"limits"`
	}
	limitsJSON struct {
		File  int64 `json:"file"`
		PDF   int64 `json:"pdf"`
		Files int   `json:"files"`
		Text  int   `json:"text"`
	}
	messageJSON struct {
		ID    string       `json:"id"`
		Kind  string       `json:"kind"` // person, answer, failure, stopped, beside
		Turn  chat.TurnID  `json:"turn"`
		Text  string       `json:"text"`
		At    time.Time    `json:"at"`
		Files []uploadJSON `json:"files,omitempty"`
		HTML  string       `json:"html,omitempty"` // for the page
	}
	uploadJSON struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Type   string `json:"type"`
		Size   int64  `json:"size"`
		Width  int    `json:"width,omitempty"`
		Height int    `json:"height,omitempty"`
		Note   string `json:"note,omitempty"`
	}
	sentJSON struct {
		Message      string              `json:"message"`
		Turn         chat.TurnID         `json:"turn"`
		Conversation chat.ConversationID `json:"conversation"`
	}
	statusJSON struct {
		State  string       `json:"state"` // queued, running, answered, failed, stopped, deleted
		Reason string       `json:"reason,omitempty"`
		Turn   chat.TurnID  `json:"turn"`
		Reply  *messageJSON `json:"reply,omitempty"`
	}
)

func (p *Place) conversationJSON(c conversation) conversationJSON {
	return conversationJSON{c.ID, c.Name, limitsJSON{p.c.MaxBytes, p.c.MaxPDF, maxFiles, maxText}}
}

func uploadToJSON(u upload) uploadJSON {
	return uploadJSON{u.ID, u.Name, u.SniffedType, u.Size, u.Width, u.Height, u.Note}
}

func messageToJSON(m message) messageJSON {
	j := messageJSON{ID: m.ID, Kind: m.Kind, Turn: m.Turn, Text: m.Text, At: m.At}
	for _, u := range m.Uploads {
		j.Files = append(j.Files, uploadToJSON(u))
	}
	return j
}

func (p *Place) listConversations(w http.ResponseWriter, r *http.Request, c caller) {
	list, err := p.db.conversations(r.Context(), c.user)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	out := []conversationJSON{}
	for _, conv := range list {
		out = append(out, p.conversationJSON(conv))
	}
	writeJSON(w, http.StatusOK, map[string]any{"conversations": out})
}

// openConversation finds the conversation of that name or opens it.
func (p *Place) openConversation(w http.ResponseWriter, r *http.Request, c caller) {
	var in struct {
		Name string `json:"name"`
	}
	if !p.readJSON(w, r, &in) {
		return
	}
	name, complaint := conversationName(in.Name)
	if complaint != "" {
		p.fail(w, r, http.StatusBadRequest, complaint)
		return
	}
	conv, created, err := p.db.named(r.Context(), c.user, name)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	status := http.StatusOK
	if created {
		p.hub.opened()
		status = http.StatusCreated
	}
	writeJSON(w, status, p.conversationJSON(conv))
}

func conversationName(s string) (name, complaint string) {
	if utf8.RuneCountInString(s) > maxName {
		return "", fmt.Sprintf("The name is longer than %d characters.", maxName)
	}
	if name = oneLine(s, maxName); name == "" {
		return "", "Give the conversation a name."
	}
	return name, ""
}

func (p *Place) readConversation(w http.ResponseWriter, r *http.Request, _ caller, c conversation) {
	list, err := p.db.messages(r.Context(), c.ID, shownMessages)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	busy, err := p.busy(r.Context(), c.ID)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	out := []messageJSON{}
	for _, m := range list {
		out = append(out, messageToJSON(m))
	}
	writeJSON(w, http.StatusOK, map[string]any{"conversation": p.conversationJSON(c), "messages": out, "running": busy})
}

// sendMessage answers 202 once the message is durable here and with the sink.
func (p *Place) sendMessage(w http.ResponseWriter, r *http.Request, c caller, conv conversation) {
	var in struct {
		ClientKey string   `json:"client_key"`
		Text      string   `json:"text"`
		Uploads   []string `json:"uploads"`
	}
	if !p.readJSON(w, r, &in) {
		return
	}
	if complaint := badMessage(in.ClientKey, in.Text, in.Uploads); complaint != "" {
		p.fail(w, r, http.StatusBadRequest, complaint)
		return
	}
	release, err := p.hold(r.Context(), conv.ID)
	if err != nil {
		return // the client has left while it waited
	}
	defer release()
	place := p.placeOf(conv.ID)
	id, err := p.db.send(r.Context(), conv, place.ID, c.user, draft{in.ClientKey, in.Text, in.Uploads})
	if err != nil {
		p.failed(w, r, err)
		return
	}
	p.changed(r.Context(), conv.ID, "")
	if !p.settled(w, r, conv.ID, "Your message is saved, but the agent can't be reached just now. It will be delivered as soon as it can.") {
		return
	}
	mid := chat.MessageOf(place.ID, id)
	writeJSON(w, http.StatusAccepted, sentJSON{id, chat.TurnOf(mid), place.Conversation()})
}

// settled hands over what waits, and answers 503 when the sink refuses.
func (p *Place) settled(w http.ResponseWriter, r *http.Request, conv, sentence string) bool {
	if err := p.settle(r.Context(), conv); err != nil {
		p.c.Log.Error("delivery failed; it is tried again", "conversation", conv, "error", err)
		w.Header().Set("Retry-After", "2")
		p.fail(w, r, http.StatusServiceUnavailable, sentence)
		return false
	}
	return true
}

func badMessage(key, text string, uploads []string) string {
	seen := map[string]bool{}
	for _, u := range uploads {
		if seen[u] {
			return "The same file is attached twice."
		}
		seen[u] = true
	}
	switch {
	case key == "" || len(key) > 100 || !utf8.ValidString(key) || strings.ContainsRune(key, 0):
		return "The request has no usable client_key."
	case len(text) > maxText:
		return fmt.Sprintf("The message is %d KiB long; the limit is %d KiB. Send the long part as a file.", (len(text)+1023)>>10, maxText>>10)
	case strings.ContainsRune(text, 0):
		return "The message holds a NUL character, which no text has. Send it as a file."
	case strings.TrimSpace(text) == "" && len(uploads) == 0:
		return "The message is empty. Write something or attach a file."
	case len(uploads) > maxFiles:
		return fmt.Sprintf("%d files are too many for one message; the limit is %d.", len(uploads), maxFiles)
	}
	return ""
}

func (p *Place) readMessage(w http.ResponseWriter, r *http.Request, _ caller, c conversation) {
	m, err := p.db.message(r.Context(), c.ID, r.PathValue("message"))
	if err == nil && m.Kind != kindPerson {
		err = errNotFound
	}
	if err != nil {
		p.failed(w, r, err)
		return
	}
	s, err := p.status(r.Context(), c.ID, m)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, s)
}

func (p *Place) deleteMessage(w http.ResponseWriter, r *http.Request, c caller, conv conversation) {
	id := r.PathValue("message")
	if !isID(messagePrefix, id) {
		p.notFound(w, r)
		return
	}
	release, err := p.hold(r.Context(), conv.ID)
	if err != nil {
		return
	}
	defer release()
	// Begun, it is finished: the rows first, since they decide.
	ctx := context.WithoutCancel(r.Context())
	files, err := p.db.delete(ctx, conv.ID, c.user, id)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	p.changed(ctx, conv.ID, "")
	for _, f := range files {
		if err := p.files.remove(f); err != nil { // Sweep finds it again
			p.c.Log.Warn("removing a deleted file failed", "upload", f, "error", err)
		}
	}
	if p.settled(w, r, conv.ID, "The message is deleted, but the agent can't be told just now. It will be told as soon as it can.") {
		w.WriteHeader(http.StatusNoContent)
	}
}

func (p *Place) stop(w http.ResponseWriter, r *http.Request, _ caller, c conversation) {
	if err := p.c.Sink.Stop(r.Context(), p.placeOf(c.ID).Conversation()); err != nil {
		p.failed(w, r, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}
