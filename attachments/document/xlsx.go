package document

import (
	"fmt"
	"slices"
	"strings"
)

// readXLSX returns rows of a sheet, cells separated by tabs, under their columns' letters and after their numbers.
func readXLSX(j *job) error {
	a, part, err := j.mainPart()
	if err != nil {
		return err
	}
	rel, err := j.relationsOf(a, part)
	if err != nil {
		return err
	}
	b := &workbook{}
	if err := j.sheets(a, part, rel, b); err != nil {
		return err
	}
	at, err := j.chooseSheet(b)
	if err != nil {
		return err
	}
	if t := rel.first("sharedStrings"); t != "" && a.has(t) {
		if err := j.sharedStrings(a, t, b); err != nil {
			return err
		}
	}
	if t := rel.first("styles"); t != "" && a.has(t) {
		if err := j.styles(a, t, b); err != nil {
			return err
		}
	}
	g := newGrid(j, b)
	if s := b.sheets[at].part; a.has(s) {
		if err := j.each(a, s, g.visit); err != nil {
			return err
		}
	}
	return g.finish(at)
}

// grid gathers the rows of the window.
type grid struct {
	*job
	book  *workbook
	cells Cells

	row, column int // of the present cell
	style, kind string
	value       strings.Builder
	formula     strings.Builder
	in          string // the element whose text is read
	line        strings.Builder
	phonetic    bool
	next        int  // the column that the line has reached
	filled      bool // the row holds something

	out      strings.Builder
	kept     []int // numbers of the rows in out
	full     bool
	widest   int // column of the window
	total    int // the last row that holds something
	cutRow   int
	cutAfter int
}

func newGrid(j *job, b *workbook) *grid {
	c := j.window.Cells
	c.FirstRow, c.FirstColumn = max(c.FirstRow, 1), max(c.FirstColumn, 1)
	if c.LastRow == 0 {
		c.LastRow = maxRow
	}
	if c.LastColumn == 0 {
		c.LastColumn = maxColumn
	}
	return &grid{job: j, book: b, cells: c}
}

func (g *grid) visit(n node) error {
	switch {
	case n.start:
		switch n.name {
		case "row":
			_, row, ok := parseCell(n.attr("r"))
			if !ok || row <= g.row {
				row = g.row + 1
			}
			g.row, g.column, g.next, g.filled = row, 0, g.cells.FirstColumn, false
			g.line.Reset()
		case "c":
			column, _, ok := parseCell(n.attr("r"))
			if !ok || column == 0 {
				column = g.column + 1
			}
			g.column, g.style, g.kind = column, n.attr("s"), n.attr("t")
			g.value.Reset()
			g.formula.Reset()
		case "v", "t":
			g.in = "v"
		case "f":
			g.in = "f"
		case "rPh": // how it is pronounced
			g.phonetic = true
		}
	case n.end:
		switch n.name {
		case "v", "t", "f":
			g.in = ""
		case "rPh":
			g.phonetic = false
		case "c":
			g.cell()
		case "row":
			g.endRow()
		}
	case g.in == "v" && !g.phonetic:
		g.value.Write(n.text)
	case g.in == "f":
		g.formula.Write(n.text)
	}
	return nil
}

// maxRowText bounds a row: what is cut off can be asked for by its columns.
func (g *grid) maxRowText() int { return g.limits.MaxText / 4 }

func (g *grid) cell() {
	text := g.book.show(g.kind, g.style, g.value.String(), g.formula.String())
	if text == "" {
		return
	}
	g.filled = true
	c := g.cells
	if g.row < c.FirstRow || g.row > c.LastRow || g.column < c.FirstColumn || g.column > c.LastColumn || g.full || g.column < g.next {
		return
	}
	if g.line.Len()+g.column-g.next+len(text) > g.maxRowText() {
		if g.line.Len() == 0 && g.column-g.next == 0 { // one cell alone
			g.line.WriteString(strings.ToValidUTF8(text[:g.maxRowText()], "") + "…")
			g.note("cell %s%d is cut", columnName(g.column), g.row)
			g.next = g.column + 1
		} else if g.cutRow == 0 {
			g.cutRow, g.cutAfter = g.row, g.column-1
		}
		return
	}
	g.line.WriteString(strings.Repeat("\t", g.column-g.next) + text)
	g.next = g.column
	g.widest = max(g.widest, g.column)
}

func (g *grid) endRow() {
	if g.filled {
		g.total = g.row
	}
	if g.line.Len() == 0 || g.full {
		return
	}
	line := fmt.Sprintf("%d\t%s\n", g.row, g.line.String())
	if g.out.Len()+len(line) > g.limits.MaxText && len(g.kept) > 0 {
		g.full = true
		return
	}
	g.out.WriteString(line)
	g.kept = append(g.kept, g.row)
}

func (g *grid) finish(at int) error {
	g.Total = g.total
	c := g.cells
	if c.FirstRow > max(g.total, 1) {
		return refuse(OutsideDocument, fmt.Sprintf("Sheet %s has %s rows; there is no row %s.", quoteSheet(g.Sheet), count(g.total), count(c.FirstRow)), "xlsx: row %d of %d", c.FirstRow, g.total)
	}
	if g.cutRow > 0 {
		g.note("row %d is too long and is cut after column %s, as longer ones are; ask for a range of its later columns", g.cutRow, columnName(g.cutAfter))
	}
	name := "sheet " + quoteSheet(g.Sheet)
	if len(g.kept) > 0 {
		header := ""
		for i := c.FirstColumn; i <= g.widest; i++ {
			header += "\t" + columnName(i)
		}
		g.Text = header + "\n" + g.out.String()
	}
	where := name + " is empty"
	if g.total > 0 {
		g.From, g.To = c.FirstRow, min(c.LastRow, g.total)
		if g.full {
			g.To = g.kept[len(g.kept)-1]
		}
		where = fmt.Sprintf("%s of %s in %s", spanText(Row, g.From, g.To), count(g.total), name)
	}
	switch i := g.following(at); {
	case g.total > 0 && g.To < g.total:
		next := g.window.Cells
		next.FirstRow = g.To + 1
		next.LastRow = min(g.To+1+g.To-g.From, g.total)
		if next.LastColumn == 0 {
			next.FirstColumn, next.LastColumn = c.FirstColumn, max(g.widest, c.FirstColumn)
		}
		g.Next = &Window{Sheet: g.Sheet, Cells: next}
	case i >= 0:
		g.Next = &Window{Sheet: g.book.sheets[i].name}
	default:
		g.End = "end of document: " + where
		return nil
	}
	g.End = where + "; continue with " + g.Next.Arguments()
	return nil
}

// following is the next sheet that is not hidden, or -1.
func (g *grid) following(at int) int {
	i := slices.IndexFunc(g.book.sheets[at+1:], func(s sheetRef) bool { return !s.hidden })
	if i < 0 {
		return -1
	}
	return at + 1 + i
}
