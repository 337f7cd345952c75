package slack

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/tests/fakeslack"
)

func (s *setup) download(f file) (string, error) {
	return s.downloadAs(identity{}, f)
}

func (s *setup) downloadAs(self identity, f file) (string, error) {
	var b strings.Builder
	err := s.Bot.download(s.t.Context(), self, f, &b)
	return b.String(), err
}

// Case 1: 200, octet-stream, and the sign-in page.
func TestSignInPageIsNoFile(t *testing.T) {
	s := open(t, nil)
	f := s.fake.Upload("x.png", "image/png", []byte("png"))
	page := s.fake.Upload("x.html", "text/html", []byte("<!DOCTYPE html><p>a page</p>"))
	named := s.fake.Upload("y.png", "image/png", []byte("<!DOCTYPE html><p>a page</p>"))
	for _, f := range []fakeslack.File{page, named} { // pages that people uploaded
		if got, err := s.download(file{URLPrivate: f.URLPrivate, Name: f.Name, Size: f.Size}); err != nil || !strings.Contains(got, "a page") {
			t.Errorf("%s: %q, %v", f.Name, got, err)
		}
	}
	// A canvas is written out when it is asked for, in whatever size that has.
	if got, err := s.download(file{URLPrivate: page.URLPrivate, Name: "Plan", Mimetype: canvasType, Size: 4000}); err != nil || !strings.Contains(got, "a page") {
		t.Errorf("a canvas: %q, %v", got, err)
	}
	s.fake.SetScopes(fakeslack.Without("files:read")...)
	self, err := s.whoAmI(t.Context())
	s.must(err)
	for _, f := range []file{
		{URLPrivate: f.URLPrivate, Name: f.Name, Size: f.Size}, {URLPrivate: page.URLPrivate, Name: "Plan", Mimetype: canvasType, Size: 4000},
		{URLPrivate: page.URLPrivate, Name: page.Name, Mimetype: page.Mimetype, Size: page.Size},
	} {
		got, err := s.downloadAs(self, f)
		if !errors.Is(err, attachments.ErrDenied) || !strings.Contains(err.Error(), "files:read") || strings.Contains(err.Error(), "http") || got != "" {
			t.Errorf("%s: %q, %v", f.Name, got, err)
		}
	}
}

func TestDownloadHosts(t *testing.T) {
	base, _ := url.Parse(defaultAPI)
	slack := newHosts(base)
	for u, want := range map[string]bool{
		"https://files.slack.com/files-pri/T-F/x": true, "https://a.slack-files.com/x": true, "http://files.slack.com/x": false,
		"https://files.slack.com.example.com/x": false, "https://slack-files.com.example.com/": false, "https://files.slack.com:8443/x": false,
		"https://slack.com/api/files.info": false, "https://user@files.slack.com/x": false, "https://169.254.169.254/": false, "file:///etc/passwd": false,
	} {
		p, err := url.Parse(u)
		if err != nil || slack.file(p) != want {
			t.Errorf("%s: want %v", u, want)
		}
	}
	s := open(t, nil)
	other, err := fakeslack.Start()
	s.must(err)
	t.Cleanup(other.Close)
	f := other.Upload("x", "", []byte("x"))
	if _, err := s.download(file{URLPrivate: f.URLPrivate, Size: 1}); !errors.Is(err, attachments.ErrDenied) || strings.Contains(err.Error(), "127.0.0.1") || other.Served() != 0 {
		t.Errorf("another host: %v", err)
	}
}

