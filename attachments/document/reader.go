package document

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Reader reads documents one at a time, and renders pages of PDFs. A process has one.
type Reader struct {
	limits Limits
	slot   chan struct{}
	engine *engine
}

// Options are what a Reader takes besides its limits.
type Options struct {
	// CacheDir is a folder, private to the service, that keeps the compiled PDF engine between starts: it holds machine
	// code that is run. Empty: the engine is compiled at each start of the process, when it is first needed.
	CacheDir string
}

// NewReader returns a reader with the given limits. It does nothing yet; see Prepare.
func NewReader(l Limits, o Options) *Reader {
	return &Reader{limits: l, slot: make(chan struct{}, 1), engine: newEngine(l, o.CacheDir)}
}

// Limits returns what the reader was made with.
func (r *Reader) Limits() Limits { return r.limits }

// Prepare starts the PDF engine, which the first look at a PDF waits for otherwise (some seconds without a cache).
func (r *Reader) Prepare(ctx context.Context) error {
	_, err := r.engine.pool(ctx)
	return err
}

// Close frees the PDF engine. The reader must not be in use.
func (r *Reader) Close() error { return r.engine.close() }

// Read returns a window of the text of b, which Sniff found to be of kind k. It is the only reading of the process
// while it lasts. Its errors are *Refusal and ctx.Err(); nothing of b is kept.
func (r *Reader) Read(ctx context.Context, b []byte, k Kind, w Window) (Result, error) {
	if err := r.admit(b, k); err != nil {
		return Result{}, err
	}
	if err := w.fits(k); err != nil {
		return Result{}, err
	}
	read := readers[k]
	if read == nil {
		return Result{}, refuse(UnsupportedFormat, "This is not a kind of document that can be read. Import it into a workspace (where one is enabled).", "kind %q", k)
	}
	res := Result{Kind: k, Unit: k.Unit()}
	err := r.inSlot(ctx, k, func(s *stop) error {
		j := &job{Result: &res, reader: r, ctx: ctx, limits: r.limits, stop: s, window: w, bytes: b, inflated: r.limits.MaxInflated, tokens: r.limits.MaxTokens}
		err := read(j)
		if int64(len(b))+r.limits.MaxInflated-j.inflated > collectAbove {
			runtime.GC()
		}
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return res, nil
}

func (r *Reader) admit(b []byte, k Kind) error {
	if int64(len(b)) > r.limits.MaxBytes {
		return refuse(TooLargeBytes, fmt.Sprintf("This %s is %s; the limit for reading is %s. %s", k.display(), mebibytes(int64(len(b))), mebibytes(r.limits.MaxBytes), wayOut),
			"%s: %d bytes over %d", k, len(b), r.limits.MaxBytes)
	}
	return nil
}

// readers is how each kind is read.
var readers map[Kind]func(*job) error

func init() { // a table of methods that lead back to it can't be a plain initializer
	readers = map[Kind]func(*job) error{
		Text: readPlain, Markdown: readPlain, CSV: readPlain, JSON: readPlain, Log: readPlain, Code: readPlain,
		HTML: readHTML, PDF: readPDF, DOCX: readDOCX, XLSX: readXLSX, PPTX: readPPTX, RTF: readRTF, EPUB: readEPUB,
	}
}

// job is one call of Read and what it may still use.
type job struct {
	*Result
	reader   *Reader
	ctx      context.Context
	limits   Limits
	stop     *stop
	window   Window
	bytes    []byte
	inflated int64 // bytes that may still come out of archives
	tokens   int
}

// token pays for one element or text.
func (j *job) token() error {
	if j.tokens--; j.tokens < 0 {
		return tooComplex(j.Kind, "more than %d elements", j.limits.MaxTokens)
	}
	if j.tokens%1024 == 0 {
		return j.stop.check()
	}
	return nil
}

// collectAbove is how much a reading goes through for memory to be collected before the slot is given up, so that the
// next one does not begin on top of its garbage.
const collectAbove = 4 << 20

// inSlot runs work as the only reading of the process, within the deadline, on the caller's goroutine: when it returns,
// nothing of the document is in use any more.
func (r *Reader) inSlot(ctx context.Context, k Kind, work func(*stop) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if k == PDF { // the engine's start is nobody's deadline
		if _, err := r.engine.pool(ctx); err != nil {
			return err
		}
	}
	select {
	case r.slot <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.slot }()
	s := &stop{ctx: ctx, deadline: time.Now().Add(r.limits.Deadline)}
	err = guard(k, func() error { return work(s) })
	return s.verdict(k, r.limits, err)
}

// guard turns a parser's panic into a refusal: hostile bytes may find a fault in it, which must not end the process.
func guard(k Kind, work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = corrupt(k, "reader panicked: %v", p)
		}
	}()
	return work()
}

var errDeadline = errors.New("reading deadline exceeded")

// stop is asked by readers and loops whether to go on. Its answer is sticky, since parsers wrap or replace errors.
type stop struct {
	ctx      context.Context
	deadline time.Time
	err      error
}

func (s *stop) check() error {
	switch {
	case s.err != nil:
	case s.ctx.Err() != nil:
		s.err = s.ctx.Err()
	case time.Now().After(s.deadline):
		s.err = errDeadline
	}
	return s.err
}

// verdict tells what err means: a cancellation, an exceeded deadline, or what the reader itself found.
func (s *stop) verdict(k Kind, l Limits, err error) error {
	switch {
	case err == nil:
		return nil
	case s.err == errDeadline:
		return refuse(DeadlineExceeded, fmt.Sprintf("Reading this %s took longer than %s and was stopped. Ask for fewer pages, or import it into a workspace (where one is enabled).", k.display(), l.Deadline),
			"%s: deadline of %s exceeded", k, l.Deadline)
	case s.err != nil:
		return s.err
	}
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return corrupt(k, "%v", err)
}
