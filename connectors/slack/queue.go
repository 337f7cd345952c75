package slack

import (
	"context"
	"errors"
	"sync"
	"time"

	"sightline/connectors/chat"
)

// maxQueued bounds what waits here. Beyond it events are left to Slack, which
// sends them again.
const maxQueued = 10_000

var errFull = errors.New("slack: too many events are waiting")

// job is one thing to do in the order of its channel. Twins of one message
// become one job.
type job struct {
	key     string // names the message, if twins may come; else empty
	channel string
	run     func(ctx context.Context, j *job) error

	mu    sync.Mutex
	m     *message
	kinds int           // of the events that came: kindMention, kindMessage
	whole bool          // read from history: nothing is missing
	twin  chan struct{} // closed when events of both kinds came
	done  []func(error)
}

// A message that calls the agent comes as an event of each kind.
const (
	kindMention = 1 << iota
	kindMessage
)

// queue runs jobs of one channel in order, those of different channels side
// by side. Whoever reads a socket only pushes.
type queue struct {
	mu      sync.Mutex
	lanes   map[string][]*job
	pending map[string]*job
	n       int
	wg      sync.WaitGroup

	unfitPause time.Duration // between tries
}

func newQueue() *queue {
	return &queue{lanes: map[string][]*job{}, pending: map[string]*job{}, unfitPause: 200 * time.Millisecond}
}

// unfitTries is how often an event is tried that the store says it can't keep.
const unfitTries = 5

// push never blocks. done is told how it went; it runs on the lane.
func (q *queue) push(ctx context.Context, j *job, done func(error)) {
	if done == nil {
		done = func(error) {}
	}
	q.mu.Lock()
	if p := q.pending[j.key]; j.key != "" && p != nil {
		q.mu.Unlock()
		if p.join(j, done) {
			return
		}
		q.mu.Lock()
	}
	if q.n >= maxQueued {
		q.mu.Unlock()
		done(errFull)
		return
	}
	q.n++
	j.twin = make(chan struct{})
	j.done = append(j.done, done)
	if j.key != "" {
		q.pending[j.key] = j
	}
	lane, running := q.lanes[j.channel]
	q.lanes[j.channel] = append(lane, j)
	if !running {
		q.wg.Add(1)
		go q.work(ctx, j.channel)
	}
	q.mu.Unlock()
}

// join adds a twin to a job that is not through yet.
func (j *job) join(twin *job, done func(error)) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.done == nil {
		return false
	}
	j.done = append(j.done, done)
	j.m.merge(twin.m)
	j.whole = j.whole || twin.whole
	if both := j.kinds | twin.kinds; both != j.kinds {
		j.kinds = both
		close(j.twin)
	}
	return true
}

// snapshot is the message as its twins have it so far, whether one of them was
// a mention, and whether anything may be missing.
func (j *job) snapshot() (m message, mention, whole bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return *j.m, j.kinds&kindMention != 0, j.whole
}

func (q *queue) work(ctx context.Context, channel string) {
	defer q.wg.Done()
	for {
		q.mu.Lock()
		lane := q.lanes[channel]
		if len(lane) == 0 {
			delete(q.lanes, channel)
			q.mu.Unlock()
			return
		}
		j := lane[0]
		q.lanes[channel] = lane[1:]
		q.mu.Unlock()

		err := ctx.Err()
		if err == nil {
			err = j.run(ctx, j)
		}
		for try := 1; errors.Is(err, chat.ErrUnfit) && try < unfitTries; try++ {
			if err = sleep(ctx, q.unfitPause); err == nil { // else the next process tries
				err = j.run(ctx, j)
			}
		}
		q.finish(j, err)
	}
}

func (q *queue) finish(j *job, err error) {
	q.mu.Lock()
	if q.pending[j.key] == j {
		delete(q.pending, j.key)
	}
	q.n--
	q.mu.Unlock()
	j.mu.Lock()
	done := j.done
	j.done = nil
	j.mu.Unlock()
	for _, f := range done {
		f(err)
	}
}
