package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/attachments/document/documenttest"
)

var shared struct {
	sync.Once
	*Reader
}

// theReader returns the reader of all tests that need nothing special of it: one engine start for all of them.
func theReader(t testing.TB) *Reader {
	shared.Do(func() { shared.Reader = NewReader(DefaultLimits(), Options{CacheDir: documenttest.CacheDir(t)}) })
	if err := shared.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return shared.Reader
}

// plainReader is for kinds that do not need the PDF engine.
func plainReader(change func(*Limits)) *Reader {
	l := DefaultLimits()
	if change != nil {
		change(&l)
	}
	return NewReader(l, Options{})
}

func read(t testing.TB, b []byte, k Kind, w Window) Result {
	t.Helper()
	r := plainReader(nil)
	if k == PDF {
		r = theReader(t)
	}
	res, err := r.Read(t.Context(), b, k, w)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func window(t testing.TB, pages, lines, cells string) Window {
	t.Helper()
	w, err := ParseWindow(pages, lines, cells)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// refused checks that err is a Refusal with a code, a sentence for people and words for operators.
func refused(t testing.TB, err error, codes ...RefusalCode) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("got %v, want a refusal (%v)", err, codes)
	}
	if len(r.Person) < 20 || !strings.HasSuffix(r.Person, ".") || r.Operator == "" {
		t.Errorf("refusal without its texts: %+v", *r)
	}
	for _, c := range codes {
		if r.Code == c {
			return r
		}
	}
	t.Fatalf("refused as %s (%s), want %v", r.Code, r.Operator, codes)
	return nil
}

// run runs a program that makes or reads documents; a machine without it skips the test.
func run(t testing.TB, pkg, name string, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("SIGHTLINE_NO_SKIP") == "1" {
			t.Fatalf("this test needs %s: install the Debian package %s", name, pkg)
		}
		t.Skipf("this test needs %s: install the Debian package %s (set SIGHTLINE_NO_SKIP=1 to fail instead)", name, pkg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return out.Bytes()
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// temp writes b into a file of its own and returns its path.
func temp(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, b)
	return path
}

// miniPDF writes objects as a PDF; the first is the catalog.
func miniPDF(objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	at := make([]int, len(objects))
	for i, o := range objects {
		at[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, xref)
	return b.Bytes()
}

func stream(dict, data string) string {
	return fmt.Sprintf("<<%s/Length %d>>\nstream\n%s\nendstream", dict, len(data), data)
}

// similarity is the share of words that two texts have in common, in any order: 1 for the same words.
func similarity(a, b string) float64 {
	words := map[string]int{}
	n, m, both := 0, 0, 0
	for w := range strings.FieldsSeq(a) {
		words[w]++
		n++
	}
	for w := range strings.FieldsSeq(b) {
		m++
		if words[w] > 0 {
			words[w]--
			both++
		}
	}
	if n+m == 0 {
		return 1
	}
	return 2 * float64(both) / float64(n+m)
}
