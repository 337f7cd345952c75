package document

// Kind names what a document is, by its own bytes; only among kinds of plain text do its name and declared type decide.
type Kind string

// The kinds that are read.
const (
	Text     Kind = "text"
	Markdown Kind = "markdown"
	CSV      Kind = "csv"
	JSON     Kind = "json"
	Log      Kind = "log"
	Code     Kind = "code"
	HTML     Kind = "html"
	PDF      Kind = "pdf"
	DOCX     Kind = "docx"
	XLSX     Kind = "xlsx"
	PPTX     Kind = "pptx"
	RTF      Kind = "rtf"
	EPUB     Kind = "epub"
)

// Kinds are all the kinds that are read.
var Kinds = []Kind{Text, Markdown, CSV, JSON, Log, Code, HTML, PDF, DOCX, XLSX, PPTX, RTF, EPUB}

// Plain reports whether the bytes of the kind are the text itself.
func (k Kind) Plain() bool {
	switch k {
	case Text, Markdown, CSV, JSON, Log, Code:
		return true
	}
	return false
}

// Unit is what a window of the kind counts in.
func (k Kind) Unit() Unit {
	switch k {
	case PDF:
		return Page
	case PPTX:
		return Slide
	case EPUB:
		return Chapter
	case XLSX:
		return Row
	}
	return Line
}

// display names a kind inside a sentence, after "This".
func (k Kind) display() string {
	switch k {
	case Text, Log, Code:
		return "text file"
	case Markdown:
		return "Markdown file"
	case CSV:
		return "CSV file"
	case JSON:
		return "JSON file"
	case HTML:
		return "web page (HTML)"
	case PDF:
		return "PDF"
	case DOCX:
		return "Word document"
	case XLSX:
		return "spreadsheet"
	case PPTX:
		return "presentation"
	case RTF:
		return "RTF document"
	case EPUB:
		return "EPUB book"
	}
	return "file"
}

// Unit is what a document is counted in.
type Unit string

// The units. A spreadsheet is counted in rows of one of its sheets.
const (
	Line    Unit = "line"
	Page    Unit = "page"
	Slide   Unit = "slide"
	Chapter Unit = "chapter"
	Row     Unit = "row"
)
