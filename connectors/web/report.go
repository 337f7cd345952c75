package web

import "context"

// Console answers operators: what became of conversations, turns and
// attachments. IDs come from addresses and may be anything; what is not there
// is chat.ErrNotFound.
type Console interface {
	Overview(ctx context.Context) (Report, error)
	Inspect(ctx context.Context, kind, id string) (Report, error)
}

// Report is one page of the console, or what `sightline inspect` prints: facts
// and tables of text, without a pixel.
type Report struct {
	Title  string
	Facts  []Fact
	Tables []Table
	// Picture is the upload of this place that the page may show, for a
	// report about its attachment; empty: none.
	Picture string
}

// Fact is one line of what is known.
type Fact struct {
	Name  string
	Value Cell
}

// Table is a list; Empty is said when it has no rows, Legend when it has.
type Table struct {
	Name    string
	Legend  string // what its short words mean, in one line; may be empty
	Columns []string
	Rows    [][]Cell
	Empty   string
}

// Cell is a text, and where it leads: Kind and ID name another report, URL a
// page of Temporal's Web UI. Where several parts lead somewhere, they are in
// Parts, whose texts together are Text.
type Cell struct {
	Text string
	Kind string // conversation, turn, attachment
	ID   string
	URL  string
	Tone string // good, bad or empty

	Parts []Cell
}
