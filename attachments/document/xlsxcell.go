package document

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// cellFormat is what the number format of a style makes of a number.
type cellFormat struct{ date, clock, percent bool }

// styles reads which styles show numbers as dates, times or percentages.
func (j *job) styles(a *archive, part string, b *workbook) error {
	custom := map[string]string{}
	cells := false
	return j.each(a, part, func(n node) error {
		switch {
		case n.start && n.name == "numFmt" && len(custom) < 10_000:
			custom[n.attr("numFmtId")] = n.attr("formatCode")
		case n.name == "cellXfs":
			cells = n.start
		case cells && n.start && n.name == "xf" && len(b.formats) < 100_000:
			id := n.attr("numFmtId")
			if code, ok := custom[id]; ok {
				b.formats = append(b.formats, parseFormat(code))
			} else {
				b.formats = append(b.formats, builtinFormat(id))
			}
		}
		return nil
	})
}

// builtinFormat knows the formats that files name by number only.
func builtinFormat(id string) cellFormat {
	n, _ := strconv.Atoi(id)
	switch {
	case n == 9 || n == 10:
		return cellFormat{percent: true}
	case n >= 14 && n <= 17, n >= 27 && n <= 31, n == 36, n >= 50 && n <= 58:
		return cellFormat{date: true}
	case n >= 18 && n <= 21, n >= 32 && n <= 35, n >= 45 && n <= 47:
		return cellFormat{clock: true}
	case n == 22:
		return cellFormat{date: true, clock: true}
	}
	return cellFormat{}
}

// parseFormat looks for the letters of dates and times outside of quotes, escapes and brackets.
func parseFormat(code string) (f cellFormat) {
	code, _, _ = strings.Cut(code, ";")
	code = strings.ToLower(code)
	if code == "general" {
		return f
	}
	for i := 0; i < len(code); i++ {
		switch code[i] {
		case '"':
			for i++; i < len(code) && code[i] != '"'; i++ {
			}
		case '\\', '_', '*':
			i++
		case '[':
			if strings.HasPrefix(code[i:], "[h]") || strings.HasPrefix(code[i:], "[hh]") || strings.HasPrefix(code[i:], "[mm]") || strings.HasPrefix(code[i:], "[ss]") {
				f.clock = true
			}
			for ; i < len(code) && code[i] != ']'; i++ {
			}
		case 'y', 'd':
			f.date = true
		case 'h', 's':
			f.clock = true
		case '%':
			f.percent = true
		}
	}
	if strings.Contains(code, "mmm") && !f.clock {
		f.date = true
	}
	return f
}

// show makes the text of a cell from what the file holds: numbers as they are, dates and times as dates and times.
func (b *workbook) show(kind, style, value, formula string) string {
	switch kind {
	case "s":
		if i, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && i >= 0 && i < len(b.strings) {
			return b.strings[i]
		}
		return ""
	case "b":
		if value == "1" {
			return "TRUE"
		}
		return "FALSE"
	case "str", "inlineStr", "e", "d":
		return clean(oneLine(value))
	}
	if value == "" {
		if formula != "" { // never calculated
			return "=" + clean(oneLine(formula))
		}
		return ""
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return clean(oneLine(value))
	}
	var f cellFormat
	if i, err := strconv.Atoi(style); err == nil && i >= 0 && i < len(b.formats) {
		f = b.formats[i]
	}
	switch {
	case (f.date || f.clock) && v >= 0 && v < 2958466: // the end of year 9999
		return b.moment(v, f)
	case f.percent:
		return strconv.FormatFloat(v*100, 'g', 15, 64) + "%"
	}
	return strconv.FormatFloat(v, 'g', 15, 64)
}

// moment writes a serial number as date, time or both.
func (b *workbook) moment(v float64, f cellFormat) string {
	epoch := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	switch {
	case b.from04:
		epoch = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	case v < 60: // the format counts a 29 February 1900 that never was
		epoch = epoch.AddDate(0, 0, 1)
	}
	days, part := math.Modf(v)
	seconds := int(math.Round(part * 86400))
	t := epoch.AddDate(0, 0, int(days)).Add(time.Duration(seconds) * time.Second)
	switch {
	case f.date && (f.clock || seconds != 0):
		return t.Format("2006-01-02 15:04:05")
	case f.date:
		return t.Format("2006-01-02")
	case days >= 1: // a duration
		return strconv.Itoa(int(days)*24+seconds/3600) + t.Format(":04:05")
	}
	return t.Format("15:04:05")
}
