package visual

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fuzzLimits keep what is decoded small, so that the fuzzer is fast.
func fuzzLimits() Limits {
	l := DefaultLimits()
	l.MaxPixels, l.MaxStorage = 1<<17, 1<<19
	l.MaxBytes = 1 << 16
	l.Deadline = 30 * time.Second
	return l
}

// fuzzHeader checks what must hold for every accepted header: it is bounded, its bytes survive stripping, and decoding
// and rebuilding end in a picture or a refusal.
func fuzzHeader(f *testing.F, format Format) {
	for _, b := range samples(f) {
		if Sniff(b) == format {
			f.Add(b)
		}
	}
	if format == WebP { // no encoder for lossy WebP to make one with
		for _, path := range []string{"made-here/base.webp", "made-here/vp8x_exif.webp"} {
			if b, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "corpora", path)); err == nil {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := fuzzLimits()
		h, err := ReadHeader(b, l)
		if err != nil {
			if _, ok := err.(*Refusal); !ok {
				t.Fatalf("%T is no Refusal", err)
			}
			return
		}
		if h.Width <= 0 || h.Height <= 0 || h.Out <= 0 || h.Out > l.MaxStorage || h.Out+h.Transient > l.MaxWorking || h.Frames < 1 || h.Orientation < 1 || h.Orientation > 8 {
			t.Fatalf("accepted: %+v", h)
		}
		d := NewDecoder(l)
		_, err = d.Validate(context.Background(), b)
		if err != nil {
			if _, ok := err.(*Refusal); !ok {
				t.Fatalf("%T is no Refusal", err)
			}
			if r := err.(*Refusal); r.Code == Corrupt && bytes.Contains([]byte(r.Operator), []byte("panicked")) {
				t.Fatal(r)
			}
			return
		}
		if _, err := d.Rebuild(context.Background(), b, Target{}, nil); err != nil {
			t.Fatalf("accepted, not rebuilt: %v", err)
		}
		if _, err := d.Rebuild(context.Background(), b, Target{Formats: []Format{PNG}, MaxEdge: 16}, nil); err != nil {
			t.Fatalf("accepted, not scaled: %v", err)
		}
	})
}

func FuzzPNGHeader(f *testing.F)  { fuzzHeader(f, PNG) }
func FuzzJPEGHeader(f *testing.F) { fuzzHeader(f, JPEG) }
func FuzzGIFHeader(f *testing.F)  { fuzzHeader(f, GIF) }
func FuzzWebPHeader(f *testing.F) { fuzzHeader(f, WebP) }

// FuzzStrip: stripping is idempotent, and the stripped file has the same pixels or neither decodes.
func FuzzStrip(f *testing.F) {
	for _, b := range samples(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := StripMetadata(b)
		if err != nil {
			return
		}
		again, err := StripMetadata(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("stripping twice: %v", err)
		}
		d := NewDecoder(fuzzLimits())
		if _, err := d.Validate(context.Background(), b); err != nil {
			return
		}
		before, h := pixelsOf(t, b)
		after, _ := pixelsOf(t, out)
		if h.Format == WebP && h.partial {
			return
		}
		samePixels(t, string(h.Format), before, wholeOf(before), after)
	})
}

