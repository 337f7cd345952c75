package visual

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"
)

// secret stands for what must not leave with a picture.
const secret = "48.8583N-2.2944E"

// testLimits are the default ones, with more time under the race detector.
func testLimits() Limits {
	l := DefaultLimits()
	if raceEnabled {
		l.Deadline *= 20
	}
	return l
}

// scene is an opaque picture in which every pixel is particular to its place.
func scene(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.SetNRGBA(x, y, color.NRGBA{uint8(x * 7), uint8(y * 5), uint8(x ^ y*3), 255})
		}
	}
	return m
}

func pngBytes(t testing.TB, m image.Image) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := png.Encode(&buf, m); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func jpegBytes(t testing.TB, m image.Image) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, m, &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func paletteOf(m image.Image) *image.Paletted {
	var pal color.Palette
	for i := range 64 {
		pal = append(pal, color.RGBA{uint8(i << 6), uint8(i >> 2 << 6), uint8(i >> 4 << 6), 255})
	}
	dst := image.NewPaletted(m.Bounds(), pal)
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			dst.Set(x, y, m.At(x, y))
		}
	}
	return dst
}

func gifBytes(t testing.TB, w, h int, frames ...*image.Paletted) []byte {
	t.Helper()
	g := &gif.GIF{Config: image.Config{Width: w, Height: h}}
	for _, f := range frames {
		g.Image, g.Delay = append(g.Image, f), append(g.Delay, 10)
	}
	var buf bytes.Buffer
	if err := gif.EncodeAll(&buf, g); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// chunk makes a PNG chunk.
func chunk(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// afterIHDR puts chunks behind the header of a PNG.
func afterIHDR(b []byte, chunks ...[]byte) []byte { return insert(b, 33, chunks...) }

// afterSOI puts segments behind the start of a JPEG.
func afterSOI(b []byte, segments ...[]byte) []byte { return insert(b, 2, segments...) }

func insert(b []byte, at int, parts ...[]byte) []byte {
	out := append([]byte(nil), b[:at]...)
	for _, p := range parts {
		out = append(out, p...)
	}
	return append(out, b[at:]...)
}

func segment(marker byte, payload []byte) []byte {
	n := len(payload) + 2
	return append([]byte{0xff, marker, byte(n >> 8), byte(n)}, payload...)
}

// exif makes an EXIF block with an orientation and a secret behind it.
func exif(orientation byte) []byte {
	b := []byte("MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00")
	b[19] = orientation
	return append(b, secret...)
}

// riff makes a WebP of chunks.
func riff(chunks ...[]byte) []byte {
	body := []byte("WEBP")
	for _, c := range chunks {
		body = append(body, c...)
	}
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

func vp8xChunk(flags byte, w, h int) []byte {
	x := make([]byte, 10)
	x[0] = flags
	put24(x[4:], w-1)
	put24(x[7:], h-1)
	return appendChunk(nil, "VP8X", x)
}

// tinyVP8L is a lossless WebP bitstream of one colour: five Huffman codes of one symbol each, so no bits a pixel.
func tinyVP8L(w, h int, red, green, blue, alpha byte) []byte {
	var out []byte
	var acc uint64
	var n uint
	put := func(v uint64, bits uint) {
		acc |= v << n
		for n += bits; n >= 8; n -= 8 {
			out = append(out, byte(acc))
			acc >>= 8
		}
	}
	put(0x2f, 8)
	put(uint64(w-1), 14)
	put(uint64(h-1), 14)
	put(1, 1) // alpha is used
	put(0, 3) // version
	put(0, 1) // no transform
	put(0, 1) // no colour cache
	put(0, 1) // one Huffman group
	for _, v := range []byte{green, red, blue, alpha, 0} {
		put(1, 1) // simple code
		put(0, 1) // of one symbol
		put(1, 1) // of eight bits
		put(uint64(v), 8)
	}
	put(0, 8)
	return out
}

// animatedWebP has two frames of 10x8 at 4, 2 on a canvas of 20x16.
func animatedWebP() []byte {
	frame := func(red byte) []byte {
		head := make([]byte, 16)
		put24(head, 2)
		put24(head[3:], 1)
		put24(head[6:], 9)
		put24(head[9:], 7)
		return appendChunk(nil, "ANMF", append(head, appendChunk(nil, "VP8L", tinyVP8L(10, 8, red, 100, 50, 255))...))
	}
	return riff(vp8xChunk(webpAnimation|webpAlpha, 20, 16), appendChunk(nil, "ANIM", make([]byte, 6)), frame(200), frame(10))
}

// samples are small files of every kind that is shown, with and without what has to be stripped.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	m := scene(40, 24)
	gray := image.NewGray16(m.Bounds())
	deep := image.NewNRGBA64(m.Bounds())
	for y := range 24 {
		for x := range 40 {
			gray.Set(x, y, m.At(x, y))
			deep.SetNRGBA64(x, y, color.NRGBA64{uint16(x * 1600), uint16(y * 2500), 9, uint16(65535 - x)})
		}
	}
	seeThrough := scene(40, 24)
	for i := 3; i < len(seeThrough.Pix); i += 12 {
		seeThrough.Pix[i] = uint8(i)
	}
	pal := paletteOf(m)
	part := pal.SubImage(image.Rect(4, 2, 30, 20)).(*image.Paletted)
	p, j, g := pngBytes(t, m), jpegBytes(t, m), gifBytes(t, 40, 24, pal)
	lossless := tinyVP8L(40, 24, 1, 2, 3, 128)
	text := chunk("tEXt", []byte("Comment\x00"+secret))
	bad := append([]byte(nil), text...)
	bad[len(bad)-1]++
	exifAPP := segment(0xe1, append([]byte("Exif\x00\x00"), exif(6)...))
	return map[string][]byte{
		"plain.png":      p,
		"gray16.png":     pngBytes(t, gray),
		"rgba16.png":     pngBytes(t, deep),
		"alpha.png":      pngBytes(t, seeThrough),
		"palette.png":    pngBytes(t, pal),
		"text.png":       append(afterIHDR(p, text, chunk("gAMA", []byte{0, 0, 177, 143}), chunk("zTXt", []byte("a\x00\x00"+secret))), secret...),
		"badtext.png":    afterIHDR(p, bad),
		"private.png":    afterIHDR(p, chunk("prIv", []byte(secret)), chunk("PrIv", []byte(secret))),
		"exif.png":       afterIHDR(p, chunk("eXIf", exif(8))),
		"apng.png":       afterIHDR(p, chunk("acTL", []byte{0, 0, 0, 3, 0, 0, 0, 0}), chunk("fcTL", make([]byte, 26))),
		"plain.jpg":      j,
		"exif.jpg":       afterSOI(j, exifAPP, segment(0xe1, []byte("http://ns.adobe.com/xap/1.0/\x00"+secret)), segment(0xfe, []byte(secret))),
		"jfif.jpg":       append(afterSOI(j, segment(0xe0, []byte("JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x01\x05"+secret)), segment(0xed, []byte(secret)), segment(0xe2, []byte("ICC_PROFILE\x00\x01\x01made up")), []byte{0xff, 0xff}), secret...),
		"jfxx.jpg":       afterSOI(j, segment(0xe0, []byte("JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00")), segment(0xe0, []byte("JFXX\x00\x10"+secret))),
		"gray.jpg":       jpegBytes(t, gray),
		"plain.gif":      g,
		"comment.gif":    insert(g, 13, append([]byte{0x21, 0xfe, byte(len(secret))}, secret+"\x00"...)),
		"animated.gif":   append(gifBytes(t, 40, 24, pal, part), secret...),
		"part.gif":       gifBytes(t, 40, 24, part),
		"plain.webp":     riff(appendChunk(nil, "VP8L", lossless)),
		"exif.webp":      riff(vp8xChunk(webpEXIF|webpXMP, 40, 24), appendChunk(nil, "VP8L", lossless), appendChunk(nil, "EXIF", append([]byte("Exif\x00\x00"), exif(3)...)), appendChunk(nil, "XMP ", []byte(secret))),
		"unknown.webp":   append(riff(vp8xChunk(0, 40, 24), appendChunk(nil, "SECR", []byte(secret)), appendChunk(nil, "VP8L", lossless)), secret...),
		"animated.webp":  animatedWebP(),
		"wholeanim.webp": riff(vp8xChunk(webpAnimation, 10, 8), appendChunk(nil, "ANMF", append([]byte{0, 0, 0, 0, 0, 0, 9, 0, 0, 7, 0, 0, 0, 0, 0, 0}, appendChunk(nil, "VP8L", tinyVP8L(10, 8, 9, 9, 9, 255))...))),
	}
}

// pixelsOf decodes an accepted file to stored pixels on its canvas.
func pixelsOf(t testing.TB, b []byte) (*raster, Header) {
	t.Helper()
	d := NewDecoder(testLimits())
	h, err := ReadHeader(b, d.limits)
	if err != nil {
		t.Fatal(err)
	}
	h.Orientation = 1
	var r *raster
	if err := d.inSlot(t.Context(), h, func(s *stop) error {
		img, at, err := decode(s, b, h)
		if err == nil {
			r = newRaster(h, img, at)
			r.line = nil // the tests read upright and otherwise by pixel
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return r, h
}

// samePixels reports the first pixel in which part of a differs from b.
func samePixels(t testing.TB, name string, a *raster, part Region, b *raster) {
	t.Helper()
	if part.Width != b.w || part.Height != b.h {
		t.Errorf("%s: %dx%d, want %dx%d", name, b.w, b.h, part.Width, part.Height)
		return
	}
	rowA, rowB := make([]byte, 4*b.w), make([]byte, 4*b.w)
	for y := range b.h {
		a.row(part.X, part.Y+y, rowA)
		b.row(0, y, rowB)
		for i := 3; i < len(rowA); i += 4 { // no colour without alpha
			if rowA[i] == 0 && rowB[i] == 0 {
				copy(rowA[i-3:i], rowB[i-3:i])
			}
		}
		if !bytes.Equal(rowA, rowB) {
			t.Errorf("%s: row %d differs", name, y)
			return
		}
	}
}

func wholeOf(r *raster) Region { return Region{Width: r.w, Height: r.h} }
