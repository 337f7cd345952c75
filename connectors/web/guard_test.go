package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWritesFromAnotherOriginAreRefused(t *testing.T) {
	s := open(t)
	_, api := s.conv("work")
	body := `{"client_key":"k","text":"hello","uploads":[]}`
	for _, origin := range []string{"", "null", "http://evil.example", "http://localhost:1", s.base + ".evil.example", "file://"} {
		for _, r := range []struct{ method, path string }{
			{"POST", api + "/messages"}, {"POST", api + "/uploads"}, {"POST", api + "/stop"}, {"POST", "/api/conversations"},
			{"POST", "/conversations"}, {"POST", "/sign-out"}, {"DELETE", api + "/messages/" + newID(messagePrefix)}, {"POST", "/nowhere"},
		} {
			if a := s.do(r.method, r.path, strings.NewReader(body), "Origin", origin); a.status != http.StatusForbidden {
				t.Errorf("%s %s from %q: %d %s", r.method, r.path, origin, a.status, a.body)
			}
		}
	}
	if n := len(s.sink.all()); n != 0 {
		t.Errorf("%d messages went through", n)
	}
	if a := s.do("POST", api+"/messages", strings.NewReader(body)); a.status != http.StatusAccepted {
		t.Errorf("the page itself: %d %s", a.status, a.body)
	}
}

func TestOtherNamesForTheHostAreRefused(t *testing.T) {
	s := open(t)
	port := portOf(strings.TrimPrefix(s.base, "http://"))
	for host, want := range map[string]int{
		"127.0.0.1:" + port:      http.StatusSeeOther,
		"evil.example:" + port:   http.StatusMisdirectedRequest,
		"evil.example":           http.StatusMisdirectedRequest,
		"127.0.0.1:1":            http.StatusMisdirectedRequest,
		"127.0.0.1":              http.StatusMisdirectedRequest,
		"localhost.evil:" + port: http.StatusMisdirectedRequest,
		"10.0.0.1:" + port:       http.StatusMisdirectedRequest,
		"":                       http.StatusSeeOther, // Go's client sends the address then
	} {
		if a := s.do("GET", "/", nil, "Host", host); a.status != want {
			t.Errorf("Host %q: %d, want %d", host, a.status, want)
		}
	}
	// localhost is this place too; the cookie is another name's, so: sign in.
	if a := s.do("GET", "/", nil, "Host", "localhost:"+port); a.status == http.StatusMisdirectedRequest {
		t.Errorf("localhost: %d", a.status)
	}
	// A write is the same origin only under the name it was asked for.
	if a := s.do("POST", "/api/conversations", strings.NewReader(`{"name":"x"}`), "Host", "localhost:"+port); a.status != http.StatusForbidden {
		t.Errorf("an origin of another name: %d", a.status)
	}
}

func TestWithoutASessionNothingIsTold(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	u := s.uploaded(api, "a.png", picture(4, 4))
	m := s.sent(api, "k", "hello", u.ID)

	// What is there and what is not look the same.
	for _, pair := range [][2]string{
		{"/uploads/" + u.ID, "/uploads/" + newID(uploadPrefix)},
		{api, "/api/conversations/" + newID(conversationPrefix)},
		{api + "/messages/" + m.Message, api + "/messages/" + newID(messagePrefix)},
		{api + "/events", "/api/conversations/" + newID(conversationPrefix) + "/events"},
		{"/c/" + conv, "/c/" + newID(conversationPrefix)},
		{"/", "/nowhere"},
		{"/api/conversations", "/api/nowhere"},
	} {
		for _, cookie := range []string{"", s.cookieName() + "=local.1.x.y", s.cookieName() + "=" + s.forged()} {
			a, b := s.do("GET", pair[0], nil, "Cookie", ""), s.do("GET", pair[1], nil, "Cookie", "")
			if cookie != "" {
				a, b = s.stranger("GET", pair[0], cookie), s.stranger("GET", pair[1], cookie)
			}
			if a.status != b.status || a.body != b.body || (a.status != http.StatusUnauthorized && a.status != http.StatusNotFound) {
				t.Errorf("%s: %d %q, %s: %d %q", pair[0], a.status, a.body, pair[1], b.status, b.body)
			}
		}
	}
	if a := s.json("POST", api+"/messages", map[string]any{"client_key": "k2", "text": "x", "uploads": nil}, "Cookie", ""); a.status != http.StatusUnauthorized {
		t.Errorf("a message without a session: %d", a.status)
	}
	if a := s.do("GET", api, nil, "Cookie", "", "Authorization", "Bearer wrong"); a.status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", a.status)
	}
	if a := s.do("GET", api, nil, "Cookie", "", "Authorization", "Bearer "+s.token); a.status != http.StatusOK {
		t.Errorf("the token: %d", a.status)
	}
}

// forged is a cookie of the right shape under another secret.
func (s *served) forged() string {
	return sessions{secret: []byte(strings.Repeat("x", 52)), now: time.Now}.issue(localUser)
}