func TestDownloadErrors(t *testing.T) {
	s := open(t, nil)
	f := s.fake.Upload("x", "", []byte("x"))
	for status, want := range map[int]error{404: attachments.ErrGone, 503: attachments.ErrUnreachable, 429: attachments.ErrUnreachable, 403: attachments.ErrDenied, 302: attachments.ErrDenied} {
		s.fake.Fail("file", fakeslack.Failure{Status: status, Times: 1})
		if _, err := s.download(file{URLPrivate: f.URLPrivate, Size: 1}); !errors.Is(err, want) || strings.Contains(err.Error(), "http") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func (s *setup) ask(src, dst chat.Event) (attachments.Decision, error) {
	return s.Decide(s.t.Context(), attachments.Question{
		Agent: agent, Actor: dst.Message.Author, Source: src.Place, Message: src.Message.ID, Destination: dst.Place, Trigger: dst.Message.ID,
	})
}

func TestAudience(t *testing.T) {
	s := open(t, nil).run()
	send := func(channel string) chat.Event {
		s.post(fakeslack.Message{Channel: channel, User: "U1", Text: mention("x")})
		return s.event()
	}
	one, two, private, direct := send("C1"), send("C1"), send("CPRIV"), send("D1")
	for what, c := range map[string]struct {
		src, dst chat.Event
		want     bool
	}{
		"another thread of the channel": {one, two, true}, "a private channel's elsewhere": {private, one, false},
		"a direct message's elsewhere": {direct, one, false}, "a public one's in a direct message": {one, direct, false},
		"a direct message's own": {direct, direct, true},
	} {
		if d, err := s.ask(c.src, c.dst); err != nil || d.Allowed() != c.want {
			t.Errorf("%s: %+v, %v", what, d, err)
		}
	}
	// Case 9: removed, within the 30 seconds that facts are kept.
	s.must(s.fake.Kick("CPRIV", fakeslack.BotUser))
	s.settle()
	if d, err := s.ask(private, private); d.Allowed() || err != nil {
		t.Errorf("removed: %+v, %v", d, err)
	}
	// Ephemeral: the reader is a member, verified now.
	eph := one
	eph.Place = chat.NewPlace(agent, Platform, fakeslack.Team, "C1", "", chat.Ephemeral)
	if d, err := s.ask(one, eph); err != nil || d.Rule != "S2" || !d.Allowed() {
		t.Errorf("ephemeral: %+v, %v", d, err)
	}
	s.must(s.fake.Kick("C1", "U1"))
	s.settle()
	if d, err := s.ask(one, eph); err != nil || d.Allowed() {
		t.Errorf("ephemeral for one who left: %+v, %v", d, err)
	}
	// A public channel is read by every full member, a guest reads the channels
	// that they are in, and whoever has left reads nothing.
	if d, err := s.ask(one, two); err != nil || !d.Allowed() {
		t.Errorf("a member of the workspace who is not in the channel: %+v, %v", d, err)
	}
	for what, u := range map[string]fakeslack.User{"a guest elsewhere": {Restricted: true}, "who has left": {Deleted: true}, "of another team": {Team: "T9"}} {
		u.ID, u.Name = "U1", "ann"
		if u.Team == "" {
			u.Team = fakeslack.Team
		}
		s.fake.AddUser(u)
		s.facts.drop("")
		if d, err := s.ask(one, two); err != nil || d.Allowed() || d.Reason == "" || !d.Asker() {
			t.Errorf("%s: %+v, %v", what, d, err)
		}
	}
	s.fake.AddUser(fakeslack.User{ID: "U1", Team: fakeslack.Team, Name: "ann"})
	// Shown to one person: nobody else's to see, nor theirs elsewhere.
	shown := one
	shown.Place.Kind = chat.Ephemeral
	if d, err := s.ask(shown, two); err != nil || d.Allowed() {
		t.Errorf("an ephemeral source: %+v, %v", d, err)
	}
	// Doubt refuses.
	s.facts.drop("")
	s.fake.Fail("conversations.info", fakeslack.Failure{Status: 500, Times: 100})
	if d, err := s.ask(one, two); d.Allowed() || err == nil {
		t.Errorf("doubt: %+v, %v", d, err)
	}
}

func TestFactsAreYoung(t *testing.T) {
	now := time.Now()
	s := open(t, func(c *Config) { c.Now = func() time.Time { return now } }).run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("x")})
	e := s.event()
	count := func() int { return len(s.fake.Calls("conversations.info")) }
	if d, err := s.ask(e, e); !d.Allowed() || err != nil {
		t.Fatalf("%+v, %v", d, err)
	}
	n := count()
	s.fake.ChangeChannel("C1", func(c *fakeslack.Channel) { c.Members = nil }) // and no event comes
	now = now.Add(factsAge + time.Second)
	if d, err := s.ask(e, e); d.Allowed() || err != nil || count() != n+1 {
		t.Errorf("%+v, %v, asked %d times", d, err, count()-n)
	}
}

