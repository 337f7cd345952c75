package document

import (
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// readRTF returns the text of an RTF document. Objects, pictures and fields' instructions are left out.
func readRTF(j *job) error {
	p := newPager(j.Result, j.window, j.stop, j.limits)
	lines := &blanks{line: p.add}
	r := &rtf{job: j, line: lines.add, fonts: map[int]encoding.Encoding{}, page: charmap.Windows1252}
	if err := r.read(); err != nil {
		return err
	}
	if err := p.flat(); err != nil {
		return err
	}
	p.finish()
	return nil
}

// rtfState is what a group inherits and gives back at its end.
type rtfState struct {
	skip    bool // a destination that is no text of the document
	fonts   bool // the font table
	font    int
	unicode int // bytes that stand for a \u to readers that don't know it
	hidden  bool
}

type rtf struct {
	*job
	line    func(string) error
	at      int
	stack   []rtfState
	now     rtfState
	star    bool // \* was read: a destination that may be skipped follows
	ignore  int  // bytes that stand for a \u and are still to come
	page    encoding.Encoding
	fonts   map[int]encoding.Encoding
	buf     strings.Builder
	pending []byte // of a text that is not UTF-8 yet: a character may take two \' escapes
	high    rune   // first half of a pair of \u
}

func (r *rtf) read() error {
	r.now.unicode = 1
	b := r.bytes
	for r.at < len(b) {
		if err := r.token(); err != nil {
			return err
		}
		switch c := b[r.at]; c {
		case '{':
			r.at++
			if r.stack = append(r.stack, r.now); len(r.stack) > r.limits.MaxDepth {
				return tooComplex(r.Kind, "groups nested more than %d deep", r.limits.MaxDepth)
			}
			r.ignore = 0
		case '}':
			r.at++
			r.decode()
			if len(r.stack) == 0 {
				return corrupt(r.Kind, "a group ends that did not begin")
			}
			r.now, r.stack = r.stack[len(r.stack)-1], r.stack[:len(r.stack)-1]
			r.ignore = 0
			if len(r.stack) == 0 { // what follows the document is none of it
				return r.flush()
			}
		case '\\':
			r.at++
			if err := r.control(); err != nil {
				return err
			}
		case '\r', '\n':
			r.at++
		default:
			r.at++
			r.char(c)
		}
		if r.buf.Len()+len(r.pending) > maxParagraph {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	return corrupt(r.Kind, "ends within a group")
}

func (r *rtf) shown() bool { return !r.now.skip && !r.now.fonts && !r.now.hidden }

// char takes a byte of text in the encoding of the present font.
func (r *rtf) char(c byte) {
	if r.ignore > 0 {
		r.ignore--
		return
	}
	r.star = false
	if r.shown() {
		r.pending = append(r.pending, c)
	}
}

// put takes text that is UTF-8.
func (r *rtf) put(s string) {
	if r.shown() {
		r.decode()
		r.buf.WriteString(s)
	}
}

// decode turns what is pending into UTF-8.
func (r *rtf) decode() {
	if len(r.pending) == 0 {
		return
	}
	e := r.fonts[r.now.font]
	if e == nil {
		e = r.page
	}
	if text, err := e.NewDecoder().Bytes(r.pending); err == nil {
		r.buf.Write(text)
	}
	r.pending = r.pending[:0]
}

func (r *rtf) flush() error {
	r.decode()
	s := r.buf.String()
	r.buf.Reset()
	return r.line(strings.TrimSuffix(s, " | ")) // the end of a row's last cell
}

// control reads what follows a backslash.
func (r *rtf) control() error {
	b := r.bytes
	if r.at >= len(b) {
		return corrupt(r.Kind, "ends within a control word")
	}
	c := b[r.at]
	if c|0x20 < 'a' || c|0x20 > 'z' {
		r.at++
		return r.symbol(c)
	}
	from := r.at
	for r.at < len(b) && b[r.at]|0x20 >= 'a' && b[r.at]|0x20 <= 'z' && r.at-from < 32 {
		r.at++
	}
	word := string(b[from:r.at])
	n, has := 0, false
	negative := r.at < len(b) && b[r.at] == '-'
	if negative {
		r.at++
	}
	for r.at < len(b) && b[r.at] >= '0' && b[r.at] <= '9' {
		n, has = min(n*10+int(b[r.at]-'0'), 1<<30), true
		r.at++
	}
	if negative {
		n = -n
	}
	if r.at < len(b) && b[r.at] == ' ' {
		r.at++
	}
	return r.word(word, n, has)
}

func (r *rtf) symbol(c byte) error {
	switch c {
	case '\'':
		if r.at+2 > len(r.bytes) {
			return corrupt(r.Kind, "ends within an escape")
		}
		h, l := unhex(r.bytes[r.at]), unhex(r.bytes[r.at+1])
		r.at += 2
		if h < 16 && l < 16 {
			r.char(h<<4 | l)
		}
	case '*':
		r.star = true
	case '~':
		r.put("\u00a0")
	case '_':
		r.put("-")
	case '-': // an optional hyphen
	case '\r', '\n':
		return r.paragraph()
	case '\\', '{', '}':
		r.char(c)
	}
	return nil
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 0xff
}

func (r *rtf) paragraph() error {
	if !r.shown() {
		return nil
	}
	return r.flush()
}

func (r *rtf) word(word string, n int, has bool) error {
	if star := r.star; star || rtfSkip[word] {
		r.star = false
		if rtfSkip[word] || star && word != "shpinst" && word != "shptxt" { // text boxes are text
			r.decode()
			r.now.skip = true
		}
	}
	if word != "u" {
		r.high = 0
	}
	if s, ok := rtfChars[word]; ok {
		r.put(s)
		return nil
	}
	switch word {
	case "par", "line", "sect", "page", "row", "nestrow":
		return r.paragraph()
	case "cell", "nestcell":
		r.put(" | ")
	case "u":
		r.unicode(n)
	case "uc":
		r.now.unicode = max(min(n, 16), 0)
	case "bin":
		r.at = min(r.at+max(n, 0), len(r.bytes))
	case "fonttbl":
		r.decode()
		r.now.fonts = true
	case "f":
		r.decode()
		r.now.font = n
	case "deff":
		r.now.font = n
	case "plain":
		r.decode()
		r.now.hidden = false
	case "v":
		r.decode()
		r.now.hidden = !has || n != 0
	case "ansicpg":
		if e := rtfPage(n); e != nil {
			r.page = e
		}
	case "mac":
		r.page = charmap.Macintosh
	case "pca", "pc":
		r.page = charmap.CodePage850
	case "fcharset":
		if e := rtfPage(rtfCharset[n]); r.now.fonts && e != nil && len(r.fonts) < 4096 {
			r.fonts[r.now.font] = e
		}
	}
	return nil
}

// unicode takes a UTF-16 unit, which is written as a signed number.
func (r *rtf) unicode(n int) {
	c := rune(uint16(n))
	r.ignore = r.now.unicode
	switch {
	case c >= 0xd800 && c < 0xdc00:
		r.high = c
	case c >= 0xdc00 && c < 0xe000:
		if r.high != 0 {
			r.put(string((r.high-0xd800)<<10 + c - 0xdc00 + 0x10000))
		}
		r.high = 0
	default:
		r.high = 0
		r.put(string(c))
	}
}
