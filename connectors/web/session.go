package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	sessionLife = 30 * 24 * time.Hour
	linkLife    = time.Hour
	maxLinks    = 100
)

// sessions are signed cookies: user, time of sign-in and a random part. The
// secret outlives the process; deleting it signs everybody out.
type sessions struct {
	secret []byte
	now    func() time.Time
}

func (s sessions) issue(user string) string {
	body := fmt.Sprintf("%s.%d.%s", user, s.now().Unix(), randomSecret())
	return body + "." + s.sign(body)
}

func (s sessions) sign(body string) string {
	h := hmac.New(sha256.New, s.secret)
	h.Write([]byte("sightline web session\x00" + body))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// user answers for a cookie that this secret signed and that is not too old.
func (s sessions) user(cookie string) (string, bool) {
	i := strings.LastIndexByte(cookie, '.')
	if i < 0 || len(s.secret) == 0 || !hmac.Equal([]byte(s.sign(cookie[:i])), []byte(cookie[i+1:])) {
		return "", false
	}
	parts := strings.Split(cookie[:i], ".")
	if len(parts) != 3 {
		return "", false
	}
	at, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return "", false
	}
	age := s.now().Sub(time.Unix(at, 0))
	return parts[0], parts[0] != "" && age < sessionLife && age > -time.Minute
}

// cookieName has the port in it: cookies don't know ports, and two services
// on one machine must not sign each other out.
func (p *Place) cookieName() string { return "sightline_" + portOf(p.c.Listener.Addr().String()) }

func (p *Place) setCookie(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: p.cookieName(), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// links are sign-in tokens: each works once, for an hour, in this process.
type links struct {
	mu   sync.Mutex
	now  func() time.Time
	open map[[32]byte]time.Time // by digest: nothing to compare byte by byte
}

func newLinks(now func() time.Time) *links {
	return &links{now: now, open: map[[32]byte]time.Time{}}
}

func (l *links) mint() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, exp := range l.open {
		if !l.now().Before(exp) || len(l.open) >= maxLinks {
			delete(l.open, k)
		}
	}
	t := randomSecret()
	l.open[sha256.Sum256([]byte(t))] = l.now().Add(linkLife)
	return t
}

func (l *links) use(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := sha256.Sum256([]byte(token))
	exp, ok := l.open[k]
	delete(l.open, k)
	return ok && l.now().Before(exp)
}

// SignInLink is an address that signs in whoever opens it first, within an
// hour.
func (p *Place) SignInLink() string {
	if p.c.Listener == nil {
		return ""
	}
	return "http://" + reachable(p.c.Listener.Addr()) + "/sign-in?token=" + p.links.mint()
}

// who is behind a request: a session, or the service's token.
type caller struct {
	user   string
	bearer bool // came with the token: no browser sends it unasked
}

func (p *Place) caller(r *http.Request) (caller, bool) {
	if h, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		a, b := sha256.Sum256([]byte(h)), sha256.Sum256([]byte(p.token))
		return caller{localUser, true}, subtle.ConstantTimeCompare(a[:], b[:]) == 1
	}
	c, err := r.Cookie(p.cookieName())
	if err != nil {
		return caller{}, false
	}
	u, ok := p.sessions.user(c.Value)
	return caller{user: u}, ok && u == localUser
}