func (s *setup) reply(e chat.Event, key, text string) (chat.Posted, error) {
	return s.Post(s.t.Context(), chat.Reply{Key: key, Place: e.Place, ReplyTo: e.Message, Text: text})
}

// What no later try can change is said to be so; what can pass is not.
func TestPostRefusedForGood(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("x")})
	e := s.event()
	for code, final := range map[string]bool{"is_archived": true, "not_in_channel": true, "internal_error": false,
		"restricted_action_read_only_channel": true, "messages_tab_disabled": true, "invalid_blocks": true} {
		s.fake.Fail("chat.postMessage", fakeslack.Failure{Code: code, Times: maxTries})
		if _, err := s.reply(e, code, code); err == nil || errors.Is(err, chat.ErrRefused) != final {
			t.Errorf("%s: %v", code, err)
		}
		s.fake.Fail("chat.postMessage", fakeslack.Failure{})
	}
}

func TestPostedOnceWhateverHappens(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("x")})
	e := s.event()
	for name, f := range map[string]fakeslack.Failure{
		"posted and not said so": {Status: 500, Times: 1, After: true}, "limited": {Status: 429, RetryAfter: 1, Times: 1},
		"a passing error": {Code: "internal_error", Times: 2},
	} {
		s.fake.Fail("chat.postMessage", f)
		before := len(s.said(e.Place))
		if p, err := s.reply(e, name, name); err != nil || p.NativeID == "" || len(s.said(e.Place)) != before+1 {
			t.Errorf("%s: %+v, %v, said %q", name, p, err, s.said(e.Place))
		}
	}
	// Case 36: another process, which remembers nothing, retries.
	first, err := s.reply(e, "limited", "limited")
	s.must(err)
	s.posts = newPosts(10)
	said := len(s.said(e.Place))
	if again, err := s.reply(e, "limited", "limited"); err != nil || again != first || len(s.said(e.Place)) != said {
		t.Errorf("after a restart: %+v, %v", again, err)
	}
	for _, c := range s.fake.Calls("chat.postMessage") {
		if c.Form["unfurl_links"] != "false" || c.Form["unfurl_media"] != "false" || c.Form["thread_ts"] != e.Place.Thread {
			t.Errorf("posted with %v", c.Form)
		}
	}
}

func TestLongRepliesAndMentions(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "x"})
	e := s.event()
	text := "<!channel> @here <@U1>\n```go\n" + strings.Repeat("fmt.Println(\"a line\")\n", 1200) + "```\nend"
	_, err := s.reply(e, "long", text)
	s.must(err)
	said := s.said(e.Place)
	if len(said) < 3 {
		t.Fatalf("%d parts", len(said))
	}
	for n, part := range said {
		if strings.Count(part, "```")%2 != 0 || len([]rune(part)) > maxBlock {
			t.Errorf("part %d: %d characters, %d fences", n, len([]rune(part)), strings.Count(part, "```"))
		}
	}
	for _, c := range s.fake.Calls("chat.postMessage") {
		if strings.Contains(c.Form["blocks"], "<!channel>") || strings.Contains(c.Form["blocks"], "<@U1>") || strings.Contains(c.Form["blocks"], "@here") || strings.Contains(c.Form["text"], "<!") {
			t.Errorf("a mention went out: %.100s", c.Form["blocks"])
		}
	}
}

