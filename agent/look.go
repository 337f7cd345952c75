package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

// Wanted is one picture that a request should contain.
type Wanted struct {
	Attachment chat.AttachmentID
	Region     *visual.Region
	Digest     string // as it was when it was chosen; empty: first look
	Page       int    // of a PDF, from 1; 0: the attachment is a picture
	File       string // of the workspace, instead of an attachment
}

// selected is what a wanted picture is called before it is looked at.
func (w Wanted) selected() chat.Selected {
	s := chat.Selected{Attachment: w.Attachment, Page: w.Page, File: w.File}
	if w.Region != nil {
		s.Region = &[4]int{w.Region.X, w.Region.Y, w.Region.Width, w.Region.Height}
	}
	return s
}

// Pages makes pictures of the pages of documents.
type Pages interface {
	RenderPage(ctx context.Context, b []byte, page int, t visual.Target, region *visual.Region) (visual.Picture, error)
}

// Files are the files of a conversation's workspace. Open answers with the
// file and the attachments that it may have been made of, each of which was
// authorized for the request just now.
type Files interface {
	Open(ctx context.Context, r attachments.Request, name string) (b []byte, sources []chat.AttachmentID, err error)
}

// Quarantines is the memory of pictures that must not be sent again.
type Quarantines interface {
	// Reason is why a digest is kept from a model (or from all of them);
	// empty when it is not.
	Reason(ctx context.Context, digest, model string) (string, error)
	Put(ctx context.Context, digest, model, reason string) error
}

// Looker turns wanted pictures into shown ones, one at a time, each under its
// own grant and from a fresh fetch.
type Looker struct {
	Authorizer  *attachments.Authorizer
	Decoder     *visual.Decoder
	Quarantines Quarantines
	// Pages shows PDFs, MaxDocument bytes at most; nil: nothing does.
	Pages       Pages
	MaxDocument int64
	Files       Files   // nil: there are no workspaces
	Memory      *Memory // held by whoever calls Look, as long as it keeps what it got; nil: unbounded
	// At is called at each boundary of a look; nil outside of tests.
	At func(boundary string)
	// Decoded is told how long bounding and decoding a picture took; nil:
	// nobody is.
	Decoded func(took time.Duration, err error)
}

func (l *Looker) at(b string) {
	if l.At != nil {
		l.At(b)
	}
}

// Largest is how many bytes the file of a wanted picture may have.
func (l *Looker) Largest(w Wanted) int64 {
	if w.Page > 0 {
		return max(l.MaxDocument, l.Authorizer.Largest())
	}
	return l.Authorizer.Largest()
}

// View is what became of one wanted picture.
type View struct {
	Selected chat.Selected
	Name     string
	Picture  visual.Picture // zero unless shown
	Notes    []string       // what a reader should know of what is shown
	Person   string         // why it is not shown
	Operator string
}

// Shown reports whether there is a picture.
func (v View) Shown() bool { return v.Selected.Reason == "" }

func (v View) hide(person, operator string) View {
	v.Person, v.Operator, v.Selected.Reason = person, operator, person
	v.Picture = visual.Picture{}
	return v
}

// open reports whether err leaves the question open, so that the caller must
// fail and be tried again rather than say "can't be shown".
func open(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	var refusal *visual.Refusal
	var state *attachments.StateError
	var large *attachments.TooLargeError
	switch {
	case errors.As(err, &refusal), errors.As(err, &state), errors.As(err, &large),
		errors.Is(err, attachments.ErrNotAvailable), errors.Is(err, attachments.ErrGone),
		errors.Is(err, attachments.ErrDenied), errors.Is(err, attachments.ErrUnreachable),
		errors.Is(err, attachments.ErrGrant):
		return false
	}
	return true
}

// Unavailable says in one sentence why an attachment can't be had. It is not
// final where nothing could be established: then the caller fails and is tried
// again.
func Unavailable(ctx context.Context, err error) (person string, final bool) {
	if open(ctx, err) {
		return "", false
	}
	var state *attachments.StateError
	switch {
	case errors.Is(err, attachments.ErrNotAvailable):
		return err.Error(), true
	case errors.As(err, &state):
		return state.Person, true
	}
	return fetchReason(err), true
}

