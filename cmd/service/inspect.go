package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"

	"sightline/checkpoints"
	"sightline/cmd/local"
	"sightline/connectors/chat"
	"sightline/connectors/web"
)

// inspector reads what is stored of one conversation, turn or attachment. It
// answers operators alone: who may see what is not asked.
type inspector struct {
	db        *checkpoints.DB
	agent     chat.AgentID // only this agent's; empty: any
	ui        string       // of Temporal; empty: no links
	namespace string
	// live asks the workflow where it is, for "" when it can't be asked.
	live func(ctx context.Context, workflow string) string
}

// inspected is a report that can be printed and encoded.
type inspected interface{ report() web.Report }

var ids = map[string]*regexp.Regexp{
	"conversation": regexp.MustCompile(`^cnv_[0-9a-hjkmnp-tv-z]{26}$`),
	"turn":         regexp.MustCompile(`^trn_[0-9a-hjkmnp-tv-z]{26}$`),
	"attachment":   regexp.MustCompile(`^att_[0-9a-hjkmnp-tv-z]{26}$`),
}

// look finds one thing by its exact ID.
func (i *inspector) look(ctx context.Context, kind, id string) (inspected, error) {
	re := ids[kind]
	if re == nil {
		return nil, fmt.Errorf("there is no %q to inspect; it is conversation, turn or attachment: %w", kind, chat.ErrNotFound)
	}
	if !re.MatchString(id) {
		return nil, fmt.Errorf("%q is not the ID of %s: those are %s and 26 characters: %w", clip(id, 60), map[bool]string{true: "an ", false: "a "}[kind == "attachment"]+kind, re.String()[1:5], chat.ErrNotFound)
	}
	var v inspected
	var err error
	switch kind {
	case "conversation":
		v, err = i.conversation(ctx, chat.ConversationID(id))
	case "turn":
		v, err = i.turn(ctx, chat.TurnID(id))
	default:
		v, err = i.attachment(ctx, chat.AttachmentID(id))
	}
	if errors.Is(err, chat.ErrNotFound) {
		return nil, fmt.Errorf("there is no %s %s: %w", kind, id, chat.ErrNotFound)
	}
	return v, err
}

// workflow is where a workflow's history is in Temporal's Web UI.
func (i *inspector) workflow(id, run string) string {
	if i.ui == "" || id == "" {
		return ""
	}
	u := strings.TrimRight(i.ui, "/") + "/namespaces/" + url.PathEscape(i.namespace) + "/workflows/" + url.PathEscape(id)
	if run != "" {
		u += "/" + url.PathEscape(run) + "/history"
	}
	return u
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// Inspect prints a report, as text or JSON, and returns the exit code. It needs
// the database alone, beside a running service or without one.
func Inspect(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	asJSON := false
	var rest []string
	for _, a := range args {
		if a == "--json" || a == "-json" {
			asJSON = true
			continue
		}
		rest = append(rest, a)
	}
	if len(rest) != 2 || strings.HasPrefix(rest[0], "-") {
		fmt.Fprintln(stderr, "sightline: inspect takes conversation, turn or attachment, and its ID: sightline inspect [--json] turn trn_...")
		return 2
	}
	if err := inspectTo(ctx, rest[0], rest[1], asJSON, env, stdout); err != nil {
		fmt.Fprintln(stderr, "sightline:", oneLine(strings.TrimSuffix(err.Error(), ": "+chat.ErrNotFound.Error())))
		return 1
	}
	return 0
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func inspectTo(ctx context.Context, kind, id string, asJSON bool, env func(string) string, out io.Writer) error {
	c, err := ReadConfig(env)
	if err != nil {
		return err
	}
	// An ID that can't be one needs no database.
	if re := ids[kind]; re == nil || !re.MatchString(id) {
		_, err := (&inspector{}).look(ctx, kind, id)
		return err
	}
	i := &inspector{ui: c.TemporalUIURL, namespace: (&service{c: c, o: Options{Env: env}}).namespace()}
	if i.ui == "" && !c.TemporalSet {
		i.ui = local.RunningTemporalUI(filepath.Join(c.Home, "temporal"))
	}
	database := c.DatabaseURL
	if database == "" {
		if database, err = local.RunningPostgres(ctx, filepath.Join(c.Home, "postgres")); err != nil {
			return err
		}
	}
	if i.db, err = checkpoints.OpenToRead(ctx, database, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	defer i.db.Close()
	v, err := i.look(ctx, kind, id)
	if err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	return printReport(out, v.report())
}

// printReport is a report for a terminal.
func printReport(out io.Writer, r web.Report) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, r.Title)
	for _, f := range r.Facts {
		v := f.Value.Text
		if f.Value.URL != "" && f.Value.URL != v {
			v += "  " + f.Value.URL
		}
		fmt.Fprintf(w, "  %s\t%s\n", f.Name, v)
	}
	for _, t := range r.Tables {
		// Each table is laid out by itself.
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s\n", t.Name)
		if len(t.Rows) == 0 {
			fmt.Fprintf(w, "  %s\n", t.Empty)
			continue
		}
		if t.Legend != "" {
			fmt.Fprintf(w, "  %s\n", t.Legend)
			if err := w.Flush(); err != nil { // it is no column
				return err
			}
		}
		fmt.Fprintf(w, "  %s\n", strings.Join(t.Columns, "\t"))
		for _, row := range t.Rows {
			cells := make([]string, len(row))
			for i, c := range row {
				cells[i] = c.Text
			}
			fmt.Fprintf(w, "  %s\n", strings.TrimRight(strings.Join(cells, "\t"), "\t "))
		}
	}
	return w.Flush()
}
