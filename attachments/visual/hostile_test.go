package visual

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHostile decodes every hostile file, the scan bomb cut to what the limit admits and the benchmark pictures in one
// process of its own, and bounds the memory by which that process grew.
func TestHostile(t *testing.T) {
	dir := corporaDir(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostileChild$", "-test.v")
	cmd.Env = append(os.Environ(), "SIGHTLINE_CORPORA="+dir, "SIGHTLINE_VISUAL_CHILD=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "grew by") {
			t.Log(strings.TrimSpace(line))
			return
		}
	}
	t.Fatalf("the child measured nothing:\n%s", out)
}

// TestHostileChild does the work of TestHostile.
func TestHostileChild(t *testing.T) {
	if os.Getenv("SIGHTLINE_VISUAL_CHILD") == "" {
		return
	}
	const budget = 300 << 20
	l := testLimits()
	l.MaxFramePixels = 1 << 40 // also decode the frame bomb, of which only the first frame may cost anything
	d := NewDecoder(l)
	files := append(corpusFiles(t, "hostile"), corpusFiles(t, "bench")...)
	rounds := 2 // in a row: garbage of one must not come on top of the next
	if raceEnabled {
		files, rounds = corpusFiles(t, "hostile"), 1 // ten times slower, and the memory is measured without it
	}
	before := memory(t)
	for range rounds {
		for _, path := range files {
			b := readCorpus(t, path)
			if strings.Contains(path, "scan200") {
				b = cutScans(b, l.MaxScans)
			}
			start := time.Now()
			_, err := d.Validate(t.Context(), b)
			took := time.Since(start)
			var r *Refusal
			if err != nil && !errors.As(err, &r) {
				t.Errorf("%s: %v", path, err)
			}
			// A decoder is asked between two reads, so it ends a little after its deadline.
			if took > l.Deadline+l.Deadline/10 {
				t.Errorf("%s: took %s", path, took)
			}
			if grown := memory(t) - before; grown > budget {
				t.Fatalf("%s: grew by %s, over %s", path, mebibytes(grown), mebibytes(budget))
			}
		}
		d.verdicts = newVerdicts(maxVerdicts)
	}
	fmt.Printf("grew by %s\n", mebibytes(memory(t)-before))
}

