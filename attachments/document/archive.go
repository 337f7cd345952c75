package document

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// archive is the container of office files and books. It opens only the entries that a reader names, and none of them
// is taken for an archive again.
type archive struct {
	files map[string]*zip.File // by lower-case name: office programs compare so
}

// openArchive reads the directory of a ZIP file.
func openArchive(k Kind, b []byte, maxEntries int) (*archive, error) {
	// Reading the directory allocates for each entry, so they are counted before. Stored entries may hold the signature as
	// well, but not thousands of times.
	if n := bytes.Count(b, []byte("PK\x01\x02")); n > maxEntries {
		return nil, tooComplex(k, "%d entries over %d", n, maxEntries)
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, corrupt(k, "%v", err)
	}
	a := &archive{files: make(map[string]*zip.File, len(z.File))}
	for _, f := range z.File {
		name := strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(f.Name, `\`, "/"), "/"))
		if _, twice := a.files[name]; !twice {
			a.files[name] = f
		}
	}
	return a, nil
}

func (a *archive) has(name string) bool { _, ok := a.files[strings.ToLower(name)]; return ok }

// open returns an entry as a stream that ends with a Refusal where it takes more than the job may use. ok is false
// where there is none.
func (j *job) open(a *archive, name string) (r io.ReadCloser, ok bool, err error) {
	f := a.files[strings.ToLower(strings.TrimPrefix(name, "/"))]
	if f == nil {
		return nil, false, nil
	}
	if f.Flags&1 != 0 {
		return nil, false, encrypted(j.Kind, "encrypted entry")
	}
	// The packed size is a claim; a lie can raise it only to the size of the file, and MaxInflated bounds what that allows.
	rc, err := f.Open()
	if err != nil {
		return nil, false, corrupt(j.Kind, "open entry: %v", err)
	}
	return &inflating{job: j, ReadCloser: rc, packed: int64(min(f.CompressedSize64, uint64(len(j.bytes))))}, true, nil
}

// need is open for an entry without which there is no document.
func (j *job) need(a *archive, name string) (io.ReadCloser, error) {
	r, ok, err := j.open(a, name)
	if err == nil && !ok {
		err = corrupt(j.Kind, "a part is missing")
	}
	return r, err
}

// inflating counts what comes out of an entry, which its own header does not bind.
type inflating struct {
	*job
	io.ReadCloser
	packed, out int64
	err         error
}

func (r *inflating) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.err = r.stop.check(); r.err != nil {
		return 0, r.err
	}
	n, err := r.ReadCloser.Read(p)
	r.out += int64(n)
	r.inflated -= int64(n)
	switch {
	case r.inflated < 0:
		r.err = bomb(r.Kind, "inflates to more than %d bytes", r.limits.MaxInflated)
	case r.out > 1<<20 && r.out/max(r.packed, 1) > r.limits.MaxRatio:
		r.err = bomb(r.Kind, "an entry inflates to more than %d times its size", r.limits.MaxRatio)
	default:
		return n, err
	}
	return 0, r.err
}

// relations are what a part of an office file refers to, by ID. References to the outside are left out: nothing is
// fetched.
type relations map[string]relation

type relation struct{ kind, target string }

// relationsOf reads the relations of a part; a part without any has an empty set.
func (j *job) relationsOf(a *archive, part string) (relations, error) {
	dir, base := path.Split(part)
	r, ok, err := j.open(a, dir+"_rels/"+base+".rels")
	if err != nil || !ok {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	rel := relations{}
	x := j.xml(r)
	for {
		t, err := x.next()
		if err == io.EOF {
			return rel, nil
		}
		if err != nil {
			return nil, err
		}
		if t.start && t.name == "Relationship" && t.attr("TargetMode") != "External" {
			target := t.attr("Target")
			if !strings.HasPrefix(target, "/") {
				target = path.Join("/", dir, target)
			}
			kind := t.attr("Type")
			rel[t.attr("Id")] = relation{kind[strings.LastIndexByte(kind, '/')+1:], strings.TrimPrefix(path.Clean(target), "/")}
		}
	}
}

// first returns the target of the first relation of a kind.
func (r relations) first(kind string) string {
	if ids := r.of(kind); len(ids) > 0 {
		return r[ids[0]].target
	}
	return ""
}

// of returns the IDs of the relations of a kind, in a stable order.
func (r relations) of(kind string) []string {
	var ids []string
	for id, x := range r {
		if x.kind == kind {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return ids
}

// mainPart opens an office file and finds its main part.
func (j *job) mainPart() (*archive, string, error) {
	a, err := openArchive(j.Kind, j.bytes, j.limits.MaxEntries)
	if err != nil {
		return nil, "", err
	}
	rel, err := j.relationsOf(a, "")
	if err != nil {
		return nil, "", err
	}
	part := rel.first("officeDocument")
	if part == "" {
		return nil, "", corrupt(j.Kind, "no main part")
	}
	return a, part, nil
}

// sniffZIP tells apart what is kept in ZIP archives. The types that an office file declares for its parts say what it
// is; its macros, where it has any, are never run.
func sniffZIP(b []byte) (Kind, error) {
	l := DefaultLimits()
	a, err := openArchive("zip", b, l.MaxEntries)
	if err != nil {
		return "", refuse(UnsupportedFormat, "This is a ZIP archive that is damaged, incomplete or too large to list. Import it into a workspace (where one is enabled).", "%v", err)
	}
	j := &job{Result: &Result{Kind: "zip"}, limits: l, bytes: b, stop: &stop{ctx: context.Background(), deadline: time.Now().Add(l.Deadline)}, inflated: 4 << 20, tokens: 100_000}
	read := func(name string) string {
		r, ok, err := j.open(a, name)
		if err != nil || !ok {
			return ""
		}
		defer func() { _ = r.Close() }()
		text, _ := io.ReadAll(io.LimitReader(r, 1<<20))
		return string(text)
	}
	types := read("[Content_Types].xml")
	for _, o := range []struct {
		kind    Kind
		content []string
	}{
		{DOCX, []string{"wordprocessingml.document.main+xml", "wordprocessingml.template.main+xml", "word.document.macroEnabled.main+xml", "word.template.macroEnabledTemplate.main+xml"}},
		{XLSX, []string{"spreadsheetml.sheet.main+xml", "spreadsheetml.template.main+xml", "excel.sheet.macroEnabled.main+xml", "excel.template.macroEnabled.main+xml"}},
		{PPTX, []string{"presentationml.presentation.main+xml", "presentationml.slideshow.main+xml", "presentationml.template.main+xml", "powerpoint.presentation.macroEnabled.main+xml", "powerpoint.slideshow.macroEnabled.main+xml"}},
	} {
		for _, c := range o.content {
			if strings.Contains(types, c) {
				return o.kind, nil
			}
		}
	}
	switch m := strings.TrimSpace(read("mimetype")); {
	case m == "application/epub+zip", a.has("META-INF/container.xml") && m == "":
		return EPUB, nil
	case strings.HasPrefix(m, "application/vnd.oasis.opendocument"):
		return "", refuse(UnsupportedFormat, "This is an OpenDocument file, which can't be read. Save it as DOCX, XLSX, PPTX or PDF, or import it into a workspace (where one is enabled).", "opendocument")
	case strings.Contains(types, "excel.sheet.binary"):
		return "", refuse(UnsupportedFormat, "This is a binary spreadsheet (XLSB), which can't be read. Save it as XLSX, or import it into a workspace (where one is enabled).", "xlsb")
	}
	return "", refuse(UnsupportedFormat, fmt.Sprintf("This is an archive with %s entries, not a document. Import it into a workspace (where one is enabled) and unpack it there.", count(len(a.files))), "zip")
}
