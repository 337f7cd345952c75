package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"

	"sightline/connectors/chat"
)

// keepFiles stores the files of a reply; they are nobody's until the reply's
// row says so. Their names follow from the reply's key, so that a repetition
// writes over its own. Nothing is stored for a reply that is there.
func (p *Place) keepFiles(ctx context.Context, r chat.Reply) ([]upload, error) {
	conv := r.Place.Channel
	if len(r.Files) == 0 {
		return nil, nil
	}
	switch _, err := p.db.replied(ctx, conv, r.Key); {
	case err == nil:
		return nil, nil
	case !errors.Is(err, errNotFound):
		return nil, err
	}
	max := max(p.c.MaxBytes, p.c.MaxPDF)
	if err := chat.CheckFiles(r.Files, maxFiles, max); err != nil {
		return nil, fmt.Errorf("web: post reply: %w", err)
	}
	stored, err := p.db.stored(ctx, conv)
	if err != nil {
		return nil, err
	}
	var out []upload
	for i, f := range r.Files {
		if stored += f.Size; stored > p.c.Quota {
			return nil, fmt.Errorf("web: post reply: the conversation's files are over %d bytes: %w", p.c.Quota, chat.ErrRefused)
		}
		u := upload{ID: fileID(r.Key, i), Conversation: conv, Name: fileName(f.Name), Size: f.Size}
		if err := p.keepFile(ctx, &u, f, max); err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

func (p *Place) keepFile(ctx context.Context, u *upload, f chat.ReplyFile, max int64) error {
	var b bytes.Buffer
	if err := f.Copy(ctx, &b); err != nil {
		if errors.Is(err, chat.ErrOtherBytes) {
			err = errors.Join(chat.ErrRefused, err)
		}
		return fmt.Errorf("web: post reply: %w", err)
	}
	tmp, _, err := p.files.receive(&b, max)
	if err != nil {
		return err
	}
	defer os.Remove(tmp) // nothing is there any more once it was kept
	var no *refusal
	if err := p.examine(u, tmp); errors.As(err, &no) {
		return fmt.Errorf("web: post reply: %s: %w", no.sentence, chat.ErrRefused)
	} else if err != nil {
		return err
	}
	return p.files.keep(tmp, u.ID)
}

// fileID is a file's identifier by the reply that it goes with.
func fileID(key string, n int) string {
	h := sha256.Sum256([]byte(key + "\x00" + strconv.Itoa(n)))
	return uploadPrefix + idEncoding.EncodeToString(h[:16])
}
