package workflows

import (
	"context"
	"errors"
	"maps"
	"slices"

	"sightline/agent"
	"sightline/attachments"
	"sightline/checkpoints"
	"sightline/connectors/chat"
)

// What is made of something carries its sources. A model's words can't be
// attributed more finely than to all that it had before it, so an answer draws
// on everything in its prompt, answers before it included:
//
//	turn.stale_at    a source was deleted: this answer and all later ones of the
//	                 conversation leave the prompts (checkpoints.staleTurns)
//	receipt.places   the places that a tool's answer told of
//	receipt.selected the attachments that it drew on; so do the audits' pictures
//	provenance       the join of these for each of the model's messages: so long as
//	                 it stands in a prompt, all of it is asked about
//
// Before each inference the sources are asked about again; what may not be
// used here now is not retold. Before posting they are asked about once more,
// and an answer that drew on one is discarded and made anew without it.

// retellable cuts from a history what may not be told here now. What an
// earlier answer drew on shapes all that came after it.
func (a *Activities) retellable(ctx context.Context, l *loaded, past []checkpoints.PastTurn) ([]checkpoints.PastTurn, error) {
	if len(past) == 0 {
		return past, nil
	}
	// The conversation's own past, first: who reads here now may not have been
	// there to read it.
	switch err := l.agent.Authorizer.Known(ctx, l.request, l.turn.Place, "context"); {
	case errors.Is(err, attachments.ErrNotAvailable):
		return nil, nil
	case err != nil:
		return nil, err
	}
	ids := make([]chat.TurnID, len(past))
	for i, p := range past {
		ids[i] = p.Turn.ID
	}
	terms, err := a.DB.Terms(ctx, ids)
	if err != nil {
		return nil, err
	}
	known := map[chat.PlaceID]bool{l.turn.Place: true}
	l.terms = append(l.terms, l.turn.Place)
	withheld := false
	for i := range past {
		for n, m := range past[i].Messages {
			if m.Place == l.place.ID && !m.Deleted && l.agent.Authorizer.Gone(l.place, m) {
				// The store is about to learn of it, and to do the same.
				past[i].Messages[n].Deleted, past[i].Messages[n].Text = true, ""
				withheld = true
			}
		}
		for _, p := range terms[past[i].Turn.ID] {
			ok, asked := known[p]
			if !asked {
				err := l.agent.Authorizer.Known(ctx, l.request, p, "context")
				if err != nil && !errors.Is(err, attachments.ErrNotAvailable) {
					return nil, err
				}
				ok = err == nil
				known[p] = ok
			}
			withheld = withheld || !ok
		}
		if withheld {
			past[i].Answer = ""
		} else if past[i].Answer != "" {
			l.terms = append(l.terms, terms[past[i].Turn.ID]...)
		}
	}
	return past, nil
}

const notQuoted = "(In reply to an earlier message, which may not be told here.)"

// quotable cuts what a message answers where the place as a whole may not be
// known of now. The message itself was just posted; what it answers was not, so
// that whoever reads here need not have it.
func (a *Activities) quotable(ctx context.Context, l *loaded) error {
	if len(l.quotes) == 0 {
		return nil
	}
	err := l.agent.Authorizer.Known(ctx, l.request, l.turn.Place, "context")
	switch {
	case err == nil:
		l.terms = append(l.terms, l.turn.Place) // asked again before the answer is posted
	case errors.Is(err, attachments.ErrNotAvailable):
		for m := range l.quotes {
			l.quotes[m] = notQuoted
		}
	default:
		return err
	}
	return nil
}

// withhold finds the tool answers of this turn that may not be told any more,
// and where its own words begin that drew on something of the kind: a picture
// of the question's own needs no tool to be seen.
func (a *Activities) withhold(ctx context.Context, l *loaded) error {
	for _, r := range l.receipts {
		if r.Verdict != chat.VerdictDone {
			continue
		}
		lost, err := a.lost(ctx, l, checkpoints.Label{Attachments: sources(r.Selected), Places: r.Places})
		if err != nil {
			return err
		}
		if lost {
			l.withheld = append(l.withheld, r.Seq)
		}
	}
	if l.turn.Stale { // by a message that was retold, which is in no label
		l.unsaid = max(l.discarded, 0) + 1
		return nil
	}
	for _, seq := range slices.Sorted(maps.Keys(l.labels)) {
		if l.tainted(seq) {
			continue
		}
		lost, err := a.lost(ctx, l, l.labels[seq])
		if err != nil {
			return err
		}
		if lost {
			l.unsaid = seq
			break // and whatever was said after it
		}
	}
	return nil
}

// lost reports whether any of it may not be told here now.
func (a *Activities) lost(ctx context.Context, l *loaded, of checkpoints.Label) (bool, error) {
	refused, err := l.agent.Authorizer.Screen(ctx, l.request, of.Attachments, "context")
	if err != nil || len(refused) > 0 {
		return err == nil, err
	}
	for _, p := range of.Places {
		switch err := l.agent.Authorizer.Known(ctx, l.request, p, "context"); {
		case errors.Is(err, attachments.ErrNotAvailable):
			return true, nil
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// label is what an inference draws on before it looks at any picture: the
// retold answers, what its tools told, and its own words so far.
func (l *loaded) label() checkpoints.Label {
	out := checkpoints.Label{Places: slices.Clone(l.terms)}
	for _, r := range l.receipts {
		if !slices.Contains(l.withheld, r.Seq) {
			out.Attachments = append(out.Attachments, sources(r.Selected)...)
			out.Places = append(out.Places, r.Places...)
		}
	}
	for seq, earlier := range l.labels {
		if !l.tainted(seq) {
			out.Attachments = append(out.Attachments, earlier.Attachments...)
			out.Places = append(out.Places, earlier.Places...)
		}
	}
	return distinct(out)
}

func distinct(l checkpoints.Label) checkpoints.Label {
	slices.Sort(l.Attachments)
	slices.Sort(l.Places)
	l.Attachments, l.Places = slices.Compact(l.Attachments), slices.Compact(l.Places)
	return l
}

// with joins what an inference showed. A union of terms is an intersection of
// readers, and stays right as they change.
func with(l checkpoints.Label, shown []chat.Selected) checkpoints.Label {
	l.Attachments = append(slices.Clone(l.Attachments), sources(shown)...)
	return distinct(l)
}

// told is a step's message as this inference may have it.
func (l *loaded) told(s checkpoints.Step, m agent.Message) agent.Message {
	switch {
	case slices.Contains(l.withheld, s.Seq):
		m.Text = `{"error":"what this call told of was deleted, or may not be told here any more"}`
	case m.Role == agent.RoleAssistant && l.tainted(s.Seq):
		m.Text = "" // its calls stay: their answers need them
	}
	return m
}

// tainted: the model's own words that drew on something which is withheld now,
// that came after it, or before an answer that was discarded.
func (l *loaded) tainted(seq int) bool {
	return seq <= l.discarded || len(l.withheld) > 0 && seq > slices.Min(l.withheld) || l.unsaid > 0 && seq >= l.unsaid
}
