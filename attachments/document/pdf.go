package document

import (
	"strings"

	"github.com/klippa-app/go-pdfium/requests"
)

// readPDF returns the text of pages. A page without any is one to look at, and says so.
func readPDF(j *job) error {
	p := newPager(j.Result, j.window, j.stop, j.limits)
	err := j.reader.withPDF(j.stop, j.bytes, func(f *pdfFile) error {
		if err := p.paged(f.pages); err != nil {
			return err
		}
		for n := j.window.Pages.from(); n <= f.pages && p.wants(n); n++ {
			if err := j.page(f, n, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n := len(j.Pictures); n > 0 && n == j.To-j.From+1 {
		j.note("no page of this part has text, as in a scan: look at the pages as pictures with view_images and page=%s", Span{From: j.From, To: j.From})
	}
	p.finish()
	return nil
}

func (j *job) page(f *pdfFile, n int, p *pager) error {
	text := ""
	err := f.page(n, func(pg requests.Page) error {
		t, err := f.GetPageText(&requests.GetPageText{Page: pg})
		if err != nil {
			return pdfError(err)
		}
		text = pageText(t.Text)
		return nil
	})
	if err != nil {
		return err
	}
	p.begin(n)
	if text == "" {
		text = "[no text on this page; look at it with view_images and page=" + Span{From: n, To: n}.String() + "]"
		defer func() {
			if j.To == n {
				j.Pictures = append(j.Pictures, n)
			}
		}()
	}
	if err := p.add(text); err != nil {
		return err
	}
	return p.end()
}

// pageText makes lines of what the engine returns. It marks a hyphen at the end of a line with a character of its own.
func pageText(s string) string {
	return strings.TrimSpace(pdfMarks.Replace(s))
}

var pdfMarks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\ufffe", "-", "\x02", "-", "\uffff", "", "\x00", "")
