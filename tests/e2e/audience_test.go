package e2e

import (
	"strings"
	"testing"
)

// audienceCase is a row of the table of who may see what, or of inputs from
// the field; on names the platforms that have it.
type audienceCase struct {
	label string
	on    string // "discord slack"
	run   func(*inquiry)
}

// TestAudience runs the worked cases of who may see what, and what the field
// reports, through the real program on both platforms at once: what the model
// was shown, what it was told, what the person read, the bytes that left the
// platform and the trail. It is one process, so that each case finds the
// others' rows lying about.
//
// Not here: one reply after a kill between the model's answer and the post
// (TestPlatforms, TestKilledAtEveryBoundary).
func TestAudience(t *testing.T) {
	d, s := newDiscordSite(t), newSlackSite(t)
	a := openAudience(t, d, s, agentsFile(d, s))
	var all []audienceCase
	for _, list := range [][]audienceCase{retryCases, placeCases, peopleCases, changeCases, fileCases, guessCases, inputCases, echoCases} {
		all = append(all, list...)
	}
	for _, c := range all {
		for _, where := range []site{d, s} {
			if !strings.Contains(c.on, where.name()) {
				continue
			}
			t.Run(c.label+"/"+where.name(), func(t *testing.T) {
				c.run(&inquiry{audienceStage: a, T: t, site: where, label: c.label, agent: "sightline"})
				if f := where.complaints(); len(f) > 0 {
					t.Errorf("the platform complains: %v", f)
				}
			})
		}
	}
	t.Log("case, platform, verdict, bytes fetched\n" + strings.Join(a.table, "\n"))
}

const both = "discord slack"
