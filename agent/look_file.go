package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"

	"sightline/attachments"
	"sightline/attachments/document"
	"sightline/attachments/visual"
)

// page shows one page of a document.
func (l *Looker) page(ctx context.Context, w Wanted, target visual.Target, b []byte, v View) (View, error) {
	v.Selected.Type = visual.Sniff(b).MIME()
	pic, err := l.Pages.RenderPage(ctx, b, w.Page, target, w.Region)
	if err != nil {
		var refusal *document.Refusal
		if errors.As(err, &refusal) {
			return v.hide(refusal.Person, refusal.Operator), nil
		}
		return v, err
	}
	return v.show(pic), nil
}

func (v View) show(p visual.Picture) View {
	v.Picture = p
	v.Selected.Width, v.Selected.Height = p.NativeWidth, p.NativeHeight
	v.Notes = append(v.Notes, p.Notes...)
	return v
}

// FileError says why a file of the workspace can't be had.
type FileError struct{ Person, Operator string }

func (e *FileError) Error() string { return e.Operator }

// lookFile shows a file of the workspace. It has no grant of its own: what it
// may have been made of was authorized when it was opened.
func (l *Looker) lookFile(ctx context.Context, r attachments.Request, w Wanted, m ModelInfo, target visual.Target, v View) (View, error) {
	v.Name = InertName(path.Base(w.File))
	if l.Files == nil {
		return v.hide(ErrNoWorkspace.Error(), "no workspaces"), nil
	}
	b, sources, err := l.Files.Open(ctx, r, w.File)
	v.Selected.Sources = sources
	var refused *FileError
	switch {
	case errors.As(err, &refused):
		return v.hide(refused.Person, refused.Operator), nil
	case errors.Is(err, attachments.ErrNotAvailable):
		return v.hide("what this file was made of may not be shown here any more", err.Error()), nil
	case err != nil:
		return v, err
	}
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])
	if w.Digest != "" && w.Digest != digest {
		v.Notes = append(v.Notes, "its content changed since it was last looked at")
	}
	v.Selected.Digest = digest
	if reason, err := l.Quarantines.Reason(ctx, quarantineKey(v.Selected), m.Key); err != nil {
		return v, fmt.Errorf("look up quarantine: %w", err)
	} else if reason != "" {
		return v.hide(reason, "quarantined by digest: "+reason), nil
	}
	if w.Page > 0 {
		if l.Pages == nil {
			return v.hide("pages of documents can't be shown by this agent", "no page renderer"), nil
		}
		return l.page(ctx, w, target, b, v)
	}
	header, err := l.Decoder.ValidateDigest(ctx, b, sum)
	if err == nil {
		v.Selected.Type = header.Format.MIME()
		v.Picture, err = l.Decoder.RebuildDigest(ctx, b, sum, target, w.Region)
	}
	if err != nil {
		var refusal *visual.Refusal
		if errors.As(err, &refusal) {
			return v.hide(refusal.Person, refusal.Operator), nil
		}
		return v, err
	}
	pic := v.Picture
	v = v.show(pic)
	v.Selected.Width, v.Selected.Height = header.Upright()
	return v, nil
}
