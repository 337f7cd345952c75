package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// contentPolicy of pages: nothing but this place's own script, style and
// pictures; no picture or frame of elsewhere, so no answer can call out.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard is in front of everything: the host's name, the headers that every
// answer carries, and the origin of every write.
func (p *Place) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// Others get no referrer. Under no-referrer the browser would also send
		// our own forms with the origin null, which is refused below.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		// A name of elsewhere that was pointed at this address (DNS
		// rebinding) would make a foreign page our own origin.
		if !p.knownHost(r.Host) {
			http.Error(w, "This page is not served under that name.", http.StatusMisdirectedRequest)
			return
		}
		// A bearer's request needs no origin: no browser sends the token unasked.
		if write(r.Method) && !sameOrigin(r) {
			if c, ok := p.caller(r); !ok || !c.bearer {
				p.fail(w, r, http.StatusForbidden, "This request did not come from the page itself.")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func write(method string) bool {
	return method != http.MethodGet && method != http.MethodHead
}

// sameOrigin wants the header: every browser sends it with a write. The
// scheme may be https where something in front of us ends TLS.
func sameOrigin(r *http.Request) bool {
	o := r.Header.Get("Origin")
	return o == "http://"+r.Host || o == "https://"+r.Host
}

func (p *Place) knownHost(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "80"
	}
	name = strings.ToLower(name)
	for _, h := range p.c.Hosts {
		if strings.EqualFold(h, name) || strings.EqualFold(h, host) {
			return true
		}
	}
	bound, boundPort, err := net.SplitHostPort(p.c.Listener.Addr().String())
	if err != nil || port != boundPort {
		return false
	}
	ip, _ := netip.ParseAddr(name)
	at, err := netip.ParseAddr(bound)
	switch {
	case err != nil:
		return name == bound
	case at.IsUnspecified(): // an address is no name that can be rebound
		return name == "localhost" || ip.IsValid()
	case at.Unmap().IsLoopback():
		return name == "localhost" || ip.Unmap().IsLoopback() && ip.IsValid()
	}
	return ip.IsValid() && ip.Unmap() == at.Unmap()
}
