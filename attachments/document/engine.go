package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// engine is pdfium as WebAssembly: it runs in memory of its own, of bounded size, and can reach no file, no network and
// no environment. It is compiled once in a process; each look at a document has an instance of its own, which starts in
// milliseconds and is thrown away afterwards, whatever happened to it.
type engine struct {
	limits Limits
	dir    string

	mu    sync.Mutex
	ready chan struct{} // nil before the first use; closed once the fields below are set
	pdf   pdfium.Pool
	cache wazero.CompilationCache
	err   error
}

func newEngine(l Limits, dir string) *engine { return &engine{limits: l, dir: dir} }

// pool returns the compiled engine, waiting for it as long as ctx lasts. A start that nobody waits for goes on, for the
// next who asks.
func (e *engine) pool(ctx context.Context) (pdfium.Pool, error) {
	e.mu.Lock()
	if e.ready == nil {
		e.ready = make(chan struct{})
		go e.start()
	}
	ready := e.ready
	e.mu.Unlock()
	select {
	case <-ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.err != nil {
		return nil, refuse(Unavailable, "PDFs can't be read on this machine at present. Import it into a workspace (where one is enabled) and work on it there.", "pdf engine: %v", e.err)
	}
	return e.pdf, nil
}

const wasmPage = 64 << 10

func (e *engine) start() {
	defer close(e.ready)
	c := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
		WithMemoryLimitPages(uint32(e.limits.MaxPDFMemory / wasmPage)).
		WithCloseOnContextDone(true) // else nothing could end a loop inside of it
	e.cache = wazero.NewCompilationCache()
	if e.dir != "" {
		// A cache that can't be used costs time at each start and nothing else.
		if kept, err := wazero.NewCompilationCacheWithDir(e.dir); err == nil {
			e.cache = kept
		}
	}
	e.pdf, e.err = webassembly.Init(webassembly.Config{
		Context:       experimental.WithCompilationWorkers(context.Background(), runtime.GOMAXPROCS(0)),
		MaxTotal:      1,
		FSConfig:      wazero.NewFSConfig(), // without it, the library mounts the whole file system
		RuntimeConfig: c.WithCompilationCache(e.cache),
		Stdout:        io.Discard,
		Stderr:        io.Discard,
	})
}

func (e *engine) close() error {
	e.mu.Lock()
	ready := e.ready
	e.mu.Unlock()
	if ready == nil {
		return nil
	}
	<-ready
	var errs []error
	if e.pdf != nil {
		errs = append(errs, e.pdf.Close())
	}
	return errors.Join(append(errs, e.cache.Close(context.Background()))...)
}

// pdfFile is an open PDF in an instance of its own.
type pdfFile struct {
	pdfium.Pdfium
	doc   references.FPDF_DOCUMENT
	pages int
	form  bool
	stop  *stop
}

// withPDF opens b and runs work on it. When the job is cancelled or late, the instance is killed, which ends the call
// that is under way in it.
func (r *Reader) withPDF(s *stop, b []byte, work func(*pdfFile) error) error {
	ctx, cancel := context.WithDeadline(s.ctx, s.deadline)
	defer cancel()
	pool, err := r.engine.pool(ctx)
	if err != nil {
		return err
	}
	in, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		if stopped := s.check(); stopped != nil {
			return stopped
		}
		return refuse(Unavailable, "PDFs can't be read on this machine at present. Import it into a workspace (where one is enabled) and work on it there.", "pdf instance: %v", err)
	}
	killed := make(chan struct{})
	watch := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = in.Kill()
	})
	err = guard(PDF, func() error { return openPDF(s, in, b, r.limits, work) })
	if watch() {
		_ = in.Close() // one that failed is thrown away like any other
	} else {
		<-killed
	}
	runtime.GC() // the instance's memory, before the slot is given up
	if stopped := s.check(); stopped != nil && err != nil {
		return stopped
	}
	return err
}

func openPDF(s *stop, in pdfium.Pdfium, b []byte, l Limits, work func(*pdfFile) error) error {
	d, err := in.OpenDocument(&requests.OpenDocument{File: &b})
	switch {
	case errors.Is(err, pdferrors.ErrPassword):
		return encrypted(PDF, "asks for a password")
	case errors.Is(err, pdferrors.ErrSecurity):
		return refuse(Encrypted, "This PDF is encrypted in a way that can't be opened. Post a copy without protection.", "pdf: unsupported encryption")
	case err != nil:
		return pdfError(err)
	}
	n, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: d.Document})
	switch {
	case err != nil:
		return pdfError(err)
	case n.PageCount <= 0:
		return corrupt(PDF, "no pages")
	case n.PageCount > l.MaxPages:
		return tooComplex(PDF, "%d pages over %d", n.PageCount, l.MaxPages)
	}
	f := &pdfFile{Pdfium: in, doc: d.Document, pages: n.PageCount, stop: s}
	if form, err := in.FPDF_GetFormType(&requests.FPDF_GetFormType{Document: d.Document}); err == nil {
		f.form = form.FormType != 0
	}
	return work(f)
}

// pdfError tells what the engine's error means: what it said of the file, or its own end.
func pdfError(err error) error {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	if text := err.Error(); strings.Contains(text, "wasm error") || strings.Contains(text, "module closed") || strings.Contains(text, "panic") {
		return tooComplex(PDF, "the engine gave up: %.200s", strings.ReplaceAll(text, "\n", " "))
	}
	return corrupt(PDF, "%v", err)
}

// page loads page n, counted from 1, and closes it after work. What is filled into a form lies beside the page and is
// put on it before, so that it is read and seen; nothing of a form is run.
func (f *pdfFile) page(n int, work func(requests.Page) error) error {
	load := func() (requests.Page, func(), error) {
		p, err := f.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: f.doc, Index: n - 1})
		if err != nil {
			return requests.Page{}, nil, err
		}
		return requests.Page{ByReference: &p.Page}, func() { _, _ = f.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: p.Page}) }, nil
	}
	if err := f.stop.check(); err != nil {
		return err
	}
	p, done, err := load()
	if err != nil {
		return pdfError(fmt.Errorf("load page: %w", err))
	}
	if f.form {
		_, err := f.FPDFPage_Flatten(&requests.FPDFPage_Flatten{Page: p})
		done()
		if err != nil {
			return pdfError(fmt.Errorf("flatten page: %w", err))
		}
		if p, done, err = load(); err != nil {
			return pdfError(fmt.Errorf("load page: %w", err))
		}
	}
	defer done()
	return work(p)
}
