package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
)

// BenchmarkLoad: 200 conversations at once on one process, each with a
// picture of about 1 MiB, a model that takes no time. Nothing may be lost or
// doubled; how fast and how large is reported.
func BenchmarkLoad(b *testing.B) {
	const conversations = 200
	_, env := fake(b, func(r fakemodel.Request) fakemodel.Reply {
		if len(r.Pictures) != 1 {
			return fakemodel.Reply{Text: fmt.Sprintf("%d pictures", len(r.Pictures))}
		}
		return fakemodel.Reply{Text: "seen " + attachmentLine(r)}
	})
	s := fakediscord.New(b)
	ann := s.AddUser("ann")
	guild := s.AddGuild(ann)
	var channels []string
	for range conversations {
		channels = append(channels, s.AddChannel(guild))
	}
	p := start(b, home(b), append(env, "DISCORD_TOKEN="+s.Token, "DISCORD_API_URL="+s.URL, "SIGHTLINE_LOG_LEVEL=warn")...)
	var pictures [][]byte
	for i := range 4 {
		pic, _ := noise(b, 600, 580, uint32(i+1)) // 1 MiB
		pictures = append(pictures, pic)
	}
	round := 0
	for b.Loop() {
		round++
		began := time.Now()
		for i, c := range channels {
			s.Post(c, ann, fakediscord.Draft{
				Text:  fmt.Sprintf("<@%s> round %d", s.Bot.ID, round),
				Files: []fakediscord.File{{Name: fmt.Sprintf("r%d-%d.png", round, i), Type: "image/png", Data: pictures[i%len(pictures)]}},
			})
		}
		wait(b, "every answer", func() bool {
			n := 0
			for _, c := range channels {
				n += len(s.Said(c))
			}
			return n >= round*conversations
		})
		b.ReportMetric(conversations/time.Since(began).Seconds(), "messages/s")
	}
	time.Sleep(2 * time.Second) // what is doubled would come now
	for i, c := range channels {
		said := s.Said(c)
		if len(said) != round {
			b.Errorf("channel %d: %d answers to %d messages", i, len(said), round)
		}
		for n, m := range said {
			if want := fmt.Sprintf("seen r%d-%d.png", n+1, i); m.Content != want {
				b.Errorf("channel %d was answered %q, want %q", i, m.Content, want)
			}
		}
	}
	b.ReportMetric(resident(b, p, "VmHWM"), "peak-MB")
	if v := s.Violations(); len(v) > 0 {
		b.Errorf("the platform complains: %v", v[:1])
	}
	turns(b, p, conversations*round)
}

// attachmentLine is the file name in the newest marker.
func attachmentLine(r fakemodel.Request) string {
	_, rest, _ := strings.Cut(r.Last("user"), "[Image #1: ")
	name, _, _ := strings.Cut(rest, " (")
	if name == "" {
		for i := len(r.Messages) - 1; i >= 0 && name == ""; i-- {
			_, rest, _ := strings.Cut(r.Messages[i].Text, "[Image #1: ")
			name, _, _ = strings.Cut(rest, " (")
		}
	}
	return name
}

func turns(b *testing.B, p *process, want int) {
	db, err := pgx.Connect(context.Background(), p.Ready.Database)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close(context.Background())
	var answered, posts int
	if err := db.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM turn WHERE state <> 'failed'), (SELECT count(*) FROM post)`).Scan(&answered, &posts); err != nil {
		b.Fatal(err)
	}
	if answered != want || posts != want {
		b.Errorf("%d turns and %d posts, want %d", answered, posts, want)
	}
}
