package web

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// bomb is a PNG whose header alone says that it is far too large (case 30).
func bomb() []byte {
	b := picture(4, 4)
	binary.BigEndian.PutUint32(b[16:], 40000)
	binary.BigEndian.PutUint32(b[20:], 40000)
	binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
	return b
}

var jpegHead = []byte("\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xc0\x00\x0b\x08\x00\x10\x00\x20\x01\x01\x11\x00\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x00\xff\xd9")

func TestUploadsAreWhatTheirBytesSay(t *testing.T) {
	s := open(t)
	_, api := s.conv("work")
	html := []byte("<!DOCTYPE html><html><script>alert(1)</script></html>")
	for name, c := range map[string]struct {
		data          []byte
		mime          string
		inline, noted bool
		w, h          int
	}{
		"real.png":     {picture(30, 20), "image/png", true, false, 30, 20},
		"photo.png":    {jpegHead, "image/jpeg", true, false, 32, 16},                                                               // case 16
		"Image_1.png":  {html, "text/html", false, true, 0, 0},                                                                      // case 17
		"drawing.svg":  {[]byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`), "image/svg+xml", false, true, 0, 0}, // case 18
		"cut.png":      {picture(30, 20)[:60], "image/png", true, true, 30, 20},                                                     // case 19
		"cut-head.png": {picture(30, 20)[:20], "image/png", true, true, 0, 0},
		"bomb.png":     {bomb(), "image/png", true, true, 40000, 40000},
		"spec.pdf":     {[]byte("%PDF-1.7\n"), "application/pdf", false, false, 0, 0},
		"note.md":      {[]byte("# hello\n"), "text/plain", false, false, 0, 0},
		"blob.png":     {[]byte{0, 1, 2, 3}, "application/octet-stream", false, true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			u := s.uploaded(api, name, c.data)
			if u.Type != c.mime || u.Name != name || u.Size != int64(len(c.data)) || (u.Note != "") != c.noted {
				t.Errorf("%+v", u)
			}
			if c.w != 0 && (u.Width != c.w || u.Height != c.h) {
				t.Errorf("%dx%d", u.Width, u.Height)
			}
			a := s.do("GET", "/uploads/"+u.ID, nil)
			h := a.header
			if a.status != http.StatusOK || a.body != string(c.data) || h.Get("Content-Type") != c.mime ||
				h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") ||
				h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Cache-Control") != "private, no-cache" {
				t.Errorf("served %d with %v", a.status, h)
			}
			want := "attachment; filename="
			if c.inline {
				want = "inline; filename="
			}
			if !strings.HasPrefix(h.Get("Content-Disposition"), want) {
				t.Errorf("disposition %q", h.Get("Content-Disposition"))
			}
			if a := s.do("GET", "/uploads/"+u.ID, nil, "If-None-Match", h.Get("ETag")); a.status != http.StatusNotModified {
				t.Errorf("asked again: %d", a.status)
			}
		})
	}
}

func TestLimitsOfUploads(t *testing.T) {
	s := open(t, func(c *Config) { c.MaxBytes, c.MaxPDF, c.Quota = 1000, 2000, 5000 })
	_, api := s.conv("work")
	text, pdf := bytes.Repeat([]byte("x"), 3000), append([]byte("%PDF-1.7\n"), bytes.Repeat([]byte("x"), 3000)...)
	for name, c := range map[string]struct {
		data   []byte
		status int
		says   string
	}{
		"at the limit":     {text[:1000], 201, ""},
		"over it":          {text[:1001], 413, "larger than the limit"},
		"a pdf at its own": {pdf[:2000], 201, ""},
		"a pdf over it":    {pdf[:2001], 413, "limit"},
		"empty":            {nil, 400, "empty"},
	} {
		a := s.upload(api, "f", c.data)
		if a.status != c.status || !strings.Contains(a.body, c.says) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	// Without a length, the reading itself has to stop.
	if a := s.do("POST", api+"/uploads", &endless{}, "X-File-Name", "f"); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("endless: %d %s", a.status, a.body)
	}
	s.uploaded(api, "f", pdf[:2000])
	if a := s.upload(api, "f", text[:1]); a.status != http.StatusInsufficientStorage || !strings.Contains(a.body, "new conversation") {
		t.Errorf("over the quota: %d %s", a.status, a.body)
	}
	_, second := s.conv("second")
	u := s.uploaded(second, "f", text[:1])
	// Taken back, it leaves nothing.
	if a := s.do("DELETE", second+"/uploads/"+u.ID, nil); a.status != http.StatusNoContent {
		t.Errorf("take back: %d", a.status)
	}
	if a := s.do("GET", "/uploads/"+u.ID, nil); a.status != http.StatusNotFound {
		t.Errorf("after that: %d", a.status)
	}
	if temps, _ := os.ReadDir(filepath.Join(s.files.dir, "tmp")); len(temps) != 0 {
		t.Errorf("%d temporary files are left", len(temps))
	}
}

type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) {
	e.n += len(b)
	if e.n > 64<<20 {
		panic("nobody stopped reading")
	}
	return len(b), nil
}

func TestFileNames(t *testing.T) {
	for in, want := range map[string]string{
		"shot.png":                         "shot.png",
		"a\nb\r@everyone\u202egnp.exe":     "a b @everyonegnp.exe", // case 40
		"x] (attachment att_1) [y.png":     "x) (attachment att_1) (y.png",
		"../../etc/passwd":                 "passwd",
		`C:\Users\me\shot.png`:             "shot.png",
		"":                                 "file",
		"..":                               "file",
		"/":                                "file",
		"  spaced \t out .png ":            "spaced out .png",
		"bad\xff\xfeutf8.png":              "badutf8.png",
		"zero\u200bwidth\u2028line.png":    "zerowidth line.png",
		"grüße 猫.png":                      "grüße 猫.png",
		strings.Repeat("猫", 200) + ".jpeg": strings.Repeat("猫", 94) + "….jpeg",
		strings.Repeat("x", 300):           strings.Repeat("x", 99) + "…",
	} {
		got := fileName(in)
		if got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		if n := utf8.RuneCountInString(got); n > maxName || n == 0 {
			t.Errorf("%q has %d characters", got, n)
		}
	}
	s := open(t)
	_, api := s.conv("work")
	u := s.uploaded(api, "Grüße\n] 猫.png", picture(4, 4))
	if u.Name != "Grüße ) 猫.png" {
		t.Errorf("kept as %q", u.Name)
	}
	if d := s.do("GET", "/uploads/"+u.ID, nil).header.Get("Content-Disposition"); !strings.Contains(d, "filename*=utf-8''Gr%C3%BC%C3%9Fe") {
		t.Errorf("disposition %q", d)
	}
	if a := s.upload(api, "", picture(4, 4), "X-File-Name", "%zz"); a.status != http.StatusBadRequest {
		t.Errorf("a name that can't be decoded: %d", a.status)
	}
}

func FuzzFileName(f *testing.F) {
	f.Add("a\nb] [\u202e.png")
	f.Fuzz(func(t *testing.T, in string) {
		got := fileName(in)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "[]\n\r\x00/\\\u202e\u2066\u2028") || got == "" || utf8.RuneCountInString(got) > maxName {
			t.Errorf("%q became %q", in, got)
		}
		if again := fileName(got); again != got {
			t.Errorf("%q is not stable: %q", got, again)
		}
	})
}

func TestSweep(t *testing.T) {
	s := open(t)
	conv, api := s.conv("work")
	sent, unsent := s.uploaded(api, "a.png", picture(4, 4)), s.uploaded(api, "b.png", picture(4, 4))
	s.sent(api, "k", "", sent.ID)
	orphan := newID(uploadPrefix)
	path, _ := s.files.path(orphan)
	os.MkdirAll(filepath.Dir(path), 0o700)
	temp := filepath.Join(s.files.dir, "tmp", "in-1")
	for _, p := range []string{path, temp} {
		if err := os.WriteFile(p, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Sweep(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Fatalf("too early: %d, %v", n, err)
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, id := range []string{sent.ID, unsent.ID, orphan} {
		p, _ := s.files.path(id)
		os.Chtimes(p, old, old)
	}
	os.Chtimes(temp, old, old)
	if n, err := s.Sweep(t.Context(), time.Now().Add(time.Minute)); n != 3 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if a := s.do("GET", "/uploads/"+sent.ID, nil); a.status != http.StatusOK {
		t.Errorf("the sent one: %d", a.status)
	}
	if a := s.send("/api/conversations/"+conv, "k2", "", unsent.ID); a.status != http.StatusConflict {
		t.Errorf("the unsent one: %d", a.status)
	}
}
