package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

// answering is an answer to a question in a channel's thread.
func (s *setup) answering(channel string) chat.Reply {
	s.t.Helper()
	s.post(fakeslack.Message{Channel: channel, User: "U1", Text: mention("x")})
	e := s.event()
	return chat.Reply{Key: "k", Turn: "t", Place: e.Place, ReplyTo: e.Message, Kind: chat.ReplyAnswer}
}

func (s *setup) draft(r *chat.Reply, text string) error {
	s.t.Helper()
	r.Text = text
	p, err := s.Draft(s.t.Context(), *r)
	switch {
	case err != nil:
	case r.Draft == nil:
		r.Draft = &chat.Draft{NativeID: p.NativeID, First: text}
	case p.NativeID != r.Draft.NativeID:
		s.t.Errorf("the draft moved from %s to %s", r.Draft.NativeID, p.NativeID)
	}
	return err
}

// In a thread the answer streams: only what is new is sent, for the one who
// asked, and the reply ends the stream.
func TestDraftStreams(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	for _, text := range []string{"One", "One two", "One two three"} {
		s.must(s.draft(&r, text))
	}
	start, more := s.fake.Calls("chat.startStream"), s.fake.Calls("chat.appendStream")
	if len(start) != 1 || start[0].Form["recipient_user_id"] != "U1" || start[0].Form["recipient_team_id"] != fakeslack.Team ||
		start[0].Form["thread_ts"] != r.Place.Thread || start[0].Form["unfurl_links"] != "false" {
		t.Errorf("started with %v", start)
	}
	if len(more) != 2 || more[0].Form["markdown_text"] != " two" || more[1].Form["markdown_text"] != " three" || len(s.fake.Calls("chat.update")) != 0 {
		t.Errorf("appended %v", more)
	}
	r.Text = "One two three four"
	p, err := s.Post(t.Context(), r)
	if err != nil || p.NativeID != r.Draft.NativeID || s.fake.Streaming("C1", p.NativeID) {
		t.Errorf("%+v, %v", p, err)
	}
	if said := s.said(r.Place); len(said) != 1 || said[0] != r.Text {
		t.Errorf("said %q", said)
	}
	if u := s.fake.Calls("chat.update"); len(u) != 1 || u[0].Form["parse"] != "none" || u[0].Form["link_names"] != "false" || !strings.Contains(u[0].Form["metadata"], `"k"`) {
		t.Errorf("updated with %v", u)
	}
	s.quiet() // the agent's own edits are nobody's messages
}

// What the platform does to a stream, or refuses one for, costs the reader
// nothing: the message is edited from there on.
func TestDraftWithoutStream(t *testing.T) {
	for name, c := range map[string]struct {
		channel string
		before  func(*setup)
		between func(*setup, chat.Reply)
		second  string
	}{
		"no thread":                   {channel: "D1"},
		"a method that is unknown":    {before: func(s *setup) { s.fake.Fail("chat.startStream", fakeslack.Failure{Code: "unknown_method", Times: 1}) }},
		"a refusal that is not known": {before: func(s *setup) { s.fake.Fail("chat.startStream", fakeslack.Failure{Code: "some_new_rule", Times: 1}) }},
		"ended by Slack":              {between: func(s *setup, _ chat.Reply) { s.fake.EndStreams() }},
		"an append that may have worked": {between: func(s *setup, _ chat.Reply) {
			s.fake.Fail("chat.appendStream", fakeslack.Failure{Status: 500, Times: 1, After: true})
		}},
		"other words":                   {second: "Two"},
		"a mention that was cut in two": {second: "One @channel"},
		"another process":               {between: func(s *setup, _ chat.Reply) { s.posts, s.streams = newPosts(10), newStreams(10) }},
		"too old": {between: func(s *setup, r chat.Reply) {
			s.streams.get(r.Key, r.Draft.NativeID).until = time.Now()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil).run()
			if c.before != nil {
				c.before(s)
			}
			if c.channel == "" {
				c.channel = "C1"
			}
			if c.second == "" {
				c.second = "One @chan and on"
			}
			r := s.answering(c.channel)
			s.must(s.draft(&r, "One @chan"))
			if c.between != nil {
				c.between(s, r)
			}
			s.must(s.draft(&r, c.second))
			if said := s.said(r.Place); len(said) != 1 || said[0] != c.second {
				t.Errorf("said %q", said)
			}
			if len(s.fake.Calls("chat.update")) == 0 {
				t.Error("it was not edited")
			}
			if s.fake.Streaming(c.channel, r.Draft.NativeID) {
				t.Error("it streams on")
			}
			for _, call := range s.fake.Calls("chat.update") {
				if strings.Contains(call.Form["blocks"], "@channel") {
					t.Errorf("a mention went out: %s", call.Form["blocks"])
				}
			}
			r.Text = "Done"
			if p, err := s.Post(t.Context(), r); err != nil || p.NativeID != r.Draft.NativeID {
				t.Errorf("%+v, %v", p, err)
			}
			if said := s.said(r.Place); len(said) != 1 || said[0] != "Done" {
				t.Errorf("said %q", said)
			}
		})
	}
}

