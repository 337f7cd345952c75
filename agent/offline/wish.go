package offline

import (
	"regexp"
	"strconv"
	"strings"
)

// wish is what a request asks for, as far as the rules understand it.
type wish struct {
	list     bool       // an inventory
	pictures bool       // something about pictures or files
	ids      []string   // named by ID
	names    []string   // named by something that looks like a file name
	places   []place    // named by place in the conversation
	region   *rectangle // part of a picture
	closer   bool       // asks to zoom in, with or without numbers
}

type rectangle struct{ x, y, width, height int }

// place is a place in the conversation. n counts from 1; negative counts from the end. before means the one before the
// picture under discussion.
type place struct {
	n         int
	before    bool
	all       bool // n last ones, or all where n is 0
	documents bool // counts every file, not only pictures
}

// points reports whether the request names anything.
func (w wish) points() bool { return len(w.ids)+len(w.names)+len(w.places) > 0 }

var (
	nouns = map[string]bool{}
	// fileName is a word that ends like a file. What it names is decided by the inventory.
	fileName     = regexp.MustCompile(`(?i)[\p{L}\p{N}_][\p{L}\p{N}_.()+-]*\.(?:png|jpe?g|gif|webp|bmp|tiff?|hei[cf]|avif|svg|ico|pdf|txt|md|csv|docx?|xlsx?|pptx?|zip|mp4)\b`)
	quoted       = regexp.MustCompile("[\"“„`]([^\"”“`\n]{1,100})[\"”“`]")
	fourTight    = regexp.MustCompile(`\b(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\b`)
	fourLoose    = regexp.MustCompile(`\b(\d{1,5})[\s,;x×]+(\d{1,5})[\s,;x×]+(\d{1,5})[\s,;x×]+(\d{1,5})\b`)
	zooming      = regexp.MustCompile(`(?i)\b(?:region|zoom\w*|crop\w*|area|closer|close-up|enlarge|magnify)\b`)
	listingWords = regexp.MustCompile(`(?i)\b(?:list|enumerate|inventory)\b|` +
		`\b(?:which|what|how many)\s+(?:other\s+|kinds? of\s+|of the\s+)?(?:files|documents|attachments|pictures|images|photos|pics|screenshots)\b|` +
		`\b(?:are|were) there\s+(?:any\s+)?(?:other\s+)?(?:files|documents|attachments|pictures|images|photos|pics|screenshots)\b|` +
		`\bshow\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?(?:files|documents|attachments)\b`)
	about = regexp.MustCompile(`(?i)\b(?:read|describe|look|looks|see|view|show|shows|ocr|transcribe|text|says?|said|written|colou?rs?|zoom\w*|region|` +
		`what(?:'s| is| was)? (?:in|on|there|this|that|it)|again)\b`)
)

func init() {
	for _, n := range strings.Fields("picture pictures image images photo photos photograph pic pics screenshot screenshots shot scan scans gif drawing " +
		"file files document documents attachment attachments upload uploads one ones") {
		nouns[n] = true
	}
}

// counts are the nouns that mean every file.
var counts = map[string]bool{"file": true, "files": true, "document": true, "documents": true, "attachment": true, "attachments": true, "upload": true, "uploads": true}

var ordinals = map[string]int{
	"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10,
	"last": -1, "latest": -1, "newest": -1, "recent": -1, "final": -1, "penultimate": -2, "oldest": 1, "earliest": 1,
}

var before = map[string]bool{"previous": true, "before": true, "earlier": true, "preceding": true, "prior": true}

func readWish(request string) wish {
	w := wish{ids: unique(anyID.FindAllString(request, -1))}
	text := anyID.ReplaceAllString(request, " ")
	w.closer = zooming.MatchString(text)
	if w.closer {
		w.region, text = readRegion(text)
	}
	for _, q := range quoted.FindAllStringSubmatch(text, -1) {
		if strings.TrimSpace(q[1]) != "" {
			w.names = append(w.names, strings.TrimSpace(q[1]))
		}
	}
	w.names = unique(append(w.names, fileName.FindAllString(quoted.ReplaceAllString(text, " "), -1)...))
	plain := fileName.ReplaceAllString(text, " ")
	w.places = readPlaces(plain)
	w.list = !w.points() && w.region == nil && listingWords.MatchString(plain)
	w.pictures = w.points() || w.list || w.closer || about.MatchString(plain) || hasNoun(plain)
	return w
}

