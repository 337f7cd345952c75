package document

import (
	"fmt"
	"strings"
)

// workbook is what all the sheets of a spreadsheet share.
type workbook struct {
	sheets  []sheetRef
	strings []string
	formats []cellFormat // by style
	from04  bool         // dates count from 1904
}

type sheetRef struct {
	name, part string
	hidden     bool
}

// sheets reads the list of sheets.
func (j *job) sheets(a *archive, part string, rel relations, b *workbook) error {
	err := j.each(a, part, func(n node) error {
		switch {
		case n.start && n.name == "workbookPr":
			v := n.attr("date1904")
			b.from04 = v == "1" || v == "true"
		case n.start && n.name == "sheet":
			s := sheetRef{name: clean(oneLine(n.attr("name"))), part: rel[n.attrIn("id")].target, hidden: n.attr("state") != "" && n.attr("state") != "visible"}
			b.sheets = append(b.sheets, s)
			if len(b.sheets) > 10_000 {
				return tooComplex(j.Kind, "more than 10000 sheets")
			}
		}
		return nil
	})
	if err == nil && len(b.sheets) == 0 {
		err = corrupt(j.Kind, "no sheets")
	}
	return err
}

// chooseSheet finds the sheet that is asked for, and says of all of them what they are called.
func (j *job) chooseSheet(b *workbook) (int, error) {
	at := -1
	for i, s := range b.sheets {
		j.Sheets = append(j.Sheets, s.name)
		if s.hidden {
			j.note("sheet %s is hidden in the spreadsheet", quoteSheet(s.name))
		}
		if j.window.Sheet == "" && at < 0 && !s.hidden || j.window.Sheet != "" && strings.EqualFold(s.name, j.window.Sheet) {
			at = i
		}
	}
	switch {
	case at >= 0:
	case j.window.Sheet == "":
		at = 0 // all are hidden
	default:
		return 0, refuse(OutsideDocument, fmt.Sprintf("This spreadsheet has no sheet of that name. Its sheets: %s.", sheetList(j.Sheets)), "xlsx: no such sheet among %d", len(b.sheets))
	}
	j.Sheet = b.sheets[at].name
	return at, nil
}

func sheetList(names []string) string {
	out := make([]string, 0, 20)
	for _, n := range names {
		if len(out) == 20 {
			return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", len(names)-20)
		}
		out = append(out, quoteSheet(n))
	}
	return strings.Join(out, ", ")
}

// sharedStrings reads the texts that cells refer to by number.
func (j *job) sharedStrings(a *archive, part string, b *workbook) error {
	var text strings.Builder
	left := j.limits.MaxStrings
	inT, phonetic := false, false
	return j.each(a, part, func(n node) error {
		switch {
		case n.start && n.name == "si":
			text.Reset()
		case n.name == "rPh":
			phonetic = n.start
		case n.name == "t":
			inT = n.start
		case n.end && n.name == "si":
			s := clean(oneLine(text.String()))
			if left -= int64(len(s)) + 16; left < 0 {
				return tooComplex(j.Kind, "shared texts over %d bytes", j.limits.MaxStrings)
			}
			b.strings = append(b.strings, s)
		case inT && !phonetic:
			text.Write(n.text)
		}
		return nil
	})
}