func TestRetryAfterEndsWithTheContext(t *testing.T) {
	told := make(chan time.Duration, 9)
	s := open(t, func(c *Config) { c.Limited = func(d time.Duration) { told <- d } }).run()
	s.post(fakeslack.Message{Channel: "D1", User: "U1", Text: "x"})
	e := s.event()
	s.fake.Fail("chat.postMessage", fakeslack.Failure{Status: 429, RetryAfter: 30, Times: 9})
	ctx, cancel := timeout(t, 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := s.Post(ctx, chat.Reply{Key: "k", Place: e.Place, ReplyTo: e.Message, Text: "x"}); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if d := <-told; d != 30*time.Second {
		t.Errorf("a wait of %v was told of", d)
	}
}

func TestStatus(t *testing.T) {
	s := open(t, nil).run()
	s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("x")})
	e := s.event()
	for range 20 {
		s.Progress(t.Context(), chat.Progress{Place: e.Place, Text: "is looking\nat it"})
	}
	s.eventually("a status is shown", func() bool { return len(s.fake.Statuses()) == 1 })
	if f := s.fake.Statuses()[0].Form; f["status"] != "is looking at it" || f["thread_ts"] != e.Place.Thread {
		t.Errorf("%v", f)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("a\n```go\ncode\n```\nb", 40)
	f.Add(strings.Repeat("`", 400)+"\n"+strings.Repeat("x", 3000), 0)
	f.Add("~~~\n"+strings.Repeat("x", 300), 200)
	f.Add(strings.Repeat("word ", 100)+"\n```\n\n```\n```", 200)
	f.Add("> "+strings.Repeat(" ", 38)+"````````````````````"+strings.Repeat("i", 200)+"\n"+strings.Repeat("x", 299)+"\n"+strings.Repeat("x", 299)+"\n", 0)
	f.Fuzz(func(t *testing.T, text string, max int) {
		max = 600 + (max&0x7fffffff)%4000
		for _, p := range split(text, max) {
			if n := len([]rune(p)); n > max {
				t.Errorf("a part of %d characters, of at most %d", n, max)
			}
		}
	})
}

var _ io.Writer = (*logs)(nil)

// Whoever answers with another address is not followed there, and nobody there
// gets the token.
func TestTokenGoesNowhereElse(t *testing.T) {
	asked := make(chan string, 9)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + r.Header.Get("Authorization")
	}))
	defer elsewhere.Close()
	slack := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/x", http.StatusTemporaryRedirect))
	defer slack.Close()
	s := open(t, func(c *Config) { c.APIURL = slack.URL + "/api/" })
	if got, err := s.download(file{URLPrivate: slack.URL + "/f", Size: 1}); !errors.Is(err, attachments.ErrDenied) || got != "" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := s.me(t.Context()); err == nil {
		t.Error("an answer from elsewhere counts")
	}
	if len(asked) > 0 {
		t.Errorf("asked elsewhere: %q", <-asked)
	}
}

// A list of members that ends before its end is doubt, and one that does not
// pass.
func TestMoreMembersThanAreListed(t *testing.T) {
	var members []string
	for n := range maxPages*membersPage - 1 {
		members = append(members, fmt.Sprintf("UX%d", n))
	}
	members = append(members, fakeslack.BotUser, "U1")
	s := open(t, nil, func(f *fakeslack.Server) {
		f.AddChannel(fakeslack.Channel{ID: "CBIG", IsChannel: true, IsPrivate: true, Members: members})
	}).run()
	s.post(fakeslack.Message{Channel: "CBIG", User: "U1", Text: mention("x")})
	e := s.event()
	if d, err := s.ask(e, e); d.Allowed() || err != nil || !strings.Contains(d.Reason, "more members") {
		t.Errorf("%+v, %v", d, err)
	}
	s.fake.ChangeChannel("CBIG", func(c *fakeslack.Channel) { c.Members = members[1:] })
	if d, err := s.ask(e, e); !d.Allowed() || err != nil {
		t.Errorf("%+v, %v", d, err)
	}
}

