package visual

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func sumOf(b []byte) Digest { return sha256.Sum256(b) }

// countingContext is cancelled at the n-th time that it is asked; 0 is never.
type countingContext struct {
	context.Context
	cancelAt, asked int64
}

func (c *countingContext) Err() error {
	if n := atomic.AddInt64(&c.asked, 1); c.cancelAt > 0 && n >= c.cancelAt {
		return context.Canceled
	}
	return nil
}

func TestCancelMidway(t *testing.T) {
	for _, path := range []string{"made-here/base.png", "made-here/adam7.png", "made-here/base.jpg", "made-here/prog.jpg",
		"made-here/base.gif", "made-here/ll.webp", "made-here/base.webp"} {
		b := readCorpus(t, path)
		d := NewDecoder(testLimits())
		whole := &countingContext{Context: context.Background()}
		if _, err := d.Validate(whole, b); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if h, _ := ReadHeader(b, d.limits); h.Format == JPEG && whole.asked < int64(len(b))/512 {
			t.Errorf("%s: asked %d times in %d bytes: some hundred may cost a pass over all pixels", path, whole.asked, len(b))
		}
		d = NewDecoder(testLimits())
		half := &countingContext{Context: context.Background(), cancelAt: whole.asked - 2}
		if _, err := d.Validate(half, b); err != context.Canceled {
			t.Errorf("%s: cancelled late in the decode: %v", path, err)
		}
		if half.asked > whole.asked+1 {
			t.Errorf("%s: asked %d times after a cancellation at %d", path, half.asked, half.cancelAt)
		}
		if len(d.slot) != 0 {
			t.Errorf("%s: the slot was not given back", path)
		}
		if _, err := d.Validate(context.Background(), b); err != nil {
			t.Errorf("%s: the cancellation was kept as a verdict: %v", path, err)
		}
	}
}

func TestCancelRebuildMidway(t *testing.T) {
	b := readCorpus(t, "made-here/base.png")
	target := Target{MaxEdge: 100}
	whole := &countingContext{Context: context.Background()}
	if _, err := NewDecoder(testLimits()).Rebuild(whole, b, target, nil); err != nil {
		t.Fatal(err)
	}
	step := int64(1)
	if raceEnabled {
		step = 23
	}
	for at := int64(1); at < whole.asked; at += step {
		ctx := &countingContext{Context: context.Background(), cancelAt: at}
		if p, err := NewDecoder(testLimits()).Rebuild(ctx, b, target, nil); err != context.Canceled || p.Bytes != nil {
			t.Fatalf("cancelled at %d of %d: %v, %v", at, whole.asked, p, err)
		}
	}
}

