package visual

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Digest is the SHA-256 of the encoded bytes.
type Digest = [sha256.Size]byte

// workingGC is the size of a decode after which the memory is collected before the slot is released, so that the next
// decode does not begin on top of this one's garbage.
const workingGC = 8 << 20

// Decoder decodes pictures one at a time. A process has one.
type Decoder struct {
	limits   Limits
	slot     chan struct{}
	verdicts *verdicts
}

// NewDecoder returns a decoder with the given limits.
func NewDecoder(l Limits) *Decoder {
	return &Decoder{limits: l, slot: make(chan struct{}, 1), verdicts: newVerdicts(maxVerdicts)}
}

// Limits returns what the decoder was made with.
func (d *Decoder) Limits() Limits { return d.limits }

// Validate decides whether b is a picture that decodes in full, and keeps the verdict by digest. Its errors are
// *Refusal, which is kept too, and ctx.Err(), which is not.
func (d *Decoder) Validate(ctx context.Context, b []byte) (Header, error) {
	return d.ValidateDigest(ctx, b, sha256.Sum256(b))
}

// ValidateDigest is Validate for a caller that has computed the SHA-256 of b itself, as one that compares digests has.
// The digest must be that of b and never one that came with it: the verdict on it is believed.
func (d *Decoder) ValidateDigest(ctx context.Context, b []byte, sum Digest) (Header, error) {
	v, err := d.verdict(ctx, b, sum)
	return v.header, err
}

// verdict returns the kept verdict on b or comes to one.
func (d *Decoder) verdict(ctx context.Context, b []byte, sum Digest) (verdict, error) {
	if err := ctx.Err(); err != nil {
		return verdict{}, err
	}
	if v, ok := d.verdicts.get(sum, len(b)); ok {
		return v, v.err()
	}
	h, err := ReadHeader(b, d.limits)
	if err != nil {
		return d.keep(sum, len(b), h, err)
	}
	var kept *verdict
	err = d.inSlot(ctx, h, func(s *stop) error {
		// Another caller may have come to the verdict while this one waited.
		if v, ok := d.verdicts.get(sum, len(b)); ok {
			kept = &v
			return nil
		}
		return validate(s, b, h)
	})
	if kept != nil && err == nil {
		return *kept, kept.err()
	}
	return d.keep(sum, len(b), h, err)
}

// keep records a verdict, unless err is no verdict but a cancellation.
func (d *Decoder) keep(sum Digest, size int, h Header, err error) (verdict, error) {
	v := verdict{header: h, size: size}
	if err != nil && !errors.As(err, &v.refusal) {
		return verdict{}, err
	}
	d.verdicts.put(sum, v)
	return v, v.err()
}

// inSlot runs work as the only decode of the process, within the deadline, on the caller's goroutine: when it returns,
// nothing of the picture is in use any more. A decoder that does not look at its reader for a while (VP8L between two
// reads, VP8 once all is read) makes the return late by what is left of its work, which the storage limit bounds to
// well under a second; the slot stays taken for as long.
func (d *Decoder) inSlot(ctx context.Context, h Header, work func(*stop) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case d.slot <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		if h.Out+h.Transient >= workingGC {
			runtime.GC()
		}
		<-d.slot
	}()
	s := &stop{ctx: ctx, deadline: time.Now().Add(d.limits.Deadline)}
	if err := s.check(); err != nil {
		return s.verdict(h, d.limits, err)
	}
	err = guard(h.Format, func() error { return work(s) })
	return s.verdict(h, d.limits, err)
}

// guard turns a decoder's panic into a refusal: hostile bytes may find a fault in it, which must not end the process.
func guard(f Format, work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = corrupt(f, "decoder panicked: %v", p)
		}
	}()
	return work()
}

var errDeadline = errors.New("decoding deadline exceeded")

// stop is asked by readers and loops whether to go on. Its answer is sticky, since decoders wrap or replace errors.
type stop struct {
	ctx      context.Context
	deadline time.Time
	err      error
}

func (s *stop) check() error {
	switch {
	case s.err != nil:
	case s.ctx.Err() != nil:
		s.err = s.ctx.Err()
	case time.Now().After(s.deadline):
		s.err = errDeadline
	}
	return s.err
}

// verdict tells what err means: a cancellation, an exceeded deadline or what the decoder itself found.
func (s *stop) verdict(h Header, l Limits, err error) error {
	if err == nil {
		return nil
	}
	if s.err == errDeadline {
		return refuse(DeadlineExceeded,
			fmt.Sprintf("Decoding this %s of %dx%d pixels took longer than %s and was stopped. %s", h.Format.display(), h.Width, h.Height, l.Deadline, wayOut),
			"%s %s %dx%d: deadline of %s exceeded", h.Format, h.Mode, h.Width, h.Height, l.Deadline)
	}
	if s.err != nil {
		return s.err
	}
	return err
}