func (s *served) stranger(method, path, cookie string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Cookie", cookie)
	res, err := s.http.Transport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b)}
}

func TestWhatBelongsToSomebodyElseIsNotThere(t *testing.T) {
	s := open(t)
	_, api := s.conv("mine")
	theirs, _, err := s.db.named(t.Context(), "somebody", "theirs")
	if err != nil {
		t.Fatal(err)
	}
	otherAgent, _, err := store{pool: s.pool, agent: "other"}.named(t.Context(), localUser, "mine")
	if err != nil {
		t.Fatal(err)
	}
	u := upload{ID: newID(uploadPrefix), Conversation: theirs.ID, Name: "a.png", SniffedType: "image/png", Size: 3}
	if err := s.db.addUpload(t.Context(), "somebody", u); err != nil {
		t.Fatal(err)
	}
	path, _ := s.files.path(u.ID)
	os.MkdirAll(filepath.Dir(path), 0o700)
	os.WriteFile(path, []byte("png"), 0o600)
	missing := s.do("GET", "/uploads/"+newID(uploadPrefix), nil)
	if a := s.do("GET", "/uploads/"+u.ID, nil); a.status != http.StatusNotFound || a.body != missing.body {
		t.Errorf("their file: %d %q", a.status, a.body)
	}
	gone := s.do("GET", "/api/conversations/"+newID(conversationPrefix), nil)
	for _, c := range []conversation{theirs, otherAgent} {
		if a := s.do("GET", "/api/conversations/"+c.ID, nil); a.status != http.StatusNotFound || a.body != gone.body {
			t.Errorf("their conversation: %d %q", a.status, a.body)
		}
		if a := s.send("/api/conversations/"+c.ID, "k", "hello"); a.status != http.StatusNotFound {
			t.Errorf("a message into it: %d", a.status)
		}
	}
	// A file of another conversation, or of another sender in this one.
	if a := s.send(api, "k", "", u.ID); a.status != http.StatusConflict {
		t.Errorf("their file in my message: %d", a.status)
	}
	_, second := s.conv("second")
	mine := s.uploaded(second, "a.png", picture(4, 4))
	if a := s.send(api, "k", "", mine.ID); a.status != http.StatusConflict {
		t.Errorf("a file of another conversation: %d", a.status)
	}
	if a := s.do("DELETE", api+"/uploads/"+mine.ID, nil); a.status != http.StatusNotFound {
		t.Errorf("drop a file of another conversation: %d", a.status)
	}
}

func TestPathTricks(t *testing.T) {
	s := open(t)
	os.WriteFile(filepath.Join(s.home, "uploads", "treasure"), []byte("gold"), 0o600)
	for _, path := range []string{
		"/uploads/../web.secret", "/uploads/..%2f..%2fweb.secret", "/uploads/%2e%2e/treasure", "/uploads/treasure",
		"/uploads/up_../../../../treasure........", "/uploads/tmp/x", "/static/../pages/page.html", "/static/..%2fpages%2fpage.html",
		"/uploads/up_00000000000000000000000000%00",
	} {
		a := s.do("GET", path, nil)
		if a.status == http.StatusOK || strings.Contains(a.body, "gold") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestASignInLinkWorksOnceAndNotForEver(t *testing.T) {
	clock := time.Now()
	s := open(t, func(c *Config) { c.Now = func() time.Time { return clock } })
	link := strings.TrimPrefix(s.SignInLink(), s.base)
	a := s.do("GET", link, nil, "Cookie", "")
	cookie := a.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q lacks %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "sightline_"+portOf(strings.TrimPrefix(s.base, "http://"))+"=local;") {
		t.Error("the cookie is a bare user id")
	}
	pair, _, _ := strings.Cut(cookie, ";")
	if a := s.stranger("GET", "/api/conversations", pair); a.status != http.StatusOK {
		t.Fatalf("the cookie: %d", a.status)
	}
	for _, again := range []string{link, "/sign-in", "/sign-in?token=", "/sign-in?token=x"} {
		if a := s.do("GET", again, nil, "Cookie", ""); a.status != http.StatusUnauthorized || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s", again, a.status, a.header.Get("Set-Cookie"))
		}
	}
	late := strings.TrimPrefix(s.SignInLink(), s.base)
	clock = clock.Add(linkLife)
	if a := s.do("GET", late, nil, "Cookie", ""); a.status != http.StatusUnauthorized {
		t.Errorf("an old link: %d", a.status)
	}
	clock = clock.Add(sessionLife)
	if a := s.stranger("GET", "/api/conversations", pair); a.status != http.StatusUnauthorized {
		t.Errorf("an old session: %d", a.status)
	}
}

