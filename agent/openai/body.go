package openai

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"sightline/agent"
)

// placeholders stand in for the pictures while a request is put together and marshalled. The SDK copies what it marshals
// several times over; a picture is instead encoded straight into the connection, and its base64 never exists as a whole.
type placeholders struct {
	nonce    string
	pictures []agent.ShownPicture
}

// newPlaceholders makes them unguessable, so that no text of the transcript can be taken for one.
func newPlaceholders(pictures []agent.ShownPicture) placeholders {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails; it ends the process instead
	return placeholders{nonce: hex.EncodeToString(b[:]), pictures: pictures}
}

func (p placeholders) token(i int) string { return fmt.Sprintf("%s.%d.", p.nonce, i) }

// dataURL is the image URL of picture i, with its placeholder instead of the base64.
func (p placeholders) dataURL(i int) string {
	return "data:" + p.pictures[i].Picture.MIME + ";base64," + p.token(i)
}

// fill splits the marshalled request at the placeholders.
func (p placeholders) fill(marshalled []byte) (*body, error) {
	b := &body{}
	for i, pic := range p.pictures {
		before, after, ok := bytes.Cut(marshalled, []byte(p.token(i)))
		if !ok {
			return nil, errors.New("a picture has no place in the request")
		}
		b.literals = append(b.literals, before)
		b.pictures = append(b.pictures, pic.Picture.Bytes)
		marshalled = after
	}
	b.literals = append(b.literals, marshalled)
	return b, nil
}

// body is a request body: literals with a picture between each two.
type body struct {
	literals [][]byte
	pictures [][]byte
}

func (b *body) size() int64 {
	var n int64
	for _, l := range b.literals {
		n += int64(len(l))
	}
	for _, p := range b.pictures {
		n += int64(base64.StdEncoding.EncodedLen(len(p)))
	}
	return n
}

// reader may be called again, for a connection that broke before anything was read.
func (b *body) reader() io.Reader {
	readers := make([]io.Reader, 0, len(b.literals)+len(b.pictures))
	for i, l := range b.literals {
		readers = append(readers, bytes.NewReader(l))
		if i < len(b.pictures) {
			readers = append(readers, &base64Reader{src: b.pictures[i]})
		}
	}
	return io.MultiReader(readers...)
}

// base64Reader encodes src a piece at a time.
type base64Reader struct {
	src     []byte
	out     [4 << 10]byte
	pending []byte
}

const base64Piece = 3 << 10 // encodes to exactly len(out), so only the last piece is padded

func (r *base64Reader) Read(p []byte) (int, error) {
	if len(r.pending) == 0 {
		if len(r.src) == 0 {
			return 0, io.EOF
		}
		n := min(len(r.src), base64Piece)
		base64.StdEncoding.Encode(r.out[:], r.src[:n])
		r.pending = r.out[:base64.StdEncoding.EncodedLen(n)]
		r.src = r.src[n:]
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}
