package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
)

// BenchmarkGrowth: one conversation of 1,000 turns, every tenth with a tool
// call, compactions included. What a turn takes and what its history holds
// must not grow with the conversation.
func BenchmarkGrowth(b *testing.B) {
	const turns, sample = 1000, 100
	m, env := fake(b, func(r fakemodel.Request) fakemodel.Reply {
		if len(r.Tools) == 0 {
			return fakemodel.Reply{Text: "notes on what was said"} // a compaction
		}
		if r.Messages[len(r.Messages)-1].Role == "user" && r.Last("user")[len(r.Last("user"))-1] == '0' {
			return calls("list_documents", `{}`)(r)
		}
		return fakemodel.Reply{Text: "answer to " + r.Last("user")}
	})
	m.Light = true
	s := fakediscord.New(b)
	ann := s.AddUser("ann")
	channel := s.AddDM(ann)
	p := start(b, home(b), append(env, "DISCORD_TOKEN="+s.Token, "DISCORD_API_URL="+s.URL, "SIGHTLINE_LOG_LEVEL=warn")...)
	say := func(n int) {
		s.Post(channel, ann, fakediscord.Draft{Text: fmt.Sprintf("message number %d", n)})
		wait(b, fmt.Sprint("answer ", n), func() bool { return len(s.Said(channel)) == n })
	}
	size := func() (turn int64) {
		time.Sleep(time.Second) // it is closed after its answer is out
		c, err := client.Dial(client.Options{HostPort: p.Ready.Temporal, Logger: silent{}})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		d, err := c.DescribeWorkflow(context.Background(), newestTurn(b, p), "")
		if err != nil {
			b.Fatal(err)
		}
		return d.RawResponse.WorkflowExecutionInfo.HistorySizeBytes
	}
	for b.Loop() {
		var first, last time.Duration
		var early, late int64
		for n := 1; n <= turns; n++ {
			began := time.Now()
			say(n)
			switch took := time.Since(began); {
			case n > 10 && n <= 10+sample: // the first few warm up
				first += took
			case n > turns-sample:
				last += took
			}
			if n == 10+sample+1 {
				early = size()
			}
		}
		say(turns + 1)
		late = size()
		b.ReportMetric(sample/first.Seconds(), "turns/s-at-100")
		b.ReportMetric(sample/last.Seconds(), "turns/s-at-1000")
		b.ReportMetric(last.Seconds()/first.Seconds(), "late/early")
		b.ReportMetric(float64(early), "history-B/turn-at-100")
		b.ReportMetric(float64(late), "history-B/turn-at-1000")
	}
}

func newestTurn(b *testing.B, p *process) (id string) {
	db, err := pgx.Connect(context.Background(), p.Ready.Database)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close(context.Background())
	if err := db.QueryRow(context.Background(), `SELECT id FROM turn ORDER BY started_at DESC LIMIT 1`).Scan(&id); err != nil {
		b.Fatal(err)
	}
	return id
}