// A stream that begins and whose beginning is not told is found by its words,
// not begun again; the same goes for a message.
func TestDraftBegunAndNotSaidSo(t *testing.T) {
	for method, channel := range map[string]string{"chat.startStream": "C1", "chat.postMessage": "D1"} {
		s := open(t, nil).run()
		r := s.answering(channel)
		s.fake.Fail(method, fakeslack.Failure{Status: 500, Times: 1, After: true})
		if err := s.draft(&r, "So *far*, so good"); err != nil {
			r.Draft = &chat.Draft{First: "So *far*, so good"} // as the store has it
		}
		r.Text = "So *far*, so good, and more"
		if _, err := s.Draft(t.Context(), r); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		if said := s.said(r.Place); len(said) != 1 || said[0] != r.Text {
			t.Errorf("%s: said %q", method, said)
		}
		if _, err := s.Post(t.Context(), r); err != nil || len(s.said(r.Place)) != 1 {
			t.Errorf("%s: %v, said %q", method, err, s.said(r.Place))
		}
	}
}

// An idle stream is stopped before Slack stops it with an error in view.
func TestIdleStreamIsStopped(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	s.must(s.draft(&r, "One"))
	s.streams.get("k", r.Draft.NativeID).idle.Reset(10 * time.Millisecond)
	s.eventually("the stream is stopped", func() bool { return !s.fake.Streaming("C1", r.Draft.NativeID) })
	s.must(s.draft(&r, "One two"))
	if said := s.said(r.Place); len(said) != 1 || said[0] != "One two" {
		t.Errorf("said %q", said)
	}
}

// What can't be deleted is written over; what can't be edited is deleted, and
// the reply is a message of its own.
func TestDraftThatResists(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	s.must(s.draft(&r, "A secret"))
	s.fake.Fail("chat.delete", fakeslack.Failure{Code: "cant_delete_message", Times: 9})
	s.must(s.Withdraw(t.Context(), r))
	if said := s.said(r.Place); len(said) != 1 || strings.Contains(said[0], "secret") {
		t.Errorf("said %q", said)
	}
	s.fake.Fail("chat.delete", fakeslack.Failure{})
	s.fake.Fail("chat.update", fakeslack.Failure{Code: "edit_window_closed", Times: 2})
	r.Text = "more"
	if _, err := s.Draft(t.Context(), r); !errors.Is(err, chat.ErrRefused) {
		t.Errorf("a draft that can't be edited: %v", err)
	}
	r.Text = "Done"
	if p, err := s.Post(t.Context(), r); err != nil || p.NativeID == r.Draft.NativeID {
		t.Errorf("%+v, %v", p, err)
	}
	if said := s.said(r.Place); len(said) != 1 || said[0] != "Done" {
		t.Errorf("said %q", said)
	}
}

