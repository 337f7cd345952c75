package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

// rows is an inventory of one event's files.
type rows struct {
	e   chat.Event
	ids []chat.AttachmentID
}

func (r rows) Attachment(_ context.Context, a chat.AgentID, c chat.ConversationID, id chat.AttachmentID) (chat.Attachment, error) {
	for i, f := range r.e.Files {
		if r.ids[i] == id {
			return chat.Attachment{ID: id, Agent: a, Conversation: c, Place: r.e.Place.ID, Message: r.e.Message.ID, NativeFile: f.NativeID,
				Origin: f.Origin, State: f.State, Size: f.Size}, nil
		}
	}
	return chat.Attachment{}, chat.ErrNotFound
}
func (r rows) Place(context.Context, chat.AgentID, chat.PlaceID) (chat.Place, error) {
	return r.e.Place, nil
}
func (r rows) Message(context.Context, chat.PlaceID, chat.MessageID) (chat.Message, error) {
	return r.e.Message, nil
}
func (r rows) SourcePlaces(context.Context, chat.AgentID, chat.ConversationID) ([]chat.Place, error) {
	return nil, nil
}
func (r rows) Attachments(context.Context, chat.AgentID, chat.ConversationID, []chat.PlaceID, chat.MessageID, int, int) ([]chat.Attachment, int, error) {
	return nil, 0, nil
}
func (r rows) Learn(context.Context, chat.AgentID, chat.AttachmentID, chat.Facts) error { return nil }
func (r rows) RecordUses(context.Context, []chat.Use) error                             { return nil }

// anyone lets every audience through: what comes after is looked at here.
type anyone struct{}

func (anyone) Decide(context.Context, attachments.Question) (attachments.Decision, error) {
	return attachments.Allow("test", 0, 0), nil
}

// grab fetches file i of an event under a real grant.
func (w *world) grab(e chat.Event, i int) ([]byte, error) {
	w.t.Helper()
	r := rows{e: e}
	for range e.Files {
		r.ids = append(r.ids, chat.NewAttachmentID())
	}
	a, err := attachments.New(attachments.Config{Inventory: r, MaxBytes: 1 << 20,
		Visibility: map[chat.Platform]attachments.Visibility{Platform: anyone{}},
		Sources:    map[chat.AgentID]map[chat.Platform]attachments.Source{agent: {Platform: w.bot}}})
	if err != nil {
		w.t.Fatal(err)
	}
	g, _, err := a.Authorize(w.t.Context(), attachments.Request{Agent: agent, Conversation: e.Place.Conversation(), Destination: e.Place.ID,
		Trigger: e.Message.ID, Actor: e.Message.Author, Turn: "t"}, r.ids[i], "test")
	if err != nil {
		w.t.Fatal(err)
	}
	var b bytes.Buffer
	err = w.bot.Fetch(w.t.Context(), g, &b)
	return b.Bytes(), err
}

func (w *world) refused(what string, e chat.Event, want error) {
	w.t.Helper()
	before := w.Served()
	b, err := w.grab(e, 0)
	if !errors.Is(err, want) || len(b) > 0 || w.Served() != before {
		w.t.Errorf("%s: %d bytes, %d served, %v, want %v", what, len(b), w.Served()-before, err, want)
	}
	if err != nil && (strings.Contains(err.Error(), "http") || strings.Contains(err.Error(), "127.0.0.1")) {
		w.t.Errorf("%s: the error quotes an address: %v", what, err)
	}
}

