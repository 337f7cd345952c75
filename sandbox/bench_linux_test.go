package sandbox

import (
	"bytes"
	"fmt"
	"os/exec"
	"testing"
)

// BenchmarkNoop is a command that does nothing from its start to its exit, with everything that Exec does around it.
func BenchmarkNoop(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/bash", "-c", ":").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, kind := range []Kind{Bubblewrap, Landlock} {
		b.Run(string(kind), func(b *testing.B) {
			w := workspace(b, proved(b, kind))
			for b.Loop() {
				if res, err := w.Exec(b.Context(), ":", 0); err != nil || res.ExitCode != 0 {
					b.Fatal(res, err)
				}
			}
		})
	}
}

// BenchmarkImport includes getting the file onto the disk.
func BenchmarkImport(b *testing.B) {
	r := proved(b, Bubblewrap)
	for _, size := range []int{1 << 10, 1 << 20, 8 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			w := workspace(b, r)
			content := bytes.Repeat([]byte("x"), size)
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := w.Import(b.Context(), Inside+"/file", bytes.NewReader(content), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
