package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

// Wanted is one picture that a request should contain.
type Wanted struct {
	Attachment chat.AttachmentID
	Region     *visual.Region
	Digest     string // as it was when it was chosen; empty: first look
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
	// At is called at each boundary of a look; nil outside of tests.
	At func(boundary string)
}

func (l *Looker) at(b string) {
	if l.At != nil {
		l.At(b)
	}
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

// Look authorizes, fetches, bounds and decodes one picture now. Its error
// means that nothing could be established.
func (l *Looker) Look(ctx context.Context, r attachments.Request, w Wanted, m ModelInfo, target visual.Target, action string) (View, error) {
	v := View{Selected: chat.Selected{Attachment: w.Attachment}}
	if w.Region != nil {
		v.Selected.Region = &[4]int{w.Region.X, w.Region.Y, w.Region.Width, w.Region.Height}
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
	content, err := l.Authorizer.Fetch(ctx, g, r, w.Attachment)
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
	if reason, err := l.Quarantines.Reason(ctx, digest, m.Key); err != nil {
		return v, fmt.Errorf("look up quarantine: %w", err)
	} else if reason != "" {
		return v.hide(reason, "quarantined by digest: "+reason), nil
	}
	header, err := l.Decoder.ValidateDigest(ctx, content.Bytes(), content.Sum())
	if err == nil {
		v.Selected.Type = header.Format.MIME()
		v.Selected.Width, v.Selected.Height = header.Upright()
		v.Picture, err = l.Decoder.RebuildDigest(ctx, content.Bytes(), content.Sum(), target, w.Region)
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
	switch {
	case errors.As(err, &large):
		return large.Error()
	case errors.Is(err, attachments.ErrGone):
		return attachments.ErrGone.Error()
	case errors.Is(err, attachments.ErrDenied):
		return attachments.ErrDenied.Error()
	}
	return attachments.ErrUnreachable.Error()
}

// label is the text part right before a picture.
func label(v View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Picture %s (%s), %s, %dx%d pixels", v.Selected.Attachment, v.Name, v.Selected.Type, v.Selected.Width, v.Selected.Height)
	if len(v.Notes) == 0 {
		b.WriteString(": whole")
	} else {
		b.WriteString(": " + strings.Join(v.Notes, "; "))
	}
	return b.String()
}