// FuzzPNGValidator builds PNGs whose sums are right and compares the validator's verdict with that of image/png.
func FuzzPNGValidator(f *testing.F) {
	f.Add([]byte{3, 2, 8, 2, 0}, bytes.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 2), []byte(nil), byte(5), byte(0))
	f.Add([]byte{9, 9, 1, 3, 1}, bytes.Repeat([]byte{1, 0, 255}, 40), []byte("tail"), byte(0), byte(1))
	f.Add([]byte{1, 1, 16, 6, 0}, make([]byte, 9), make([]byte, 5000), byte(255), byte(2))
	f.Add([]byte{4, 4, 4, 0, 0}, make([]byte, 12), []byte{1}, byte(3), byte(7))
	f.Add([]byte{2, 2, 8, 0, 0}, []byte{4, 9, 9, 5, 9, 9}, []byte(nil), byte(9), byte(0)) // a filter that is none
	f.Add([]byte{2, 2, 8, 0, 0}, []byte{4, 9, 9, 3, 9, 9}, []byte(nil), byte(9), byte(8))
	f.Add([]byte{2, 2, 8, 0, 0}, []byte{4, 9, 9, 3, 9, 9}, []byte(nil), byte(1), byte(64))
	f.Add([]byte{2, 2, 8, 0, 0}, []byte{4, 9, 9, 3, 9}, []byte(nil), byte(9), byte(0))
	f.Fuzz(func(t *testing.T, shape, rows, tail []byte, split, how byte) {
		if len(shape) < 5 {
			return
		}
		ihdr := []byte{0, 0, 0, shape[0], 0, 0, 0, shape[1], shape[2], shape[3], 0, 0, shape[4]}
		var data bytes.Buffer
		z := zlib.NewWriter(&data)
		_, _ = z.Write(rows)
		_ = z.Close()
		stream := append(data.Bytes(), tail...)
		if how&8 != 0 { // a wrong sum at the end of the stream
			stream[data.Len()-1]++
		}
		b := append([]byte(pngSignature), chunk("IHDR", ihdr)...)
		if shape[3] == 3 || how&16 != 0 {
			b = append(b, chunk("PLTE", []byte{1, 2, 3, 4, 5, 6})...)
		}
		if how&32 != 0 {
			b = append(b, chunk("tRNS", make([]byte, 2*(1+int(shape[3]))))...)
		}
		cut := min(int(split)*16, len(stream))
		b = append(b, chunk("IDAT", stream[:cut])...)
		if how&1 != 0 {
			b = append(b, chunk("teXt", []byte("between"))...)
		}
		if how&2 != 0 {
			b = append(b, chunk("IDAT", nil)...)
		}
		if how&4 != 0 {
			b = append(b, chunk("CRIT", []byte("unknown"))...)
		}
		last := chunk("IDAT", stream[cut:])
		if how&64 != 0 {
			last[len(last)-1]++
		}
		b = append(append(b, last...), chunk("IEND", nil)...)
		compareValidators(t, b)
	})
}

// FuzzPNGChunks mutates whole files, with the sums of chunks put right so that mutations reach what is behind them.
func FuzzPNGChunks(f *testing.F) {
	for _, b := range samples(f) {
		if Sniff(b) == PNG {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if Sniff(b) != PNG {
			return
		}
		b = append([]byte(nil), b...)
		for i := 8; i+12 <= len(b); {
			n := int64(binary.BigEndian.Uint32(b[i:]))
			if n > int64(len(b)-i-12) {
				break
			}
			end := i + 8 + int(n)
			binary.BigEndian.PutUint32(b[end:], crc32.ChecksumIEEE(b[i+4:end]))
			i = end + 4
		}
		compareValidators(t, b)
	})
}

// compareValidators requires of the streaming validator the verdict of image/png on the file without its ancillary
// chunks. Only a chunk that is cut short may make a difference, which image/png sees or not.
func compareValidators(t *testing.T, b []byte) {
	t.Helper()
	l := fuzzLimits()
	_, wantErr := ReadHeader(b, l)
	if r, ok := wantErr.(*Refusal); ok && r.Code != Corrupt && r.Code != Truncated && r.Code != ZeroSize {
		return // ours alone: a limit
	}
	dropped := dropAncillary(b)
	if c, err := png.DecodeConfig(bytes.NewReader(dropped)); err == nil && int64(c.Width)*int64(c.Height) > 1<<18 {
		return // damaged, and image/png allocates before it notices
	}
	_, err := NewDecoder(l).Validate(context.Background(), b)
	_, goErr := png.Decode(bytes.NewReader(dropped))
	if (err == nil) != (goErr == nil) {
		t.Fatalf("we: %v; image/png: %v", err, goErr)
	}
}
