package connectortest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"sightline/connectors/chat"
)

// testPostFiles: law 8 for files. A retried reply shows them once, and what is
// there is not sent again. Bytes that are not the promised ones are not shown.
func testPostFiles(t *testing.T, s *suite) {
	e := s.Send(0, "make me two files")
	var opened atomic.Int32
	file := func(name string, data []byte) chat.ReplyFile {
		sum := sha256.Sum256(data)
		return chat.ReplyFile{
			Name: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]),
			Open: func(context.Context) (io.ReadCloser, error) {
				opened.Add(1)
				return io.NopCloser(bytes.NewReader(data)), nil
			},
		}
	}
	one, two := noise(300_000), noise(70_000)
	reply := chat.Reply{
		Key: "files", Turn: chat.TurnOf(e.Message.ID), Place: e.Place, ReplyTo: e.Message, Kind: chat.ReplyAnswer,
		Text: "here they are", Files: []chat.ReplyFile{file("one.bin", one), file("two.bin", two)},
	}
	expect := func(when string) {
		t.Helper()
		said := slices.DeleteFunc(s.Said(e.Place), func(t string) bool { return t == "" })
		if !slices.Equal(said, []string{reply.Text}) {
			t.Errorf("%s: said %q", when, said)
		}
		shown := s.Shown(e.Place)
		if len(shown) != 2 || shown[0].Name != "one.bin" || !bytes.Equal(shown[0].Data, one) || shown[1].Name != "two.bin" || !bytes.Equal(shown[1].Data, two) {
			t.Errorf("%s: %d files are shown, or others", when, len(shown))
		}
		if n := opened.Load(); n != 2 {
			t.Errorf("%s: %d files were opened, want 2", when, n)
		}
	}
	first, err := s.Post(t.Context(), reply)
	if err != nil || first.NativeID == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	expect("at first")
	for _, when := range []string{"again", "after a restart"} {
		if p, err := s.Post(t.Context(), reply); err != nil || p != first {
			t.Errorf("%s: %+v, %v", when, p, err)
		}
		expect(when)
		s.Forget()
	}

	changed := file("changed.bin", one)
	changed.SHA256 = reply.Files[1].SHA256
	short := file("short.bin", one)
	short.Size--
	for what, bad := range map[string]chat.ReplyFile{
		"other bytes": changed, "more bytes than promised": short, "no name": file("", one), "nothing in it": file("empty.bin", nil),
	} {
		r := reply
		r.Key, r.Files = "files "+what, []chat.ReplyFile{bad}
		if p, err := s.Post(t.Context(), r); !errors.Is(err, chat.ErrRefused) {
			t.Errorf("%s: posted %+v, %v, want it refused for good", what, p, err)
		}
	}
	opened.Store(2)
	expect("after the refusals")
}
