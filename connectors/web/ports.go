package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"sightline/attachments"
	"sightline/connectors/chat"
)

var (
	_ attachments.Source     = (*Place)(nil)
	_ attachments.Visibility = (*Place)(nil)
)

func (p *Place) placeOf(conv string) chat.Place {
	return chat.NewPlace(p.c.Agent, Platform, workspace, conv, "", chat.Direct)
}

// ours reports whether a place is one that this connector would name so.
func (p *Place) ours(pl chat.Place) bool {
	return isID(conversationPrefix, pl.Channel) && pl.Thread == "" && pl.Agent == p.c.Agent &&
		pl.Platform == Platform && pl.ID == p.placeOf(pl.Channel).ID
}

// Fetch reads the message row as it is now, then streams the file that the
// row has.
func (p *Place) Fetch(ctx context.Context, g attachments.Grant, dst io.Writer) error {
	l, err := g.Locator(p.c.Agent)
	if err != nil {
		return err
	}
	if !p.ours(l.Place()) {
		return fmt.Errorf("web: the file is of another place: %w", attachments.ErrGone)
	}
	u, err := p.db.live(ctx, l.Place().Channel, l.Message(), l.Revision(), l.File())
	switch {
	case errors.Is(err, errNotFound):
		return fmt.Errorf("web: %w", attachments.ErrGone)
	case err != nil:
		return errors.Join(attachments.ErrUnreachable, err)
	}
	f, err := p.files.open(u.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("web: the stored file is missing: %w", attachments.ErrGone)
	case err != nil:
		return fmt.Errorf("web: open stored file: %w", attachments.ErrUnreachable)
	}
	defer f.Close()
	n, err := io.Copy(dst, &stopReader{ctx, f})
	if err != nil {
		return fmt.Errorf("web: read stored file: %w", err)
	}
	if n != u.Size {
		return fmt.Errorf("web: the stored file has %d bytes instead of %d: %w", n, u.Size, attachments.ErrGone)
	}
	return nil
}

// stopReader ends with its context. It hides the file's own WriteTo, which
// would not.
type stopReader struct {
	ctx context.Context
	r   io.Reader
}

func (s *stopReader) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}

// Decide knows one rule: what was posted in a conversation may be used in
// that conversation, while its message is there.
func (p *Place) Decide(ctx context.Context, q attachments.Question) (attachments.Decision, error) {
	switch {
	case q.Agent != p.c.Agent:
		return attachments.Refuse("agent", "this place serves another agent"), nil
	case q.Source.Platform != Platform || q.Destination.Platform != Platform:
		return attachments.Refuse("platform", "source or destination is not on the web place"), nil
	case !p.ours(q.Source) || !p.ours(q.Destination):
		return attachments.Refuse("place", "source or destination is no conversation of this place"), nil
	case q.Source.ID != q.Destination.ID:
		return attachments.Refuse("S1", "the destination is another conversation than the source"), nil
	}
	if q.Message != "" {
		ok, err := p.db.lives(ctx, q.Source.Channel, q.Message)
		if err != nil {
			return attachments.Decision{}, err
		}
		if !ok {
			return attachments.Refuse("message", "the source message is not there"), nil
		}
	}
	return attachments.Allow("S1", q.Source.Epoch, q.Destination.Epoch), nil
}

// Post says something in a conversation, once for each key.
func (p *Place) Post(ctx context.Context, r chat.Reply) (chat.Posted, error) {
	switch {
	case r.Key == "":
		return chat.Posted{}, errors.New("web: post reply: no key")
	case !p.ours(r.Place):
		return chat.Posted{}, errors.New("web: post reply: not a place of this connector")
	}
	r.Text = strings.ToValidUTF8(strings.ReplaceAll(r.Text, "\x00", ""), "\uFFFD") // what no text column takes
	files, err := p.keepFiles(ctx, r)
	if err != nil {
		return chat.Posted{}, err
	}
	id, err := p.db.reply(ctx, r.Place.Channel, r, files)
	if err != nil {
		return chat.Posted{}, err
	}
	p.changed(ctx, r.Place.Channel, r.Turn)
	return chat.Posted{NativeID: id}, nil
}

// Progress reaches whoever listens just now. It never blocks.
func (p *Place) Progress(_ context.Context, pr chat.Progress) {
	if !p.ours(pr.Place) {
		return
	}
	p.hub.progress(pr)
	if p.c.Listener == nil { // the page is another process's
		p.teller.put(p, pr)
	}
}
