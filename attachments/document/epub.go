package document

import (
	"io"
	"net/url"
	"path"
	"strings"
)

// readEPUB returns the chapters of a book in reading order.
func readEPUB(j *job) error {
	a, err := openArchive(j.Kind, j.bytes, j.limits.MaxEntries)
	if err != nil {
		return err
	}
	if err := j.bookLocked(a); err != nil {
		return err
	}
	root := ""
	err = j.each(a, "META-INF/container.xml", func(n node) error {
		if n.start && n.name == "rootfile" && root == "" {
			root = n.attr("full-path")
		}
		return nil
	})
	if err != nil {
		return err
	}
	chapters, err := j.spine(a, root)
	if err != nil {
		return err
	}
	p := newPager(j.Result, j.window, j.stop, j.limits)
	if err := p.paged(len(chapters)); err != nil {
		return err
	}
	for i, c := range chapters {
		if !p.wants(i + 1) {
			continue
		}
		p.begin(i + 1)
		if err := j.chapter(a, c, p); err != nil {
			return err
		}
		if err := p.end(); err != nil {
			return err
		}
	}
	p.finish()
	return nil
}

// spine reads the package document: what the book consists of, and in which order it is read.
func (j *job) spine(a *archive, root string) ([]string, error) {
	items := map[string]string{}
	var chapters []string
	err := j.each(a, root, func(n node) error {
		switch {
		case n.start && n.name == "item":
			if t := n.attr("media-type"); t == "application/xhtml+xml" || t == "text/html" || t == "text/x-oeb1-document" {
				href := n.attr("href")
				if plain, err := url.PathUnescape(href); err == nil {
					href = plain
				}
				items[n.attr("id")] = strings.TrimPrefix(path.Join("/", path.Dir(root), href), "/")
			}
		case n.start && n.name == "itemref":
			if c := items[n.attr("idref")]; c != "" && a.has(c) {
				chapters = append(chapters, c)
			}
			if len(chapters) > j.limits.MaxPages {
				return tooComplex(j.Kind, "more than %d chapters", j.limits.MaxPages)
			}
		}
		return nil
	})
	return chapters, err
}

func (j *job) chapter(a *archive, part string, p *pager) error {
	r, err := j.need(a, part)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.LimitReader(r, int64(j.limits.MaxToken)+1))
	if err != nil {
		return err
	}
	if len(b) > j.limits.MaxToken {
		return tooComplex(j.Kind, "a chapter over %d bytes", j.limits.MaxToken)
	}
	d, ok := decode(b, true)
	if !ok {
		return corrupt(j.Kind, "a chapter is no text in any known encoding")
	}
	lines := &blanks{line: p.add}
	return htmlText(j, strings.NewReader(d.text), true, lines.add)
}

// bookLocked refuses a book whose text is encrypted. Fonts often are, which is no matter.
func (j *job) bookLocked(a *archive) error {
	if !a.has("META-INF/encryption.xml") {
		return nil
	}
	locked := false
	err := j.each(a, "META-INF/encryption.xml", func(n node) error {
		if n.start && n.name == "CipherReference" {
			switch strings.ToLower(path.Ext(n.attr("URI"))) {
			case ".xhtml", ".html", ".htm", ".xml", ".opf":
				locked = true
			}
		}
		return nil
	})
	if err == nil && locked {
		err = refuse(Encrypted, "This book is locked to its publisher's reader (DRM), so it cannot be read.", "epub: encrypted chapters")
	}
	return err
}
