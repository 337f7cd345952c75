package discord

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"sightline/connectors/chat"
)

const (
	laneCount = 16
	laneDepth = 512
)

// job is something that happened in a channel. It runs until it succeeds or
// says that it never will.
type job struct {
	what    string
	channel string
	run     func(ctx context.Context) error
}

// errSkip ends a job for good.
var errSkip = errors.New("not deliverable")

// unfitTries is how often an event is tried that the store says it can't keep.
// All the channels of its lane wait behind it.
const unfitTries = 5

// startLanes makes the lanes: one channel's jobs run in one of them, in
// order; a channel that has to wait holds up few others.
func (b *Bot) startLanes(ctx context.Context) {
	b.lanes = make([]chan job, laneCount)
	for i := range b.lanes {
		lane := make(chan job, laneDepth)
		b.lanes[i] = lane
		b.running.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case j := <-lane:
					b.work(ctx, j)
				}
			}
		})
	}
}

// enqueue hands a job to its channel's lane. A full lane blocks the gateway's
// reader, so that nothing is dropped: Discord keeps what is not read yet.
func (b *Bot) enqueue(ctx context.Context, j job) {
	h := fnv.New32a()
	h.Write([]byte(j.channel))
	select {
	case b.lanes[h.Sum32()%laneCount] <- j:
	case <-ctx.Done():
	}
}

// work runs a job until it is done.
func (b *Bot) work(ctx context.Context, j job) {
	wait := 100 * time.Millisecond
	for unfit := 0; ; {
		err := j.run(ctx)
		if errors.Is(err, chat.ErrUnfit) {
			unfit++
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case errors.Is(err, errSkip), hasStatus(err, 400, 403, 404):
			b.log.Info("an event is passed over", "event", j.what, "channel", j.channel, "error", err)
			return
		case unfit == unfitTries:
			b.log.Error("an event is lost: the store refuses it again and again", "event", j.what, "channel", j.channel, "error", err)
			return
		}
		b.log.Warn("an event is not delivered yet; it is tried again", "event", j.what, "channel", j.channel, "error", err)
		if sleep(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, 10*time.Second)
	}
}
