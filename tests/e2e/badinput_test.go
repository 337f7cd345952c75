package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/web"
	"sightline/tests/fakemodel"
)

// Each bad input is a clear sentence to the model and the person, and the
// next turn works.
func TestBadInputIsSaidAndTheConversationGoesOn(t *testing.T) {
	m, env := fake(t, nil)
	p := start(t, home(t), env...)
	good, pix := noise(t, 60, 40, 1)

	ctx := context.Background()
	conv, err := p.Client.Conversation(ctx, "c")
	if err != nil {
		t.Fatal(err)
	}
	var refused *web.RefusedError
	if _, err := p.Client.Send(ctx, conv.ID, web.Draft{Key: web.NewKey(), Text: " \n"}); !errors.As(err, &refused) || refused.Status != 400 {
		t.Errorf("an empty prompt: %v", err)
	}
	if _, err := p.Client.Upload(ctx, conv.ID, "big.png", make([]byte, 11<<20)); !errors.As(err, &refused) || refused.Status != 413 {
		t.Errorf("a file over the limit: %v", err)
	}

	works := func(after string) {
		t.Helper()
		m.Answer(says("works"))
		n := len(m.Requests())
		a := ask(t, p.Client, "c", "and now?", file{"good.png", good})
		r := m.Requests()[n:]
		if a.Text != "works" || len(r) != 1 || len(r[0].Pictures) != 1 || !samePixels(r[0].Pictures[0].Image, pix) {
			t.Fatalf("after %s the next turn does not work: %+v", after, a)
		}
	}
	works("nothing")
	id := attachmentID(m.Requests()[0], "good.png")

	// Arguments that the tool refuses.
	for name, c := range map[string]struct{ args, want string }{
		"five ids":         {fmt.Sprintf(`{"ids":[%q,%q,%q,%q,%q]}`, id, id, id, id, id), "at most 4"},
		"an unknown id":    {`{"ids":["att_0123456789abcdefghjkmnpqrs"]}`, "no attachment with that ID"},
		"a URL":            {`{"ids":["http://127.0.0.1/x.png"]}`, "never by URL"},
		"a region outside": {fmt.Sprintf(`{"regions":[{"id":%q,"x":50,"y":0,"width":50,"height":10}]}`, id), "60x40"},
		"no JSON":          {`{"ids":`, "schema"},
	} {
		n := len(m.Requests())
		m.Answer(steps(calls("view_images", c.args), says("understood")))
		a := ask(t, p.Client, "c", name)
		r := m.Requests()[n:]
		if a.Text != "understood" || len(r) != 2 || !strings.Contains(r[1].Last("tool"), c.want) || len(r[1].Pictures) != 0 {
			t.Errorf("%s: %+v; tool said %q", name, a, r[len(r)-1].Last("tool"))
		}
	}
	works("bad arguments")

	// Files that are no picture that can be shown: named with the reason,
	// never sent, and view_images says the same.
	heic := append([]byte{0, 0, 0, 0x18}, []byte("ftypheic\x00\x00\x00\x00heicmif1")...)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"half.png":    {good[:len(good)/2], "incomplete"},
		"Image_1.png": {[]byte("<!DOCTYPE html><html><body>hi</body></html>"), "not a picture"},
		"draw.svg":    {[]byte(`<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>`), "import"},
		"scan.tiff":   {append([]byte("II*\x00\x08\x00\x00\x00"), make([]byte, 64)...), "import"},
		"photo.heic":  {append(heic, make([]byte, 64)...), "import"},
		"doc.pdf":     {[]byte("%PDF-1.4\n1 0 obj\n<<>>\nendobj\n%%EOF\n"), "PDF"},
	} {
		n := len(m.Requests())
		m.Answer(steps(views(name), says("I can't see it")))
		a := ask(t, p.Client, "c", "describe it", file{name, c.data})
		r := m.Requests()[n:]
		if len(r) != 2 || a.Text != "I can't see it" {
			t.Errorf("%s: %d requests, %+v", name, len(r), a)
			continue
		}
		for i := range r {
			if len(r[i].Pictures) != 0 {
				t.Errorf("%s was sent", name)
			}
		}
		if fid := attachmentID(r[0], name); fid == "" || !strings.Contains(r[0].System, fid) || !strings.Contains(r[0].System, c.want) {
			t.Errorf("%s: the prompt does not say %q:\n%s", name, c.want, r[0].System)
		}
		if !strings.Contains(r[1].Last("tool"), c.want) {
			t.Errorf("%s: view_images said %q, want %q", name, r[1].Last("tool"), c.want)
		}
		works(name)
	}

	// A JPEG by another name is sent as what it is.
	m.Answer(says("a JPEG"))
	n := len(m.Requests())
	ask(t, p.Client, "c", "and this?", file{"mislabelled.png", photo(t)})
	if r := m.Requests()[n]; len(r.Pictures) != 1 || r.Pictures[0].MIME != "image/jpeg" {
		t.Errorf("a mislabelled JPEG: %v", r.Pictures)
	}
	works("a mislabelled file")
}

