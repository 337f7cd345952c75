package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"
)

// ErrNotRunning: no service answers where the state directory says.
var ErrNotRunning = errors.New("no running sightline")

// RefusedError is the service's own sentence for a request it won't do.
type RefusedError struct {
	Status   int
	Sentence string
}

func (e *RefusedError) Error() string { return e.Sentence }

// Client talks to the running service of a state directory. Once it has
// reached the service it outlasts restarts: it reads the address and token
// again and tries until its context ends.
type Client struct {
	path string
	http *http.Client
	met  bool // the service answered once
}

// Conversation is one of the place's, with what may be sent to it.
type Conversation struct {
	ID, Name         string
	MaxBytes, MaxPDF int64
}

// Upload is a file that the service has, not sent yet. Note says why it is
// not shown as a picture.
type Upload struct{ ID, Name, Type, Note string }

// Draft is a message to send. The same Key sends it once.
type Draft struct {
	Key, Text string
	Uploads   []string
}

// Sent names a message that is durable.
type Sent struct{ Message, Turn string }

// OpenClient finds the running service of a state directory.
func OpenClient(home string) (*Client, error) {
	c := &Client{
		path: filepath.Join(home, serviceFile),
		http: &http.Client{
			// The token is for this machine's own service: no proxy, no detour.
			Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if _, err := readService(c.path); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNotRunning, err)
	}
	return c, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// NewKey names a message to send.
func NewKey() string { return randomSecret() }

// Conversation finds or opens the conversation of that name.
func (c *Client) Conversation(ctx context.Context, name string) (Conversation, error) {
	var j conversationJSON
	err := c.do(ctx, http.MethodPost, "/api/conversations", jsonBody(map[string]string{"name": name}), nil, &j)
	return Conversation{j.ID, j.Name, j.Limits.File, j.Limits.PDF}, err
}

// Upload hands a file over; it is not part of a message yet.
func (c *Client) Upload(ctx context.Context, conv, name string, data []byte) (Upload, error) {
	h := http.Header{"X-File-Name": {url.PathEscape(name)}, "Content-Type": {"application/octet-stream"}}
	var j uploadJSON
	err := c.do(ctx, http.MethodPost, "/api/conversations/"+conv+"/uploads", data, h, &j)
	return Upload{j.ID, j.Name, j.Type, j.Note}, err
}

// Send posts a message and returns once it is durable.
func (c *Client) Send(ctx context.Context, conv string, d Draft) (Sent, error) {
	if d.Uploads == nil {
		d.Uploads = []string{}
	}
	var j sentJSON
	err := c.do(ctx, http.MethodPost, "/api/conversations/"+conv+"/messages",
		jsonBody(map[string]any{"client_key": d.Key, "text": d.Text, "uploads": d.Uploads}), nil, &j)
	return Sent{j.Message, string(j.Turn)}, err
}

// Stop ends the running turn of a conversation, if there is one.
func (c *Client) Stop(ctx context.Context, conv string) error {
	return c.do(ctx, http.MethodPost, "/api/conversations/"+conv+"/stop", []byte{}, nil, nil)
}

// Delete takes back a message and the files of it.
func (c *Client) Delete(ctx context.Context, conv, message string) error {
	return c.do(ctx, http.MethodDelete, "/api/conversations/"+conv+"/messages/"+message, nil, nil, nil)
}

// SignInLink asks for a new one-time link to the page.
func (c *Client) SignInLink(ctx context.Context) (string, error) {
	var j struct {
		Link string `json:"link"`
	}
	err := c.do(ctx, http.MethodPost, "/api/sign-in-link", []byte{}, nil, &j)
	return j.Link, err
}

func jsonBody(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("web: encode request: " + err.Error()) // strings and lists of them
	}
	return b
}

// do sends a request until it is answered. Every request of this client may
// be sent twice: messages have keys, names find what they opened, and an
// upload too many is swept.
func (c *Client) do(ctx context.Context, method, path string, body []byte, h http.Header, out any) error {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 3*time.Second) {
		err := c.try(ctx, method, path, body, h, out)
		if err == nil {
			return nil
		}
		var no *RefusedError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &no) && no.Status < 500 && no.Status != http.StatusUnauthorized:
			return err
		case errors.As(err, &no) && no.Status == http.StatusInsufficientStorage:
			return err
		case !c.met:
			return fmt.Errorf("%w: %v", ErrNotRunning, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (c *Client) try(ctx context.Context, method, path string, body []byte, h http.Header, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	res, err := c.open(ctx, method, path, body, h)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("read the service's answer: %w", err)
	}
	if res.StatusCode >= 300 {
		var said struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(b, &said) != nil || said.Error == "" {
			said.Error = "The service answered " + res.Status + "."
		}
		return &RefusedError{res.StatusCode, said.Error}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("read the service's answer: %w", err)
	}
	return nil
}

// open reads the address and token afresh: a restart changes both.
func (c *Client) open(ctx context.Context, method, path string, body []byte, h http.Header) (*http.Response, error) {
	s, err := readService(c.path)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Address+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the service: %w", err)
	}
	for k, v := range h {
		req.Header[k] = v
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the service: %w", err)
	}
	if res.StatusCode != http.StatusUnauthorized {
		c.met = true // whoever knows our token is our service
	}
	return res, nil
}
