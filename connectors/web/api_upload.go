package web

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"sightline/attachments/visual"
)

const uploadTimeout = 5 * time.Minute

// refusal is a sentence for the sender with its status.
type refusal struct {
	status   int
	sentence string
}

func (r *refusal) Error() string { return "web: upload refused: " + r.sentence }

// receiveUpload takes one file, as raw bytes with its name in a header. What
// it is, its own bytes say.
func (p *Place) receiveUpload(w http.ResponseWriter, r *http.Request, c caller, conv conversation) {
	if r.ContentLength > max(p.c.MaxBytes, p.c.MaxPDF) {
		w.Header().Set("Connection", "close") // the rest is not read
		p.fail(w, r, http.StatusRequestEntityTooLarge, p.tooLarge(visual.Unknown))
		return
	}
	name, err := url.PathUnescape(r.Header.Get("X-File-Name"))
	if err != nil {
		p.fail(w, r, http.StatusBadRequest, "The file's name is not encoded as it should be.")
		return
	}
	// Whoever sends a byte a minute must not hold a file open for ever.
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTimeout))
	tmp, size, err := p.files.receive(r.Body, max(p.c.MaxBytes, p.c.MaxPDF))
	if err != nil {
		p.failed(w, r, err)
		return
	}
	defer os.Remove(tmp) // nothing is there any more once it was kept
	u := upload{
		ID: newID(uploadPrefix), Conversation: conv.ID, Name: fileName(name), Size: size,
		DeclaredType: oneLine(r.Header.Get("Content-Type"), maxName),
	}
	err = p.examine(&u, tmp)
	if err == nil {
		err = p.keepUpload(r.Context(), c.user, u, tmp)
	}
	var no *refusal
	switch {
	case errors.As(err, &no):
		p.fail(w, r, no.status, no.sentence)
	case err != nil:
		p.failed(w, r, err)
	default:
		writeJSON(w, http.StatusCreated, uploadToJSON(u))
	}
}

func (p *Place) tooLarge(f visual.Format) string {
	mib := func(n int64) string { return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20)) }
	switch {
	case f == visual.PDF:
		return fmt.Sprintf("The file is larger than %s, the limit for a PDF.", mib(p.c.MaxPDF))
	case f == visual.Unknown && p.c.MaxPDF > p.c.MaxBytes:
		return fmt.Sprintf("The file is larger than the limit of %s (%s for a PDF).", mib(p.c.MaxBytes), mib(p.c.MaxPDF))
	}
	return fmt.Sprintf("The file is larger than the limit of %s.", mib(p.c.MaxBytes))
}

// examine sniffs the file, applies the limit of its kind and reads a
// picture's header. One that can't be shown is kept, with the reason.
func (p *Place) examine(u *upload, file string) error {
	if u.Size == 0 {
		return &refusal{http.StatusBadRequest, "The file is empty."}
	}
	b, err := os.ReadFile(file) // bounded by receive
	if err != nil {
		return fmt.Errorf("web: read upload: %w", err)
	}
	f := visual.Sniff(b)
	u.SniffedType = f.MIME()
	limit := p.c.MaxBytes
	if f == visual.PDF {
		limit = p.c.MaxPDF
	}
	if u.Size > limit {
		return &refusal{http.StatusRequestEntityTooLarge, p.tooLarge(f)}
	}
	switch ext := strings.ToLower(path.Ext(u.Name)); f {
	case visual.PDF, visual.Text, visual.ZIP: // documents (office files are archives): nobody expects a picture
		return nil
	case visual.HTML:
		if ext == ".html" || ext == ".htm" {
			return nil
		}
	}
	h, err := visual.ReadHeader(b, p.limits)
	u.Width, u.Height = h.Upright()
	var no *visual.Refusal
	switch {
	case errors.As(err, &no):
		u.Note = no.Person
	case err != nil:
		u.Note = "This file can't be read as a picture."
	}
	return nil
}

// keepUpload stores file and row under the conversation's quota.
func (p *Place) keepUpload(ctx context.Context, owner string, u upload, tmp string) error {
	release, err := p.hold(ctx, u.Conversation)
	if err != nil {
		return err
	}
	defer release()
	n, err := p.db.stored(ctx, u.Conversation)
	if err != nil {
		return err
	}
	if n+u.Size > p.c.Quota {
		return &refusal{http.StatusInsufficientStorage, fmt.Sprintf(
			"This conversation's files take %d MiB already; the limit is %d MiB. Delete messages with files, or go on in a new conversation.", n>>20, p.c.Quota>>20)}
	}
	// The file first: a row without its file would be a promise broken.
	if err := p.files.keep(tmp, u.ID); err != nil {
		return err
	}
	// If this fails nobody knows whether the row is there; Sweep will.
	return p.db.addUpload(ctx, owner, u)
}

// dropUpload takes a file back that was not sent.
func (p *Place) dropUpload(w http.ResponseWriter, r *http.Request, c caller, conv conversation) {
	id := r.PathValue("upload")
	if err := p.db.dropUnsent(r.Context(), conv.ID, c.user, id); err != nil {
		p.failed(w, r, err)
		return
	}
	if err := p.files.remove(id); err != nil {
		p.c.Log.Warn("removing an upload failed", "upload", id, "error", err)
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveUpload gives a file back: pictures to look at, all else as a download
// that no browser opens in this place's name. A browser asks again each time,
// so a deleted message's picture is gone from the page too.
func (p *Place) serveUpload(w http.ResponseWriter, r *http.Request, c caller) {
	u, err := p.db.readable(r.Context(), c.user, r.PathValue("upload"))
	if err != nil {
		p.failed(w, r, err)
		return
	}
	f, err := p.files.open(u.ID)
	if errors.Is(err, os.ErrNotExist) {
		p.notFound(w, r)
		return
	}
	if err != nil {
		p.failed(w, r, err)
		return
	}
	defer f.Close()
	disposition := "attachment"
	if raster(u.SniffedType) {
		disposition = "inline"
	}
	h := w.Header()
	h.Set("Content-Type", u.SniffedType)
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": u.Name}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+u.ID+`"`)
	http.ServeContent(w, r, "", time.Time{}, f)
}

// raster reports whether a browser may show this type by itself.
func raster(mimeType string) bool {
	for _, f := range []visual.Format{visual.PNG, visual.JPEG, visual.GIF, visual.WebP} {
		if mimeType == f.MIME() {
			return true
		}
	}
	return false
}
