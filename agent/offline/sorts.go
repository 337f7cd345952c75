package offline

import (
	"slices"
	"strings"
)

// sort is a sort of file that people name: "the PDF", "the screenshot", "both spreadsheets".
type sort struct {
	name    string // of one
	many    string
	of      *sort  // the wider sort
	nouns   string // words for one
	plurals string // words for several
	endings string // of file names
	types   string // parts of media types
}

var (
	anyFile  = &sort{name: "file", many: "files", nouns: "file attachment upload", plurals: "files attachments uploads"}
	aPicture = &sort{name: "picture", many: "pictures", of: anyFile,
		nouns:   "picture image photo photograph pic screenshot shot scan drawing",
		plurals: "pictures images photos photographs pics screenshots scans drawings"}
	// aDocument is every file whose text could be read.
	aDocument = &sort{name: "document", many: "documents", of: anyFile,
		nouns: "document doc manual handbook", plurals: "documents docs manuals handbooks"}
	aPDF    = &sort{name: "PDF", many: "PDFs", of: aDocument, nouns: "pdf", plurals: "pdfs", endings: "pdf", types: "application/pdf"}
	aSlides = &sort{name: "presentation", many: "presentations", of: aDocument, nouns: "presentation slides deck powerpoint pptx",
		plurals: "presentations decks", endings: "pptx ppt odp", types: "presentation powerpoint"}
	aText = &sort{name: "text file", many: "text files", of: aDocument, nouns: "textfile txt markdown", plurals: "textfiles",
		endings: "txt md log text", types: "text/plain text/markdown"}
	aWord  = &sort{name: "Word document", many: "Word documents", of: aDocument, nouns: "wordfile docx", plurals: "wordfiles", endings: "docx doc odt rtf", types: "wordprocessing msword opendocument.text rtf"}
	aSheet = &sort{name: "spreadsheet", many: "spreadsheets", of: aDocument, nouns: "spreadsheet excel xlsx", plurals: "spreadsheets",
		endings: "xlsx xls ods csv tsv", types: "spreadsheet ms-excel text/csv"}

	sorts = []*sort{
		anyFile, aPicture, aDocument, aPDF, aSlides, aText, aWord, aSheet,
		{name: "CSV file", many: "CSV files", of: aSheet, nouns: "csv", plurals: "csvs", endings: "csv", types: "text/csv"},
		{name: "PNG", many: "PNGs", of: aPicture, nouns: "png", plurals: "pngs", types: "image/png"},
		{name: "JPEG", many: "JPEGs", of: aPicture, nouns: "jpeg jpg", plurals: "jpegs jpgs", types: "image/jpeg"},
		{name: "GIF", many: "GIFs", of: aPicture, nouns: "gif", plurals: "gifs", types: "image/gif"},
		anArchive, aRecording,
	}
	anArchive  = &sort{name: "archive", many: "archives", of: anyFile, nouns: "archive zip", plurals: "archives zips", endings: "zip tar gz tgz 7z rar", types: "zip tar compressed"}
	aRecording = &sort{name: "recording", many: "recordings", of: anyFile, nouns: "video audio recording", plurals: "videos recordings",
		endings: "mp4 mov webm mkv mp3 wav ogg m4a", types: "video/ audio/"}
)

var (
	nouns   = map[string]*sort{}
	plurals = map[string]bool{}
	// titles are nouns that files are named after, too: "the manual" is manual.pdf before it is any other document.
	titles = map[string]bool{"manual": true, "handbook": true}
	// compounds are two words that together name a sort, where one alone names none: "what text is in it?"
	compounds = strings.NewReplacer("text files", "textfiles", "text file", "textfile", "text documents", "textfiles", "text document", "textfile",
		"word documents", "wordfiles", "word document", "wordfile", "word files", "wordfiles", "word file", "wordfile", "word docs", "wordfiles", "word doc", "wordfile")
)

func init() {
	for _, s := range sorts {
		for _, n := range strings.Fields(s.nouns) {
			nouns[n] = s
		}
		for _, n := range strings.Fields(s.plurals) {
			nouns[n], plurals[n] = s, true
		}
	}
	// The sort of "the last one" is that of what was spoken of.
	nouns["one"], nouns["ones"] = nil, nil
}

func isNoun(w string) bool { _, ok := nouns[w]; return ok }

// within reports whether every file of this sort is of the wider one.
func (s *sort) within(wider *sort) bool {
	for ; s != nil; s = s.of {
		if s == wider {
			return true
		}
	}
	return false
}

// has reports whether a file is of this sort. What a picture is, its type decides: a picture that is named .pdf is none.
func (s *sort) has(d document) bool {
	switch {
	case s == nil, s == anyFile:
		return true
	case s == aPicture:
		return d.image()
	case d.image() != s.within(aPicture):
		return false
	case s == aDocument:
		return !anArchive.has(d) && !aRecording.has(d)
	}
	if slices.Contains(strings.Fields(s.endings), strings.ToLower(strings.TrimPrefix(d.Name[len(stem(d.Name)):], "."))) {
		return true
	}
	return slices.ContainsFunc(strings.Fields(s.types), func(part string) bool { return strings.Contains(strings.ToLower(d.Type), part) })
}

// ofSort are the files of a sort.
func ofSort(docs []document, s *sort) []document {
	var out []document
	for _, d := range docs {
		if s.has(d) {
			out = append(out, d)
		}
	}
	return out
}

// readSorts are the sorts that words name, without those that another one of them narrows: "the PDF document" is a PDF.
func readSorts(ws []string) (out []*sort, several map[*sort]bool) {
	var named []*sort
	several = map[*sort]bool{}
	for _, w := range ws {
		if s := nouns[w]; s != nil && !slices.Contains(named, s) {
			named = append(named, s)
		}
		if plurals[w] {
			several[nouns[w]] = true
		}
	}
	for _, s := range named {
		if !slices.ContainsFunc(named, func(other *sort) bool { return other != s && other.within(s) }) {
			out = append(out, s)
		}
	}
	return out, several
}
