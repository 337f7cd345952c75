package service

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// misspelt are the variables of an environment that nobody reads and whose
// names are almost those of some that are read. One that is neither may be
// another program's, or of a later version.
func (c Config) misspelt(environ []string) iter.Seq2[string, string] {
	return func(yield func(name, meant string) bool) {
		known := slices.Sorted(maps.Keys(c.asked))
		for _, v := range environ {
			name, value, _ := strings.Cut(v, "=")
			if value == "" || c.asked[name] || !strings.HasPrefix(name, "SIGHTLINE_") {
				continue
			}
			n := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, "SIGHTLINE_") && distance(name, k) <= 2 })
			if n >= 0 && !yield(name, known[n]) {
				return
			}
		}
	}
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