// Slack takes a status away when the app posts, not when it edits.
func TestStatusEndsWithAnEditedReply(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	s.Progress(t.Context(), chat.Progress{Place: r.Place, Text: "is thinking"})
	s.eventually("a status is shown", func() bool { return len(s.fake.Statuses()) == 1 })
	s.must(s.draft(&r, "One"))
	s.Progress(t.Context(), chat.Progress{Place: r.Place, Draft: "One two"}) // the draft itself says that
	r.Text = "Done"
	if _, err := s.Post(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if all := s.fake.Statuses(); len(all) != 2 || all[1].Form["status"] != "" {
		t.Errorf("statuses %v", all)
	}
}

// A share that worked and was not said to have is not repeated. A missing
// scope is said, and before a word is.
func TestFilesAreSharedOnce(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	r.Text, r.Files = "here", []chat.ReplyFile{textFile("a.txt", "abc")}
	s.fake.SetScopes(fakeslack.Without("files:write")...)
	if _, err := s.Post(t.Context(), r); !errors.Is(err, chat.ErrRefused) || !strings.Contains(err.Error(), "files:write") || len(s.said(r.Place)) != 0 {
		t.Errorf("without the scope: %v, said %q", err, s.said(r.Place))
	}
	s.fake.SetScopes(fakeslack.Scopes()...)
	s.fake.Fail("files.completeUploadExternal", fakeslack.Failure{Status: 500, Times: 1, After: true})
	s.fake.Fail("upload", fakeslack.Failure{Status: 503, Times: 1})
	if _, err := s.Post(t.Context(), r); err == nil || errors.Is(err, chat.ErrRefused) {
		t.Errorf("an upload that failed: %v", err)
	}
	if _, err := s.Post(t.Context(), r); err != nil {
		t.Error(err)
	}
	n := 0
	for _, m := range s.fake.Messages("C1", r.Place.Thread) {
		if m.User == fakeslack.BotUser {
			n += len(m.Files)
		}
	}
	if n != 1 || len(s.fake.Calls("files.completeUploadExternal")) != 1 {
		t.Errorf("%d files, completed %d times", n, len(s.fake.Calls("files.completeUploadExternal")))
	}
}

func textFile(name, text string) chat.ReplyFile {
	sum := sha256.Sum256([]byte(text))
	return chat.ReplyFile{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// Two replies to one message may each have a file of one name and size.
func TestFilesOfTwoReplies(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	for n, text := range []string{"abc", "xyz"} {
		r.Key, r.Text, r.Files = "k"+text, "here", []chat.ReplyFile{textFile("a.txt", text)}
		for range 2 { // the second time another process tries
			if _, err := s.Post(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			s.posts.done = map[string]chat.Posted{}
		}
		var got []string
		for _, m := range s.fake.Messages("C1", r.Place.Thread) {
			for _, f := range m.Files {
				got = append(got, string(f.Data))
			}
		}
		if len(got) != n+1 || got[n] != text {
			t.Errorf("shared %q", got)
		}
	}
}

// Another app can put the mark of a reply on its own message: it is not taken
// for the reply, nor for its draft, whose message would then be edited.
func TestMarksOfOthersDoNotCount(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	for _, mark := range []string{`{"key":"k","part":0}`, `{"key":"k","part":0,"draft":true}`} {
		s.fake.Store(fakeslack.Message{
			Channel: "C1", User: "UB9", BotID: "B9", ThreadTS: r.Place.Thread, Text: "another's",
			Metadata: json.RawMessage(`{"event_type":"` + replyType + `","event_payload":` + mark + `}`),
		})
	}
	r.Text = "an answer"
	if _, err := s.Post(t.Context(), r); err != nil || len(s.said(r.Place)) != 1 || len(s.fake.Calls("chat.update")) > 0 {
		t.Errorf("%v, said %q", err, s.said(r.Place))
	}
}

// The plain text beside the blocks is read as Slack's own markup.
func TestPlainTextIsEscaped(t *testing.T) {
	s := open(t, nil).run()
	r := s.answering("C1")
	r.Text = "a < b && b > c: <https://example.com|a link>, <@U1>, @here"
	if _, err := s.Post(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	text := s.fake.Calls("chat.postMessage")[0].Form["text"]
	if strings.ContainsAny(text, "<>") || !strings.Contains(text, "a &lt; b &amp;&amp; b &gt; c") || strings.Contains(text, "@here") {
		t.Errorf("posted with %q", text)
	}
}