// memory returns the most memory the process has held. Under the race detector that is what Go's heap took from the
// system, which never shrinks: the detector's own shadow memory would multiply the resident size.
func memory(t *testing.T) int64 {
	t.Helper()
	if raceEnabled {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapSys)
	}
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skipf("resident memory: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// cutScans leaves the first n scans of a JPEG.
func cutScans(b []byte, n int) []byte {
	w := walkJPEG(b)
	for s, ok := w.next(); ok; s, ok = w.next() {
		if s.marker == jpegSOS {
			if n--; n == 0 {
				return append(append([]byte(nil), b[:s.end]...), 0xff, jpegEOI)
			}
		}
	}
	return b
}

// TestHostileHeaders expects the rule that each bomb breaks, from headers alone.
func TestHostileHeaders(t *testing.T) {
	want := map[string]RefusalCode{
		"alphclaim_8192x4096.webp": Truncated, "claim.webp": Truncated,
		"f100_8192x4096.gif":    TooManyFrames,
		"g16trns_8192x4096.png": StorageTooLarge, "g1trns_8192x4096.png": StorageTooLarge, "j444p_8192x4096.jpg": StorageTooLarge,
		"rgba16_8192x4096.png": StorageTooLarge, "rgba16_8192x4096_i.png": StorageTooLarge,
		"scan2000.jpg": Truncated, "scan200_8192x4096.jpg": TooManyScans,
	}
	for _, path := range corpusFiles(t, "hostile") {
		name := strings.TrimPrefix(path, "hostile/")
		h, err := ReadHeader(readCorpus(t, path), DefaultLimits())
		var r *Refusal
		switch errors.As(err, &r); {
		case err == nil && want[name] != "":
			t.Errorf("%s: accepted, want %s", name, want[name])
		case err != nil && (r == nil || r.Code != want[name]):
			t.Errorf("%s: %v, want %q", name, err, want[name])
		case err == nil && h.Out+h.Transient > DefaultLimits().MaxWorking:
			t.Errorf("%s: %d + %d bytes accepted", name, h.Out, h.Transient)
		}
	}
}

// TestScanBombDeadline stops a decode whose scans are within the limit and which takes too long.
func TestScanBombDeadline(t *testing.T) {
	b := cutScans(readCorpus(t, "hostile/scan200_8192x4096.jpg"), 100)
	l := DefaultLimits()
	l.Deadline = 30 * time.Millisecond
	d := NewDecoder(l)
	_, err := d.Validate(t.Context(), b)
	var r *Refusal
	if !errors.As(err, &r) || r.Code != DeadlineExceeded {
		t.Fatalf("%v, want a refusal for the deadline", err)
	}
	if len(d.slot) != 0 {
		t.Error("the slot was not given back")
	}
	// Quarantined, but not for ever: the machine may have been busy.
	if _, err := d.Validate(context.Background(), b); !errors.As(err, &r) || r.Code != DeadlineExceeded {
		t.Errorf("second time: %v", err)
	}
	d.verdicts.now = func() time.Time { return time.Now().Add(2 * deadlineVerdict) }
	if _, ok := d.verdicts.get(sumOf(b), len(b)); ok {
		t.Error("the verdict on a deadline does not expire")
	}
}

// TestHugeHeaders refuses pictures by their header alone: there is next to nothing behind it.
func TestHugeHeaders(t *testing.T) {
	ihdr := func(w, h uint32, depth, color byte) []byte {
		b := []byte{byte(w >> 24), byte(w >> 16), byte(w >> 8), byte(w), byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h), depth, color, 0, 0, 0}
		return bytes.Join([][]byte{[]byte(pngSignature), chunk("IHDR", b), chunk("IDAT", nil), chunk("IEND", nil)}, nil)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want RefusalCode
		says string
	}{
		{"uniform", ihdr(40000, 40000, 8, 2), EdgeTooLong, "40000x40000"},
		{"edge", ihdr(16385, 1, 8, 0), EdgeTooLong, "16384"},
		{"pixels", ihdr(8192, 4097, 1, 0), TooManyPixels, "33.6 megapixels"},
		{"5K screenshot", ihdr(5120, 2880, 8, 6), StorageTooLarge, "56.2 MiB decoded; the limit is 32.0 MiB"},
		{"bytes", append(ihdr(1, 1, 8, 0), make([]byte, 8<<20)...), TooLargeBytes, "8.0 MiB"},
		{"zero", ihdr(0, 1, 8, 0), ZeroSize, "0x1"},
	} {
		_, err := ReadHeader(c.b, DefaultLimits())
		var r *Refusal
		if !errors.As(err, &r) || r.Code != c.want || !strings.Contains(r.Person, c.says) {
			t.Errorf("%s: %v, want %s with %q", c.name, err, c.want, c.says)
		}
		if r != nil && r.Code != ZeroSize && !strings.Contains(r.Person, "workspace") {
			t.Errorf("%s: no way out: %s", c.name, r.Person)
		}
	}
	photo := readCorpus(t, "bench/m24.jpg")
	_, err := ReadHeader(photo, DefaultLimits())
	var r *Refusal
	if !errors.As(err, &r) || r.Person != "This JPEG of 6000x4000 pixels (24.0 megapixels) would take 34.3 MiB decoded; the limit is 32.0 MiB, which about 5676x3784 would meet. Post a smaller one, or import the original into a workspace (where one is enabled) and work on it there." {
		t.Errorf("24 MP photo: %v", r.Person)
	}
}

// TestClaims: every length inside a WebP must fit what holds it, because the decoder allocates what a length claims.
func TestClaims(t *testing.T) {
	long := func(kind string, data []byte) []byte {
		c := appendChunk(nil, kind, data)
		binary.LittleEndian.PutUint32(c[4:], 1<<27)
		return c
	}
	picture := tinyVP8L(10, 8, 1, 2, 3, 255)
	for name, b := range map[string][]byte{
		"picture": riff(long("VP8L", picture)),
		"alpha":   riff(vp8xChunk(webpAlpha, 10, 8), long("ALPH", []byte{1, 0})),
		"unknown": riff(long("SECR", nil), appendChunk(nil, "VP8L", picture)),
		"frame":   riff(vp8xChunk(webpAnimation, 10, 8), appendChunk(nil, "ANMF", append([]byte{0, 0, 0, 0, 0, 0, 9, 0, 0, 7, 0, 0, 0, 0, 0, 0}, long("VP8L", picture)...))),
	} {
		_, err := ReadHeader(b, DefaultLimits())
		var r *Refusal
		if !errors.As(err, &r) || r.Code != Truncated {
			t.Errorf("%s: %v", name, err)
		}
	}
	h, err := ReadHeader(riff(appendChunk(nil, "VP8L", picture)), DefaultLimits())
	if err != nil || h.Transient < 205<<20 {
		t.Errorf("Huffman tables are not reserved: %+v, %v", h, err)
	}
}
