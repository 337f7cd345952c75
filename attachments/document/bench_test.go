package document

import (
	"bytes"
	"context"
	"os/exec"
	"testing"
	"time"

	"sightline/attachments/visual"
)

// timed reports ours and theirs, each the best of a few runs, and their ratio. Theirs is a process of its own, as ours
// is an instance of its own; both begin with the bytes of the file.
func timed(b *testing.B, pkg, tool string, args []string, ours func()) {
	run(b, pkg, tool, "-v")
	best := func(work func()) time.Duration {
		least := time.Hour
		for range 5 {
			at := time.Now()
			work()
			least = min(least, time.Since(at))
		}
		return least
	}
	for b.Loop() {
		o := best(ours)
		t := best(func() {
			if out, err := exec.CommandContext(context.Background(), tool, args...).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		})
		b.ReportMetric(float64(o.Microseconds())/1000, "ms-ours")
		b.ReportMetric(float64(t.Microseconds())/1000, "ms-"+tool)
		b.ReportMetric(float64(o)/float64(t), "ratio")
	}
}

func BenchmarkPDFText(b *testing.B) {
	for name, data := range map[string][]byte{"one_page": samplePDF(1), "50_pages": samplePDF(50), "libreoffice": office(b)["report.pdf"]} {
		b.Run(name, func(b *testing.B) {
			path := temp(b, "a.pdf", data)
			timed(b, "poppler-utils", "pdftotext", []string{path, "-"}, func() {
				for w := (&Window{}); w != nil; {
					w = read(b, data, PDF, *w).Next
				}
			})
		})
	}
}

func BenchmarkPDFRender(b *testing.B) {
	for name, data := range map[string][]byte{"own": samplePDF(1), "libreoffice": office(b)["report.pdf"]} {
		b.Run(name, func(b *testing.B) {
			path := temp(b, "a.pdf", data)
			pic := renderPage(b, data, 1, visual.Target{MaxEdge: 1568}, nil)
			args := []string{"-png", "-singlefile", "-f", "1", "-scale-to", "1568", path, path}
			timed(b, "poppler-utils", "pdftoppm", args, func() {
				if p := renderPage(b, data, 1, visual.Target{MaxEdge: 1568}, nil); !bytes.Equal(p.Bytes, pic.Bytes) {
					b.Fatal("pages differ between two drawings")
				}
			})
		})
	}
}

// BenchmarkEngineStart compiles the engine without a cache, as the first start of a machine does.
func BenchmarkEngineStart(b *testing.B) {
	for b.Loop() {
		r := NewReader(DefaultLimits(), Options{})
		if err := r.Prepare(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOffice(b *testing.B) {
	for name, k := range map[string]Kind{"report.docx": DOCX, "report.rtf": RTF, "report.epub": EPUB, "sheet.xlsx": XLSX} {
		data := office(b)[name]
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				read(b, data, k, Window{})
			}
		})
	}
}
