package visual

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// corporaDir finds the image corpora: by environment, else beside the repository. Where there are none the test is
// skipped, or failed where SIGHTLINE_NO_SKIP forbids that.
func corporaDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("SIGHTLINE_CORPORA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "corpora")
	}
	if _, err := os.Stat(filepath.Join(dir, "manifest.tsv")); err != nil {
		if v := os.Getenv("SIGHTLINE_NO_SKIP"); v != "" && v != "0" {
			t.Fatalf("image corpora: %v", err)
		}
		t.Skipf("image corpora: %v (set SIGHTLINE_CORPORA to the folder that holds manifest.tsv)", err)
	}
	return dir
}

func readCorpus(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corporaDir(t), path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// corpusFiles lists the files of a corpus folder that are not in the manifest.
func corpusFiles(t testing.TB, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(corporaDir(t), folder))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range entries {
		paths = append(paths, filepath.Join(folder, e.Name()))
	}
	if len(paths) == 0 {
		t.Fatalf("%s is empty", folder)
	}
	return paths
}

// corpusRow is one row of the manifest.
type corpusRow struct {
	path, format, mode, verdict string
	bytes, out                  int64
	w, h, frames, orientation   int
}

func readManifest(t testing.TB) []corpusRow {
	t.Helper()
	f, err := os.Open(filepath.Join(corporaDir(t), "manifest.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	records, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range records[0] {
		column[name] = i
	}
	var rows []corpusRow
	for _, rec := range records[1:] {
		num := func(name string) int64 {
			s := rec[column[name]]
			if s == "" {
				return 0
			}
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatalf("%s: %s: %v", rec[0], name, err)
			}
			return n
		}
		rows = append(rows, corpusRow{
			path: rec[column["path"]], format: rec[column["format"]], mode: rec[column["mode"]],
			verdict: strings.TrimSpace(rec[column["go"]]), bytes: num("bytes"), out: num("out_bytes"),
			w: int(num("width")), h: int(num("height")), frames: int(num("frames")), orientation: int(num("orientation")),
		})
	}
	if len(rows) < 1000 {
		t.Fatalf("manifest has %d rows only", len(rows))
	}
	return rows
}
