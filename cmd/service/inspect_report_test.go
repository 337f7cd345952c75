package service

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/checkpoints"
	"sightline/connectors/chat"
	"sightline/connectors/web"
)

const (
	oneTurn  = "trn_0123456789abcdefghjkmnpqrs"
	oneConv  = "cnv_0123456789abcdefghjkmnpqrs"
	oneAtt   = "att_0123456789abcdefghjkmnpqrs"
	noAtt    = "att_00000000000000000000000000"
	oneMsg   = "msg_0123456789abcdefghjkmnpqrs"
	someHash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

// leads are the reports that a report's cells lead to.
func leads(r web.Report) []string {
	var out []string
	var walk func(web.Cell)
	walk = func(c web.Cell) {
		if c.ID != "" {
			out = append(out, c.Kind+"/"+c.ID)
		}
		joined := ""
		for _, p := range c.Parts {
			walk(p)
			joined += p.Text
		}
		if len(c.Parts) > 0 && joined != c.Text {
			out = append(out, "parts that are not the text: "+joined)
		}
	}
	for _, f := range r.Facts {
		walk(f.Value)
	}
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			for _, c := range row {
				walk(c)
			}
		}
	}
	return out
}

func TestIDsInReportsLeadToTheirReports(t *testing.T) {
	v := &turnView{turnLine: turnLine{ID: oneTurn}, Conversation: oneConv, Workflow: workflowView{ID: oneTurn, State: "waits for turn " + oneTurn},
		Messages: []messageLine{{ID: oneMsg}},
		Model:    []modelCall{{Pictures: []chat.Selected{{Attachment: oneAtt, Digest: someHash}, {Attachment: noAtt, Reason: "not available"}}}},
		Tools:    []toolCall{{Selected: []chat.Selected{{Attachment: noAtt}}, Reason: "see " + oneAtt + "."}},
		Decisions: []decision{
			{Attachment: noAtt, Rule: "unknown", Reason: "no such attachment " + noAtt},
			{Attachment: "nonsense", Rule: "id"}, {Attachment: "x" + oneAtt, Rule: "id"},
		}}
	want := []string{"conversation/" + oneConv, "turn/" + oneTurn, "attachment/" + oneAtt, "attachment/" + oneAtt}
	if got := leads(v.report()); !slices.Equal(got, want) {
		t.Errorf("leads to %q, want %q", got, want)
	}
	var plain bytes.Buffer
	if err := printReport(&plain, v.report()); err != nil || !strings.Contains(plain.String(), oneAtt+" sha256 "+someHash+"; "+noAtt+" not shown: not available") {
		t.Errorf("the text of the report: %v\n%s", err, plain.String())
	}
}

func TestALegendSaysWhatRulesAskFor(t *testing.T) {
	r := (&attachmentView{Decisions: []decision{{Rule: "S1", Allowed: true}, {Rule: "grant", Allowed: true}, {Rule: "S1"}, {Rule: "a later one"}}}).report()
	if got := r.Tables[0].Legend; !strings.HasPrefix(got, "S1: ") || strings.Count(got, "S1: ") != 1 || !strings.Contains(got, "; grant: ") || strings.Contains(got, "later") || strings.Contains(got, "\n") {
		t.Errorf("legend %q", got)
	}
	if got := (&attachmentView{}).report().Tables[0].Legend; got != "" {
		t.Errorf("a legend of no decisions: %q", got)
	}
}

func TestTheOverviewNamesItsTimeForWhatItIs(t *testing.T) {
	at := time.Date(2026, 11, 30, 14, 12, 1, 0, time.UTC)
	table := overview([]checkpoints.ConversationRow{{ID: oneConv, LastTurn: oneTurn, LastActivity: at}}).Tables[0]
	i := slices.Index(table.Columns, "last turn began")
	if i < 0 || len(table.Rows[0]) != len(table.Columns) || table.Rows[0][i].Text != "2026-11-30 14:12:01Z" {
		t.Errorf("columns %q, row %+v", table.Columns, table.Rows[0])
	}
}
