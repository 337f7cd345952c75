package discord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"sightline/attachments"
	"sightline/connectors/chat"
)

var cdnHosts = map[string]bool{"cdn.discordapp.com": true, "media.discordapp.net": true}

// newCDN is the client for signed URLs: no token, no cookies, no redirect off
// the list.
func (b *Bot) newCDN() *http.Client {
	return &http.Client{
		Timeout: 2 * time.Minute,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 20 * time.Second,
			IdleConnTimeout:       30 * time.Second,
			MaxIdleConnsPerHost:   16,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 3 || !b.allowed(r.URL) {
				return errOffList
			}
			return nil
		},
	}
}

var errOffList = errors.New("the download leads off the list of hosts")

// allowed is the list: Discord's CDN, and the host of a configured API.
func (b *Bot) allowed(u *url.URL) bool {
	if u.User != nil {
		return false
	}
	if u.Scheme == "https" && (u.Port() == "" || u.Port() == "443") && cdnHosts[strings.ToLower(u.Hostname())] {
		return true
	}
	return b.c.APIURL != DefaultAPIURL && u.Scheme == b.base.Scheme && strings.EqualFold(u.Host, b.base.Host)
}

// errNoFile is the one answer for a message or file that is not there, was
// edited, or is another's.
var errNoFile = fmt.Errorf("discord: %w", attachments.ErrGone)

// Fetch reads the source message as it is now and downloads the file that it
// points to now. A stored URL is never used: there is none.
func (b *Bot) Fetch(ctx context.Context, g attachments.Grant, dst io.Writer) error {
	l, err := g.Locator(b.c.Agent)
	if err != nil {
		return err
	}
	channelID, ok := b.native(l.Place())
	if !ok || !isSnowflake(l.Message()) {
		return errNoFile
	}
	var m message
	if err := b.rest.do(ctx, "GET", "/channels/"+channelID+"/messages/"+l.Message(), nil, &m); err != nil {
		return fetchError(ctx, err)
	}
	if m.ID != l.Message() || m.revision() != l.Revision() {
		return errNoFile
	}
	a, ok := m.file(l.File(), l.Origin())
	if !ok {
		return errNoFile
	}
	return b.download(ctx, a, dst)
}

func (m *message) file(id string, o chat.Origin) (attachment, bool) {
	lists := [][]attachment{m.Attachments}
	if o == chat.OriginForward {
		lists = nil
		for _, s := range m.MessageSnapshots {
			lists = append(lists, s.Message.Attachments)
		}
	}
	for _, list := range lists {
		for _, a := range list {
			if id != "" && a.ID == id {
				return a, true
			}
		}
	}
	return attachment{}, false
}

// fetchError says in the port's words why the platform did not answer.
func fetchError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case hasStatus(err, 404, 400):
		return errNoFile
	case hasStatus(err, 401, 403), errors.Is(err, errToken):
		return fmt.Errorf("discord: %w: the agent may not read the message (View Channel and Read Message History are needed)", attachments.ErrDenied)
	}
	return fmt.Errorf("discord: read the source message: %w", errors.Join(attachments.ErrUnreachable, err))
}

func (b *Bot) download(ctx context.Context, a attachment, dst io.Writer) error {
	u, err := url.Parse(a.URL)
	if err != nil || !b.allowed(u) {
		return fmt.Errorf("discord: %w: its address is not one of discord's file hosts", attachments.ErrDenied)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return errNoFile
	}
	resp, err := b.cdn.Do(req)
	if err != nil {
		if errors.Is(err, errOffList) {
			return fmt.Errorf("discord: %w: %v", attachments.ErrDenied, errOffList)
		}
		return downloadError(ctx, err)
	}
	defer resp.Body.Close()
	switch s := resp.StatusCode; {
	case s == http.StatusOK:
	case s == http.StatusNotFound || s == http.StatusGone:
		return errNoFile
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return fmt.Errorf("discord: %w: the file host answered %d", attachments.ErrDenied, s)
	default:
		return fmt.Errorf("discord: %w: the file host answered %d", attachments.ErrUnreachable, s)
	}
	if isHTML(resp.Header.Get("Content-Type")) && !isHTML(a.ContentType) && !htmlName(a.Filename) {
		return fmt.Errorf("discord: %w: a page came instead of the file", attachments.ErrDenied)
	}
	n, err := io.Copy(dst, &stopReader{ctx, resp.Body})
	if err != nil {
		if errors.Is(err, errBody) {
			return downloadError(ctx, err)
		}
		return fmt.Errorf("discord: pass the file on: %w", err)
	}
	if n != a.Size {
		return fmt.Errorf("discord: %w: %d bytes came instead of %d", attachments.ErrUnreachable, n, a.Size)
	}
	return nil
}

func downloadError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("discord: download: %w", errors.Join(attachments.ErrUnreachable, network(ctx, err)))
}

func isHTML(contentType string) bool {
	t, _, _ := mime.ParseMediaType(contentType)
	return t == "text/html" || t == "application/xhtml+xml"
}

func htmlName(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".html" || ext == ".htm" || ext == ".xhtml"
}

var errBody = errors.New("the file did not come to its end")

// stopReader ends with its context, and tells the source's failures from the
// destination's.
type stopReader struct {
	ctx context.Context
	r   io.Reader
}

func (s *stopReader) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, errors.Join(errBody, err)
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		return n, errors.Join(errBody, err)
	}
	return n, err
}