func TestFetch(t *testing.T) {
	w := newWorld(t)
	dm := w.AddDM(w.alice)
	w.run()
	e := w.said(w.channel)
	if b, err := w.grab(e, 0); err != nil || string(b) != "png bytes of a.png" {
		t.Errorf("%q, %v", b, err)
	}
	// A signed URL lives for a day; none is kept.
	w.Later(48 * time.Hour)
	if b, err := w.grab(e, 0); err != nil || len(b) == 0 {
		t.Errorf("two days later: %v", err)
	}
	// A forward's copy comes from the snapshot.
	of := w.Post(w.channel, w.bob, draft{Files: []fakediscord.File{png("original.png")}})
	w.next()
	w.Post(dm, w.alice, draft{Forward: &of})
	f := w.next()
	if b, err := w.grab(f, 0); err != nil || string(b) != "png bytes of original.png" {
		t.Errorf("forwarded: %q, %v", b, err)
	}
	direct := f
	direct.Files = []chat.File{f.Files[0]}
	direct.Files[0].Origin = chat.OriginDirect
	w.refused("a snapshot's file as the message's own", direct, attachments.ErrGone)

	copied := e
	copied.Files = []chat.File{e.Files[0]}
	copied.Files[0].Origin = chat.OriginForward
	w.refused("the message's own file as a snapshot's", copied, attachments.ErrGone)

	w.Edit(fakediscord.Message{ID: e.Message.NativeID, ChannelID: w.channel}, "edited", 0, png("b.png"))
	edit := w.next()
	w.refused("an edit replaced the file", e, attachments.ErrGone)
	if b, err := w.grab(edit, 0); err != nil || string(b) != "png bytes of b.png" {
		t.Errorf("the new file: %q, %v", b, err)
	}
	w.Delete(fakediscord.Message{ID: edit.Message.NativeID, ChannelID: w.channel})
	w.next()
	w.refused("deleted", edit, attachments.ErrGone)
}

func TestFetchRefusals(t *testing.T) {
	w := newWorld(t)
	w.run()
	e := w.said(w.channel)
	cdn := func(status int, kind, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/attachments/") {
				return false
			}
			rw.Header().Set("Content-Type", kind)
			rw.WriteHeader(status)
			_, _ = rw.Write([]byte(body))
			return true
		}
	}
	for what, c := range map[string]struct {
		do   func(http.ResponseWriter, *http.Request) bool
		want error
	}{
		"the CDN has nothing":      {cdn(404, "text/plain", "no"), attachments.ErrGone},
		"the CDN denies":           {cdn(403, "text/plain", "no"), attachments.ErrDenied},
		"the CDN fails":            {cdn(503, "text/plain", "no"), attachments.ErrUnreachable},
		"a page instead of a file": {cdn(200, "text/html; charset=utf-8", "<!DOCTYPE html>"), attachments.ErrDenied},
		"the API denies": {func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/messages/") {
				return false
			}
			rw.WriteHeader(403)
			return true
		}, attachments.ErrDenied},
		"the API fails": {func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/messages/") {
				return false
			}
			rw.WriteHeader(500)
			return true
		}, attachments.ErrUnreachable},
	} {
		w.Intercept(c.do)
		w.refused(what, e, c.want)
	}
	w.Intercept(cdn(200, "image/png", "png"))
	if b, err := w.grab(e, 0); !errors.Is(err, attachments.ErrUnreachable) {
		t.Errorf("a short file: %d bytes, %v", len(b), err)
	}

	// Off the list, at once and by a redirect.
	touched := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { touched = true }))
	defer elsewhere.Close()
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/attachments/") {
			return false
		}
		http.Redirect(rw, r, elsewhere.URL+"/x.png", http.StatusFound)
		return true
	})
	w.refused("a redirect off the list", e, attachments.ErrDenied)
	w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/messages/") {
			return false
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"id": e.Message.NativeID, "attachments": []any{map[string]any{
			"id": e.Files[0].NativeID, "url": elsewhere.URL + "/x.png", "size": 3}}})
		return true
	})
	w.refused("a message that points off the list", e, attachments.ErrDenied)
	if touched {
		t.Error("a host off the list was asked")
	}
	w.Intercept(nil)
	if _, err := w.grab(e, 0); err != nil {
		t.Errorf("at the end: %v", err)
	}
	if err := w.bot.Fetch(t.Context(), attachments.Grant{}, io.Discard); !errors.Is(err, attachments.ErrGrant) {
		t.Errorf("no grant: %v", err)
	}
}
