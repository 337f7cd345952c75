package offline

import (
	"regexp"
	"strconv"
	"strings"
)

// wish is what a request asks for, as far as the rules understand it.
type wish struct {
	list     bool           // an inventory
	files    bool           // something about files
	sorts    []*sort        // the sorts of file that it names
	several  map[*sort]bool // of these, those in the plural
	pages    []int          // of a document
	endPage  bool           // a page counted from the end
	refused  string         // what it wants done that is neither looking nor reading
	reasoned bool           // wants more than what a file shows or says
	both     bool           // compares, or speaks of what it brings
	ids      []string       // named by ID
	names    []string       // named by something that looks like a file name
	places   []place        // named by place in the conversation
	region   *rectangle     // part of a picture
	closer   bool           // asks to zoom in, with or without numbers
}

type rectangle struct{ x, y, width, height int }

// place is a place in the conversation. n counts from 1; negative counts from the end. before means the one before the
// picture under discussion.
type place struct {
	n      int
	before bool
	all    bool  // n last ones, or all where n is 0
	sort   *sort // among which files it counts; nil: those like the one spoken of
}

// points reports whether the request names anything.
func (w wish) points() bool { return len(w.ids)+len(w.names)+len(w.places) > 0 }

var (
	// fileName is a word that ends like a file. What it names is decided by the inventory.
	fileName     = regexp.MustCompile(`(?i)[\p{L}\p{N}_][\p{L}\p{N}_.()+-]*\.(?:png|jpe?g|gif|webp|bmp|tiff?|hei[cf]|avif|svg|ico|pdf|txt|md|csv|docx?|xlsx?|pptx?|zip|mp4)\b`)
	quoted       = regexp.MustCompile("[\"“„`]([^\"”“`\n]{1,100})[\"”“`]")
	fourTight    = regexp.MustCompile(`\b(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\b`)
	fourLoose    = regexp.MustCompile(`\b(\d{1,5})[\s,;x×]+(\d{1,5})[\s,;x×]+(\d{1,5})[\s,;x×]+(\d{1,5})\b`)
	zooming      = regexp.MustCompile(`(?i)\b(?:region|zoom\w*|crop\w*|area|closer|close-up|enlarge|magnify)\b`)
	listingWords = regexp.MustCompile(`(?i)\b(?:list|enumerate|inventory)\b|` +
		`\b(?:which|what|how many)\s+(?:other\s+|kinds? of\s+|of the\s+)?` + manyFiles + `\b|` +
		`\b(?:are|were) there\s+(?:any\s+)?(?:other\s+)?` + manyFiles + `\b|` +
		`\bshow\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?(?:files|documents|attachments)\b|` +
		`^\W*(?:(?:the|my|our|your|all|any|other|please)\s+)*` + manyFiles + `\W*$`)
	about = regexp.MustCompile(`(?i)\b(?:read|describe|look|looks|see|view|show|shows|ocr|transcribe|text|says?|said|written|colou?rs?|zoom\w*|region|` +
		`what(?:'s| is| was)? (?:in|on|there|this|that|it)|again)\b`)
	// looking is about pixels, so it means a picture where no other sort is named.
	looking = regexp.MustCompile(`(?i)\b(?:colou?rs?|ocr|zoom\w*|region)\b`)
	// acting is what is asked of a file beyond telling what is in it. It counts at the beginning only: further on it is
	// as likely a word of the file.
	acting = regexp.MustCompile(`(?i)^(?:[^\n:>]{0,60}[:>,]\s*)*(?:(?:please|now|then|and|can you|could you|would you|will you)\s+)*` +
		`(import|copy|move|put|convert|resize|rotate|delete|remove|rename|save|share|send|upload|download|run|execute|unzip|unpack|edit|sign)\b`)
	workspace = regexp.MustCompile(`(?i)\b(?:in)?to (?:the|my|your|a) workspace\b`)
	comparing = regexp.MustCompile(`(?i)\b(?:compar\w*|differences?|differs?|versus|vs)\b`)
	reasoning = regexp.MustCompile(`(?i)\b(?:summar\w+|translat\w+|explain|why|sum|add(?: up)?|subtract|multiply|divide|average|mean of|calculat\w+|comput\w+|count|how (?:many|much)|plus|minus|times|total of)\b|\d\s*[-+*/x×]\s*\d`)
	deictic   = regexp.MustCompile(`(?i)\b(?:this|these|attached)\b`)
)

const manyFiles = `(?:files|documents|attachments|uploads|pictures|images|photos|pics|screenshots|pdfs|spreadsheets|presentations|text files)`

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
	plain := compounds.Replace(strings.ToLower(fileName.ReplaceAllString(text, " ")))
	plain = w.readPages(plain)
	w.places = readPlaces(plain)
	w.list = !w.points() && w.region == nil && len(w.pages) == 0 && listingWords.MatchString(plain)
	w.sorts, w.several = readSorts(words(plain))
	if len(w.sorts) == 0 && !w.points() && pageNoun.MatchString(plain) {
		w.sorts = []*sort{aDocument}
	}
	if len(w.sorts) == 0 && !w.points() && looking.MatchString(plain) && len(w.pages) == 0 {
		w.sorts = []*sort{aPicture}
	}
	if m := acting.FindStringSubmatch(text); m != nil {
		w.refused = strings.ToLower(m[1])
	} else if workspace.MatchString(text) {
		w.refused = "use the workspace"
	}
	compares := comparing.MatchString(plain)
	w.reasoned = compares || reasoning.MatchString(pageCount.ReplaceAllString(plain, " "))
	w.both = compares || deictic.MatchString(plain)
	w.files = w.points() || w.list || w.closer || len(w.pages) > 0 || w.endPage || len(w.sorts) > 0 || about.MatchString(plain)
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

// readPlaces finds "the first picture", "second and third image", "picture 2", "last two screenshots", "the one before",
// "all pictures". An ordinal without a noun close after it is not a place: "at first", "in a second".
func readPlaces(text string) []place {
	ws := words(text)
	var out []place
	for i := 0; i < len(ws); i++ {
		switch w := ws[i]; {
		case isNoun(w):
			for _, n := range numbersAfter(ws, i) {
				out = append(out, place{n: n, sort: nouns[w]})
			}
			if i+1 < len(ws) && before[ws[i+1]] && len(out) == 0 {
				out = append(out, place{before: true, sort: nouns[w]})
				i++ // "the picture before the PDF" is no previous PDF
			}
		case w == "all" || w == "every" || w == "each" || w == "both":
			if noun := nounAfter(ws, i); noun != "" {
				p := place{all: true, sort: nouns[noun]}
				if w == "both" {
					p.n = 2
				}
				out = append(out, p)
			} else if w == "both" {
				out = append(out, place{all: true, n: 2})
			}
		case before[w]:
			if noun := nounAfter(ws, i); noun != "" {
				out = append(out, place{before: true, sort: nouns[noun]})
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
			p := place{n: n, sort: nouns[noun]}
			if n == -1 && i+1 < len(ws) {
				if many := cardinal(ws[i+1]); many > 1 {
					p = place{all: true, n: many, sort: p.sort}
				}
			}
			if i >= 2 && ws[i-1] == "to" && p.n == -1 && len(out) > 0 { // "second to last"
				out[len(out)-1] = place{n: -out[len(out)-1].n, sort: p.sort}
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
		case isNoun(w):
			return w
		case others > 0 && (w == "of" || w == "in" || w == "on" || w == "from"):
			return "" // "the first line of the picture"
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
