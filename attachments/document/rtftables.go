package document

import (
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
)

// rtfSkip are the destinations that are no text of the document, besides those that \* marks.
var rtfSkip = map[string]bool{
	"colortbl": true, "stylesheet": true, "info": true, "pict": true, "object": true, "fldinst": true, "listtable": true,
	"listoverridetable": true, "revtbl": true, "rsidtbl": true, "generator": true, "themedata": true, "colorschememapping": true, "datastore": true, "latentstyles": true,
	"xmlnstbl": true, "filetbl": true, "bkmkstart": true, "bkmkend": true, "datafield": true, "xe": true, "tc": true, "formfield": true, "objdata": true,
}

// rtfChars are control words that stand for characters.
var rtfChars = map[string]string{
	"tab": "\t", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
	"emspace": " ", "enspace": " ", "qmspace": " ", "zwj": "\u200d", "zwnj": "\u200c", "ltrmark": "\u200e", "rtlmark": "\u200f",
}

// rtfCharset are the code pages of the character sets of fonts.
var rtfCharset = map[int]int{
	0: 1252, 77: 10000, 128: 932, 129: 949, 134: 936, 136: 950, 161: 1253, 162: 1254, 163: 1258, 177: 1255, 178: 1256, 186: 1257, 204: 1251, 222: 874, 238: 1250,
}

func rtfPage(n int) encoding.Encoding {
	name := map[int]string{932: "shift_jis", 936: "gbk", 949: "euc-kr", 950: "big5", 866: "ibm866", 874: "windows-874", 10000: "macintosh", 65001: "utf-8",
		1250: "windows-1250", 1251: "windows-1251", 1252: "windows-1252", 1253: "windows-1253", 1254: "windows-1254", 1255: "windows-1255", 1256: "windows-1256", 1257: "windows-1257", 1258: "windows-1258"}[n]
	switch n {
	case 437:
		return charmap.CodePage437
	case 850:
		return charmap.CodePage850
	}
	e, _ := htmlindex.Get(name)
	return e
}
