package workflows

import (
	"context"
	"testing"
	"time"
)

// A hurry makes all that runs beat at once, for a moment, and again at the next.
func TestHurriedActivitiesBeatAtOnce(t *testing.T) {
	p := &Pulse{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	beats := [2]chan time.Time{}
	for n := range beats {
		beats[n] = make(chan time.Time, 1000)
		defer p.beats(ctx, func() { beats[n] <- time.Now() })()
	}
	for range 2 {
		began := time.Now()
		p.hurry()
		for n := range beats {
			for range 4 {
				// Seconds on a loaded machine; BeatEvery each without the hurry.
				if at := <-beats[n]; at.Sub(began) > 3*BeatEvery {
					t.Errorf("activity %d beat after %v", n, at.Sub(began))
				}
			}
		}
	}
	time.Sleep(2 * BeatEvery) // the moment is over
	for n := range beats {
		for len(beats[n]) > 0 {
			<-beats[n]
		}
	}
	quiet := time.Now()
	time.Sleep(3 * BeatEvery)
	for n := range beats {
		if got := len(beats[n]); got > int(time.Since(quiet)/BeatEvery)+2 {
			t.Errorf("activity %d still hurries: %d beats", n, got)
		}
	}
}

func TestNoPulseBeatsAllTheSame(t *testing.T) {
	var p *Pulse
	p.hurry()
	beat := make(chan bool, 10)
	end := p.beats(t.Context(), func() { beat <- true })
	<-beat
	end()
}