// What a model can do wrong, what the person reads, and that it goes on.
func TestModelFailures(t *testing.T) {
	m, env := fake(t, nil)
	p := start(t, home(t), env...)
	good, pix := noise(t, 60, 40, 1)
	fail := func(status int, msg, retry string) func(fakemodel.Request) fakemodel.Reply {
		return func(fakemodel.Request) fakemodel.Reply {
			return fakemodel.Reply{Status: status, Error: msg, RetryAfter: retry}
		}
	}
	for _, c := range []struct {
		name     string
		answer   func(fakemodel.Request) fakemodel.Reply
		state    string
		want     string
		pictures int // in the last request
	}{
		{"429, then an answer", steps(fail(429, "slow down", "1"), says("late")), "answered", "late", 1},
		{"500, then an answer", steps(fail(500, "oops", ""), says("later")), "answered", "later", 1},
		{"nothing, then an answer", steps(func(fakemodel.Request) fakemodel.Reply { return fakemodel.Reply{} }, says("something")), "answered", "something", 1},
		{"401", fail(401, "bad key", ""), "failed", "credentials", 1},
		{"400 for the request", fail(400, "unknown parameter", ""), "failed", "rejected the request", 1},
		{"500 for ever", fail(500, "oops", ""), "failed", "could not be reached", 1},
		{"400 for an image", steps(fail(400, "Invalid image: the image could not be processed.", ""), says("without it")), "answered", "without it", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.Answer(c.answer)
			data, _ := noise(t, 61, 41, uint32(len(c.name)))
			a := ask(t, p.Client, "c", c.name, file{"x.png", data})
			r := m.Requests()
			if a.State != c.state || !strings.Contains(a.Text+a.Reason, c.want) {
				t.Errorf("%+v, want %s with %q", a, c.state, c.want)
			}
			if last := r[len(r)-1]; len(last.Pictures) != c.pictures {
				t.Errorf("the last request has %d pictures", len(last.Pictures))
			}
			m.Answer(says("works"))
			a = ask(t, p.Client, "c", "and now?", file{"good.png", good})
			r = m.Requests()
			if last := r[len(r)-1]; a.Text != "works" || len(last.Pictures) != 1 || !samePixels(last.Pictures[0].Image, pix) {
				t.Errorf("the next turn: %+v", a)
			}
		})
	}

	// Every request that was made says what came of it, a rejected one too.
	db, err := pgx.Connect(t.Context(), p.Ready.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	var open, rejected int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE outcome = ''), count(*) FILTER (WHERE outcome = 'bad_picture') FROM audit`).Scan(&open, &rejected); err != nil || open != 0 || rejected != 1 {
		t.Errorf("%d requests without an outcome, %d rejected, %v", open, rejected, err)
	}
}

// A text-only model is not offered the tool, and the person is told why.
func TestTextOnlyModel(t *testing.T) {
	m, env := fake(t, says("I can't see pictures"))
	p := start(t, home(t), append(env, "SIGHTLINE_MODEL_VISION=no")...)
	pic, _ := noise(t, 60, 40, 1)
	m.Answer(steps(calls("view_images", `{"ids":["att_0123456789abcdefghjkmnpqrs"]}`), says("I can't see pictures")))
	if a := ask(t, p.Client, "c", "what is it?", file{"x.png", pic}); a.State != "answered" {
		t.Fatalf("%+v", a)
	}
	for _, r := range m.Requests() {
		if len(r.Pictures) != 0 || strings.Contains(strings.Join(r.Tools, " "), "view_images") {
			t.Errorf("%d pictures, tools %v", len(r.Pictures), r.Tools)
		}
		if !strings.Contains(r.System, "can't see pictures") {
			t.Errorf("the prompt gives no reason: %s", r.System)
		}
	}
	if l := m.Requests()[1].Last("tool"); !strings.Contains(l, "can't see") {
		t.Errorf("the dispatcher said %s", l)
	}
}

// photo is a JPEG of its own.
func photo(t *testing.T) []byte {
	t.Helper()
	_, img := noise(t, 64, 64, 5)
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
