package e2e

import (
	"fmt"
	"testing"
	"time"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
)

// BenchmarkWorkers: turns per second with one and with two worker processes,
// beside one process for the connection. With a model that takes no time, the
// machine is what bounds it; with one that takes its time, as they do, it is
// how many turns the workers have under way.
func BenchmarkWorkers(b *testing.B) {
	for _, think := range []time.Duration{0, 4 * time.Second} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("model=%v/workers=%d", think, workers), func(b *testing.B) { turnRate(b, think, workers) })
		}
	}
}

func turnRate(b *testing.B, think time.Duration, workers int) {
	const turns = 256
	m, env := fake(b, func(fakemodel.Request) fakemodel.Reply {
		r := fakemodel.Reply{Text: "ok"}
		if think > 0 {
			wait := make(chan struct{})
			time.AfterFunc(think, func() { close(wait) })
			r.Wait = wait
		}
		return r
	})
	m.Light = true
	s := fakediscord.New(b)
	ann := s.AddUser("ann")
	guild := s.AddGuild(ann)
	f := newFleet(b, append(env, "DISCORD_TOKEN="+s.Token, "DISCORD_API_URL="+s.URL, "SIGHTLINE_LOG_LEVEL=warn", "SIGHTLINE_DRAFTS=off")...)
	for range workers {
		f.add("workers")
	}
	f.add("connectors")
	rate := 0.0
	for b.Loop() {
		var channels []string
		for range turns {
			channels = append(channels, s.AddChannel(guild))
		}
		began := time.Now()
		for _, c := range channels {
			s.Post(c, ann, fakediscord.Draft{Text: "<@" + s.Bot.ID + "> hello"})
		}
		answered := func() (n int) {
			for _, c := range channels {
				n += len(s.Said(c))
			}
			return n
		}
		wait(b, "every answer", func() bool { return answered() >= turns })
		rate = turns / time.Since(began).Seconds()
		time.Sleep(time.Second) // what is doubled would come now
		if n := answered(); n != turns {
			b.Errorf("%d answers to %d messages", n, turns)
		}
	}
	b.ReportMetric(rate, "turns/s")
}
