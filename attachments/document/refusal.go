package document

import "fmt"

// RefusalCode says which rule a document failed.
type RefusalCode string

// The reasons for which a document is not read.
const (
	IsPicture         RefusalCode = "picture"         // to be looked at, not read
	UnsupportedFormat RefusalCode = "unsupported"     // no kind of document that is read
	TooLargeBytes     RefusalCode = "too_large_bytes" // the file itself
	Encrypted         RefusalCode = "encrypted"       // it asks for a password, or its publisher's reader
	Corrupt           RefusalCode = "corrupt"         // it breaks its own format, or ends early
	Bomb              RefusalCode = "bomb"            // it unpacks to far more than a document would
	TooComplex        RefusalCode = "too_complex"     // nesting, elements, entries, pages, memory
	MemoryExceeded    RefusalCode = "memory"          // the PDF engine's
	DeadlineExceeded  RefusalCode = "deadline"        //
	OutsideDocument   RefusalCode = "outside"         // the window names what is not there
	BadWindow         RefusalCode = "bad_window"      // the window can't be understood or does not fit the kind
	NoPages           RefusalCode = "no_pages"        // pages as pictures were asked of something else than a PDF
	TargetUnreachable RefusalCode = "target"          // the model's own limits cannot be met
	Unavailable       RefusalCode = "pdf_unavailable" // the PDF engine did not start on this machine
)

// Refusal is the verdict "not read", in two texts: Person is a sentence for the person and the model, with a way out;
// Operator is for logs. Neither quotes the document.
type Refusal struct {
	Code     RefusalCode
	Person   string
	Operator string
}

// Error returns the text for operators.
func (r *Refusal) Error() string { return "document: " + string(r.Code) + ": " + r.Operator }

const wayOut = "Import it into a workspace (where one is enabled) and work on it there, or post a smaller part of it."

// refuse builds a Refusal whose operator text is the formatted one.
func refuse(code RefusalCode, person, operator string, args ...any) *Refusal {
	return &Refusal{Code: code, Person: person, Operator: fmt.Sprintf(operator, args...)}
}

// corrupt is refuse for a document that breaks its own format.
func corrupt(k Kind, cause string, args ...any) *Refusal {
	return refuse(Corrupt, fmt.Sprintf("This %s is damaged or incomplete and cannot be read. Post it again, or import it into a workspace (where one is enabled) to repair it there.", k.display()),
		string(k)+": "+cause, args...)
}

// encrypted is refuse for a document that only its password opens.
func encrypted(k Kind, cause string) *Refusal {
	return refuse(Encrypted, fmt.Sprintf("This %s is protected by a password, so it cannot be read. Post a copy without the password.", k.display()),
		"%s: %s", k, cause)
}

// tooComplex is refuse for a document that nests or counts beyond the limits.
func tooComplex(k Kind, operator string, args ...any) *Refusal {
	return refuse(TooComplex, fmt.Sprintf("This %s is built in a way that takes too much to read. %s", k.display(), wayOut),
		string(k)+": "+operator, args...)
}

// bomb is refuse for a document that unpacks to more than is read.
func bomb(k Kind, operator string, args ...any) *Refusal {
	return refuse(Bomb, fmt.Sprintf("This %s unpacks to far more than its size promises, as an archive made to exhaust its reader does. It is not read.", k.display()),
		string(k)+": "+operator, args...)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
