package offline

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxText = 3000 // bytes of text in an answer, per picture
	// unsure words are left out: tesseract sees letters in every texture, and those are not text.
	unsure = 20
)

// reading is what tesseract read.
type reading struct {
	text       string
	confidence int // percent, over all words by their length
	letters    int // typical height of a word's box, in pixels
}

// parseTable reads tesseract's table (TSV): one row per word with its place, box and confidence. Rows of any other form
// are left out.
func parseTable(table string) reading {
	var (
		b           strings.Builder
		place       string
		heights     []int
		sum, weight float64
	)
	for row := range strings.SplitSeq(table, "\n") {
		f := strings.Split(row, "\t")
		if len(f) < 12 || f[0] != "5" { // 5: a word
			continue
		}
		word := printable(f[11])
		confidence, err := strconv.ParseFloat(f[10], 64)
		height, err2 := strconv.Atoi(f[9])
		if err != nil || err2 != nil || word == "" || !(confidence >= unsure && confidence <= 100) {
			continue
		}
		at := strings.Join(f[1:5], " ") // page, block, paragraph, line
		switch {
		case b.Len() == 0:
		case at != place:
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		place = at
		b.WriteString(word)
		if height > 0 {
			heights = append(heights, height)
		}
		sum += confidence * float64(len(word))
		weight += float64(len(word))
	}
	if weight == 0 {
		return reading{}
	}
	r := reading{text: shorten(b.String()), confidence: int(sum/weight + 0.5), letters: goodLetters}
	if len(heights) > 0 {
		slices.Sort(heights)
		r.letters = heights[len(heights)/2]
	}
	return r
}

// printable drops what can't be shown in one line.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")))
}

func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "\n(there is more: ask for a region)"
}