func readRegion(text string) (*rectangle, string) {
	for _, four := range []*regexp.Regexp{fourTight, fourLoose} {
		if at := four.FindStringSubmatchIndex(text); at != nil {
			var n [4]int
			for i := range n {
				n[i], _ = strconv.Atoi(text[at[2+2*i]:at[3+2*i]]) // up to five digits
			}
			return &rectangle{n[0], n[1], n[2], n[3]}, text[:at[0]] + " " + text[at[1]:]
		}
	}
	return nil, text
}

var word = regexp.MustCompile(`[\p{L}\p{N}']+`)

func words(text string) []string { return word.FindAllString(strings.ToLower(text), -1) }

func hasNoun(text string) bool {
	for _, w := range words(text) {
		if nouns[w] && w != "one" && w != "ones" {
			return true
		}
	}
	return false
}

// readPlaces finds "the first picture", "second and third image", "picture 2", "last two screenshots", "the one before",
// "all pictures". An ordinal without a noun close after it is not a place: "at first", "in a second".
func readPlaces(text string) []place {
	ws := words(text)
	var out []place
	for i := 0; i < len(ws); i++ {
		switch w := ws[i]; {
		case nouns[w]:
			for _, n := range numbersAfter(ws, i) {
				out = append(out, place{n: n, documents: counts[w]})
			}
			if i+1 < len(ws) && before[ws[i+1]] && len(out) == 0 {
				out = append(out, place{before: true})
			}
		case w == "all" || w == "every" || w == "each" || w == "both":
			if noun := nounAfter(ws, i); noun != "" {
				p := place{all: true, documents: counts[noun]}
				if w == "both" {
					p.n = 2
				}
				out = append(out, p)
			} else if w == "both" {
				out = append(out, place{all: true, n: 2})
			}
		case before[w]:
			if nounAfter(ws, i) != "" {
				out = append(out, place{before: true})
			}
		default:
			n, ok := ordinal(w)
			noun := ""
			if ok {
				noun = nounAfter(ws, i)
			}
			if noun == "" {
				continue
			}
			p := place{n: n, documents: counts[noun]}
			if n == -1 && i+1 < len(ws) {
				if many := cardinal(ws[i+1]); many > 1 {
					p = place{all: true, n: many, documents: p.documents}
				}
			}
			if i >= 2 && ws[i-1] == "to" && p.n == -1 && len(out) > 0 { // "second to last"
				out[len(out)-1] = place{n: -out[len(out)-1].n, documents: p.documents}
				continue
			}
			out = append(out, p)
		}
	}
	return out
}

// nounAfter returns the noun that a word at i belongs to: at most two other words may stand between, besides further
// ordinals and what joins them.
func nounAfter(ws []string, i int) string {
	others := 0
	for _, w := range ws[i+1:] {
		_, ord := ordinal(w)
		switch {
		case nouns[w]:
			return w
		case ord, w == "and", w == "or", w == "the", w == "to", cardinal(w) > 0:
		default:
			if others++; others > 2 {
				return ""
			}
		}
	}
	return ""
}

// numbersAfter reads "picture 2", "pictures 1 and 3", "image number 4".
func numbersAfter(ws []string, i int) []int {
	var out []int
	for _, w := range ws[i+1:] {
		if n, err := strconv.Atoi(w); err == nil && n > 0 && n < 10000 {
			out = append(out, n)
			continue
		}
		if w == "number" || w == "no" || (w == "and" && len(out) > 0) {
			continue
		}
		break
	}
	return out
}

func ordinal(w string) (int, bool) {
	if n, ok := ordinals[w]; ok {
		return n, true
	}
	for _, suffix := range []string{"st", "nd", "rd", "th"} {
		if digits, ok := strings.CutSuffix(w, suffix); ok {
			if n, err := strconv.Atoi(digits); err == nil && n > 0 && n < 10000 {
				return n, true
			}
		}
	}
	return 0, false
}

var cardinals = map[string]int{"two": 2, "three": 3, "four": 4, "2": 2, "3": 3, "4": 4}

func cardinal(w string) int { return cardinals[w] }

func unique(in []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range in {
		if k := strings.ToLower(s); !seen[k] {
			seen[k] = true
			out = append(out, s)
		}
	}
	return out
}
