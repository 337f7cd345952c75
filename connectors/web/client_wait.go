package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Answer is how a message ended.
type Answer struct {
	State  string // answered, failed, stopped, deleted
	Text   string // of the answer
	Reason string // of a failure
}

// Wait follows a message until its turn has ended, and reports each step once.
// Losing the service meanwhile is waiting a little longer.
func (c *Client) Wait(ctx context.Context, conv string, s Sent, progress func(text string)) (Answer, error) {
	var last string
	for {
		a, done, err := c.status(ctx, conv, s)
		if err != nil || done {
			return a, err
		}
		// The stream only says when to ask again; it may break at any time.
		following, cancel := context.WithTimeout(ctx, time.Minute)
		err = c.follow(following, conv, func(event string, data []byte) bool {
			var p progressJSON
			if event == "progress" && json.Unmarshal(data, &p) == nil && p.Text != "" && p.Text != last {
				last = p.Text
				progress(p.Text)
			}
			// After the snapshot nothing is missed; what came before it may be.
			if event == "progress" {
				return true
			}
			a, done, err = c.status(ctx, conv, s)
			return err == nil && !done
		})
		cancel()
		if done {
			return a, nil
		}
		var no *RefusedError
		if errors.As(err, &no) && no.Status == http.StatusNotFound {
			return Answer{}, err
		}
		select {
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (c *Client) status(ctx context.Context, conv string, s Sent) (Answer, bool, error) {
	var j statusJSON
	if err := c.do(ctx, http.MethodGet, "/api/conversations/"+conv+"/messages/"+s.Message, nil, nil, &j); err != nil {
		return Answer{}, false, err
	}
	a := Answer{State: j.State, Reason: j.Reason}
	if j.Reply != nil {
		a.Text = j.Reply.Text
	}
	// "answered" without the answer is an answer on its way.
	done := j.Reply != nil || j.State == "failed" || j.State == "stopped" || j.State == "deleted"
	return a, done, nil
}

// follow reads the live stream, event by event, until on says no.
func (c *Client) follow(ctx context.Context, conv string, on func(event string, data []byte) bool) error {
	res, err := c.open(ctx, http.MethodGet, "/api/conversations/"+conv+"/events?view=live", nil, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return &RefusedError{res.StatusCode, "The service answered " + res.Status + "."}
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 8<<20)
	event := ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		} else if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if !on(event, []byte(data)) {
				return nil
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the live stream: %w", err)
	}
	return nil
}
