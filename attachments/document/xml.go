package document

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html/charset"
)

// xmlReader goes through the parts of office files. It takes no document type definition, so no entity stands for
// anything but itself, and it bounds nesting and the number of elements.
type xmlReader struct {
	*job
	d     *xml.Decoder
	since int // bytes read since the last step
	depth int
	root  bool // an element was seen
}

// node is one step through XML: a start, an end, or text.
type node struct {
	start, end bool
	name       string // without its prefix
	text       []byte // valid until the next step
	attrs      []xml.Attr
}

// attr returns an attribute by its name without prefix; those that differ only in their prefix (the id of a slide and
// the r:id of its part) are told apart by attrIn.
func (n node) attr(name string) string {
	for _, a := range n.attrs {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return n.attrIn(name)
}

// attrIn returns an attribute that has a prefix, whatever that is.
func (n node) attrIn(name string) string {
	for _, a := range n.attrs {
		if a.Name.Local == name && a.Name.Space != "" {
			return a.Value
		}
	}
	return ""
}

func (j *job) xml(r io.Reader) *xmlReader {
	x := &xmlReader{job: j}
	x.d = xml.NewDecoder(readerFunc(func(p []byte) (int, error) {
		if x.since > j.limits.MaxToken {
			return 0, tooComplex(j.Kind, "a token of more than %d bytes", j.limits.MaxToken)
		}
		n, err := r.Read(p)
		x.since += n
		return n, err
	}))
	x.d.CharsetReader = charset.NewReaderLabel
	return x
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// next returns the next node; io.EOF is the proper end only, everything else a Refusal or what stopped the job.
func (x *xmlReader) next() (node, error) {
	for {
		if err := x.token(); err != nil {
			return node{}, err
		}
		x.since = 0
		t, err := x.d.RawToken()
		if err != nil {
			return node{}, x.ended(err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			x.root = true
			if x.depth++; x.depth > x.limits.MaxDepth {
				return node{}, tooComplex(x.Kind, "nested more than %d deep", x.limits.MaxDepth)
			}
			return node{start: true, name: t.Name.Local, attrs: t.Attr}, nil
		case xml.EndElement:
			if x.depth--; x.depth < 0 {
				return node{}, corrupt(x.Kind, "an element ends that did not begin")
			}
			return node{end: true, name: t.Name.Local}, nil
		case xml.CharData:
			return node{text: t}, nil
		case xml.Directive:
			if bytes.IndexByte(t, '[') >= 0 {
				return node{}, bomb(x.Kind, "a document type definition with declarations")
			}
		}
	}
}

// ended tells what the end of the stream means.
func (x *xmlReader) ended(err error) error {
	if x.stop.err != nil {
		return x.stop.err
	}
	if err == io.EOF {
		if x.root && x.depth == 0 {
			return io.EOF
		}
		return corrupt(x.Kind, "xml ends early")
	}
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return corrupt(x.Kind, "%v", err)
}

// each goes through a part and hands each node to visit.
func (j *job) each(a *archive, part string, visit func(node) error) error {
	r, err := j.need(a, part)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	x := j.xml(r)
	for {
		n, err := x.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = visit(n)
		}
		if err != nil {
			return err
		}
	}
}

// oneLine makes white space inside of a text single spaces.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
