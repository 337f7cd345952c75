package document

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wlynxg/chardet"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode/utf32"

	utf16 "golang.org/x/text/encoding/unicode"
)

// A decoded text is UTF-8 and says what it was.
type decoded struct {
	text     string
	encoding string
}

// decode finds out the encoding of b and decodes it. It believes marks at the beginning first, then what only text can
// be (UTF-8, UTF-16), then a declaration inside of HTML, then statistics, whose finding must decode without a fault. ok
// is false for what is not text.
func decode(b []byte, html bool) (d decoded, ok bool) {
	if d, ok, sure := decodeUnicode(b); sure {
		return d, ok && readable(d.text)
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return decoded{}, false
	}
	escapes := bytes.Contains(b, []byte("\x1b$")) // ISO-2022 is UTF-8 to the eye
	if utf8.Valid(b) && !escapes {
		d = decoded{string(b), "utf-8"}
		return d, readable(d.text)
	}
	for _, name := range candidates(b, html) {
		if d, ok = decodeAs(b, name); ok && readable(d.text) {
			return d, true
		}
	}
	if escapes && utf8.Valid(b) {
		d = decoded{string(b), "utf-8"}
		return d, readable(d.text)
	}
	return decoded{}, false
}

// decodeUnicode decodes what has a byte order mark, and UTF-16 without one. sure means that it can be nothing else.
func decodeUnicode(b []byte) (d decoded, ok, sure bool) {
	with := func(e encoding.Encoding, name string) (decoded, bool, bool) {
		text, err := e.NewDecoder().Bytes(b)
		return decoded{strings.TrimPrefix(string(text), "\ufeff"), name}, err == nil, true
	}
	switch {
	case bytes.HasPrefix(b, []byte("\xef\xbb\xbf")):
		if b = b[3:]; utf8.Valid(b) {
			return decoded{string(b), "utf-8 with byte order mark"}, true, true
		}
		return decoded{strings.ToValidUTF8(string(b), "\ufffd"), "utf-8 with byte order mark, damaged"}, true, true
	case bytes.HasPrefix(b, []byte("\xff\xfe\x00\x00")) && len(b)%4 == 0:
		return with(utf32.UTF32(utf32.LittleEndian, utf32.UseBOM), "utf-32le")
	case bytes.HasPrefix(b, []byte("\x00\x00\xfe\xff")):
		return with(utf32.UTF32(utf32.BigEndian, utf32.UseBOM), "utf-32be")
	case bytes.HasPrefix(b, []byte("\xff\xfe")):
		return with(utf16.UTF16(utf16.LittleEndian, utf16.ExpectBOM), "utf-16le")
	case bytes.HasPrefix(b, []byte("\xfe\xff")):
		return with(utf16.UTF16(utf16.BigEndian, utf16.ExpectBOM), "utf-16be")
	}
	little, is := guessUTF16(b)
	if !is {
		return decoded{}, false, false
	}
	if little {
		d, ok, _ = with(utf16.UTF16(utf16.LittleEndian, utf16.IgnoreBOM), "utf-16le without byte order mark")
	} else {
		d, ok, _ = with(utf16.UTF16(utf16.BigEndian, utf16.IgnoreBOM), "utf-16be without byte order mark")
	}
	if !ok || strings.ContainsRune(d.text, utf8.RuneError) || !readable(d.text) {
		return decoded{}, false, false
	}
	return d, true, true
}

// guessUTF16 looks for the zero bytes that UTF-16 has in one half of each unit of its spaces, line ends and digits.
func guessUTF16(b []byte) (little, is bool) {
	if len(b) < 4 || len(b)%2 != 0 {
		return false, false
	}
	var zero [2]int
	for i, c := range b[:min(len(b), 64<<10)] {
		if c == 0 {
			zero[i&1]++
		}
	}
	switch {
	case zero[0] == 0 && zero[1] > 0:
		return true, true
	case zero[1] == 0 && zero[0] > 0:
		return false, true
	}
	return false, false
}