func TestASessionOutlivesARestartAndASecretIsPrivate(t *testing.T) {
	s := open(t)
	addr := strings.TrimPrefix(s.base, "http://")
	s.stop()
	if _, err := os.Stat(filepath.Join(s.home, serviceFile)); !os.IsNotExist(err) {
		t.Errorf("service.json after a clean stop: %v", err)
	}
	old := s.token
	s.start(addr)
	if a := s.do("GET", "/api/conversations", nil); a.status != http.StatusOK {
		t.Errorf("the session after a restart: %d", a.status)
	}
	if a := s.do("GET", "/api/conversations", nil, "Cookie", "", "Authorization", "Bearer "+old); a.status != http.StatusUnauthorized {
		t.Errorf("the old token after a restart: %d", a.status)
	}
	for _, f := range []string{"web.secret", serviceFile} {
		if info, err := os.Stat(filepath.Join(s.home, f)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
	}
	s.stop()
	secret := filepath.Join(s.home, "web.secret")
	os.Chmod(secret, 0o644)
	if _, err := loadSecret(secret); err == nil || !strings.Contains(err.Error(), "read by others") {
		t.Errorf("a secret that others can read: %v", err)
	}
}

func TestHeadersOfPages(t *testing.T) {
	s := open(t)
	conv, _ := s.conv("work")
	for _, path := range []string{"/c/" + conv, "/nowhere", "/static/app.js", "/api/conversations"} {
		h := s.do("GET", path, nil).header
		csp := h.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "same-origin" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, h)
		}
	}
	page := s.do("GET", "/c/"+conv, nil).body
	for _, inline := range []string{"<script>", " style=", "onclick", "onload", "https://cdn"} {
		if strings.Contains(page, inline) {
			t.Errorf("the page has %q in it", inline)
		}
	}
}

// Whoever is refused on a page reads it on a page, and finds the way back; the
// API says it in its own form.
func TestRefusalsOnPagesHaveAWayBack(t *testing.T) {
	s := open(t)
	for _, r := range []struct {
		method, path, origin string
		status               int
		says                 string
	}{
		{"GET", "/c/nope", "", 404, "There is nothing here."},
		{"GET", "/c/" + newID(conversationPrefix), "", 404, "There is nothing here."},
		{"GET", "/nowhere/<script>", "", 404, "There is nothing here."},
		{"GET", "/console", "", 404, "There is nothing here."},
		{"GET", "/uploads/nope", "", 404, "There is nothing here."},
		{"POST", "/conversations", "null", 403, "did not come from the page itself"},
		{"POST", "/sign-out", "http://evil.example", 403, "did not come from the page itself"},
	} {
		headers := []string{"Content-Type", "application/x-www-form-urlencoded"}
		if r.method == "POST" {
			headers = append(headers, "Origin", r.origin)
		}
		a := s.do(r.method, r.path, strings.NewReader("name=x"), headers...)
		if a.status != r.status || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || !strings.Contains(a.body, r.says) ||
			!strings.Contains(a.body, `<a href="/">`) || !strings.Contains(a.body, "app.css") || strings.Contains(a.body, "<script>") {
			t.Errorf("%s %s: %d %s", r.method, r.path, a.status, a.body)
		}
	}
	if a := s.do("GET", "/api/nowhere", nil); a.status != 404 || a.header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("the API: %d %v", a.status, a.header)
	}
}

func TestListenRefuses(t *testing.T) {
	l, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	if _, err := Listen(addr, false); err == nil || err.Error() != "address "+addr+" is in use; set SIGHTLINE_WEB_ADDR" {
		t.Errorf("in use: %v", err)
	}
	for _, a := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0", "nonsense", "127.0.0.1"} {
		if l, err := Listen(a, false); err == nil || !strings.Contains(err.Error(), "SIGHTLINE_WEB_ADDR") {
			t.Errorf("%s: %v %v", a, l, err)
		}
	}
	if l, err := Listen("0.0.0.0:0", true); err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
}

func TestConversationNames(t *testing.T) {
	s := open(t)
	for name, status := range map[string]int{"ok": 201, "": 400, "  ": 400, strings.Repeat("n", 101): 400, "a\nb\u202ec [x]": 201} {
		if a := s.json("POST", "/api/conversations", map[string]string{"name": name}); a.status != status {
			t.Errorf("%q: %d %s", name, a.status, a.body)
		}
	}
	if a := s.do("GET", "/api/conversations", nil); !strings.Contains(a.body, `"a bc (x)"`) {
		t.Errorf("%s", a.body)
	}
	if a := s.do("POST", "/conversations", strings.NewReader("name=form"), "Content-Type", "application/x-www-form-urlencoded"); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/c/cv_") {
		t.Errorf("by form: %d %v", a.status, a.header)
	}
	if a := s.do("POST", "/conversations", strings.NewReader("name=++"), "Content-Type", "application/x-www-form-urlencoded"); a.status != 400 || !strings.Contains(a.body, "Give the conversation a name") {
		t.Errorf("by form, without a name: %d", a.status)
	}
	for _, body := range []string{`{"name":"x","more":1}`, `{"name":"x"}{}`, `nonsense`, `{"name":"` + strings.Repeat("x", 600<<10) + `"}`} {
		if a := s.do("POST", "/api/conversations", bytes.NewReader([]byte(body))); a.status != 400 && a.status != 413 {
			t.Errorf("%.30s: %d", body, a.status)
		}
	}
}
