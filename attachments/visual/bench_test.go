package visual

import (
	"bytes"
	"encoding/base64"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"
	"time"

	"golang.org/x/image/webp"
)

var benchFiles = []string{"bench/s1080.rgb.png", "bench/s4k.rgb.png", "bench/m12.jpg", "bench/m12p.jpg", "bench/s4k.lossy.webp",
	"golang+image/testdata/blue-purple-pink-large.lossless.webp", "hostile/f1_8192x4096.gif"}

func eachBenchFile(b *testing.B, run func(b *testing.B, file []byte)) {
	for _, path := range benchFiles {
		file := readCorpus(b, path)
		b.Run(path[bytes.LastIndexByte([]byte(path), '/')+1:], func(b *testing.B) {
			run(b, file)
		})
	}
}

// race alternates base and run and reports how the best time of run compares with that of base: a ratio that other
// work on the machine disturbs little.
func race(b *testing.B, name string, base, run func()) {
	best := [2]time.Duration{1 << 62, 1 << 62}
	for b.Loop() {
		for i, f := range []func(){base, run} {
			start := time.Now()
			f()
			best[i] = min(best[i], time.Since(start))
		}
	}
	b.ReportMetric(0, "ns/op") // of both together: says nothing
	b.ReportMetric(float64(best[0].Microseconds())/1000, name+"-ms")
	b.ReportMetric(float64(best[1].Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(best[1])/float64(best[0]), "ratio")
}

// BenchmarkRebuildKnown compares a Rebuild of a file with a verdict, between reading its bytes and encoding them as
// base64, with the reading and encoding alone, as each further inference does. The digest comes from the caller, who
// computes it on the way in.
func BenchmarkRebuildKnown(b *testing.B) {
	d := NewDecoder(DefaultLimits())
	eachBenchFile(b, func(b *testing.B, file []byte) {
		sum := sumOf(file)
		if _, err := d.Validate(b.Context(), file); err != nil {
			b.Fatal(err)
		}
		in, out := make([]byte, len(file)), make([]byte, base64.StdEncoding.EncodedLen(len(file)))
		race(b, "base64", func() {
			copy(in, file)
			base64.StdEncoding.Encode(out, in)
		}, func() {
			copy(in, file)
			p, err := d.RebuildDigest(b.Context(), in, sum, Target{}, nil)
			if err != nil {
				b.Fatal(err)
			}
			base64.StdEncoding.Encode(out, p.Bytes)
		})
	})
}

// BenchmarkValidate compares a first look, when nothing is known of a file, with what the standard decoder takes
// without any bounds.
func BenchmarkValidate(b *testing.B) {
	eachBenchFile(b, func(b *testing.B, file []byte) {
		sum := sumOf(file)
		race(b, "decode", func() {
			var err error
			switch Sniff(file) {
			case PNG:
				_, err = png.Decode(bytes.NewReader(file))
			case JPEG:
				_, err = jpeg.Decode(bytes.NewReader(file))
			case GIF:
				_, err = gif.Decode(bytes.NewReader(file))
			case WebP:
				_, err = webp.Decode(bytes.NewReader(file))
			}
			if err != nil {
				b.Fatal(err)
			}
		}, func() {
			if _, err := NewDecoder(DefaultLimits()).ValidateDigest(b.Context(), file, sum); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// BenchmarkRebuildHashing is the same where Rebuild has to compute the digest.
func BenchmarkRebuildHashing(b *testing.B) {
	d := NewDecoder(DefaultLimits())
	eachBenchFile(b, func(b *testing.B, file []byte) {
		for b.Loop() {
			if _, err := d.Rebuild(b.Context(), file, Target{}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkHeader(b *testing.B) {
	l := DefaultLimits()
	eachBenchFile(b, func(b *testing.B, file []byte) {
		for b.Loop() {
			if _, err := ReadHeader(file, l); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkScaled decodes, reduces to 1568 pixels and encodes again.
func BenchmarkScaled(b *testing.B) {
	d := NewDecoder(DefaultLimits())
	eachBenchFile(b, func(b *testing.B, file []byte) {
		sum := sumOf(file)
		for b.Loop() {
			if _, err := d.RebuildDigest(b.Context(), file, sum, Target{MaxEdge: 1568}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOverBudget makes a picture fit half of its bytes, between trying every way at every size.
func BenchmarkOverBudget(b *testing.B) {
	d := NewDecoder(DefaultLimits())
	files := map[string][]byte{"noise.png": noiseOf(b, 1640, 1640)}
	for _, path := range []string{"bench/s4k.rgb.png", "bench/m12.jpg"} {
		files[path[6:]] = readCorpus(b, path)
	}
	for name, file := range files {
		b.Run(name, func(b *testing.B) {
			target := Target{MaxBytes: int64(len(file)) / 2}
			sum := sumOf(file)
			race(b, "all", func() { everyWay(b, file, target) }, func() {
				if _, err := d.RebuildDigest(b.Context(), file, sum, target, nil); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkRegion cuts 800x400 at native resolution.
func BenchmarkRegion(b *testing.B) {
	d := NewDecoder(DefaultLimits())
	for _, path := range []string{"bench/s4k.rgb.png", "bench/m12.jpg"} {
		file := readCorpus(b, path)
		sum := sumOf(file)
		b.Run(path[6:], func(b *testing.B) {
			for b.Loop() {
				if _, err := d.RebuildDigest(b.Context(), file, sum, Target{}, &Region{500, 300, 800, 400}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
