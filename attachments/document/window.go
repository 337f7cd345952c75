package document

import (
	"fmt"
	"strconv"
	"strings"
)

// Span is an inclusive run of units, counted from 1. A zero To is "to the end"; the zero Span is "from the beginning".
type Span struct{ From, To int }

// String writes a span as ParseSpan reads it.
func (s Span) String() string {
	switch {
	case s == Span{}:
		return ""
	case s.To == 0:
		return fmt.Sprintf("%d-", s.From)
	case s.From == s.To:
		return strconv.Itoa(s.From)
	}
	return fmt.Sprintf("%d-%d", s.From, s.To)
}

func (s Span) from() int { return max(s.From, 1) }

func (s Span) has(n int) bool { return n >= s.from() && (s.To == 0 || n <= s.To) }

// ParseSpan reads "3", "3-7", "3-" (to the end) and "" (everything).
func ParseSpan(text string) (Span, error) {
	t := strings.ReplaceAll(strings.TrimSpace(text), "–", "-")
	if t == "" {
		return Span{}, nil
	}
	a, b, both := strings.Cut(t, "-")
	from, ok := number(a)
	s := Span{From: from, To: from}
	if both {
		if s.To = 0; strings.TrimSpace(b) != "" {
			var good bool
			s.To, good = number(b)
			ok = ok && good && s.To >= s.From
		}
	}
	if !ok {
		return Span{}, badWindow("Pages and lines are written as 3, 3-7 or 3- (to the end), counted from 1.", "span of %d bytes", len(text))
	}
	return s, nil
}

func number(s string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	return n, err == nil && n > 0 && n < 1<<31
}

// Window is the part of a document that is asked for; the zero Window is its beginning. Pages count pages, slides or
// chapters; Lines count lines of the document, or of the one page that Pages names. Sheet and Cells belong to
// spreadsheets.
type Window struct {
	Pages Span
	Lines Span
	Sheet string // empty: the first that is not hidden
	Cells Cells
}

// Cells are a rectangle of a sheet. Zero bounds are open.
type Cells struct{ FirstRow, LastRow, FirstColumn, LastColumn int }

// ParseWindow reads a window as a tool is given it: pages and lines as ParseSpan reads them, and cells as "Sheet",
// "Sheet!A1:D20", "'My sheet'!A1:D20", "A1:D20", "A:C" or "10:20". Its errors are *Refusal.
func ParseWindow(pages, lines, cells string) (w Window, err error) {
	if w.Pages, err = ParseSpan(pages); err != nil {
		return Window{}, err
	}
	if w.Lines, err = ParseSpan(lines); err != nil {
		return Window{}, err
	}
	if w.Sheet, w.Cells, err = parseCells(cells); err != nil {
		return Window{}, err
	}
	return w, nil
}

// parseCells tells a range from the name of a sheet: what looks like a range is one, unless quotes say otherwise.
func parseCells(text string) (sheet string, c Cells, err error) {
	t := strings.TrimSpace(text)
	if t == "" {
		return "", Cells{}, nil
	}
	bad := badWindow("A range of cells is written as Sheet!A1:D20, A1:D20, Sheet!10:20 or only Sheet.", "range of %d bytes", len(text))
	if strings.HasPrefix(t, "'") {
		end := strings.LastIndex(t, "'")
		if end == 0 {
			return "", Cells{}, bad
		}
		sheet = strings.ReplaceAll(t[1:end], "''", "'")
		rest, found := strings.CutPrefix(t[end+1:], "!")
		if !found {
			if rest != "" || sheet == "" {
				return "", Cells{}, bad
			}
			return sheet, Cells{}, nil
		}
		if c, ok := parseRange(rest); ok {
			return sheet, c, nil
		}
		return "", Cells{}, bad
	}
	if i := strings.LastIndexByte(t, '!'); i >= 0 {
		c, ok := parseRange(t[i+1:])
		if !ok || i == 0 {
			return "", Cells{}, bad
		}
		return t[:i], c, nil
	}
	if c, ok := parseRange(t); ok && strings.ContainsAny(t, ":0123456789") && (strings.Contains(t, ":") || c.FirstRow > 0 && c.FirstColumn > 0) {
		return "", c, nil
	}
	return t, Cells{}, nil
}

