package visual

import (
	"bytes"
	"image/jpeg"
	"strings"
	"testing"
)

// metadata are the marks that no sent picture may hold.
var metadata = [][]byte{
	[]byte(secret), []byte("Exif\x00\x00"), []byte("http://ns.adobe.com/"), []byte("Photoshop 3.0"),
	[]byte("eXIf"), []byte("tEXt"), []byte("zTXt"), []byte("iTXt"), []byte("tIME"), []byte("acTL"), []byte("fdAT"),
	[]byte("EXIF"), []byte("XMP "), []byte("ANMF"), []byte("NETSCAPE2.0"),
}

func checkStripped(t *testing.T, name string, out []byte) {
	t.Helper()
	for _, m := range metadata {
		if bytes.Contains(out, m) {
			t.Errorf("%s: %q is left", name, m)
		}
	}
	again, err := StripMetadata(out)
	if err != nil || !same(again, out) {
		t.Errorf("%s: stripping twice is not stripping once: %v", name, err)
	}
}

// TestStripCorpora strips every accepted corpus file and compares all its pixels.
func TestStripCorpora(t *testing.T) {
	l := testLimits()
	stripped := 0
	for i, r := range readManifest(t) {
		if raceEnabled && i%4 != 0 { // the detector makes decoding ten times slower, and adds nothing to this
			continue
		}
		b := readCorpus(t, r.path)
		if !wantAccepted(r, b, l) {
			continue
		}
		before, h := pixelsOf(t, b)
		out, err := StripMetadata(b)
		if err != nil {
			t.Errorf("%s: %v", r.path, err)
			continue
		}
		checkStripped(t, r.path, out)
		if !same(out, b) {
			stripped++
		}
		after, h2 := pixelsOf(t, out)
		if h.Format == WebP && h.partial { // the frame alone; Rebuild composes it
			f, _ := parseWebP(b)
			samePixels(t, r.path, before, Region{f.x, f.y, f.fw, f.fh}, after)
			continue
		}
		samePixels(t, r.path, before, wholeOf(before), after)
		if h2.Frames != 1 || h2.Orientation != 1 || h2.Animated {
			t.Errorf("%s: stripped, it has %d frames and orientation %d", r.path, h2.Frames, h2.Orientation)
		}
	}
	if stripped < 50 {
		t.Errorf("%d files had anything to strip", stripped)
	}
}

func TestStripSamples(t *testing.T) {
	d := NewDecoder(testLimits())
	for name, b := range samples(t) {
		for _, made := range []string{"sent", "stripped", "encoded"} {
			var out []byte
			var err error
			var p Picture
			switch made {
			case "sent":
				p, err = d.Rebuild(t.Context(), b, Target{}, nil)
				out = p.Bytes
			case "stripped":
				out, err = StripMetadata(b)
			case "encoded":
				p, err = d.Rebuild(t.Context(), b, Target{MaxEdge: 9}, nil)
				out = p.Bytes
			}
			if err != nil {
				t.Errorf("%s, %s: %v", name, made, err)
				continue
			}
			checkStripped(t, name+", "+made, out)
			if made == "stripped" && strings.HasPrefix(name, "plain.") && name != "plain.gif" && !same(out, b) {
				t.Errorf("%s: copied though nothing was to be stripped", name)
			}
			before, h := pixelsOf(t, b)
			if after, _ := pixelsOf(t, out); made == "stripped" && !h.partial {
				samePixels(t, name, before, wholeOf(before), after)
			}
		}
	}
}

// TestStripKeepsColours keeps what decides how pixels are read.
func TestStripKeepsColours(t *testing.T) {
	all := samples(t)
	for name, want := range map[string]string{"jfif.jpg": "ICC_PROFILE\x00", "text.png": "gAMA", "gray.jpg": "\xff\xd8\xff\xdb"} {
		out, err := StripMetadata(all[name])
		if err != nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("%s: %q is gone (%v)", name, want, err)
		}
	}
	out, _ := StripMetadata(all["badtext.png"])
	if want, _ := StripMetadata(all["plain.png"]); !bytes.Equal(out, want) {
		t.Error("a chunk with a bad sum reaches the model")
	}
	badGamma := afterIHDR(all["plain.png"], chunk("gAMA", []byte{0, 0, 1, 1}))
	badGamma[33+8]++
	if out, _ := StripMetadata(badGamma); bytes.Contains(out, []byte("gAMA")) {
		t.Error("a colour chunk with a bad sum reaches the model")
	}
	adobe := readCorpus(t, "made-here/cmyk.jpg")
	if out, _ := StripMetadata(adobe); !bytes.Contains(out, []byte("Adobe")) {
		t.Error("the Adobe marker is gone")
	}
}

// TestStripKeepsRGB is about a JPEG that is RGB only as long as the decoder does not take it for JFIF.
func TestStripKeepsRGB(t *testing.T) {
	rgb := readCorpus(t, "made-here/rgb.jpg")
	jfif, jfxx := segment(0xe0, []byte("JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00")), segment(0xe0, []byte("JFXX\x00\x10"))
	for name, b := range map[string][]byte{
		"bare": rgb, "jfif": afterSOI(rgb, jfif), "jfxx last": afterSOI(rgb, jfif, jfxx), "jfif last": afterSOI(rgb, jfxx, jfif),
	} {
		out, err := StripMetadata(b)
		if err != nil {
			t.Fatal(err)
		}
		before, err := jpeg.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		after, err := jpeg.Decode(bytes.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		if before.ColorModel() != after.ColorModel() || before.At(7, 7) != after.At(7, 7) {
			t.Errorf("%s: %v became %v", name, before.At(7, 7), after.At(7, 7))
		}
	}
}
