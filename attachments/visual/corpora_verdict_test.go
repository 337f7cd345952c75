package visual

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image/png"
	"strings"
	"testing"
)

// dropAncillary is written apart from the package's own, as an oracle: signature, critical chunks and tRNS up to IEND.
func dropAncillary(b []byte) []byte {
	out := append([]byte(nil), b[:8]...)
	for i := 8; i+12 <= len(b); {
		n := 12 + int(binary.BigEndian.Uint32(b[i:]))
		if n < 12 || i+n > len(b) {
			break
		}
		kind := string(b[i+4 : i+8])
		if kind[0]&0x20 == 0 || kind == "tRNS" {
			out = append(out, b[i:i+n]...)
		}
		if kind == "IEND" {
			break
		}
		i += n
	}
	return out
}

// wantAccepted derives our verdict from that of Go: more lenient where the design asks for it, stricter by our limits.
func wantAccepted(r corpusRow, b []byte, l Limits) bool {
	ok := r.verdict == "ok"
	switch {
	case ok:
	case r.format == "webp" && strings.Contains(r.mode, "+anim"):
		ok = true // the first frame as a still WebP
	case r.format == "png" && len(b) > 8:
		_, err := png.Decode(bytes.NewReader(dropAncillary(b)))
		ok = err == nil // only ancillary chunks were in Go's way
	}
	pixels := int64(r.w) * int64(r.h)
	return ok && r.w > 0 && r.h > 0 && r.w <= l.MaxEdge && r.h <= l.MaxEdge && pixels <= l.MaxPixels &&
		r.out <= l.MaxStorage && r.bytes <= l.MaxBytes
}

func TestCorporaVerdicts(t *testing.T) {
	// The EXIF of this one stands behind its pixels, where the reference reader does not look and PNG allows it.
	orientations := map[string]int{"pnggroup+libpng/pngtest.png": 5}
	l := testLimits()
	d := NewDecoder(l)
	accepted := 0
	for _, r := range readManifest(t) {
		b := readCorpus(t, r.path)
		want := wantAccepted(r, b, l)
		h, err := d.Validate(t.Context(), b)
		if (err == nil) != want {
			t.Errorf("%s (%s): accepted %v, want %v: Go %q, we %v", r.path, r.mode, err == nil, want, r.verdict, err)
			continue
		}
		if err != nil {
			if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Person == "" || refusal.Operator == "" {
				t.Errorf("%s: %v is not a Refusal in two texts", r.path, err)
			}
			continue
		}
		accepted++
		if h.Width != r.w || h.Height != r.h {
			t.Errorf("%s: %dx%d, want %dx%d", r.path, h.Width, h.Height, r.w, r.h)
		}
		if r.verdict == "ok" && h.Out != r.out {
			t.Errorf("%s (%s): out %d, Go allocates %d", r.path, h.Mode, h.Out, r.out)
		}
		if !strings.HasSuffix(h.Mode, r.mode) {
			t.Errorf("%s: mode %q, want %q", r.path, h.Mode, r.mode)
		}
		if h.Frames != max(r.frames, 1) {
			t.Errorf("%s: %d frames, want %d", r.path, h.Frames, r.frames)
		}
		want8 := max(r.orientation, 1)
		if o, ok := orientations[r.path]; ok {
			want8 = o
		}
		if h.Orientation != want8 {
			t.Errorf("%s: orientation %d, want %d", r.path, h.Orientation, want8)
		}
	}
	if accepted < 1150 {
		t.Errorf("%d files accepted only", accepted)
	}
}

// TestMadeHere names the rule that each of the made files is about.
func TestMadeHere(t *testing.T) {
	refused := map[string]RefusalCode{
		"arith.jpg": UnsupportedFeature, "s3x1.jpg": UnsupportedFeature, "s_chroma_bigger.jpg": UnsupportedFeature,
		"s_uneven.jpg": UnsupportedFeature, "cmyk_noadobe.jpg": UnsupportedFeature, "t.ppm": UnsupportedFormat,
		"badadler.png": Corrupt, "badcrc_idat.png": Corrupt, "extrapix.png": Corrupt, "noframe.gif": Corrupt, "outside.gif": Corrupt,
		"vp8x_alphaflag_noalph.webp": Corrupt,
		"noeoi.jpg":                  Truncated, "prog_noeoi.jpg": Truncated, "noiend.png": Truncated, "lltrunc.webp": Truncated,
		"truncend.webp": Truncated, "trunc50.gif": Truncated, "trunc50.jpg": Truncated, "trunc50.png": Truncated, "trunc50.webp": Truncated,
		"zeroall.gif": ZeroSize, "zeroframe.gif": ZeroSize, "zeroscreen.gif": ZeroSize,
	}
	d := NewDecoder(testLimits())
	for _, path := range corpusFiles(t, "made-here") {
		name := strings.TrimPrefix(path, "made-here/")
		_, err := d.Validate(t.Context(), readCorpus(t, path))
		var r *Refusal
		switch errors.As(err, &r); {
		case err == nil && refused[name] != "":
			t.Errorf("%s: accepted, want %s", name, refused[name])
		case err != nil && (r == nil || r.Code != refused[name]):
			t.Errorf("%s: %v, want %q", name, err, refused[name])
		}
	}
}
