package slack

import (
	"context"
	"net/url"

	"sightline/connectors/chat"
)

// filesOf lists every file of a message, each once, usable or not: what can't
// be used is listed with its state, never dropped.
func (b *Bot) filesOf(ctx context.Context, m *message) ([]chat.File, error) {
	var out []chat.File
	have := map[string]bool{}
	add := func(list []file, o chat.Origin) error {
		for _, f := range list {
			if f.ID == "" || have[f.ID] {
				continue
			}
			have[f.ID] = true
			f, err := b.hydrated(ctx, f)
			if err != nil {
				return err
			}
			c := b.file(f)
			c.Origin = o
			out = append(out, c)
		}
		return nil
	}
	if err := add(m.Files, chat.OriginDirect); err != nil {
		return nil, err
	}
	if err := add(m.forwarded(), chat.OriginForward); err != nil {
		return nil, err
	}
	return out, nil
}

// hydrated asks for a file of which the event says nothing but its ID, as it
// is with files of Slack Connect.
func (b *Bot) hydrated(ctx context.Context, f file) (file, error) {
	bareID := f.Mode == "" && f.URLPrivate == "" && !f.IsExternal && f.FileAccess != "access_denied" && f.FileAccess != "file_not_found"
	if f.FileAccess != "check_file_info" && !bareID {
		return f, nil
	}
	full, err := b.fileInfo(ctx, f.ID)
	switch code := codeOf(err); {
	case err == nil:
		return full, nil
	case code == "file_deleted":
		f.Mode, f.FileAccess = "tombstone", ""
	case code == "file_not_found", code == "access_denied", code == "missing_scope", code == "no_permission":
		f.FileAccess = "access_denied"
	default:
		return f, err
	}
	return f, nil
}

func (b *Bot) fileInfo(ctx context.Context, id string) (file, error) {
	var a struct {
		File file `json:"file"`
	}
	_, err := b.api.call(ctx, "files.info", url.Values{"file": {id}}, &a)
	return a.File, err
}

// file translates. The zero state is for what Slack describes in words that
// are not known here, and is never fetched.
func (b *Bot) file(f file) chat.File {
	c := chat.File{
		NativeID: f.ID, Name: f.Name, DeclaredType: f.Mimetype, Size: f.Size, Width: f.Width, Height: f.Height,
	}
	if c.Name == "" {
		c.Name = f.Title
	}
	switch {
	case f.Mode == "tombstone", f.FileAccess == "file_not_found":
		c.State = chat.FileDeleted
	case f.Mode == "hidden_by_limit":
		c.State = chat.FileHidden
	case f.FileAccess == "access_denied":
		c.State = chat.FileDenied
	case f.Mode == "external", f.IsExternal:
		c.State = chat.FileExternal
	case f.FileAccess == "check_file_info", f.URLPrivate == "":
	case c.Oversize(b.c.MaxBytes, b.c.MaxDocument):
		c.State = chat.FileOversize
	default:
		c.State = chat.FileAvailable
	}
	return c
}