func TestWaitingIsCancellable(t *testing.T) {
	b := samples(t)["plain.png"]
	synctest.Test(t, func(t *testing.T) {
		d := NewDecoder(testLimits())
		d.slot <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error)
		go func() { _, err := d.Validate(ctx, b); waiting <- err }()
		synctest.Wait()
		cancel()
		if err := <-waiting; err != context.Canceled {
			t.Errorf("cancelled while waiting: %v", err)
		}
		// Waiting does not count against the deadline.
		go func() { _, err := d.Validate(t.Context(), b); waiting <- err }()
		time.Sleep(10 * d.limits.Deadline)
		<-d.slot
		if err := <-waiting; err != nil {
			t.Errorf("after a long wait: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(2 * time.Second)
		if _, err := d.Rebuild(ctx, b, Target{}, nil); err != context.DeadlineExceeded {
			t.Errorf("the caller's own deadline: %v", err)
		}
	})
}

func TestDeadline(t *testing.T) {
	for name, b := range samples(t) {
		l := testLimits()
		l.Deadline = -time.Second
		var r *Refusal
		if _, err := NewDecoder(l).Validate(t.Context(), b); !errors.As(err, &r) || r.Code != DeadlineExceeded {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOneDecodeAtATime(t *testing.T) {
	d := NewDecoder(testLimits())
	var now, most atomic.Int32
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			_ = d.inSlot(context.Background(), Header{}, func(*stop) error {
				most.Store(max(most.Load(), now.Add(1)))
				runtime.Gosched()
				now.Add(-1)
				return nil
			})
		})
	}
	group.Wait()
	if most.Load() != 1 {
		t.Errorf("%d decodes at a time", most.Load())
	}
}

func TestConcurrentUse(t *testing.T) {
	d := NewDecoder(testLimits())
	all := samples(t)
	var group sync.WaitGroup
	for range 4 {
		for name, b := range all {
			group.Go(func() {
				if _, err := d.Rebuild(context.Background(), b, Target{}, nil); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	group.Wait()
}

func TestPanicIsARefusal(t *testing.T) {
	d := NewDecoder(testLimits())
	err := d.inSlot(t.Context(), Header{Format: GIF}, func(*stop) error {
		var none []byte
		_ = none[3]
		return nil
	})
	var r *Refusal
	if !errors.As(err, &r) || r.Code != Corrupt {
		t.Errorf("%v", err)
	}
	if len(d.slot) != 0 {
		t.Error("the slot was not given back")
	}
}

// TestVerdictIsKept asks a second time with bytes that would fail if they were looked at.
func TestVerdictIsKept(t *testing.T) {
	d := NewDecoder(testLimits())
	b := samples(t)["plain.png"]
	sum := sumOf(b)
	first, err := d.ValidateDigest(t.Context(), b, sum)
	if err != nil {
		t.Fatal(err)
	}
	d.slot <- struct{}{} // nobody decodes from here on
	again, err := d.ValidateDigest(t.Context(), make([]byte, len(b)), sum)
	if err != nil || again != first {
		t.Errorf("%+v, %v", again, err)
	}
	p, err := d.RebuildDigest(t.Context(), b, sum, Target{}, nil)
	if err != nil || !same(p.Bytes, b) {
		t.Errorf("%v, %v: a clean file is sent as it is", p, err)
	}
	<-d.slot

	bad := append([]byte(nil), b...)
	bad[len(bad)-20]++
	sum = sumOf(bad)
	_, want := d.ValidateDigest(t.Context(), bad, sum)
	d.slot <- struct{}{}
	if _, err := d.ValidateDigest(t.Context(), bad, sum); want == nil || err != want {
		t.Errorf("quarantined: %v, then %v", want, err)
	}
	if _, err := d.RebuildDigest(t.Context(), bad, sum, Target{MaxEdge: 4}, nil); err != want {
		t.Errorf("quarantined, rebuilt: %v", err)
	}
	<-d.slot
	if _, err := d.ValidateDigest(t.Context(), b[:len(b)-1], sumOf(b)); err == nil {
		t.Error("a digest was believed for bytes of another length")
	}
}

func TestVerdictsAreBounded(t *testing.T) {
	c := newVerdicts(3)
	for i := range byte(10) {
		c.put(Digest{i}, verdict{size: 1})
		c.get(Digest{0}, 1)
	}
	if len(c.byKey) != 3 || c.order.Len() != 3 {
		t.Errorf("%d verdicts, %d in order", len(c.byKey), c.order.Len())
	}
	if _, ok := c.get(Digest{0}, 1); !ok {
		t.Error("the one in use was forgotten")
	}
	if _, ok := c.get(Digest{7}, 1); ok {
		t.Error("the one unused for longest was kept")
	}
}

// TestMemoryIsGivenBack looks at the heap right after the worst decodes.
func TestMemoryIsGivenBack(t *testing.T) {
	d := NewDecoder(testLimits())
	for _, path := range []string{"hostile/f1_8192x4096_i.gif", "hostile/vp8l_2600groups.webp", "bench/m12p.jpg"} {
		b := readCorpus(t, path)
		if _, err := d.Validate(t.Context(), b); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc > 32<<20 {
			t.Errorf("%s: %s on the heap after its decode", path, mebibytes(int64(m.HeapAlloc)))
		}
	}
}
