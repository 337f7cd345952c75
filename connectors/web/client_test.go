package web

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
)

func (s *served) client() *Client {
	s.t.Helper()
	c, err := OpenClient(s.home)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func TestAClientAsksAndWaits(t *testing.T) {
	s := open(t)
	c := s.client()
	conv, err := c.Conversation(t.Context(), "terminal")
	if err != nil || conv.Name != "terminal" || conv.MaxBytes != 8<<20 || conv.MaxPDF != 10<<20 {
		t.Fatalf("%+v, %v", conv, err)
	}
	u, err := c.Upload(t.Context(), conv.ID, "grüße [1].png", picture(4, 4))
	if err != nil || u.Name != "grüße (1).png" || u.Type != "image/png" {
		t.Fatalf("%+v, %v", u, err)
	}
	sent, err := c.Send(t.Context(), conv.ID, Draft{Key: NewKey(), Text: "look", Uploads: []string{u.ID}})
	if err != nil {
		t.Fatal(err)
	}
	e := <-s.sink.got
	steps := make(chan string, 10)
	go func() {
		for range 3 { // told again and again, said once
			s.Progress(t.Context(), chat.Progress{Turn: chat.TurnOf(e.Message.ID), Place: e.Place, Text: "looking"})
			time.Sleep(50 * time.Millisecond)
		}
		<-steps
		s.Post(context.Background(), chat.Reply{Key: "k", Turn: chat.TurnOf(e.Message.ID), Place: e.Place, Kind: chat.ReplyAnswer, Text: "an answer"})
	}()
	said := 0
	a, err := c.Wait(t.Context(), conv.ID, sent, func(text string) {
		if said++; text != "looking" {
			t.Errorf("progress %q", text)
		}
		steps <- text
	})
	if err != nil || a != (Answer{State: "answered", Text: "an answer"}) || said != 1 {
		t.Errorf("%+v, %v after %d steps", a, err, said)
	}
	var no *RefusedError
	if _, err := c.Upload(t.Context(), conv.ID, "x", nil); !errors.As(err, &no) || !strings.Contains(no.Sentence, "empty") {
		t.Errorf("an empty file: %v", err)
	}
	link, err := c.SignInLink(t.Context())
	if err != nil || s.do("GET", strings.TrimPrefix(link, s.base), nil, "Cookie", "").status != 200 {
		t.Errorf("link %q, %v", link, err)
	}
	// A browser's session is not enough for that.
	if a := s.do("POST", "/api/sign-in-link", nil); a.status != 404 {
		t.Errorf("a link for a session: %d", a.status)
	}
}

func TestAClientOutlastsARestart(t *testing.T) {
	s := open(t)
	c := s.client()
	conv, err := c.Conversation(t.Context(), "terminal")
	if err != nil {
		t.Fatal(err)
	}
	sent, err := c.Send(t.Context(), conv.ID, Draft{Key: NewKey(), Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	e := <-s.sink.got
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	var a Answer
	go func() {
		var err error
		a, err = c.Wait(ctx, conv.ID, sent, func(string) {})
		done <- err
	}()
	time.Sleep(100 * time.Millisecond)
	s.stop()
	s.start("127.0.0.1:0") // another port, another token
	s.Post(t.Context(), chat.Reply{Key: "k", Turn: chat.TurnOf(e.Message.ID), Place: e.Place, Kind: chat.ReplyFailure, Text: "the model is out"})
	if err := <-done; err != nil || a.State != "failed" || a.Reason != "the model is out" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAClientWithoutAService(t *testing.T) {
	home := t.TempDir()
	if _, err := OpenClient(home); !errors.Is(err, ErrNotRunning) {
		t.Errorf("nothing there: %v", err)
	}
	path := filepath.Join(home, serviceFile)
	for _, text := range []string{"nonsense", `{"address":"x","token":"y"}`, `{"address":"127.0.0.1:1"}`} {
		os.WriteFile(path, []byte(text), 0o600)
		if _, err := OpenClient(home); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Left behind by a crash: nobody answers, and nobody is waited for.
	os.WriteFile(path, []byte(`{"address":"127.0.0.1:1","token":"y","pid":1}`), 0o600)
	c, err := OpenClient(home)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	if _, err := c.Conversation(t.Context(), "terminal"); !errors.Is(err, ErrNotRunning) || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}
