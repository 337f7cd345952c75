package offline

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	pageNoun    = regexp.MustCompile(`\b(?:page|slide)s?\b`)
	pageCount   = regexp.MustCompile(`\bhow many (?:page|slide)s?\b`) // every reading says it
	pageWords   = regexp.MustCompile(`\b(?:page|slide) (?:one|two|three|four|five|six|seven|eight|nine|ten)\b`)
	pageNumbers = strings.Fields("one two three four five six seven eight nine ten")
	numbered    = regexp.MustCompile(`(?i)\b(page|slide)s?\s*(?:no\.?|number|#)?\s*(\d{1,5}(?:\s*(?:,|-|–|to|and|&)\s*(?:(?:page|slide)s?\s*)?\d{1,5})*)\b`)
	ordinalPage = regexp.MustCompile(`(?i)\b([a-z0-9]+)\s+(page|slide)s?\b`)
	pageStep    = regexp.MustCompile(`\s*(-|–|to)?\D*?(\d{1,5})`)
)

// readPages finds "page 2", "pages 2-4", "slides 1 and 3", "the second page", and takes them out of the text, so that
// "first page" is no first picture.
func (w *wish) readPages(text string) string {
	take := func(n int) {
		if n > 0 && !slices.Contains(w.pages, n) && len(w.pages) < maxViews {
			w.pages = append(w.pages, n)
		}
	}
	paged := func(noun string) string {
		if strings.EqualFold(noun, "slide") {
			return " slides "
		}
		return " "
	}
	text = pageWords.ReplaceAllStringFunc(text, func(s string) string {
		noun, n, _ := strings.Cut(s, " ")
		return noun + " " + strconv.Itoa(slices.Index(pageNumbers, n)+1)
	})
	text = numbered.ReplaceAllStringFunc(text, func(s string) string {
		m := numbered.FindStringSubmatch(s)
		last := 0
		for _, step := range pageStep.FindAllStringSubmatch(m[2], -1) {
			n, _ := strconv.Atoi(step[2]) // up to five digits
			if step[1] != "" && last > 0 {
				for i := last + 1; i < n && len(w.pages) < maxViews; i++ {
					take(i)
				}
			}
			take(n)
			last = n
		}
		return paged(m[1])
	})
	return ordinalPage.ReplaceAllStringFunc(text, func(s string) string {
		m := ordinalPage.FindStringSubmatch(s)
		n, ok := ordinal(m[1])
		if !ok {
			return s
		}
		take(n)
		w.endPage = w.endPage || n < 0
		return paged(m[2])
	})
}