// legacy are the encodings that statistics may choose: those of one or two bytes that people's files are in.
var legacy = map[string]bool{
	"shift_jis": true, "euc-jp": true, "iso-2022-jp": true, "gbk": true, "gb18030": true, "big5": true, "euc-kr": true,
	"windows-1250": true, "windows-1251": true, "windows-1252": true, "windows-1253": true, "windows-1254": true, "windows-1255": true, "windows-1256": true,
	"koi8-r": true, "iso-8859-2": true, "iso-8859-5": true, "iso-8859-7": true, "iso-8859-8": true,
}

// sampleSize bounds what statistics look at.
const sampleSize = 64 << 10

// candidates names encodings to try, the likeliest first.
func candidates(b []byte, html bool) []string {
	var out []string
	if html {
		if _, name, certain := charset.DetermineEncoding(b[:min(len(b), 1024)], ""); certain || declaresCharset(b) {
			out = append(out, name)
		}
	}
	sample := b
	if len(sample) > sampleSize { // from the first byte that is not ASCII on
		from := max(bytes.IndexFunc(sample, func(r rune) bool { return r >= utf8.RuneSelf }), 0)
		sample = sample[from:min(from+sampleSize, len(sample))]
	}
	guess := ""
	if r := chardet.Detect(sample); r.Encoding != "" {
		if e, err := htmlindex.Get(r.Encoding); err == nil {
			guess, _ = htmlindex.Name(e)
		}
	}
	switch {
	case guess == "windows-1254" && !hasAny(b, "\xd0\xdd\xde\xf0\xfd\xfe"):
		guess = "windows-1252" // without the Turkish letters they are the same
	case western(sample):
		out = append(out, "windows-1252")
	}
	if legacy[guess] {
		out = append(out, guess)
	}
	// Most files of unknown encoding that are no text of two bytes are Western; this one decodes nearly everything.
	return append(out, "windows-1252", "shift_jis", "euc-jp", "gb18030", "big5", "euc-kr")
}

// western reports whether most of what is not ASCII are one or two letters within words of ASCII letters, as accents and
// umlauts are. Statistics on a few words take those for Chinese.
func western(b []byte) bool {
	letter := func(i int) bool { return i >= 0 && i < len(b) && b[i]|0x20 >= 'a' && b[i]|0x20 <= 'z' }
	runs, accents := 0, 0
	for i := 0; i < len(b); i++ {
		if b[i] < utf8.RuneSelf {
			continue
		}
		from, letters := i, true
		for ; i < len(b) && b[i] >= utf8.RuneSelf; i++ {
			letters = letters && b[i] >= 0xc0
		}
		runs++
		if letters && i-from <= 2 && (letter(from-1) || letter(i)) {
			accents++
		}
	}
	return 2*accents > runs
}

func hasAny(b []byte, set string) bool {
	for _, c := range []byte(set) {
		if bytes.IndexByte(b, c) >= 0 {
			return true
		}
	}
	return false
}

func declaresCharset(b []byte) bool {
	return bytes.Contains(bytes.ToLower(b[:min(len(b), 1024)]), []byte("charset"))
}

// decodeAs decodes b, and fails at bytes that the encoding does not define.
func decodeAs(b []byte, name string) (decoded, bool) {
	e, err := htmlindex.Get(name)
	if err != nil {
		return decoded{}, false
	}
	if e == charmap.Windows1252 && hasAny(b, "\x81\x8d\x8f\x90\x9d") {
		return decoded{}, false // these are undefined, and would become control characters
	}
	text, err := e.NewDecoder().Bytes(b)
	if err != nil || bytes.ContainsRune(text, utf8.RuneError) {
		return decoded{}, false
	}
	return decoded{string(text), name}, true
}

// readable reports whether a decoded text has next to none of the characters that text does not have.
func readable(s string) bool {
	bad := 0
	for _, r := range s {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || r == '\f' || r == '\b' || r == '\v' || r == 0x1b || r == 0x1a:
		case r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0xe000 && r < 0xf900 || r > unicode.MaxRune || r&0xfffe == 0xfffe:
			bad++
		}
	}
	return bad*200 <= len(s)
}