// Look authorizes, fetches, bounds and decodes one picture now. Its error
// means that nothing could be established.
func (l *Looker) Look(ctx context.Context, r attachments.Request, w Wanted, m ModelInfo, target visual.Target, action string) (View, error) {
	v := View{Selected: w.selected()}
	if w.File != "" {
		return l.lookFile(ctx, r, w, m, target, v)
	}
	g, row, err := l.Authorizer.Authorize(ctx, r, w.Attachment, action)
	if err != nil {
		if open(ctx, err) {
			return v, err
		}
		var state *attachments.StateError
		if errors.As(err, &state) {
			return v.hide(state.Person, err.Error()), nil
		}
		return v.hide(err.Error(), err.Error()), nil
	}
	l.at(action + ".authorized")
	v.Name = InertName(row.Name)
	v.Selected.Message = row.Message
	fetch := l.Authorizer.Fetch
	if w.Page > 0 {
		if l.Pages == nil {
			return v.hide("pages of documents can't be shown by this agent", "no page renderer"), nil
		}
		fetch = func(ctx context.Context, g attachments.Grant, r attachments.Request, id chat.AttachmentID) (attachments.Content, error) {
			return l.Authorizer.FetchMax(ctx, g, r, id, l.MaxDocument)
		}
	}
	content, err := fetch(ctx, g, r, w.Attachment)
	if err != nil {
		if open(ctx, err) {
			return v, err
		}
		return v.hide("the picture could not be fetched: "+fetchReason(err), err.Error()), nil
	}
	l.at(action + ".fetched")
	digest := content.Digest()
	v.Selected.Digest = digest
	known := w.Digest
	if known == "" {
		known = row.Digest
	}
	if known != "" && known != digest {
		v.Notes = append(v.Notes, "its content changed since it was last looked at")
	}
	if reason, err := l.Quarantines.Reason(ctx, quarantineKey(v.Selected), m.Key); err != nil {
		return v, fmt.Errorf("look up quarantine: %w", err)
	} else if reason != "" {
		return v.hide(reason, "quarantined by digest: "+reason), nil
	}
	if w.Page > 0 {
		return l.page(ctx, w, target, content.Bytes(), v)
	}
	began := time.Now()
	header, err := l.Decoder.ValidateDigest(ctx, content.Bytes(), content.Sum())
	if err == nil {
		v.Selected.Type = header.Format.MIME()
		v.Selected.Width, v.Selected.Height = header.Upright()
		v.Picture, err = l.Decoder.RebuildDigest(ctx, content.Bytes(), content.Sum(), target, w.Region)
	}
	if l.Decoded != nil {
		l.Decoded(time.Since(began), err)
	}
	sniffed := visual.Sniff(content.Bytes())
	facts := chat.Facts{SniffedType: sniffed.MIME(), Width: v.Selected.Width, Height: v.Selected.Height, Size: int64(len(content.Bytes())), Digest: digest}
	if err != nil {
		var refusal *visual.Refusal
		if !errors.As(err, &refusal) {
			return v, err
		}
		if refusal.Code == visual.Corrupt || refusal.Code == visual.Truncated {
			// Unreadable is a property of the bytes: keep them out of every
			// later request without decoding them again.
			if err := l.Quarantines.Put(ctx, digest, "", refusal.Person); err != nil {
				return v, fmt.Errorf("quarantine: %w", err)
			}
			facts.StateReason = refusal.Person
		}
		if err := l.Authorizer.Learn(ctx, g, r, w.Attachment, facts); err != nil {
			return v, fmt.Errorf("keep what the picture showed: %w", err)
		}
		return v.hide(refusal.Person, refusal.Operator), nil
	}
	if row.SniffedType != facts.SniffedType || row.Digest == "" || row.Width != facts.Width || row.Height != facts.Height {
		if err := l.Authorizer.Learn(ctx, g, r, w.Attachment, facts); err != nil {
			return v, fmt.Errorf("keep what the picture showed: %w", err)
		}
	}
	l.at(action + ".decoded")
	v.Notes = append(v.Notes, v.Picture.Notes...)
	return v, nil
}

func fetchReason(err error) string {
	var large *attachments.TooLargeError
	var state *attachments.StateError
	switch {
	case errors.As(err, &large):
		return large.Error()
	case errors.As(err, &state):
		return state.Person
	case errors.Is(err, attachments.ErrGone):
		return attachments.ErrGone.Error()
	case errors.Is(err, attachments.ErrDenied):
		return attachments.ErrDenied.Error()
	}
	return attachments.ErrUnreachable.Error()
}

// quarantineKey is what a rejected picture is kept out by: the digest of the
// file, or, where that has several pictures, of the one.
func quarantineKey(s chat.Selected) string {
	if s.Page == 0 {
		return s.Digest
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s page %d", s.Digest, s.Page))
	return hex.EncodeToString(sum[:])
}

// name is what a picture goes by in a request.
func name(s chat.Selected) string {
	n := string(s.Attachment)
	if s.File != "" {
		n = s.File
	}
	if s.Page > 0 {
		n += fmt.Sprintf(" page %d", s.Page)
	}
	return n
}

// label is the text part right before a picture.
func label(v View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Picture %s (%s), %s, %dx%d pixels", name(v.Selected), v.Name, v.Selected.Type, v.Selected.Width, v.Selected.Height)
	if len(v.Notes) == 0 {
		b.WriteString(": whole")
	} else {
		b.WriteString(": " + strings.Join(v.Notes, "; "))
	}
	return b.String()
}
