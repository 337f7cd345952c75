package slack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"sightline/attachments"
	"sightline/connectors/chat"
)

var (
	_ attachments.Source     = (*Bot)(nil)
	_ attachments.Visibility = (*Bot)(nil)
	_ attachments.Witness    = (*Bot)(nil)
)

const downloadTimeout = 2 * time.Minute

// errGone is one error, so that a file of another message and a file that
// never was look the same.
var errGone = fmt.Errorf("slack: %w", attachments.ErrGone)

// Fetch reads the source message again, and downloads the file that it has
// now. A URL from before is never used.
func (b *Bot) Fetch(ctx context.Context, g attachments.Grant, dst io.Writer) error {
	l, err := g.Locator(b.c.Agent)
	if err != nil {
		return err
	}
	self, err := b.me(ctx)
	if err != nil {
		return sourceError(ctx, err)
	}
	p := l.Place()
	if !b.ours(self, p) {
		return errGone
	}
	m, err := b.readIn(ctx, p.Channel, p.Thread, l.Message())
	if err != nil {
		return sourceError(ctx, err)
	}
	if m == nil || m.revision() != l.Revision() || l.File() == "" {
		return errGone
	}
	if !slices.ContainsFunc(append(slices.Clone(m.Files), m.forwarded()...), func(f file) bool { return f.ID == l.File() }) {
		return errGone
	}
	f, err := b.fileInfo(ctx, l.File())
	if err != nil {
		return sourceError(ctx, err)
	}
	switch {
	case f.ID != l.File(), f.Mode == "tombstone", f.FileAccess == "file_not_found":
		return errGone
	case f.Mode == "hidden_by_limit":
		return fmt.Errorf("slack: the workspace's plan hides the file: %w", attachments.Withheld(chat.FileHidden))
	case f.Mode == "external", f.IsExternal:
		return fmt.Errorf("slack: the file is hosted outside of Slack and is never fetched: %w", attachments.Withheld(chat.FileExternal))
	case f.FileAccess == "access_denied", f.FileAccess == "check_file_info", f.URLPrivate == "":
		return fmt.Errorf("slack: the file's owner denies access to it: %w", attachments.Withheld(chat.FileDenied))
	}
	return b.download(ctx, self, f, dst)
}

// readIn reads a message of a place. The first message of a thread is in the
// channel's history.
func (b *Bot) readIn(ctx context.Context, channel, thread, ts string) (*message, error) {
	if _, err := b.facts.get(ctx, channel, kindAge); err != nil { // learns a new ID of the channel
		return nil, err
	}
	return b.read(ctx, channel, ts, thread)
}

// sourceError says in the terms of attachments why the platform gave nothing.
func sourceError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var e *apiError
	if !errors.As(err, &e) {
		return errors.Join(attachments.ErrUnreachable, err)
	}
	switch e.Code {
	case "file_not_found", "file_deleted", "message_not_found", "thread_not_found":
		return errGone
	}
	if e.passing() {
		return errors.Join(attachments.ErrUnreachable, err)
	}
	return errors.Join(attachments.ErrDenied, err)
}

// hosts are those that files are downloaded from, and that the token may go
// to.
type hosts struct{ base *url.URL }

func newHosts(base *url.URL) hosts { return hosts{base} }

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// custom: another base than Slack's serves its own files.
func (h hosts) custom(u *url.URL) bool {
	return h.base.Host != "slack.com" && u.Host == h.base.Host && u.Scheme == h.base.Scheme
}

func (h hosts) file(u *url.URL) bool {
	if u.User != nil {
		return false
	}
	name := strings.ToLower(u.Host) // with its port: only the usual one is Slack's
	return h.custom(u) || u.Scheme == "https" && (name == "files.slack.com" || strings.HasSuffix(name, ".slack-files.com"))
}

func (h hosts) response(u *url.URL) bool {
	return u.User == nil && (h.custom(u) || u.Scheme == "https" && strings.ToLower(u.Host) == "hooks.slack.com")
}

var downloads = plainClient(downloadTimeout)

func (b *Bot) download(ctx context.Context, self identity, f file, dst io.Writer) error {
	u, err := url.Parse(f.URLPrivate)
	if err != nil || !b.hosts.file(u) {
		return fmt.Errorf("slack: the file is not on a host of Slack's and is never fetched: %w", attachments.ErrDenied)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("slack: the file's address can't be asked for: %w", attachments.ErrDenied)
	}
	req.Header.Set("Authorization", "Bearer "+b.c.BotToken)
	res, err := downloads.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("slack: download file: %w", errors.Join(attachments.ErrUnreachable, bare(err)))
	}
	defer res.Body.Close()
	switch c := res.StatusCode; {
	case c == http.StatusOK:
	case c == http.StatusNotFound, c == http.StatusGone:
		return errGone
	case c >= 300 && c < 400: // to the sign-in page: a file that may be read is served without
		return b.noScope()
	case c == http.StatusUnauthorized, c == http.StatusForbidden:
		return b.noScope()
	case c == http.StatusTooManyRequests, c >= 500:
		return fmt.Errorf("slack: download file: status %d: %w", c, attachments.ErrUnreachable)
	default:
		return fmt.Errorf("slack: download file: status %d: %w", c, attachments.ErrDenied)
	}
	in := bufio.NewReaderSize(res.Body, 4096)
	head, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return b.broken(ctx, err)
	}
	// Without files:read Slack answers 200 with its sign-in page. A file that
	// is an HTML page has the size that Slack says it has; a canvas, which is
	// written out as one when it is asked for, need not.
	if isHTML(head) && res.ContentLength != f.Size && (!f.saysHTML() || !self.reads()) {
		return b.noScope()
	}
	_, err = io.Copy(dst, &stopReader{ctx, in})
	if err != nil {
		return b.broken(ctx, err)
	}
	return nil
}

// noScope names for operators what is most likely missing.
func (b *Bot) noScope() error {
	return fmt.Errorf("slack: the file host answered with a sign-in page instead of the file: the bot token lacks the scope files:read, or the app was not reinstalled after it was added: %w", attachments.ErrDenied)
}

func (b *Bot) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var ne net.Error
	if errors.As(err, &ne) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("slack: download file: %w", errors.Join(attachments.ErrUnreachable, bare(err)))
	}
	return fmt.Errorf("slack: download file: %w", bare(err)) // the writer's own
}

func isHTML(head []byte) bool {
	head = bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	return bytes.HasPrefix(head, []byte("<!doctype")) || bytes.HasPrefix(head, []byte("<html"))
}

// canvasType is what Slack calls its own documents.
const canvasType = "application/vnd.slack-docs"

func (f file) saysHTML() bool {
	t, _, _ := mime.ParseMediaType(f.Mimetype)
	ext := strings.ToLower(path.Ext(f.Name))
	return t == canvasType || t == "text/html" || t == "application/xhtml+xml" || f.Filetype == "html" || ext == ".html" || ext == ".htm"
}

// stopReader ends with its context, also between two reads that would not
// block.
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
