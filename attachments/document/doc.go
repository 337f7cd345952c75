// Package document turns posted documents into text that a model can read, window by window, and pages of PDFs into
// pictures that it can look at.
//
// It owns the recognition of documents by their bytes (a name or a declared type only tells plain texts apart), the
// encodings of text, the reading of plain text, HTML, PDF, DOCX, XLSX, PPTX, RTF and EPUB, and the drawing of PDF pages
// within the bounds of attachments/visual. It knows nothing of attachments, grants, platforms or models: bytes come in,
// a Result, a visual.Picture or a Refusal comes out. Nothing is kept of a document between two calls.
//
// A document is data. It is never run (macros, scripts, formulas and actions are text or nothing), it fetches nothing
// (references to the outside are not followed, the PDF engine has no file system and no network), and what is packed in
// it is unpacked once and no deeper. It refuses pictures, which are to be looked at and never to be made text of; what is
// protected by a password; what is damaged; and what would take more than its Limits: bytes of the file, what archives
// inflate to, nesting, elements, memory and time. A document type definition with declarations is refused as a bomb.
//
// On failure it returns a *Refusal, in one text for the person and the model and another for operators; a cancelled
// context returns ctx.Err(). A parser that panics is a damaged file; an instance of the PDF engine that fails or is late
// is thrown away, and the next call has a new one. Reader runs one reading at a time: waiting for it honours
// cancellation and has no deadline of its own.
//
//	bytes --Sniff--> Kind --Read--> wait for the slot (ctx) --> parser --lines--> pager --> Result: text, End, Next
//	          |                                                   |
//	       Refusal                             Refusal, ctx.Err(), deadline
//
// # Windows
//
// Plain text, HTML, DOCX and RTF are counted in lines, PDF in pages, PPTX in slides, EPUB in chapters, XLSX in rows of a
// sheet. One call returns at most Limits.MaxText bytes, whole pages and whole lines; Result.End says what they are of
// how many, and Result.Next is the window to go on with, so that following it meets every line once. A page that alone
// is too long is returned in parts, by its lines.
//
// # The PDF engine
//
// It is pdfium compiled to WebAssembly and from there to machine code by wazero, without cgo. It is compiled once in a
// process, in the background of the first call or by Reader.Prepare: 2.4 s on two shared cores, 0.1 s from a cache
// folder, half a minute under the race detector. An instance for one call starts in 2 to 5 ms, within
// Limits.MaxPDFMemory. It can be stopped at any instruction that jumps back, which makes it about four times slower than
// it would be otherwise. It has its own replacements for the 14 standard fonts and finds no others: text in a font that
// is not embedded is drawn in one of them; Chinese, Japanese or Korean in such a font is not drawn at all, and the picture's
// notes say so.
//
// # Speed
//
// Go 1.26.8, linux/amd64, two virtual cores shared with much other work (the times are good for their ratios only), best
// of five in one run, against poppler's tools on the same files, each with its process start:
//
//	go test -run '^$' -bench . -benchtime 1x ./attachments/document
//
//	text of 1 page             25 ms   pdftotext    7 ms   x3.5
//	text of 50 pages          328 ms   pdftotext   22 ms   x15 (x21 in another run)
//	text of a LibreOffice PDF  50 ms   pdftotext    9 ms   x5.6
//	a page at 1568 px, PNG     86 ms   pdftoppm   237 ms   x0.36
package document