// Who asks is known for half a minute at most, and no longer than until an
// event tells of a change.
func TestAskersAreYoung(t *testing.T) {
	for _, told := range []bool{false, true} {
		var ahead atomic.Int64
		s := open(t, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }).run()
		later := func(event map[string]any) {
			if told {
				s.must(s.fake.Emit(event))
				s.settle()
			} else {
				ahead.Add(int64(factsAge + time.Second))
			}
		}
		s.post(fakeslack.Message{Channel: "C1", User: "U1", Text: mention("x")})
		public := s.event()
		s.post(fakeslack.Message{Channel: "CPRIV", User: "U1", Text: mention("x")})
		private := s.event()
		for _, e := range []chat.Event{public, private} {
			if d, err := s.ask(e, e); err != nil || !d.Allowed() {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		s.fake.ChangeChannel("CPRIV", func(c *fakeslack.Channel) { c.Members = []string{fakeslack.BotUser} })
		later(map[string]any{"type": "member_left_channel", "user": "U1", "channel": "CPRIV"})
		if d, err := s.ask(private, private); err != nil || d.Allowed() {
			t.Errorf("told %v: who has left the channel: %+v, %v", told, d, err)
		}
		s.fake.AddUser(fakeslack.User{ID: "U1", Team: fakeslack.Team, Deleted: true})
		later(map[string]any{"type": "user_change", "user": map[string]any{"id": "U1", "deleted": true}})
		if d, err := s.ask(public, public); err != nil || d.Allowed() {
			t.Errorf("told %v: who is deactivated: %+v, %v", told, d, err)
		}
	}
}

// Of a conversation of a few only those read who are in it.
func TestOnlyThoseInAConversationRead(t *testing.T) {
	s := open(t, nil, func(f *fakeslack.Server) {
		f.AddChannel(fakeslack.Channel{ID: "GM", IsMPIM: true, Members: []string{"U1", fakeslack.BotUser}})
	}).run()
	for _, channel := range []string{"D1", "GM"} {
		s.post(fakeslack.Message{Channel: channel, User: "U1", Text: mention("x")})
		e := s.event()
		if d, err := s.ask(e, e); err != nil || !d.Allowed() {
			t.Errorf("%s: %+v, %v", channel, d, err)
		}
		other := e
		other.Message.Author.User = "U2"
		if d, err := s.ask(e, other); err != nil || d.Allowed() || d.Reason == "" {
			t.Errorf("%s, asked by another: %+v, %v", channel, d, err)
		}
	}
}

// An owner's ID makes no owner of a bot that posts with it, nor of somebody
// whose team a shared channel does not tell.
func TestWhoIsNoOwner(t *testing.T) {
	s := open(t, func(c *Config) { c.AnswerBots = true }, func(f *fakeslack.Server) {
		f.AddChannel(fakeslack.Channel{ID: "CEXT", IsChannel: true, IsExtShared: true, Members: []string{"U1", fakeslack.BotUser}})
	}).run()
	s.twinWait = 5 * time.Second // both are waited for, and nothing is read again
	for channel, want := range map[string]chat.Role{"C1": chat.Owner, "CEXT": chat.Stranger} {
		m := s.fake.Store(fakeslack.Message{Channel: channel, User: "U1", Text: mention("x")})
		for _, o := range s.fake.EventsOf(m) {
			delete(o, "team")
			s.must(s.fake.Emit(o))
		}
		if e := s.event(); e.Message.Author.Role != want {
			t.Errorf("%s: %+v", channel, e.Message.Author)
		}
	}
	s.post(fakeslack.Message{Channel: "C1", User: "U1", BotID: "B9", Text: mention("x")})
	if e := s.event(); e.Message.Author.Role == chat.Owner || !e.Message.Author.Bot {
		t.Errorf("a bot: %+v", e.Message.Author)
	}
}
