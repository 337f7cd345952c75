package fakediscord

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// urlLife is how long a signed URL works.
const urlLife = 24 * time.Hour

func (s *Server) sign(path string) string {
	now := time.Now().Add(s.now)
	ex, is := fmt.Sprintf("%x", now.Add(urlLife).Unix()), fmt.Sprintf("%x", now.Unix())
	return fmt.Sprintf("%s%s?ex=%s&is=%s&hm=%s", s.http.URL, path, ex, is, mac(path, ex, is))
}

func mac(path, ex, is string) string {
	h := hmac.New(sha256.New, []byte("fake-cdn-key"))
	fmt.Fprintf(h, "%s\n%s\n%s", path, ex, is)
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Server) cdn(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	data, ok := s.files[r.URL.Path]
	kind := s.types[r.URL.Path]
	now := time.Now().Add(s.now)
	if r.Header.Get("Authorization") != "" {
		s.violations = append(s.violations, "the CDN got an Authorization header")
		ok = false
	}
	s.mu.Unlock()
	ex, err := strconv.ParseInt(q.Get("ex"), 16, 64)
	if !ok || err != nil || now.Unix() > ex || q.Get("hm") != mac(r.URL.Path, q.Get("ex"), q.Get("is")) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("This content is no longer available."))
		return
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	for len(data) > 0 {
		n, err := w.Write(data[:min(len(data), 32<<10)])
		s.mu.Lock()
		s.served += int64(n)
		s.mu.Unlock()
		if err != nil {
			return
		}
		data = data[n:]
	}
}