func parseRange(t string) (Cells, bool) {
	a, b, both := strings.Cut(strings.ReplaceAll(strings.TrimSpace(t), "$", ""), ":")
	col, row, ok := parseCell(a)
	if !ok {
		return Cells{}, false
	}
	c := Cells{FirstRow: row, LastRow: row, FirstColumn: col, LastColumn: col}
	if both {
		if c.LastColumn, c.LastRow, ok = parseCell(b); !ok && strings.TrimSpace(b) != "" {
			return Cells{}, false
		}
	}
	if c.LastRow > 0 && c.LastRow < c.FirstRow || c.LastColumn > 0 && c.LastColumn < c.FirstColumn {
		return Cells{}, false
	}
	return c, true
}

// The size of a sheet, by the format's own definition.
const (
	maxRow    = 1 << 20
	maxColumn = 1 << 14
)

// parseCell reads "B7", "B" (row 0) and "7" (column 0).
func parseCell(t string) (column, row int, ok bool) {
	t = strings.ToUpper(strings.TrimSpace(t))
	i := 0
	for ; i < len(t) && t[i] >= 'A' && t[i] <= 'Z'; i++ {
		if column = column*26 + int(t[i]-'A') + 1; column > maxColumn {
			return 0, 0, false
		}
	}
	for _, d := range []byte(t[i:]) {
		if d < '0' || d > '9' {
			return 0, 0, false
		}
		if row = row*10 + int(d-'0'); row > maxRow {
			return 0, 0, false
		}
	}
	return column, row, t != "" && (i == len(t) || row > 0)
}

// columnName writes a column as A, B ... XFD.
func columnName(n int) string {
	var out []byte
	for ; n > 0; n = (n - 1) / 26 {
		out = append([]byte{byte('A' + (n-1)%26)}, out...)
	}
	return string(out)
}

func (c Cells) String() string {
	cell := func(column, row int) string {
		if row == 0 {
			return columnName(column)
		}
		return columnName(column) + strconv.Itoa(row)
	}
	if (c == Cells{}) {
		return ""
	}
	return cell(c.FirstColumn, c.FirstRow) + ":" + cell(c.LastColumn, c.LastRow)
}

// quoteSheet writes the name of a sheet so that parseCells reads it as one.
func quoteSheet(name string) string {
	plain := name != ""
	for _, r := range name {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127 && r != '–') {
			plain = false // digits too: "Q1" is a cell
		}
	}
	if plain {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", "''") + "'"
}

// Arguments writes the window as the arguments of a tool: `pages=3 lines=201-400`, `range=Budget!A201:F400`.
func (w Window) Arguments() string {
	var out []string
	if s := w.Pages.String(); s != "" {
		out = append(out, "pages="+s)
	}
	if s := w.Lines.String(); s != "" {
		out = append(out, "lines="+s)
	}
	if w.Sheet != "" || w.Cells != (Cells{}) {
		r := w.Cells.String()
		if w.Sheet != "" {
			if r != "" {
				r = "!" + r
			}
			r = quoteSheet(w.Sheet) + r
		}
		out = append(out, "range="+r)
	}
	return strings.Join(out, " ")
}

func badWindow(person, operator string, args ...any) *Refusal {
	return refuse(BadWindow, person, operator, args...)
}

// fits refuses a window whose parts mean nothing for the kind, rather than to read something else than was asked for.
func (w Window) fits(k Kind) error {
	u := k.Unit()
	cells := w.Sheet != "" || w.Cells != (Cells{})
	switch {
	case u == Row && (w.Pages != Span{} || w.Lines != Span{}):
		return badWindow("This is a spreadsheet: ask for a range such as Sheet!A1:D20 instead of pages or lines.", "%s: pages or lines", k)
	case u != Row && cells:
		return badWindow(fmt.Sprintf("This %s has no sheets: ask for %ss instead of a range.", k.display(), u), "%s: cells", k)
	case u == Line && w.Pages != Span{}:
		return badWindow(fmt.Sprintf("This %s is counted in lines: ask for lines instead of pages.", k.display()), "%s: pages", k)
	case u != Line && u != Row && w.Lines != Span{} && (w.Pages.From == 0 || w.Pages.From != w.Pages.To):
		return badWindow(fmt.Sprintf("This %s is counted in %ss: lines can be asked for within one of them, with pages=N lines=A-B.", k.display(), u), "%s: lines of several pages", k)
	}
	return nil
}
