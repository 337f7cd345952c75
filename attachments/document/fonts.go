package document

import (
	"strings"
	"unicode"

	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
)

// The engine looks at so many characters of a page, and at the fonts of so many of them, for those that it can't draw.
const (
	maxFontChars = 20_000
	maxFontLooks = 32
)

// undrawn reports whether a page has Chinese, Japanese or Korean characters in a font that is not part of the PDF. The
// engine has no such font of its own and leaves them out: without a word about it, the page would look empty.
func (f *pdfFile) undrawn(p requests.Page) bool {
	all, err := f.GetPageText(&requests.GetPageText{Page: p})
	if err != nil || strings.IndexFunc(all.Text, ideographic) < 0 { // asking for one character at a time is slow
		return false
	}
	text, err := f.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: p})
	if err != nil {
		return false
	}
	defer func() { _, _ = f.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: text.TextPage}) }()
	n, err := f.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: text.TextPage})
	if err != nil {
		return false
	}
	looks := 0
	for i := 0; i < min(n.Count, maxFontChars) && looks < maxFontLooks && f.stop.check() == nil; i++ {
		c, err := f.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: text.TextPage, Index: i})
		if err != nil || !ideographic(rune(c.Unicode)) {
			continue
		}
		looks++
		if !f.embedded(text.TextPage, i) {
			return true
		}
	}
	return false
}

func ideographic(r rune) bool {
	return r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// embedded reports whether the font of a character is part of the PDF; where that can't be found out, it is taken to be.
func (f *pdfFile) embedded(text references.FPDF_TEXTPAGE, i int) bool {
	o, err := f.FPDFText_GetTextObject(&requests.FPDFText_GetTextObject{TextPage: text, Index: i})
	if err != nil {
		return true
	}
	font, err := f.FPDFTextObj_GetFont(&requests.FPDFTextObj_GetFont{PageObject: o.TextObject})
	if err != nil {
		return true
	}
	e, err := f.FPDFFont_GetIsEmbedded(&requests.FPDFFont_GetIsEmbedded{Font: font.Font})
	return err != nil || e.IsEmbedded
}
