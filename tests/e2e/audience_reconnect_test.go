package e2e

import (
	"testing"
	"time"
)

// What was said in a thread before the agent was called is not answered later
// on, when a connection or a process is made anew and the last minutes are
// read again.
func TestSilentStaysSilent(t *testing.T) {
	d, s := newDiscordSite(t), newSlackSite(t)
	a := openAudience(t, d, s, agentsFile(d, s))
	for _, where := range []site{d, s} {
		t.Run(where.name(), func(t *testing.T) {
			q := &inquiry{audienceStage: a, T: t, site: where, label: "silent", agent: "sightline"}
			earlierReply(q)
			n := len(q.m.Requests())
			if where.name() == "slack" {
				s.DropSockets()
			} else {
				d.Forget()
				d.Drop()
			}
			time.Sleep(4 * time.Second)
			for _, r := range q.m.Requests()[n:] {
				t.Errorf("answered late: %q, %d pictures", r.Messages[len(r.Messages)-1].Text, len(r.Pictures))
			}
		})
	}
}
